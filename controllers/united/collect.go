// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// collectFor is for how long counters are collected before they are written. In a rollout
// each pod changes several times within a second, and every reader of the status gets it anew.
const collectFor = 200 * time.Millisecond

// collecting remembers, in memory alone, since when the status of a parent waits in which
// nothing but counters changed. It is safe for concurrent use; the zero value remembers
// nothing yet.
type collecting struct {
	mu    sync.Mutex
	since map[client.ObjectKey]time.Time
}

// wait gives for how long a status is to wait for the next one; 0 when it is to be written
// now, or is what is there already.
func (c *collecting) wait(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, most time.Duration, now time.Time) time.Duration {
	if most == 0 || equality.Semantic.DeepEqual(&parent.Status, status) || !planner.OnlyCounters(&parent.Status, status) {
		return 0
	}
	key := client.ObjectKeyFromObject(parent)
	c.mu.Lock()
	defer c.mu.Unlock()
	since, waits := c.since[key]
	if !waits {
		if c.since == nil {
			c.since = map[client.ObjectKey]time.Time{}
		}
		c.since[key], since = now, now
	}
	return max(0, most-now.Sub(since))
}

// forget ends the wait of a parent: its status is as it should be, or the parent is gone.
func (c *collecting) forget(parent client.ObjectKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.since, parent)
}

// sooner is the sooner of two delays, of which each may be 0: none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
