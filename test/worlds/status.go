// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"encoding/json"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Status returns the status of the UnitedDeployment.
func (w *World) Status(s *Core) *v1alpha1.UnitedDeploymentStatus { return w.statuses.values[s.Status] }

// Initialized reports whether a replica has been ready.
func (w *World) Initialized(s *Core) bool {
	return meta.IsStatusConditionTrue(w.Status(s).Conditions, v1alpha1.ConditionInitialized)
}

// ApprovalKey returns the number of the key that approves the current step; 0 if there is nothing to approve.
func (w *World) ApprovalKey(s *Core) uint32 {
	if rollout := w.Status(s).Rollout; rollout != nil {
		return w.Text(rollout.ApprovalKey)
	}
	return 0
}

// Store returns the number of a status, without the fields that no decision depends on.
func (w *World) Store(status *v1alpha1.UnitedDeploymentStatus) uint32 {
	kept := status.DeepCopy()
	kept.ReplicaCounts, kept.Summary = v1alpha1.ReplicaCounts{}, ""
	kept.LastProgressTime, kept.Selector, kept.Conditions = nil, "", nil
	if meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionInitialized) {
		kept.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue}}
	}
	for i := range kept.Subsets {
		sub := &kept.Subsets[i]
		sub.ReplicaCounts, sub.Phase, sub.Message = v1alpha1.ReplicaCounts{}, "", ""
		if w.Drop != nil {
			w.Drop(sub)
		}
	}
	if kept.Rollout != nil {
		kept.Rollout.Message, kept.Rollout.LastProgressTime = "", nil
	}
	raw, err := json.Marshal(kept)
	if err != nil {
		panic(err)
	}
	return w.statuses.id(string(raw), func() *v1alpha1.UnitedDeploymentStatus {
		back := &v1alpha1.UnitedDeploymentStatus{}
		if err := json.Unmarshal(raw, back); err != nil {
			panic(err)
		}
		return back
	})
}
