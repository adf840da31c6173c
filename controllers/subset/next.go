// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Version is what one revision makes of one subset's pods.
type Version struct {
	// Revision is the name of the parent revision.
	Revision string
	// RevisionTemplate, RevisionPatch and Tolerations are as in adapters.Child.
	RevisionTemplate, RevisionPatch map[string]any
	Tolerations                     []corev1.Toleration
	// VersionLabel is as in adapters.Child.
	VersionLabel string
}

// Of makes a child of the version.
func (v *Version) Of(c *adapters.Child) {
	c.Revision, c.RevisionTemplate, c.RevisionPatch = v.Revision, v.RevisionTemplate, v.RevisionPatch
	c.Tolerations, c.VersionLabel = v.Tolerations, v.VersionLabel
}

// Goal is what a subset shall come to.
type Goal struct {
	// Child is what the child shall be, but for the revision: Next fills that in.
	Child adapters.Child
	// Update is what replicas from the partition on run.
	Update Version
	// Held: the partition protects all replicas, whatever the scale.
	Held bool
	// Frozen: what is under way stops where it is.
	Frozen bool
	// Protection is how the kind keeps what is protected.
	Protection adapters.Protection
	// ProtectedRevision names what those below it run, Protected holds it; nil
	// when the revision is lost. Has is what the child's template is now; nil when there is
	// no child, or that is lost.
	ProtectedRevision string
	Protected, Has    *Version
	// SamePods: both make the same pods, so there is nothing to tell apart.
	SamePods bool
	// SameTemplate: what the child's template is makes the pods of Update.
	SameTemplate bool
	// Initialized: a replica of the parent was ready once. Before that there is
	// nothing to protect.
	Initialized bool
	// Before is the copy of what was written on the child that is or was there, nil when
	// there is none.
	Before *v1alpha1.ChildRecord
	// MissedProtectedRevision: the child still has a template from before that, and so nothing that
	// ever worked.
	MissedProtectedRevision bool
	// Contested: somebody lowers the partition of the child again and again. Update is what
	// the child has then.
	Contested bool
}

// Action says what kind of write is next.
type Action string

// Actions.
const (
	// ActionApply brings an existing child to what it shall be, if it differs.
	ActionApply Action = "Apply"
	// ActionCreate makes a child that starts on the revision it shall have.
	ActionCreate Action = "Create"
	// ActionSeed makes a child, or resets one without replicas, so that it
	// remembers the protected revision, and has the replicas that run it.
	ActionSeed Action = "Seed"
	// ActionRelearn gives a child back the template of what it protects, until one of its
	// replicas runs that.
	ActionRelearn Action = "Relearn"
	// ActionRemind makes a child that has forgotten what its protected replicas run
	// remember it.
	ActionRemind Action = "Remind"
	// ActionShrink takes replicas from the child of a subset that is gone. Of Child only
	// the replicas are given: nothing else of it can be written.
	ActionShrink Action = "Shrink"
	// ActionRemove deletes the child of a subset that is gone.
	ActionRemove Action = "Remove"
	// ActionSeek looks whether the child of a subset that is gone is gone too. One that
	// has only lost its labels gets them back, and is removed when it is seen.
	ActionSeek Action = "Seek"
	// ActionWait: nothing can be done before something else has happened.
	ActionWait Action = "Wait"
	// ActionHalt: nothing can be done without help.
	ActionHalt Action = "Halt"
)

// Step is the next write to a child.
type Step struct {
	Action Action
	// Child is what to write; empty for Remind, Remove and Wait. Of one that is to be
	// looked for, as by Seek, it says who it is.
	Child adapters.Child
	// Hash is the child's own revision that it is reminded of. Instead is the step when that
	// is gone; nil if there is none.
	Hash    string
	Instead *Step
	// Reason says why, for people; empty for an Apply at rest.
	Reason string
}

// Next names the next write that brings the child o, nil when there is none, to
// the goal.
func Next(g Goal, o *adapters.Observed) Step {
	s := g.next(o)
	switch s.Action {
	case ActionApply, ActionCreate, ActionSeed, ActionRelearn:
		g.record(&s.Child, o)
	case ActionRemind:
		if s.Instead != nil {
			g.record(&s.Instead.Child, o)
		}
	case ActionShrink, ActionRemove, ActionSeek, ActionWait, ActionHalt:
	}
	return s
}

func (g *Goal) next(o *adapters.Observed) Step {
	switch {
	case o == nil && g.Protection == adapters.Withheld:
		return g.startWithheld()
	case o == nil:
		return g.start()
	case o.Meta.DeletionTimestamp != nil:
		return Step{Action: ActionWait, Reason: DeletionReason(&o.Meta)}
	case g.Initialized && o.Replicas > 0 && g.protectedReplicas() > 0 && len(lostAnnotations(o)) > 0:
		return g.recordLost(o)
	case WrittenLater(o, g.Child.ParentGeneration):
		// A cache that lags behind another controller's, or behind our own past.
		return Step{Action: ActionWait, Reason: "waiting for the cache: " + o.Meta.Name + " was written from a later generation of the spec"}
	case g.Protection == adapters.Withheld:
		return g.withhold(o)
	case g.Initialized && o.Replicas > 0 && (g.MissedProtectedRevision || FirstRolloutPending(o)) && g.protectedReplicas() > 0:
		return g.completeFirstRollout(o)
	case g.Contested && g.Initialized && o.Replicas > 0 && g.protectedReplicas() > 0:
		return g.keepAsIs(o)
	case g.Initialized && g.protectedReplicas() > 0 && Forgot(o):
		return g.remind(o)
	case g.Initialized && g.protectedReplicas() > 0 && g.relearning(o):
		return g.relearn(o)
	case Seeding(o) && o.Replicas > 0 && g.needsProtectedRevision() && RevisionOf(o) == g.ProtectedRevision:
		return g.raise(o)
	case g.Initialized && o.Replicas > 0 && RevisionOf(o) != g.Update.Revision && finishing(o):
		// Another template now, and what they all run would be forgotten: those that
		// are protected would come back on what was before it.
		return Step{Action: ActionWait, Reason: "waiting for " + o.Meta.Name + " to record revision " + RevisionOf(o) + ", which it has finished"}
	case g.mustObserveProtected(o):
		return g.awaitObserved(o)
	case o.Replicas == 0 && g.needsProtectedRevision():
		return g.restart(o)
	}
	return g.apply(o)
}

// DeletionReason says that a child is being deleted, and what it is held by.
func DeletionReason(child metav1.Object) string {
	reason := "waiting for " + child.GetName() + " to be deleted"
	if held := child.GetFinalizers(); len(held) > 0 {
		reason += "; its finalizers are " + strings.Join(held, ", ")
	}
	return reason
}

// mustObserveProtected reports whether the child's controller has yet to take note of the
// revision that it is to remember, before it is shown another. That holds while
// nothing is protected too: the partition may be raised before the end. And on the way
// back: it may have finished what it is to leave, and then that is what it protects. Of what
// cannot be made there is nothing to take note of.
func (g *Goal) mustObserveProtected(o *adapters.Observed) bool {
	unseen := (!o.SpecObserved || o.CurrentHash == "") && !o.Unmade
	same := g.SamePods && RevisionOf(o) == g.ProtectedRevision
	return g.Initialized && !same && o.Replicas > 0 && unseen && RevisionOf(o) != g.Update.Revision
}

// awaitObserved is the step of such a child.
func (g *Goal) awaitObserved(o *adapters.Observed) Step {
	if s, ok := g.holdFirst(o, "protecting replicas of "+o.Meta.Name+" before it gets "+g.Update.Revision); ok {
		return s
	}
	return Step{Action: ActionWait, Reason: "waiting for the controller of " + o.Meta.Name + " to observe its latest spec"}
}

// protectedReplicas is how many replicas the partition protects.
func (g *Goal) protectedReplicas() int32 { return min(g.Child.Partition, g.Child.Replicas) }

// needsProtectedRevision reports whether the child will have replicas to which its protected
// revision matters. It does also while nothing is protected: the partition may be
// raised before the subset has finished. One that is lost is missed only by
// replicas that it should protect.
func (g *Goal) needsProtectedRevision() bool {
	return g.Initialized && g.Child.Replicas > 0 && (g.Protected != nil || g.protectedReplicas() > 0)
}

// start is the first step of a child that does not exist.
func (g *Goal) start() Step {
	if g.needsProtectedRevision() && !g.SamePods {
		return g.seed(g.protectedReplicas(), "creating %s on %s first, because its protected replicas run that")
	}
	child := g.child(g.Update)
	if !g.Initialized || child.Replicas > 0 {
		// What starts from nothing with nothing to tell apart never knew another.
		child.ProtectedRevision = g.Update.Revision
	}
	return Step{Action: ActionCreate, Child: child, Reason: fmt.Sprintf("creating %s on %s", child.Name, child.Revision)}
}

// completeFirstRollout lets a child come up on the one revision it has before its partition
// changes: it may be open so that a corrected template reaches every replica.
func (g *Goal) completeFirstRollout(o *adapters.Observed) Step {
	version := g.Protected // what the child has: it never had another that worked
	if version == nil {
		version = &g.Update
	}
	child := g.child(*version)
	child.Partition = RecordedPartition(o)
	if g.MissedProtectedRevision {
		child.Partition = 0
	}
	child.ProtectedRevision = ""
	return Step{
		Action: ActionApply, Child: child,
		Reason: fmt.Sprintf("waiting for %s to come up on %s; its partition takes effect after that", o.Meta.Name, child.Revision),
	}
}

// keepAsIs leaves a child as it is, and closes it again, while somebody opens it again and
// again: a template that it gets meanwhile reaches replicas that are not released, and so
// it would be restarted with each that is written in turn to teach it what it protects.
// Nor does it get replicas, which would come up on whatever it remembers in that moment.
func (g *Goal) keepAsIs(o *adapters.Observed) Step {
	child := g.child(g.Update)
	child.Partition = max(child.Partition, RecordedPartition(o))
	child.Replicas = min(child.Replicas, o.Replicas)
	child.Seeding = Seeding(o)
	return Step{
		Action: ActionApply, Child: child,
		Reason: "leaving " + o.Meta.Name + " unchanged except for its partition, which somebody keeps lowering",
	}
}

func (g *Goal) apply(o *adapters.Observed) Step {
	child := g.child(g.Update)
	switch {
	case !g.Initialized && RevisionOf(o) == g.Update.Revision:
		child.ProtectedRevision = RecordedProtectedRevision(o)
	case o.Replicas > 0 && FirstRolloutPending(o):
		child.ProtectedRevision = "" // what it remembers is not that yet
	}
	if o.Replicas == 0 && child.Replicas > 0 && !g.needsProtectedRevision() && g.Initialized && statusSettled(o) {
		// It starts from nothing with nothing to tell apart, as if it were new.
		child.ProtectedRevision = g.Update.Revision
	}
	return Step{Action: ActionApply, Child: child}
}

func (g *Goal) child(v Version) adapters.Child {
	c := g.Child
	v.Of(&c)
	if g.Initialized {
		c.ProtectedRevision = g.ProtectedRevision
	}
	return c
}
