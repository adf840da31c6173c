// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// gate is one reason for which a rollout may have to wait. Whatever is released, and
// every step that ends, passes the gates of the table below; CONTRIBUTING.md says how
// to add one.
type gate struct {
	// name is what docs/design.md calls it.
	name string
	// holds is what does not happen while the gate is closed.
	holds scope
	// passedBy are the releases that are not held by it.
	passedBy exemption
	// check looks whether the gate is closed. It changes nothing.
	check func(c *coordinator, r *release) verdict
}

// scope is what a gate holds; a gate may hold several.
type scope uint8

const (
	// allReleases: nothing is released or deleted, in any subset. Staging and scaling go on.
	allReleases scope = 1 << iota
	// oneSubset: nothing of a subset is released.
	oneSubset
	// nextReplica: the replica of a subset that would be released next. It is asked for
	// each of them, in the order in which they would be released.
	nextReplica
	// endOfStep: the running step does not end, though all that it releases is available.
	endOfStep
)

// exemption is why a release may pass a gate that is closed; a release may have several.
type exemption uint8

const (
	// byForce: the user has forced the update revision.
	byForce exemption = 1 << iota
	// goingBack: all replicas ran the update revision last, so it is proven.
	goingBack
	// downGoingBack: the same, and the replica is not available anyway.
	downGoingBack
	// neverUp: a first template of which no replica got ready is corrected.
	neverUp
	// updatedAlready: the replica runs the update revision. Only the partition passes it.
	updatedAlready
	// isBroken: the replica is broken, so nobody loses anything.
	isBroken
	// unlocking: force releases all down to the replica that a child waits for that works
	// in order.
	unlocking
)

// gates are all gates, in the order in which they are asked: the first that is closed
// gives the reason.
func gates() []gate {
	return []gate{
		{"paused", allReleases | endOfStep, 0, paused},
		{"unreadable", allReleases | endOfStep, 0, unreadable},
		{"failed", allReleases | endOfStep, byForce | goingBack, hasFailed},
		{"unobserved", allReleases, goingBack | neverUp, unobserved},
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
		{"soak", endOfStep, 0, soaking},
		{"approval", endOfStep, 0, notApproved},
	}
}

// verdict is what a gate says. The zero verdict lets everything pass.
type verdict struct {
	closed bool
	// reason is why, for the status of the subsets that it holds; "" where another part
	// of the pass has said it.
	reason string
	// again is when time alone may open the gate; zero if it cannot.
	again time.Time
	// stall: it will not open by itself.
	stall bool
	// atMost is how many replicas may pass at once through a gate that is open; 0 is no
	// bound.
	atMost int64

	// phase and message are what status.rollout says meanwhile. Without a phase, a gate
	// that is a stall is Blocked; any other leaves it to what else keeps the rollout, which
	// mostly is the first subset that waits. Without a message it is the reason.
	phase   v1alpha1.RolloutPhase
	message string
	// approvalKey is what the user approves to open it.
	approvalKey string
}

// release is what a gate is asked about.
type release struct {
	// subsetState is the subset; nil where all of them are asked about.
	*subsetState
	// replica is the one that is asked about; nil if it is missing, or no single one is asked about.
	replica *replicaState
	// top: the positions from here down are next.
	top int32
	// count is how many would be released at once: one that exists, or all that are
	// missing there.
	count int64
	// step is the running step, where its end is asked about.
	step int
	// exempt is why it passes gates that are closed.
	exempt exemption
}

func (r *release) is(e exemption) bool { return r.exempt&e != 0 }

// checkGates is the verdict of the first closed gate in the way of a release; if none is, of an
// open one with the least that may pass.
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
			return v
		}
		if v.atMost > 0 && (open.atMost == 0 || v.atMost < open.atMost) {
			open.atMost = v.atMost
		}
	}
	return open
}

// setWaitReason has a subset say what holds it.
func (c *coordinator) setWaitReason(v *subsetState, held verdict) {
	if held.reason != "" {
		v.waitReason = held.reason
	}
	c.requeueAt(held.again)
	if held.phase != "" && !c.oneHeld.closed {
		held.message = v.Name + ": " + cmp.Or(held.message, held.reason)
		c.oneHeld = held
	}
}

// report has the rollout say what holds it.
func (c *coordinator) report(held verdict) {
	s := c.state
	s.Phase = cmp.Or(held.phase, v1alpha1.RolloutProgressing)
	s.Message = cmp.Or(held.message, held.reason)
	s.ApprovalKey = cmp.Or(held.approvalKey, s.ApprovalKey)
	c.stalled = held.stall
	c.requeueAt(held.again)
}
