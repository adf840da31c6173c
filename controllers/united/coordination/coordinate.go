// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/unitedworkloads/united/controllers/united/known"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Held is the partition of a child that releases nothing: all replicas that it gets come up protected. A partition
// equal to its replicas would not be enough: scaling could exceed it, and raising it then could not be
// distinguished from taking a release back.
const Held = int32(math.MaxInt32)

// Input is the complete input of one pass of a coordinated rollout.
type Input struct {
	// Strategy is as the user wrote it; nil means all defaults. A field that cannot be parsed holds; see Check.
	Strategy *v1alpha1.RollingUpdate
	// Object is the UnitedDeployment, for commands in messages.
	Object types.NamespacedName
	// Update is the name of the revision that the spec asks for.
	Update string
	// GoesBack: all replicas ran the update revision before, so it is proven, and this rollout is the way back to it.
	GoesBack bool
	// Subsets are in the order of the spec, followed by those that are being removed.
	Subsets []Subset
	// State is the observed status.rollout; nil before the first rollout.
	State *v1alpha1.RolloutStatus
	// Approved, Forced and Promoted are the annotations united.dev/approved, united.dev/force-update and
	// united.dev/promote.
	Approved, Forced, Promoted string
	// Spent is which values of the last two do not count (status.rollout.spent), and There which would not if the rollout began now.
	Spent, There string
	// Retry is the annotation united.dev/retry.
	Retry string
	// Seen is what was seen of the checks of the strategy, by name.
	Seen map[string]known.CheckResult
	// Paused is why the rollout is frozen; "" if it is not. The time during which it is paused counts for no
	// deadline.
	Paused string
	// Pause is what freezes it.
	Pause Pause
	// ProgressDeadline is how long a replica may take to become available. Resumed is when spec.paused last ended:
	// time before that does not count.
	ProgressDeadline time.Duration
	Resumed          time.Time
	Now              time.Time
}

// Subset is the observed state of one subset. LastPartition is Held if it is not known.
type Subset struct {
	Name string
	known.Facts
	// Desired is the number of replicas allotted to it: R.
	Desired int32
	// Reserved is how many of Desired have no node, and are kept in addition to the replicas of the parent. They are
	// the lowest of the replicas that the scheduler reports as unschedulable.
	Reserved int32
	// Removed: the spec no longer has the subset. It is drained.
	Removed bool
	// Whole: its child is released as a whole, and then replaces its replicas by itself.
	Whole bool
}

// Plan is what one pass decides.
type Plan struct {
	// Subsets are in the order of the Input.
	Subsets []Decision
	// State is the new status.rollout. It takes effect only after it has been written and read back.
	State *v1alpha1.RolloutStatus
	// Stalled: the rollout will not continue by itself. State.Message says why.
	Stalled bool
	// Unfinished: checks or pauses have not let the rollout end, so its revision is not the current one, whatever the replicas run.
	Unfinished bool
	// Failure is why the update revision has failed for good; "" if it has not.
	Failure string
	// Asks are what is to be observed of the checks from now on. Start are those of them whose Job or AnalysisRun is to be created.
	Asks, Start []known.CheckAsk
	// Wake is when time alone changes the plan; zero if never.
	Wake time.Time
}

// Decision is what one pass decides for one subset.
type Decision struct {
	// DesiredPartition is the partition from now on.
	DesiredPartition
	// Replicas is how many replicas the child is asked for: Desired, or more while scaling down to that would take
	// too many away.
	Replicas int32
	// Pace is how fast a child that is released as a whole replaces its replicas; nil for all others. Stopped: for
	// the moment it replaces none.
	Pace    *adapters.Pace
	Stopped bool
	// Delete are released replicas that the child's controller would not replace soon, or not at all.
	Delete []adapters.Replica
	// Remove: the child of a removed subset is empty and can be deleted.
	Remove bool
	// ChangeReason says why the partition changes; "" if it does not.
	ChangeReason string
	// WaitReason says what keeps the subset from its target; "" if nothing does.
	WaitReason string
	// Gate is the name in docs/design.md of the gate that gives WaitReason; "" if none does.
	Gate string
}

// Coordinate decides one pass. See the package comment for the algorithm.
func Coordinate(in Input) Plan { return coordinate(in, gates()) }

func coordinate(in Input, gates []gate) Plan {
	c := newCoordinator(in, gates)
	c.setTargets()
	c.measure()
	c.scale()
	c.countInFlight()
	c.allHeld = c.checkGates(allReleases, &release{})
	switch {
	case c.Paused != "":
		c.freeze()
	case !c.onRecord():
		c.startRollout()
	case c.withoutReplicas():
		c.keepWithoutReplicas()
	default:
		c.stageAndProtect()
		c.takeBack()
		c.release()
		c.deleteReplicas()
		c.advance()
	}
	return c.plan()
}

// coordinator is the state of one pass.
type coordinator struct {
	Input
	rules  rules
	states []*subsetState
	state  *v1alpha1.RolloutStatus
	ledger
	// gates are the gates that a release must pass, exempt is why this rollout passes some of them anyway.
	gates  []gate
	exempt exemption
	// allHeld is the verdict that holds all releases; oneHeld is one that holds one subset, if the rollout has to
	// report it.
	allHeld, oneHeld verdict
	// goingBack: all replicas ran the update revision before. It is proven.
	goingBack bool
	// failed are the updated replicas that failed. They stop a rollout, but not the way back.
	failed []adapters.Replica
	// unobservedFailure is the name of a child with a failed replica if it is not known yet whether that is an
	// updated one; "" if there is none.
	unobservedFailure string
	// checks are the checks that are measured now, in the order of the spec; none if none is.
	checks []measured
	// progressed: this pass has released, deleted or removed something.
	progressed bool
	stalled    bool
	requeue    time.Time
}

func newCoordinator(in Input, gates []gate) *coordinator {
	c := &coordinator{Input: in, rules: readRules(in), state: in.State.DeepCopy(), gates: gates, goingBack: in.GoesBack}
	for i := range in.Subsets {
		c.states = append(c.states, c.newSubsetState(&in.Subsets[i]))
	}
	if _, known := c.position(); !known && !c.goingBack {
		c.spend() // it starts over
	}
	if c.rules.forced {
		c.exempt |= byForce
	}
	if c.goingBack {
		c.exempt |= goingBack
	}
	c.countUnavailable()
	return c
}

// spend lets neither force nor promote count as they are now.
func (c *coordinator) spend() { c.Spent, c.rules.forced, c.rules.promoted = c.There, false, false }

// onRecord reports whether status.rollout is for the update revision, so that the rollout can continue from it.
func (c *coordinator) onRecord() bool {
	return c.state != nil && c.state.Revision == c.Update
}

// freeze leaves everything as it is: the controller does not give a child another template meanwhile, so there is
// nothing to stage. Scaling continues.
func (c *coordinator) freeze() {
	for _, v := range c.states {
		v.nextPartition = v.partition
		c.grow(v)
		if v.nextPartition != v.floor.Partition {
			v.floor.Reason = "the partition stays as it is"
		}
	}
	if c.withoutReplicas() || !c.onRecord() {
		// Either there is nothing to reach, or the template has changed meanwhile and the record is for the
		// previous one, which does not continue.
		if c.state != nil && c.state.Phase != v1alpha1.RolloutDone {
			c.state.Phase, c.state.Message = v1alpha1.RolloutPaused, c.Paused
		}
		return
	}
	c.soakWhilePaused()
	c.report(c.allHeld)
}

// soakWhilePaused lets the time of a step that was reached before pass, and starts no other: a rollout that was
// complete when it was paused can get steps meanwhile, and the time before that does not count for them.
func (c *coordinator) soakWhilePaused() {
	if c.state.Phase == v1alpha1.RolloutDone {
		c.state.ReachedTime, c.state.SoakedSeconds = nil, 0
	}
	if reached := c.reached(); !reached || c.state.ReachedTime != nil {
		c.soak(reached)
	}
}

// withoutReplicas reports whether the parent has no replicas. That does not finish a rollout.
func (c *coordinator) withoutReplicas() bool {
	for _, v := range c.states {
		if v.Desired > 0 {
			return false
		}
	}
	return true
}

// keepWithoutReplicas keeps a rollout without replicas where it is, with its step and approvals. It continues when
// there are replicas again, which come up protected.
func (c *coordinator) keepWithoutReplicas() {
	c.stageAndProtect()
	c.soak(false)
	if c.state.Phase != v1alpha1.RolloutDone {
		c.state.Phase, c.state.Message = v1alpha1.RolloutProgressing, noReplicas
	}
}

// noReplicas is the reason why a rollout without replicas does not continue.
const noReplicas = "there are no replicas; the rollout continues when there are"

// nowInSeconds returns the current time in the precision of the API server.
func (c *coordinator) nowInSeconds() *metav1.Time {
	return ptr.To(metav1.NewTime(c.Now.Truncate(time.Second)))
}

// haltedByFailure reports whether a failed replica or check stops all releases and deletions, which it does not on the
// way back.
func (c *coordinator) haltedByFailure() bool {
	m := c.notMet(false)
	return (len(c.failed) > 0 || m != nil && m.record.State == v1alpha1.CheckHasFailed) && !c.rules.forced && !c.goingBack
}

// terms returns the terms that decide when a replica is broken.
func (c *coordinator) terms() adapters.Terms {
	return adapters.Terms{Now: c.Now, Deadline: c.ProgressDeadline, Paused: c.Paused != "", Resumed: c.Resumed}
}

func (c *coordinator) allFullyUpdated() bool {
	for _, v := range c.states {
		if !v.Removed && !v.fullyUpdated(c.Update) {
			return false
		}
	}
	return true
}

func (c *coordinator) requeueAt(at time.Time) { c.requeue = earlier(c.requeue, at) }

// earlier returns the earlier of two times. A zero time means never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (c *coordinator) plan() Plan {
	if c.onRecord() {
		c.state.Forced, c.state.Promoted = c.rules.forced, c.rules.promoted
		stands := c.state.Phase == v1alpha1.RolloutBlocked || c.state.Phase == v1alpha1.RolloutFailed || c.state.Phase == v1alpha1.RolloutCheckFailed
		c.answer(stands && !c.rules.forced, v1alpha1.AnnotationForceUpdate, c.Forced)
		stands = c.state.Phase == v1alpha1.RolloutAwaitingApproval || c.state.Phase == v1alpha1.RolloutPaused
		c.answer(stands && !c.rules.promoted, v1alpha1.AnnotationPromote, c.Promoted)
		stands = c.state.Phase == v1alpha1.RolloutCheckFailed
		c.answer(stands && !NamesRevision(c.Retry, c.Update), v1alpha1.AnnotationRetry, c.Retry)
	}
	if c.state != nil {
		c.state.Spent = c.Spent
	}
	p := Plan{State: c.state, Stalled: c.stalled, Failure: c.failure(), Wake: c.requeue}
	c.observed(&p)
	p.Unfinished = (c.checksBind() && !c.rules.forced || c.pauses(0)) && (!c.onRecord() || c.state.Phase != v1alpha1.RolloutDone)
	for _, v := range c.states {
		v.changeReason = c.changeReason(v)
		c.setPace(v)
		d := v.decision()
		if c.Paused != "" && !v.Removed {
			d.DesiredPartition = FreezeChild(d.DesiredPartition, v.Observed, ptr.Deref(v.Recorded, v.partition), d.Replicas, c.Pause)
		}
		p.Subsets = append(p.Subsets, d)
	}
	return p
}

// answer adds to the message of a rollout that stands why an annotation that the user has set does not move it: it was there before
// the rollout began, or it names another revision.
func (c *coordinator) answer(stands bool, annotation, value string) {
	answer := ""
	switch {
	case NamesRevision(value, c.Update):
		answer = "; the annotation " + annotation + ", which was there before this rollout; to set it again, run: " + c.annotateAnew(annotation)
	case value != "":
		answer = "; the annotation " + annotation + " " + quoted(value) + ", which is not the update revision"
	}
	if stands && !strings.HasSuffix(c.state.Message, answer) {
		c.state.Message += answer
	}
}

// raiseReason returns why a partition goes up.
func (c *coordinator) raiseReason(v *subsetState) string {
	running := c.running()
	switch {
	case v.nextPartition == v.floor.Partition:
		return "set by spec.updateStrategy: " + v.floor.Reason
	case v.nextPartition == v.target && running < len(c.rules.steps):
		return fmt.Sprintf("step %d of %d releases no more", running+1, len(c.rules.steps))
	}
	return "replicas that are not updated yet are protected again"
}

// changeReason returns why a partition changes.
func (c *coordinator) changeReason(v *subsetState) string {
	switch {
	case v.Observed == nil || v.nextPartition == v.partition:
		return ""
	case v.nextPartition == Held:
		return "all replicas are protected until the controller of the child workload has observed " + known.Short(c.Update)
	case v.nextPartition > v.partition && v.currentReplicas < v.Desired:
		return fmt.Sprintf("scaling from %d to %d releases %d", v.currentReplicas, v.Desired, max(0, v.Desired-v.nextPartition))
	case v.nextPartition > v.partition:
		return c.raiseReason(v)
	case v.releasedNow == 0:
		return "the replicas above it already run " + known.Short(c.Update)
	case c.rules.forced:
		return fmt.Sprintf("releases %d by force", v.releasedNow)
	default:
		why := fmt.Sprintf("releases %d", v.releasedNow)
		if v.releasedUnavailable > 0 {
			why += fmt.Sprintf(" (%d already unavailable)", v.releasedUnavailable)
		}
		why += fmt.Sprintf("; %d of maxUnavailable %d were in use", c.unavailableAtFirst, c.rules.maxUnavailable)
		if c.rules.perSubset != nil {
			why += fmt.Sprintf(", and %d of maxUnavailablePerSubset %d", v.own.unavailableAtFirst, v.own.most)
		}
		if c.rules.bindsSkew(v.Name) {
			why += fmt.Sprintf("; maxSkew allows %d of %d", v.releaseLimit, v.toRelease())
		}
		return why
	}
}
