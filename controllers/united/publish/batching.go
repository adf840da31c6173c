// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package publish

import (
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/perparent"
)

// Batching is how long a status waits for the next one if nothing changed in it that somebody may be waiting for.
// While replicas are created and deleted, each status changes several times within a second, and every watcher of the
// status receives it again. With the zero value no status waits.
type Batching struct {
	// Delay is how long a status waits if only counters changed (publish.OnlyCounters).
	Delay time.Duration
	// Interval is the minimum time between the last status and such a one: while counters keep changing, they are
	// written at this interval.
	Interval time.Duration
	// ProvisioningInterval is the interval for a UnitedDeployment that has never been Ready (publish.OnlyProvisioning).
	// Its readers want to know when it is, and that is written at once.
	ProvisioningInterval time.Duration
	// MaxReturn is the maximum time that a status waits if it returns to an earlier one again and again
	// (statusReturns). With 0, none waits.
	MaxReturn time.Duration
}

// StandardBatching returns what the manager uses.
func StandardBatching() Batching {
	return Batching{Delay: 200 * time.Millisecond, Interval: 2 * time.Second, ProvisioningInterval: 10 * time.Second, MaxReturn: 5 * time.Second}
}

// pendingStatuses remembers how long the status of a parent has been waiting, and when it was last written. If that is
// lost, it costs only an additional write.
type pendingStatuses struct {
	perparent.Memory[pendingStatus]
}

type pendingStatus struct {
	// since is when the first change occurred that is not written; zero if all changes are.
	since time.Time
	// written is when the status was last written; zero if it was not written by this process.
	written time.Time
}

// delay returns how long a status that differs from the present one must wait for the next one; 0 if it must be written
// now.
func (p *pendingStatuses) delay(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, b Batching, now time.Time) time.Duration {
	interval := b.Interval
	switch {
	case b == Batching{}:
		return 0
	case OnlyProvisioning(&parent.Status, status):
		interval = b.ProvisioningInterval
	case !OnlyCounters(&parent.Status, status):
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

// recordUpToDate records that the status of a parent is up to date; written says whether that required a write.
func (p *pendingStatuses) recordUpToDate(parent client.ObjectKey, written bool, now time.Time) {
	kept := p.Get(parent, "")
	kept.since = time.Time{}
	if written {
		kept.written = now
	}
	p.Set(parent, "", kept)
}
