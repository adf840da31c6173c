// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// startRollout puts a new revision on record and stages it. It releases nothing.
func (c *coordinator) startRollout() {
	c.state = &v1alpha1.RolloutStatus{Revision: c.Update, StartTime: c.nowInSeconds(), Phase: v1alpha1.RolloutStaging}
	c.state.Message = "staging " + known.Short(c.Update) + " in every subset; all replicas stay protected"
	for _, v := range c.states {
		switch {
		case v.Removed:
		case v.fullyUpdated(c.Update):
			v.nextPartition = max(v.partition, v.target)
		case v.staged && !v.Whole && updatedFrom(v.Observed, false) < v.currentReplicas:
			// Another strategy, or a lost status, has already released some. Replicas that have not moved yet
			// stay.
			v.nextPartition = max(v.partition, updatedFrom(v.Observed, false), v.target)
		default:
			v.nextPartition = Held
		}
		v.waitReason = c.stagedFirst()
		c.grow(v)
	}
	if c.allFullyUpdated() && !c.withoutReplicas() && !c.checksBind() && !c.pauses(0) {
		c.complete()
		for _, v := range c.states {
			v.nextPartition, v.waitReason = max(v.partition, v.floor.Partition), ""
		}
	}
	c.requeueAt(c.Now) // the state takes effect as soon as it is on record
}

// stageAndProtect stages children that are not staged yet, and raises partitions to higher targets.
func (c *coordinator) stageAndProtect() {
	for _, v := range c.states {
		switch {
		case v.Removed:
		case v.Observed == nil && (v.Proven || c.goingBack):
			v.nextPartition = v.target
		case v.hasNoReplicas():
			v.nextPartition = c.partitionWithoutReplicas(v)
		case v.Observed != nil && !v.hasRevision(c.Update):
			c.stage(v)
		case !v.staged:
			v.nextPartition = max(v.partition, v.target)
			v.waitReason = "waiting for its controller to observe the new template"
		default:
			v.nextPartition = max(v.partition, v.target)
		}
		c.grow(v)
	}
}

// partitionWithoutReplicas returns the partition of a child without replicas. The child has forgotten what it
// protected, so its new replicas come up protected, unless all replicas have run the update revision since.
func (c *coordinator) partitionWithoutReplicas(v *subsetState) int32 {
	switch {
	case v.Proven || c.goingBack:
		return v.target
	case v.Desired == 0:
		return v.partition
	}
	v.waitReason = "starting its replicas protected"
	return Held
}

// grow protects replicas that a scale-up adds during a rollout. They are then released like any other, as the
// ledger allows.
func (c *coordinator) grow(v *subsetState) {
	if v.Observed == nil || v.Removed || c.goingBack || v.currentReplicas >= v.Desired || v.fullyUpdated(c.Update) {
		return
	}
	if v.Whole && v.nextPartition == 0 {
		return // all of it is released, including new replicas
	}
	v.nextPartition = max(v.nextPartition, v.Desired)
}

// stage gives a child the update revision, with everything protected. If a child has yet to come up on a first
// template, it gets the update revision after it has come up. If nothing is ready on that template, the update
// revision replaces it at once, because all of the child is released to it. Force does the same for a child that
// is partly broken.
func (c *coordinator) stage(v *subsetState) {
	v.nextPartition = Held
	v.waitReason = c.stagedFirst()
	if !v.FirstRolloutPending || !v.Observed.SpecObserved {
		return
	}
	ready, broken := c.startupState(v)
	open := v.target == 0 && v.partition == 0
	switch {
	case open && (!ready || broken && c.rules.forced) && !c.checkGates(allReleases, &release{subsetState: v, exempt: neverUp}).closed:
		v.nextPartition = v.partition
		v.waitReason = "getting " + known.Short(c.Update) + " at once, because it never came up on its earlier revision"
	case broken:
		v.stuck = true
		v.waitReason = "waiting to come up on " + v.revision + " before it gets another revision"
	}
}

func (c *coordinator) stagedFirst() string {
	return "getting " + known.Short(c.Update) + " first; all its replicas stay protected"
}
