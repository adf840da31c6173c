// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"math"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Held is the partition of a child of which nothing is released: whatever
// replicas it gets, they come up protected. A partition equal to its replicas
// would not do: scaling could outgrow it, and raising it then could not be told
// from taking a release back.
const Held = int32(math.MaxInt32)

// Input is all that a pass of a coordinated rollout is decided from.
type Input struct {
	// Strategy is as the user wrote it; nil is all defaults. What cannot be read
	// in it holds: see Check.
	Strategy *v1alpha1.RollingUpdate
	// Object is the UnitedDeployment, for commands in messages.
	Object types.NamespacedName
	// Update names the revision that the spec asks for, Current the one that all
	// replicas ran last.
	Update, Current string
	// Subsets in the order of the spec, then those that are being removed.
	Subsets []Subset
	// State is status.rollout as it was read; nil before the first.
	State *v1alpha1.RolloutStatus
	// Approved and Forced are the annotations united.dev/approved and
	// united.dev/force-update.
	Approved, Forced string
	// Paused freezes the rollout, and says why; "" when it goes on. What is paused counts
	// for no deadline.
	Paused string
	// Pause is which way it is frozen.
	Pause Pause
	// ProgressDeadline is how long a replica may take to become available. Resumed is
	// when spec.paused last ended: the time before does not count.
	ProgressDeadline time.Duration
	Resumed          time.Time
	Now              time.Time
}

// Subset is one subset as it was observed.
type Subset struct {
	Name string
	// Desired is how many replicas it is allotted: R.
	Desired int32
	// Reserved is how many of Desired have no node, and are kept beside the replicas of the parent. Where there are
	// any, these are the replicas that the scheduler calls unschedulable.
	Reserved int32
	// Removed: the spec does not have it any more. It is drained.
	Removed bool
	// Whole: its child is released as a whole, and then replaces its replicas by itself.
	Whole bool
	// Observed is the child; nil when there is none.
	Observed *adapters.Observed
	// Revision names the parent revision that the child's template is.
	Revision string
	// Same: a child made now would have nothing but pods of the update revision,
	// below its partition too. Asked only where there is no child, or one whose
	// controller has not looked at it.
	Same bool
	// FirstRolloutPending: the child's template replaced another before any replica was ever
	// ready, and the child has not come up on it since. It is open for that.
	FirstRolloutPending bool
	// LastPartition is the partition that was last in force, for a child that is gone;
	// Held if unknown.
	LastPartition int32
	// Recorded is the partition that the child was last given, where it says so: that
	// of its spec may be somebody else's. nil: it does not say.
	Recorded *int32
	// Proven: the subset's protected revision makes the same pods as the update revision.
	Proven bool
	// ProtectedHash names the child's own revision that its protected replicas run, where
	// the child says so.
	ProtectedHash string
	// Unreadable is why the child cannot be read, "" if it can, or there is none. Observed
	// is nil then. LastAvailable is how many of its replicas were last known to be
	// available.
	Unreadable    string
	LastAvailable int32
	// Forgot: the child makes all of its pods of the update revision though it protects
	// another. It is to be reminded first.
	Forgot bool
	// Unreleased are replicas that came up on the update revision without having been
	// released. They are deleted, so that they come back on what is protected.
	Unreleased []adapters.Replica
}

// Plan is what one pass decides.
type Plan struct {
	// Subsets are in the order of the Input.
	Subsets []Decision
	// State is what status.rollout becomes. Only when it was written and read back
	// is it acted on.
	State *v1alpha1.RolloutStatus
	// Stalled: it will not go on by itself. State.Message says why.
	Stalled bool
	// Wake is when time alone changes the plan; zero if never.
	Wake time.Time
}

// Decision is what one pass decides for one subset.
type Decision struct {
	// Line is where the partition lies from now on.
	DesiredPartition
	// Replicas is how many the child is asked for: Desired, or more while a
	// scale-down would take too many away.
	Replicas int32
	// Pace is how fast a child that is released as a whole replaces its replicas; nil for
	// all others. Stopped: for the moment it replaces none.
	Pace    *adapters.Pace
	Stopped bool
	// Delete are released replicas that the child's controller would not get to
	// soon, or not at all.
	Delete []adapters.Replica
	// Remove: the child of a removed subset is empty and can go.
	Remove bool
	// ChangeReason says why the partition changes; "" when it does not.
	ChangeReason string
	// WaitReason says what keeps the subset from its target; "" when nothing does.
	WaitReason string
}

// Coordinate decides one pass. See the package comment for the algorithm.
func Coordinate(in Input) Plan { return coordinate(in, gates()) }

func coordinate(in Input, gates []gate) Plan {
	c := newCoordinator(in, gates)
	c.setTargets()
	c.scale()
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

// coordinator is one pass.
type coordinator struct {
	Input
	rules  rules
	states []*subsetState
	state  *v1alpha1.RolloutStatus
	ledger
	// gates are what a release passes, exempt why this rollout passes some of them.
	gates  []gate
	exempt exemption
	// allHeld is what keeps every release back; oneHeld what keeps back one subset, if the
	// rollout is to say it.
	allHeld, oneHeld verdict
	// goingBack: the update revision is the one that all replicas ran last. It is proven.
	goingBack bool
	// failed are the updated replicas that failed. They stop a rollout, but not the
	// way back.
	failed []adapters.Replica
	// unobservedFailure names a child of which it is not known yet whether a replica that failed
	// is an updated one; "" if none.
	unobservedFailure string
	// progressed: something was released, deleted or removed in this pass.
	progressed bool
	stalled    bool
	requeue    time.Time
}

func newCoordinator(in Input, gates []gate) *coordinator {
	c := &coordinator{Input: in, rules: readRules(in), state: in.State.DeepCopy(), gates: gates, goingBack: in.Update == in.Current}
	if c.rules.forced {
		c.exempt |= byForce
	}
	if c.goingBack {
		c.exempt |= goingBack
	}
	for i := range in.Subsets {
		c.states = append(c.states, c.newSubsetState(&in.Subsets[i]))
	}
	c.countUnavailable()
	return c
}

// onRecord reports whether status.rollout speaks of the update revision, so that there
// is something to go on from.
func (c *coordinator) onRecord() bool {
	return c.state != nil && c.state.Revision == c.Update
}

// freeze leaves everything as it is: the controller gives no child another template
// meanwhile, so there is nothing to stage. Scaling goes on.
func (c *coordinator) freeze() {
	for _, v := range c.states {
		v.nextPartition = v.partition
		c.grow(v)
		if v.nextPartition != v.floor.Partition {
			v.floor.Reason = "the partition stays as it is"
		}
	}
	if c.withoutReplicas() || !c.onRecord() {
		// There is nothing to be reached, or another template meanwhile, and what is on record is of
		// the one before: it does not go on.
		if c.state != nil && c.state.Phase != v1alpha1.RolloutComplete {
			c.state.Phase, c.state.Message = v1alpha1.RolloutPaused, c.Paused
		}
		return
	}
	c.soak(c.reached())
	c.report(c.allHeld)
}

// withoutReplicas reports whether the parent has no replicas. That finishes nothing.
func (c *coordinator) withoutReplicas() bool {
	for _, v := range c.states {
		if v.Desired > 0 {
			return false
		}
	}
	return true
}

// keepWithoutReplicas leaves a rollout without replicas where it is, with its step and approvals.
// It goes on when there are replicas again, which come up protected.
func (c *coordinator) keepWithoutReplicas() {
	c.stageAndProtect()
	c.soak(false)
	if c.state.Phase != v1alpha1.RolloutComplete {
		c.state.Phase, c.state.Message = v1alpha1.RolloutProgressing, noReplicas
	}
}

// noReplicas is why a rollout of nothing does not go on.
const noReplicas = "there are no replicas; the rollout continues when there are"

// nowInSeconds is now, as the API server keeps it.
func (c *coordinator) nowInSeconds() *metav1.Time {
	return ptr.To(metav1.NewTime(c.Now.Truncate(time.Second)))
}

// haltedByFailure reports whether a failed replica stops every release and deletion, but not on the way back.
func (c *coordinator) haltedByFailure() bool {
	return len(c.failed) > 0 && !c.rules.forced && !c.goingBack
}

// terms are when a replica is broken.
func (c *coordinator) terms() adapters.Terms {
	return adapters.Terms{Now: c.Now, Deadline: c.ProgressDeadline, Paused: c.Paused != "", Resumed: c.Resumed}
}

func (c *coordinator) allFullyUpdated() bool {
	for _, v := range c.states {
		if !v.Removed && !v.fullyUpdated() {
			return false
		}
	}
	return true
}

func (c *coordinator) requeueAt(at time.Time) { c.requeue = earlier(c.requeue, at) }

// earlier is the earlier of two times, of which each may be zero: never.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func (c *coordinator) plan() Plan {
	if c.onRecord() {
		c.state.Forced = c.rules.forced
	}
	p := Plan{State: c.state, Stalled: c.stalled, Wake: c.requeue}
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

// raiseReason says why a partition goes up.
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

// changeReason says why a partition changes.
func (c *coordinator) changeReason(v *subsetState) string {
	switch {
	case v.Observed == nil || v.nextPartition == v.partition:
		return ""
	case v.nextPartition == Held:
		return "all replicas are protected until the controller of the child workload has observed " + c.Update
	case v.nextPartition > v.partition && v.currentReplicas < v.Desired:
		return fmt.Sprintf("scaling from %d to %d releases %d", v.currentReplicas, v.Desired, max(0, v.Desired-v.nextPartition))
	case v.nextPartition > v.partition:
		return c.raiseReason(v)
	case v.releasedNow == 0:
		return "the replicas above it already run " + c.Update
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
