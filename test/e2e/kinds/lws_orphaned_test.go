// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestLeaderWorkerSetOrphanedAtZero checks that a held zone comes up on the earlier version although its LeaderWorkerSet was
// orphaned without replicas, or while it got the first ones. What outlives it is the StatefulSet of its leaders, which
// may remember the new version.
func TestLeaderWorkerSetOrphanedAtZero(t *testing.T) {
	t.Parallel()
	for name, orphan := range map[string]func(w *Contracted){
		"without replicas": func(w *Contracted) {
			w.Remake("zone-b", metav1.DeletePropagationOrphan)
			moveTo(w, 2, 2)
		},
		"growing from zero": func(w *Contracted) {
			moveTo(w, 2, 2)
			w.Remake("zone-b", metav1.DeletePropagationOrphan)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(4), Zones("4", "0"), Hold())
			w.ComesTo("4 v1", "", "")
			w.SetImages("v2")
			w.ComesTo("4 v1", "", "")
			held := w.History.Forbid(Protect("zone-b", 9, "v1"))
			orphan(w)
			w.ComesTo("2 v1", "2 v1", "")
			held.Holds()
			w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0})
			w.ComesTo("2 v2", "2 v2", "")
			held.Fires()
		})
	}
}
