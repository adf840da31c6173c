// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// setTargets sets the targets of the running step.
func (c *coordinator) setTargets() {
	running := c.running()
	for _, v := range c.states {
		if v.floor = c.rules.floorOf(v.Desired); v.counts() && v.Proven {
			v.floor = v.floor.Proven(v.Desired)
		}
		if c.goingBack && !v.fullyUpdated(c.Update) {
			v.floor = GoingBack(c.Update)
		}
		target := v.floor.Partition
		if running < len(c.rules.steps) {
			target = max(target, c.stepTarget(v, running))
		}
		v.setTarget(target)
	}
}

// stepTarget returns the target to which the steps up to the running one bring a subset.
func (c *coordinator) stepTarget(v *subsetState, running int) int32 {
	target := Held // no step has named it yet
	for i := range c.rules.steps[:running+1] {
		if s := &c.rules.steps[i]; s.names(v.Name) {
			target = min(target, s.target(v.Desired))
		}
	}
	return target
}

// running returns the index of the running step, or the number of steps after the last one. If the completed steps
// were edited, it is the first step again: whoever edits them decides again.
func (c *coordinator) running() int {
	step, _ := c.position()
	return step
}

// position finds the running step by what the steps before it did to each subset. onRecord is false if they were
// edited.
func (c *coordinator) position() (step int, onRecord bool) {
	if !c.onRecord() || c.state.Step <= 0 || c.state.StepKey == "" {
		return 0, true
	}
	passed := map[string]string{} // what they did, by subset
	for entry := range strings.SplitSeq(c.state.StepKey, ",") {
		name, did, _ := strings.Cut(entry, ":")
		passed[name] = did
	}
	for step := range len(c.rules.steps) + 1 {
		if c.stepsMatch(step, passed) {
			return step, true
		}
	}
	return 0, false
}

// stepsMatch reports whether the steps before the given one do to the subsets what is on record for them. Subsets
// without a record do not count.
func (c *coordinator) stepsMatch(step int, passed map[string]string) bool {
	matched := false
	for _, v := range c.states {
		did, recorded := passed[short(v.Name)]
		switch {
		case v.Removed || !recorded:
		case did != c.stepsHash(step, v.Name):
			return false
		default:
			matched = true
		}
	}
	return matched
}

// stepsHash returns a hash of what the steps before the given one do to a subset.
func (c *coordinator) stepsHash(step int, subset string) string {
	var text strings.Builder
	for i := range c.rules.steps[:step] {
		if s := &c.rules.steps[i]; s.names(subset) {
			fmt.Fprintf(&text, "%s %t %s\n", s.partition, s.Pause != nil, s.pause)
		}
	}
	return short(text.String())
}

// stepKey returns what the steps before the given one did to each subset. The part of a subset is dropped when the
// subset is removed.
func (c *coordinator) stepKey(step int) string {
	var parts []string
	for _, v := range c.states {
		if !v.Removed && step > 0 {
			parts = append(parts, short(v.Name)+":"+c.stepsHash(step, v.Name))
		}
	}
	return strings.Join(parts, ",")
}

// short returns a hash that is short enough to have a hundred of them in a status. Nothing that opens a gate depends on it.
func short(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:4])
}

// statusStep returns the value of status.rollout.step for a step. After the last step it is the number of steps
// that the user wrote, also if they are skipped.
func (c *coordinator) statusStep(step int) int32 {
	if step >= len(c.rules.steps) {
		return c.rules.written
	}
	return int32(step)
}

// approvalKey returns the key that approves the given step of this rollout to this revision, and nothing else. It
// contains the start time of the rollout, so that an approval from an earlier rollout of the revision opens
// nothing now. It does not contain the steps before: editing them so that they do something else starts the
// rollout over, and removing a subset that they name does not revoke an approval.
//
// A key that an earlier version has published, which is shorter, stays valid until its step ends.
func (c *coordinator) approvalKey(step int) string {
	key, earlier := c.keysOf(step)
	if c.State != nil && c.State.ApprovalKey != "" && c.State.ApprovalKey == earlier {
		return earlier
	}
	return key
}

// keysOf returns the key of a step, and that of earlier versions.
func (c *coordinator) keysOf(step int) (key, earlier string) {
	if step >= len(c.rules.steps) || c.state.StartTime == nil {
		return "", ""
	}
	same := 0 // steps before it that ask for the same
	for i := range step {
		if c.stepAsWritten(i) == c.stepAsWritten(step) {
			same++
		}
	}
	text := fmt.Appendf(nil, "%s\n%d\n%d\n%s", c.Update, c.state.StartTime.Unix(), same, c.stepAsWritten(step))
	sum := sha256.Sum256(text)
	return known.Digest(text), hex.EncodeToString(sum[:6])
}

// stepAsWritten returns a step as the user wrote it.
func (c *coordinator) stepAsWritten(step int) string {
	raw, err := json.Marshal(c.rules.steps[step].RolloutStep)
	if err != nil {
		return "" // cannot happen: it has only strings and numbers
	}
	return string(raw)
}

// advance records the position of the rollout, and moves to the next step when the running one has ended.
func (c *coordinator) advance() {
	if c.allFullyUpdated() && c.mayComplete() && !c.pauses(c.running()) {
		c.complete()
		return
	}
	running, onRecord := c.position()
	s := c.state
	if !onRecord {
		c.startOver()
	}
	if added := s.Phase == v1alpha1.RolloutDone && running < len(c.rules.steps); !onRecord || added {
		s.ReachedTime, s.SoakedSeconds = nil, 0 // the time before the step was added does not count
	}
	s.Step, s.StepKey = c.statusStep(running), c.stepKey(running)
	s.ApprovalKey = ""
	reached := c.reached()
	c.soak(reached && !c.heldByCheck())
	if !reached {
		c.reportWaiting()
		return
	}
	switch held := c.checkGates(endOfStep, &release{step: running}); {
	case held.closed:
		c.report(held)
	case c.checksBind() && running < len(c.rules.steps) && c.heldByFloor():
		s.Phase, s.Message = v1alpha1.RolloutDone, "" // for now: no step ends only because the floor leaves it nothing to release
	case running == len(c.rules.steps):
		c.complete()
	default:
		c.nextStep(running)
	}
}

// heldByFloor reports whether the floor protects all replicas.
func (c *coordinator) heldByFloor() bool {
	return !slices.ContainsFunc(c.states, func(v *subsetState) bool { return !v.Removed && v.floor.Partition < v.Desired })
}

// pauses reports whether a step from the given one on waits when it is reached, also one that has nothing left to release.
func (c *coordinator) pauses(from int) bool {
	return !c.rules.promoted && slices.ContainsFunc(c.rules.steps[from:], func(s step) bool { return s.Pause != nil })
}

// startOver revokes the approvals from before completed steps were edited. It also distinguishes two rollouts that
// start within a second.
func (c *coordinator) startOver() {
	now, was := c.nowInSeconds(), ptr.Deref(c.state.StartTime, metav1.Time{})
	if !now.After(was.Time) {
		now = ptr.To(metav1.NewTime(was.Add(time.Second)))
	}
	c.state.StartTime = now
}

// reached reports whether all replicas that the running step releases are released and available.
func (c *coordinator) reached() bool {
	for _, v := range c.states {
		switch {
		case v.Removed:
			return false // it is being drained
		case !v.stepDone(), len(v.Unreleased) > 0:
			return false
		case v.Whole && v.hasNoReplicas() && v.Desired == 0: // it gets the update revision when it has replicas
		case v.Observed != nil && !v.hasRevision(c.Update):
			return false // not staged yet
		}
	}
	return true
}

// soak records for how long the running step stands. A failed replica resets that.
func (c *coordinator) soak(stands bool) {
	s := c.state
	switch {
	case c.haltedByFailure(), len(c.failed) > 0 && !stands:
		s.ReachedTime, s.SoakedSeconds = nil, 0
	case !stands:
		if s.ReachedTime != nil {
			stood := c.stoodUntil(s.ReachedTime.Time).Sub(c.lastAvailable(s.ReachedTime.Time))
			s.SoakedSeconds += max(0, int64(stood/time.Second))
		}
		s.ReachedTime = nil
	default:
		// A replica that was not ready for a moment may be back before any pass has seen it.
		since := ptr.Deref(s.ReachedTime, *c.nowInSeconds())
		if last := c.lastAvailable(since.Time); last.After(since.Time) {
			since = metav1.NewTime(last.Truncate(time.Second))
		}
		if now := c.nowInSeconds(); since.After(now.Time) {
			since = *now
		}
		s.ReachedTime = &since
	}
}

// lastAvailable returns when the last of those replicas became available that the running step released and that
// became ready after the given time, or that time if there is none.
func (c *coordinator) lastAvailable(since time.Time) time.Time {
	last := since
	for _, v := range c.states {
		for _, m := range v.replicaStates {
			if !m.updated || m.Position < v.target || !m.ReadySince.After(since) {
				continue
			}
			if at := m.ReadySince.Add(time.Duration(v.Observed.MinReadySeconds) * time.Second); at.After(last) {
				last = at
			}
		}
	}
	return last
}

// stoodUntil returns until when the running step, which does not stand now, has stood. Its replicas show when they
// ceased to be ready, because there may have been no pass since. A replica that is gone, or was created again,
// does not show it: then none of the time since the step was reached counts.
func (c *coordinator) stoodUntil(reached time.Time) time.Time {
	until := c.Now
	for _, v := range c.states {
		if v.Observed == nil && v.LastPartition != Held {
			return reached // its child is gone
		}
		for p := v.target; p < min(v.currentReplicas, v.Desired); p++ {
			switch m := v.at(p); {
			case m == nil || !m.available && m.Created.After(reached):
				return reached
			case m.updated && !m.available && m.Since.Before(until):
				until = m.Since
			}
		}
	}
	return until
}

// nextStep moves to the step after the running one, or, if the revision is promoted, past all of them.
func (c *coordinator) nextStep(running int) {
	s, next := c.state, running+1
	if c.rules.promoted {
		next = len(c.rules.steps)
	}
	s.Step, s.StepKey = c.statusStep(next), c.stepKey(next)
	s.ReachedTime, s.SoakedSeconds = nil, 0
	s.Phase = v1alpha1.RolloutProgressing
	s.Message = fmt.Sprintf("continuing after step %d of %d", running+1, len(c.rules.steps))
	c.requeueAt(c.Now) // the next step takes effect when it is on record
}

// quoted describes a text; if it is long, by its beginning.
func quoted(text string) string {
	const most = 40
	if utf8.RuneCountInString(text) > most {
		return fmt.Sprintf("begins with %.*q", most, text)
	}
	return fmt.Sprintf("is %q", text)
}

// complete ends the rollout: nothing is left to do for the revision.
func (c *coordinator) complete() {
	s := c.state
	if s.Phase != v1alpha1.RolloutDone || s.ReachedTime == nil {
		s.ReachedTime = c.nowInSeconds()
	}
	s.Step, s.StepKey, s.ApprovalKey, s.SoakedSeconds = c.rules.written, c.stepKey(len(c.rules.steps)), "", 0
	s.Phase, s.Message = v1alpha1.RolloutDone, ""
}

// reportWaiting reports what a rollout that is not done waits for.
func (c *coordinator) reportWaiting() {
	c.requeueAt(c.allHeld.again)
	held := verdict{}
	switch {
	case c.allHeld.phase != "":
		held = c.allHeld
	case c.goingBack && !c.progressed && len(c.failed) > 0 && c.onlyFailedAreAway():
		if held = c.barredByFailed(); !held.closed {
			held = hasFailed(c, nil)
		}
	case c.progressed, c.goingBack && len(c.failed) > 0:
	default:
		for _, why := range []func() verdict{func() verdict { return c.oneHeld }, c.stuck, c.blocked} {
			if held = why(); held.closed {
				break
			}
		}
	}
	c.report(held)
	c.state.Message = cmp.Or(c.state.Message, c.inFlightMessage(), c.firstWaitReason())
}

// inFlightMessage names the replicas that are released and not back.
func (c *coordinator) inFlightMessage() string {
	var waiting nameList
	for _, v := range c.states {
		if v.Removed || v.Observed == nil {
			continue
		}
		for p := min(v.nextPartition, v.currentReplicas); p < v.currentReplicas && p < v.Desired; p++ {
			switch m := v.at(p); {
			case m != nil && m.updated && m.available:
			case m == nil || m.updated || m.Terminating || m.Failure != "":
				waiting.add(func() string { return v.name(p) })
			default:
				waiting.add(func() string { return m.Name + " (being replaced)" })
			}
		}
	}
	if len(waiting.names) == 0 {
		return ""
	}
	return fmt.Sprintf("waiting for %s; %d of maxUnavailable %d in use", waiting.list(""), c.unavailable, c.rules.maxUnavailable)
}

// failedForGood reports whether waiting alone will not help. If it may help, at is when one of the replicas will
// have taken too long, because no watch event announces that a running replica is still not ready.
func (c *coordinator) failedForGood() (failed bool, at time.Time) {
	for _, r := range c.failed {
		failed, when := c.terms().FailedForGood(r)
		if failed {
			return true, at
		}
		at = earlier(at, when)
	}
	return false, at
}

// onlyFailedAreAway reports whether all replicas that are on their way have failed.
func (c *coordinator) onlyFailedAreAway() bool {
	for _, v := range c.states {
		if !v.Removed && c.inFlightOf(v, true) > 0 {
			return false
		}
	}
	return true
}

// firstWaitReason returns what the first subset that is not done waits for. If there is none, it returns what a
// subset with nothing to release waits for.
func (c *coordinator) firstWaitReason() string {
	first := ""
	for _, v := range c.states {
		switch {
		case v.waitReason == "":
		case !v.stepDone():
			return v.Name + ": " + v.waitReason
		case first == "":
			first = v.Name + ": " + v.waitReason
		}
	}
	return first
}
