// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/perparent"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// StatusBatching is for how long a status waits for the next one in which nothing changed that
// somebody may wait for. While replicas come and go each changes several times within a second, and
// every reader of the status gets it anew. The zero value: none waits.
type StatusBatching struct {
	// Delay is for how long one waits in which nothing but counters changed (planner.OnlyCounters).
	Delay time.Duration
	// Interval is how long after the last status such a one is written at the soonest: while
	// counters go on to move they are written that often.
	Interval time.Duration
	// ProvisioningInterval is that of a UnitedDeployment that has never been Ready
	// (planner.OnlyProvisioning). It is read for whether it is, which is told at once.
	ProvisioningInterval time.Duration
	// MaxReturn is how long one waits at most that returns to what was written before, again and
	// again (statusReturns). 0: none does.
	MaxReturn time.Duration
}

// standardBatching is what the manager runs with.
func standardBatching() StatusBatching {
	return StatusBatching{Delay: 200 * time.Millisecond, Interval: 2 * time.Second, ProvisioningInterval: 10 * time.Second, MaxReturn: 5 * time.Second}
}

// pendingStatuses remembers since when the status of a parent waits, and when it was written. What is
// forgotten costs a write and no more.
type pendingStatuses struct {
	perparent.Memory[pendingStatus]
}

type pendingStatus struct {
	// since is when the first change came that is not written; zero if all is.
	since time.Time
	// written is when the status was last written; zero if it was not written here.
	written time.Time
}

// delay gives for how long a status that differs from the one that is there is to wait for the next
// one; 0 when it is to be written now.
func (p *pendingStatuses) delay(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, b StatusBatching, now time.Time) time.Duration {
	interval := b.Interval
	switch {
	case b == StatusBatching{}:
		return 0
	case planner.OnlyProvisioning(&parent.Status, status):
		interval = b.ProvisioningInterval
	case !planner.OnlyCounters(&parent.Status, status):
		return 0
	}
	key := client.ObjectKeyFromObject(parent)
	kept := p.Get(key, "")
	if kept.since.IsZero() {
		kept.since = now
		p.Set(key, "", kept)
	}
	return max(0, b.Delay-now.Sub(kept.since), interval-now.Sub(kept.written))
}

// recordUpToDate notes that the status of a parent is what it should be; written is whether that took a write.
func (p *pendingStatuses) recordUpToDate(parent client.ObjectKey, written bool, now time.Time) {
	kept := p.Get(parent, "")
	kept.since = time.Time{}
	if written {
		kept.written = now
	}
	p.Set(parent, "", kept)
}

// sooner is the sooner of two delays, of which each may be 0: none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
