// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/publish"
)

// collects is what the oracle knows of a status that waits for the next one.
type collects struct {
	// may is for how long the controller may delay a status. It counts in its memory only, so a new controller starts
	// again.
	may publish.Batching
	// told: the pass has written a status.
	told bool
	// since is the end of the first pass since then that left counts untrue; zero if there was none.
	since time.Time
}

// judgeCounts: the counts of a status are true, or wait for the next status, and not for too long. A count that has
// become what is wanted does not wait, because somebody may wait for it, unless the subset replaces replicas or is being
// provisioned: then this happens with each replica.
func (o *Oracle) judgeCounts(status *v1alpha1.UnitedDeploymentStatus) {
	total, wrong, made := int32(0), -1, wasMade(status)
	for i := range status.Subsets {
		s := &status.Subsets[i]
		n := o.countOwn(s.Name)
		asked, wanted := o.wantedInPass[s.Name]
		if wanted {
			total += s.Replicas
		}
		if s.Replicas == n {
			continue
		}
		if wrong = i; o.collects.told || n == asked.replicas && made && !moves(status, s) {
			o.fail("the status counts %d replicas of %s; its child has %d", s.Replicas, s.Name, n)
		}
	}
	if status.Replicas != total {
		o.fail("the status counts %d replicas in all, and %d in its subsets", status.Replicas, total)
	}
	if wrong < 0 {
		o.collects.since = time.Time{}
		return
	}
	o.Checked["counts that wait"]++
	now := o.api.Now().Time
	if o.collects.since.IsZero() {
		o.collects.since = now
	}
	most := max(o.collects.may.Delay, o.collects.may.Interval)
	if !made {
		most = max(most, o.collects.may.ProvisioningInterval)
	}
	if late := now.Sub(o.collects.since); late >= most {
		s := &status.Subsets[wrong]
		o.fail("the status counts %d replicas of %s for %s; its child has %d", s.Replicas, s.Name, late, o.countOwn(s.Name))
	}
}

// moves reports whether a subset replaces replicas according to a status, or does so or not while others do: how far it is
// may be late, too.
func moves(status *v1alpha1.UnitedDeploymentStatus, s *v1alpha1.SubsetStatus) bool {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	rolling := ready != nil && ready.Status == metav1.ConditionFalse && ready.Reason == v1alpha1.ReasonRollingOut
	return s.Phase == v1alpha1.PhaseUpdating || rolling && (s.Phase == v1alpha1.PhaseWaiting || s.Phase == v1alpha1.PhaseUnavailable)
}

// wasMade reports whether a status shows that its replicas have all existed once, or that it has something to replace:
// Ready has changed since the first replica was ready, as far as seconds show.
func wasMade(status *v1alpha1.UnitedDeploymentStatus) bool {
	ready, initialized := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady), meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionInitialized)
	switch {
	case ready == nil || initialized == nil || ready.Status == metav1.ConditionTrue, status.CurrentRevision != status.UpdateRevision:
		return true
	}
	return initialized.Status == metav1.ConditionTrue && initialized.LastTransitionTime.Before(&ready.LastTransitionTime)
}
