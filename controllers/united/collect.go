// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// Collect is for how long a status waits for the next one in which nothing changed that
// somebody may wait for. While replicas come and go, each changes several times within a second, and
// every reader of the status gets it anew. The zero value: none waits.
type Collect struct {
	// For is how long one waits in which nothing but counters changed (planner.OnlyCounters).
	For time.Duration
	// Every is how long after the last one it is written at the soonest: while counters go on to
	// move they are written that often.
	Every time.Duration
	// EveryMade is that of a UnitedDeployment that is being made (planner.OnlyArrivals). It is read for
	// whether it is Ready, which is told at once.
	EveryMade time.Duration
}

// standardCollect is what the manager runs with.
func standardCollect() Collect {
	return Collect{For: 200 * time.Millisecond, Every: 2 * time.Second, EveryMade: 10 * time.Second}
}

// collecting remembers since when the status of a parent waits, when it was written, and which
// parents are being made. What is forgotten costs a write and no more.
type collecting struct{ memory[collected] }

type collected struct {
	// since is when the first change came that is not written; zero if all is.
	since time.Time
	// written is when the status was last written; zero if it was not written here.
	written time.Time
	// making is the UnitedDeployment whose first status was written here and that was not Ready
	// since; "" if there is none.
	making types.UID
}

// wait gives for how long a status that differs from the one that is there is to wait for the next
// one; 0 when it is to be written now.
func (c *collecting) wait(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, most Collect, now time.Time) time.Duration {
	key := client.ObjectKeyFromObject(parent)
	kept := c.get(key)
	every := most.Every
	switch {
	case kept.making == parent.UID && planner.OnlyArrivals(&parent.Status, status):
		every = most.EveryMade
	case !planner.OnlyCounters(&parent.Status, status):
		return 0
	}
	if kept.since.IsZero() {
		kept.since = now
		c.set(key, kept)
	}
	return max(0, most.For-now.Sub(kept.since), every-now.Sub(kept.written))
}

// stands notes that the status of a parent is what it should be; written is whether that took a write.
func (c *collecting) stands(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, written bool, now time.Time) {
	key := client.ObjectKeyFromObject(parent)
	kept := c.get(key)
	kept.since = time.Time{}
	if written {
		kept.written = now
	}
	switch {
	case meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady):
		kept.making = ""
	case parent.Status.ObservedGeneration <= 0: // as the API server makes it
		kept.making = parent.UID
	}
	c.set(key, kept)
}

// sooner is the sooner of two delays, of which each may be 0: none.
func sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
