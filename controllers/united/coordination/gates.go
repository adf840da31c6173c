// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"fmt"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// The checks of the gates, in the order of the table.

// paused is closed while the user has paused the rollout, or while its revision cannot be stored for the moment.
// It is more than a gate, because not even staging continues: see freeze. The subsets keep the reason of their
// partition; the rollout reports this one.
func paused(c *coordinator, _ *release) verdict {
	return verdict{closed: c.Paused != "", phase: v1alpha1.RolloutPaused, message: c.Paused}
}

// unreadable is closed while a child cannot be read. It is not known whether its replicas are available, or have
// failed on the update revision. So nothing passes this gate, neither force nor the way back.
func unreadable(c *coordinator, _ *release) verdict {
	for _, v := range c.states {
		if v.Unreadable != "" {
			return verdict{closed: true, stall: true, reason: "no more replicas are released while a child workload cannot be read: " + v.Unreadable}
		}
	}
	return verdict{}
}

// hasFailed is closed while there is a failed updated replica, which shows that the update revision does not work.
// All subsets halt together. It is a stall unless the replica may still come up.
func hasFailed(c *coordinator, _ *release) verdict {
	if len(c.failed) == 0 {
		return verdict{}
	}
	stall, again := c.failedForGood()
	return verdict{
		closed: true, reason: "no more replicas are released while " + c.failed[0].Name + " is broken",
		again: again, stall: stall,
		phase: v1alpha1.RolloutFailed, message: c.failedMessage(),
	}
}

// unobserved is closed while a replica has failed and the child's controller has not observed its spec, so that it
// is not known whether the replica is an updated one. That will be known in a moment, so the rollout reports what
// else it waits for.
func unobserved(c *coordinator, _ *release) verdict {
	return verdict{closed: c.unobservedFailure != "", reason: "waiting for the controller of " + c.unobservedFailure + " to observe its latest spec"}
}

// notStaged is closed while the child does not have the update revision yet, or its controller has not observed
// it, or the child has forgotten what it protects. Staging has set the reason.
func notStaged(_ *coordinator, r *release) verdict { return verdict{closed: !r.staged} }

// notTakenBack is closed while replicas that came up on the update revision without having been released are not
// back on the protected revision. Those that cannot be taken back hold nothing.
func notTakenBack(_ *coordinator, r *release) verdict {
	return verdict{closed: len(r.Unreleased) > 0 && !r.cannotTakeBack}
}

// hasSurplus is closed while the subset is being scaled down. Its surplus replicas are above any partition that
// could be set, so they would be taken down. A mixed child may have to be updated before it can be scaled down.
func hasSurplus(_ *coordinator, r *release) verdict {
	shrinks := r.currentReplicas > r.Desired && (!r.mixed() || r.nextReplicas < r.currentReplicas) || r.unsettled()
	return verdict{closed: shrinks, reason: cmp.Or(r.waitReason, "waiting for surplus replicas to terminate")}
}

// atTarget is closed if the user's floor and the steps up to the running one release no more.
func atTarget(_ *coordinator, r *release) verdict { return verdict{closed: r.top <= r.target} }

// outOfTurn is closed while order is Sequential and an earlier subset is not done.
func outOfTurn(_ *coordinator, r *release) verdict {
	return verdict{closed: r.waitsForSubset != nil, reason: r.waitReason}
}

// countedAlready is closed while as many replicas are released or updated as the step releases. What remains is an
// updated replica that is being deleted: it comes back as the partition says.
func countedAlready(_ *coordinator, r *release) verdict {
	if room := r.toRelease() - r.releasedOrUpdated; room > 0 {
		return verdict{atMost: room}
	}
	return verdict{closed: true, reason: "waiting for replicas that are already released"}
}

// tooFarAhead is closed while the subset would be further ahead of the slowest one than maxSkew.
func tooFarAhead(c *coordinator, r *release) verdict {
	if room := r.releaseLimit - r.releasedOrUpdated; room > 0 {
		return verdict{atMost: room}
	}
	return verdict{closed: true, reason: c.ahead()}
}

// outOfOrder is closed if the child works in order (OrderedReady) and some replica is unavailable, because it
// moves an available replica only while all of them are available.
func outOfOrder(c *coordinator, r *release) verdict {
	if !r.Observed.Ordered || r.unavailableAnyway() {
		return verdict{}
	}
	why := c.orderedWait(r.subsetState)
	return verdict{closed: why != "", reason: why}
}

// ledgerFull is closed while one more available replica going down would exceed maxUnavailable.
func ledgerFull(c *coordinator, r *release) verdict {
	if !c.overfills(&c.ledger, r) {
		return verdict{}
	}
	return verdict{closed: true, reason: c.tooMany("unavailable", c.downFor(r))}
}

// subsetLedgerFull is closed while it would exceed maxUnavailablePerSubset of the subset.
func subsetLedgerFull(c *coordinator, r *release) verdict {
	if !c.overfills(&r.own, r) {
		return verdict{}
	}
	return verdict{closed: true, reason: r.tooMany("unavailable", r.own.downFor(r))}
}

// downFor returns how many replicas are down from where a release looks: for one that only has not been ready for long enough,
// others like it are not.
func (l *ledger) downFor(r *release) int64 {
	if r.replica != nil && r.replica.serves {
		return l.unavailable - l.serving
	}
	return l.unavailable
}

// overfills reports whether a release takes an available replica down for which a ledger has no room.
func (c *coordinator) overfills(l *ledger, r *release) bool {
	switch {
	case r.replica != nil && r.replica.usable:
		return l.unavailable-r.reservedBy() >= l.most // what it has reserved is for its own replicas
	case r.replica != nil && r.replica.serves:
		return l.downFor(r) >= l.most
	case r.replica != nil && r.replica.raised: // it is already counted
		return l.unavailable > l.most
	}
	return false
}

// tooManyInFlight is closed while maxUnavailable replicas are released and not back. It applies to replicas that
// are unavailable anyway, and under force to all.
func tooManyInFlight(c *coordinator, r *release) verdict {
	return c.roomInFlight(&c.ledger, r, c.tooMany)
}

// tooManyInFlightOfSubset is closed while maxUnavailablePerSubset replicas of the subset are released and not
// back.
func tooManyInFlightOfSubset(c *coordinator, r *release) verdict {
	return c.roomInFlight(&r.own, r, r.tooMany)
}

// roomInFlight returns how many more replicas a ledger allows in flight; tooMany makes the reason if it allows none.
func (c *coordinator) roomInFlight(l *ledger, r *release, tooMany func(are string, replicas int64) string) verdict {
	switch {
	case r.replica != nil && r.replica.usable && !c.rules.forced:
		return verdict{} // the ledger gates check it
	case c.countsWithAnother(r):
		return verdict{}
	}
	if room := l.most - l.inFlight; room > 0 {
		return verdict{atMost: room}
	}
	return verdict{closed: true, reason: tooMany("being updated", l.inFlight)}
}

// soaking is closed while the running step has a timed pause and has not stood for that long.
func soaking(c *coordinator, r *release) verdict {
	pause := time.Duration(0)
	if r.step < len(c.rules.steps) {
		pause = c.rules.steps[r.step].pause
	}
	if pause == 0 || c.rules.promoted {
		return verdict{}
	}
	soaked := time.Duration(c.state.SoakedSeconds) * time.Second
	end := c.state.ReachedTime.Add(pause - soaked)
	return verdict{
		closed: end.After(c.Now), again: end, phase: v1alpha1.RolloutPaused,
		message: c.stepReached(r.step) + "; continues at " + end.UTC().Format(time.RFC3339),
	}
}

// notApproved is closed while the running step waits for approval, and the annotation is not its key.
func notApproved(c *coordinator, r *release) verdict {
	if r.step >= len(c.rules.steps) || c.rules.steps[r.step].Pause == nil || c.rules.steps[r.step].pause > 0 || c.rules.promoted {
		return verdict{}
	}
	key := c.approvalKey(r.step)
	message := c.stepReached(r.step) + "; to continue, run: " + c.annotate(v1alpha1.AnnotationApproved, key)
	if c.Approved != "" {
		message += "; the annotation " + quoted(c.Approved) + ", which is for another step or rollout"
	}
	return verdict{
		closed: c.Approved == "" || c.Approved != key,
		phase:  v1alpha1.RolloutAwaitingApproval, message: message, approvalKey: key,
	}
}

func (c *coordinator) tooMany(are string, replicas int64) string {
	return waiting("", are, replicas, "maxUnavailable", c.most)
}

func (v *subsetState) tooMany(are string, replicas int64) string {
	return waiting(" of the subset", are, replicas, "maxUnavailablePerSubset", v.own.most)
}

func waiting(of, are string, replicas int64, field string, most int64) string {
	verb := "are"
	if replicas == 1 {
		verb = "is"
	}
	return fmt.Sprintf("waiting: %s%s %s %s, and %s is %d", plural(replicas, "replica"), of, verb, are, field, most)
}

func (c *coordinator) stepReached(step int) string {
	return fmt.Sprintf("step %d of %d reached", step+1, len(c.rules.steps))
}

// annotate returns the command that sets an annotation of the object.
func (c *coordinator) annotate(key, value string) string {
	return fmt.Sprintf("kubectl annotate --overwrite united -n %s %s %s=%s", c.Object.Namespace, c.Object.Name, key, value)
}

// annotateAnew returns the command that sets an annotation for the update revision, to a value that it never had.
func (c *coordinator) annotateAnew(key string) string {
	return c.annotate(key, c.Update+"/$(date +%s)")
}
