// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLeaderWorkerSetOrphanedAtZero checks that a held zone comes up on the earlier version although its LeaderWorkerSet was
// orphaned without replicas, or while it got the first ones. What outlives it is the StatefulSet of its leaders, which
// may remember the new version.
func TestLeaderWorkerSetOrphanedAtZero(t *testing.T) {
	t.Parallel()
	for name, orphan := range map[string]func(w *contracted){
		"without replicas": func(w *contracted) {
			w.remake("zone-b", metav1.DeletePropagationOrphan)
			w.moveTo(2, 2)
		},
		"growing from zero": func(w *contracted) {
			w.moveTo(2, 2)
			w.remake("zone-b", metav1.DeletePropagationOrphan)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := kindNamed("LeaderWorkerSet").contractOf(t, replicas(4), zones("4", "0"), hold())
			w.comesTo("4 v1", "", "")
			w.setImage("v2")
			w.comesTo("4 v1", "", "")
			held := w.History.Forbid(protect("zone-b", 9, "v1"))
			orphan(w)
			w.comesTo("2 v1", "2 v1", "")
			held.Holds()
			w.SetPartitions(parts{"zone-a": 0, "zone-b": 0})
			w.comesTo("2 v2", "2 v2", "")
			held.Fires()
		})
	}
}
