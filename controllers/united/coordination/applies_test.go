// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func TestApplies(t *testing.T) {
	number, zero, share := intstr.FromInt32(2), intstr.FromInt32(0), intstr.FromString("50%")
	named := map[string]intstr.IntOrString{"zone-a": zero}
	for _, tc := range []struct {
		name     string
		strategy v1alpha1.UpdateStrategy
		value    string
		field    string
		named    bool
		bound    bool
	}{
		{"nothing is written", v1alpha1.UpdateStrategy{}, "100%", "", false, false},
		{"default", v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{DefaultPartition: &share}}, "50%", "defaultPartition", false, false},
		{"named, with 0", v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{Partitions: named, DefaultPartition: &share}}, "0", "partitions[zone-a]", true, false},
		{"another is named", v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{"zone-b": zero}}}, "100%", "", false, false},
		{"for another revision", v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{Partitions: named, Revision: "web-1"}}, "0", "partitions[zone-a]", true, true},
		{"for this revision", v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{Partitions: named, Revision: "web-2"}}, "0", "partitions[zone-a]", true, false},
		{"coordinated", v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy}, "0%", "", false, false},
		{"coordinated, with a floor", v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{Partition: &number}, ManualUpdate: &v1alpha1.ManualUpdate{Partitions: named}}, "2", "partition", false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w := Applies(&tc.strategy, "zone-a", "web-2")
			if w.Value.String() != tc.value || w.Field != tc.field || w.Named != tc.named || (w.Bound != "") != tc.bound {
				t.Errorf("%+v", w)
			}
		})
	}
}
