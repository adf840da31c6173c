// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestReplacedStatus checks that the short way gives what the long one gives, and that it is not taken when a test in
// the patch fails, or the patch is of another form.
func TestReplacedStatus(t *testing.T) {
	live := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "uid-1"}}
	live.Status = v1alpha1.UnitedDeploymentStatus{ObservedGeneration: 1, ReplicaCounts: v1alpha1.ReplicaCounts{Replicas: 4}, Subsets: []v1alpha1.SubsetStatus{{Name: "zone-a", Message: "old"}}}
	next := *live.Status.DeepCopy()
	next.ObservedGeneration, next.Replicas, next.Subsets = 2, 0, []v1alpha1.SubsetStatus{{Name: "zone-b"}}
	other := *live.Status.DeepCopy()
	other.Replicas = 5

	type operation map[string]any
	test := func(path string, value any) operation { return operation{"op": "test", "path": path, "value": value} }
	add := operation{"op": "add", "path": "/status", "value": next}
	for name, tc := range map[string]struct {
		patch []operation
		short bool
		fails bool
	}{
		"as the controller writes":     {patch: []operation{test("/metadata/uid", "uid-1"), test("/status", live.Status), add}, short: true},
		"another UID":                  {patch: []operation{test("/metadata/uid", "uid-2"), test("/status", live.Status), add}, fails: true},
		"another status":               {patch: []operation{test("/metadata/uid", "uid-1"), test("/status", other), add}, fails: true},
		"a test of one field":          {patch: []operation{test("/metadata/uid", "uid-1"), test("/status/observedGeneration", 1), add}},
		"no test of the UID":           {patch: []operation{test("/status", live.Status), add}},
		"a test after the replacement": {patch: []operation{test("/metadata/uid", "uid-1"), add, test("/status", live.Status)}, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			raw, err := json.Marshal(tc.patch)
			g.Expect(err).NotTo(HaveOccurred())
			patch := client.RawPatch(types.JSONPatchType, raw)
			status, short, err := replacedStatus(live, patch)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(short).To(Equal(tc.short))
			long := &v1alpha1.UnitedDeployment{}
			err = merge(live, patch, "", long)
			if tc.fails {
				g.Expect(err).To(HaveOccurred())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(long.Status).To(Equal(next), "positive control")
			if tc.short {
				g.Expect(status).To(Equal(long.Status))
			}
		})
	}
}
