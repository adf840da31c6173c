// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// collects is what the oracle knows of a status that waits for the next one.
type collects struct {
	// most is for how long the controller may let one wait in which nothing but counters
	// changed. It counts in its memory alone, so a new controller begins anew.
	most time.Duration
	// told: the pass has written a status.
	told bool
	// since is when the first pass ended since then that left counts untrue; zero if none did.
	since time.Time
}

// judgeCounts: the counts of a status are true, or wait for the next one, and not for longer than
// they may. The number of all replicas does not wait, for autoscalers read it; nor does the count
// of a subset that has become what is wanted, for somebody may wait for that.
func (o *Oracle) judgeCounts(status *v1alpha1.UnitedDeploymentStatus) {
	total, wrong := int32(0), -1
	for i := range status.Subsets {
		s := &status.Subsets[i]
		n := o.countOwn(s.Name)
		asked, wanted := o.asks[s.Name]
		if wanted {
			total += n
		}
		if s.Replicas == n {
			continue
		}
		if wrong = i; o.collects.told || n == asked.replicas {
			o.fail("the status counts %d replicas of %s; its child has %d", s.Replicas, s.Name, n)
		}
	}
	if status.Replicas != total {
		o.fail("the status counts %d replicas in all; there are %d", status.Replicas, total)
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
	if late := now.Sub(o.collects.since); late >= o.collects.most {
		s := &status.Subsets[wrong]
		o.fail("the status counts %d replicas of %s for %s; its child has %d", s.Replicas, s.Name, late, o.countOwn(s.Name))
	}
}
