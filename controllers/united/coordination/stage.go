// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import "github.com/unitedworkloads/united/apis/apps/v1alpha1"

// begin puts a new revision on record and stages it: nothing is released.
func (c *coordinator) begin() {
	c.state = &v1alpha1.RolloutStatus{Revision: c.Update, StartTime: c.stamp(), Phase: v1alpha1.RolloutStaging}
	c.state.Message = "gives every subset " + c.Update + ", with everything protected"
	for _, v := range c.views {
		switch {
		case v.Removed:
		case v.clean():
			v.next = max(v.partition, v.target)
		case v.staged && !v.Whole && updatedFrom(v.Observed, false) < v.live:
			// Another strategy, or a status that was lost, has released some already.
			// What has not moved yet stays.
			v.next = max(v.partition, updatedFrom(v.Observed, false), v.target)
		default:
			v.next = Held
		}
		v.waits = c.stagedFirst()
		c.grow(v)
	}
	if c.allClean() && !c.empty() {
		c.complete()
		for _, v := range c.views {
			v.next, v.waits = max(v.partition, v.floor.Partition), ""
		}
	}
	c.wakeAt(c.Now) // the state is to be acted on as soon as it is on record
}

// hold stages what is not staged yet, and raises partitions to higher targets.
func (c *coordinator) hold() {
	for _, v := range c.views {
		switch {
		case v.Removed:
		case v.Observed == nil && v.Same:
			v.next = v.target
		case v.vacant():
			v.next = c.vacantAt(v)
		case v.Observed != nil && !v.given(c.Update):
			c.stage(v)
		case !v.staged:
			v.next = max(v.partition, v.target)
			v.waits = "waits until its controller has observed it"
		default:
			v.next = max(v.partition, v.target)
		}
		c.grow(v)
	}
}

// vacantAt is the partition of a child without replicas. It has forgotten what it
// protected, so what it gets comes up protected, unless all replicas ran the update
// revision since.
func (c *coordinator) vacantAt(v *view) int32 {
	switch {
	case v.Proven || c.back && c.state.Phase == v1alpha1.RolloutComplete:
		return v.target
	case v.Desired == 0:
		return v.partition
	}
	v.waits = "comes up protected"
	return Held
}

// grow protects replicas that a scale-up adds in mid-rollout. Those that the ledger
// allows are released after that, as any other.
func (c *coordinator) grow(v *view) {
	if v.Observed == nil || v.Removed || c.back || v.live >= v.Desired || v.clean() {
		return
	}
	if v.Whole && v.next == 0 {
		return // all of it is released, and so is what it grows by
	}
	v.next = max(v.next, v.Desired)
}

// stage gives a child the update revision, with everything protected. One that has
// yet to come up on a first template gets it when that is done; or at once, in place
// of a template of which nothing is ready: all of the child is released to that. Force
// does the same for one that is broken half-way.
func (c *coordinator) stage(v *view) {
	v.next = Held
	v.waits = c.stagedFirst()
	if !v.Completing || !v.Observed.CaughtUp {
		return
	}
	ready, broken := c.comesUp(v)
	open := v.target == 0 && v.partition == 0
	switch {
	case open && (!ready || broken && c.rules.forced) && !c.ask(allReleases, &release{view: v, exempt: neverUp}).closed:
		v.next = v.partition
		v.waits = "is given " + c.Update + " at once: it never came up on what it has"
	case broken:
		v.stuck = true
		v.waits = "comes up on " + v.Revision + " before it is given another"
	}
}

func (c *coordinator) stagedFirst() string {
	return "is given " + c.Update + " first, with everything protected"
}
