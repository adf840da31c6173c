// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// gate is one reason for which a rollout may have to wait. All releases, and the end of every step, must pass the
// gates in the table below; CONTRIBUTING.md explains how to add one.
type gate struct {
	// name is the name of the gate in docs/design.md.
	name string
	// holds is what does not happen while the gate is closed.
	holds scope
	// passedBy are the releases that the gate does not hold.
	passedBy exemption
	// check reports whether the gate is closed. It changes nothing.
	check func(c *coordinator, r *release) verdict
}

// scope is what a gate holds; a gate may hold several things.
type scope uint8

const (
	// allReleases: nothing is released or deleted, in any subset. Staging and scaling continue.
	allReleases scope = 1 << iota
	// oneSubset: nothing of a subset is released.
	oneSubset
	// nextReplica: the replica of a subset that would be released next. The gate is checked for each of them, in
	// the order in which they would be released.
	nextReplica
	// endOfStep: the running step does not end, though all replicas that it releases are available.
	endOfStep
)

// exemption is why a release may pass a closed gate; a release may have several.
type exemption uint8

const (
	// byForce: the user has forced the update revision.
	byForce exemption = 1 << iota
	// goingBack: all replicas ran the update revision last, so it is proven.
	goingBack
	// downGoingBack: the same, and the replica is not available anyway.
	downGoingBack
	// neverUp: no replica got ready on the first template, which is corrected now.
	neverUp
	// updatedAlready: the replica runs the update revision. Only the partition passes it.
	updatedAlready
	// isBroken: the replica is broken, so nobody loses anything.
	isBroken
	// unlocking: force releases everything down to the replica that an ordered child waits for.
	unlocking
)

// Names of gates that something else asks for.
const (
	gateChecks     = "checks"
	gateRuns       = "runs"
	gateUnmeasured = "unmeasured"
)

// gates returns all gates, in the order in which they are checked: the first closed gate provides the reason.
func gates() []gate {
	return []gate{
		{"paused", allReleases | endOfStep, 0, paused},
		{"unreadable", allReleases | endOfStep, 0, unreadable},
		{"failed", allReleases | endOfStep, byForce | goingBack, hasFailed},
		{"unobserved", allReleases, goingBack | neverUp, unobserved},
		{gateChecks, allReleases | endOfStep, byForce | goingBack, checkNotMet},
		{"staged", oneSubset, 0, notStaged},
		{"unreleased", oneSubset, 0, notTakenBack},
		{"surplus", nextReplica, 0, hasSurplus},
		{"target", nextReplica, 0, atTarget},
		{"order", nextReplica, updatedAlready | downGoingBack | isBroken, outOfTurn},
		{"counted", nextReplica, updatedAlready | downGoingBack | isBroken, countedAlready},
		{"skew", nextReplica, updatedAlready | downGoingBack | isBroken | byForce, tooFarAhead},
		{"ordered", nextReplica, updatedAlready | unlocking, outOfOrder},
		{"ledger", nextReplica, updatedAlready | byForce, ledgerFull},
		{"in-flight", nextReplica, updatedAlready | downGoingBack | unlocking, tooManyInFlight},
		{"subset-ledger", nextReplica, updatedAlready | byForce, subsetLedgerFull},
		{"subset-in-flight", nextReplica, updatedAlready | downGoingBack | unlocking, tooManyInFlightOfSubset},
		{gateRuns, endOfStep, byForce | goingBack, runNotMet},
		{"soak", endOfStep, 0, soaking},
		{"approval", endOfStep, 0, notApproved},
		{gateUnmeasured, allReleases | endOfStep, byForce | goingBack, unmeasured},
	}
}

// verdict is the result of a gate. The zero verdict lets everything pass.
type verdict struct {
	closed bool
	// gate is the name of the gate.
	gate string
	// reason is why the gate is closed, for the status of the subsets that it holds; "" if another part of the
	// pass has reported it.
	reason string
	// again is when time alone may open the gate; zero if it cannot.
	again time.Time
	// stall: the gate will not open by itself.
	stall bool
	// atMost is how many replicas may pass an open gate at once; 0 means no bound.
	atMost int64

	// phase and message are for status.rollout meanwhile. Without a phase, the phase is Blocked if the gate is a
	// stall. Otherwise, whatever else holds the rollout decides, usually the first subset that waits. Without a
	// message, the message is the reason.
	phase   v1alpha1.RolloutPhase
	message string
	// approvalKey is what the user approves to open the gate.
	approvalKey string
}

// release is what a gate checks.
type release struct {
	// subsetState is the subset; nil if the release is about all of them.
	*subsetState
	// replica is the replica to release; nil if it is missing, or if the release is not about a single one.
	replica *replicaState
	// top: the positions from here down are next.
	top int32
	// count is how many replicas would be released at once: one that exists, or all that are missing there.
	count int64
	// step is the running step, if the release is about its end.
	step int
	// exempt is why the release passes closed gates.
	exempt exemption
}

func (r *release) is(e exemption) bool { return r.exempt&e != 0 }

// checkGates returns the verdict of the first closed gate that holds a release. If all are open, it returns an
// open verdict with the lowest bound.
func (c *coordinator) checkGates(what scope, r *release) verdict {
	open := verdict{}
	for i := range c.gates {
		g := &c.gates[i]
		if g.holds&what == 0 || (r.exempt|c.exempt)&g.passedBy != 0 {
			continue
		}
		v := g.check(c, r)
		if v.closed {
			if v.stall {
				v.phase = cmp.Or(v.phase, v1alpha1.RolloutBlocked)
			}
			v.gate = g.name
			return v
		}
		if v.atMost > 0 && (open.atMost == 0 || v.atMost < open.atMost) {
			open.atMost = v.atMost
		}
	}
	return open
}

// setWaitReason records in a subset what holds it.
func (c *coordinator) setWaitReason(v *subsetState, held verdict) {
	if held.reason != "" {
		v.waitReason, v.gate = held.reason, held.gate
	}
	c.requeueAt(held.again)
	if held.phase != "" && !c.oneHeld.closed {
		held.message = v.Name + ": " + cmp.Or(held.message, held.reason)
		c.oneHeld = held
	}
}

// report records in the rollout what holds it.
func (c *coordinator) report(held verdict) {
	s := c.state
	s.Phase = cmp.Or(held.phase, v1alpha1.RolloutProgressing)
	s.Message = cmp.Or(held.message, held.reason)
	s.ApprovalKey = cmp.Or(held.approvalKey, s.ApprovalKey)
	c.stalled = held.stall
	c.requeueAt(held.again)
}
