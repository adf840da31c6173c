// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

func TestShortfall(t *testing.T) {
	p := &planner.Plan{}
	for _, tc := range []struct {
		asks intstr.IntOrString
		want string
	}{
		{intstr.FromInt32(9), "asks for 9 replicas, gets 5"},
		{intstr.FromString("50%"), "asks for 50% of all replicas, gets 5"},
		{intstr.FromInt32(5), ""},
	} {
		s := &planner.SubsetPlan{Subset: spec.Subset{Subset: &v1alpha1.Subset{Replicas: &tc.asks}}, Desired: 5}
		if got := shortfall(p, s); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
