// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"strings"
	"time"

	"github.com/unitedworkloads/united/controllers/united/known"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/render"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Version is the pod template that one revision has for one subset.
type Version struct {
	// Revision is the name of the parent revision.
	Revision string
	// Identity, RevisionTemplate, RevisionPatch and Tolerations are as in adapters.Child.
	Identity                        string
	RevisionTemplate, RevisionPatch map[string]any
	Tolerations                     []corev1.Toleration
	// VersionLabel is as in adapters.Child.
	VersionLabel string
	// Colocation is as in adapters.Child.
	Colocation *render.Colocation
}

// Of sets the version in a child.
func (v *Version) Of(c *adapters.Child) {
	c.Revision, c.Identity, c.RevisionTemplate, c.RevisionPatch = v.Revision, v.Identity, v.RevisionTemplate, v.RevisionPatch
	c.Tolerations, c.VersionLabel, c.Colocation = v.Tolerations, v.VersionLabel, v.Colocation
}

// Goal is the desired state of a subset.
type Goal struct {
	// Facts are what is known of the child.
	known.Facts
	// Child is the desired child, without the revision, which Next sets.
	Child adapters.Child
	// Update is the version of the replicas from the partition on.
	Update Version
	// Held: the partition protects all replicas, whatever the scale.
	Held bool
	// Frozen: a rollout in progress stops where it is.
	Frozen bool
	// Protection is how the kind protects replicas.
	Protection adapters.Protection
	// Protected is the version of the protected replicas, or nil if that revision is lost. Has is the version that the
	// child's template has now; nil if there is no child, or that revision is lost. If somebody contests the child's
	// partition, Update is what the child has.
	Protected, Has *Version
	// SamePods: both versions have the same pods, so they need not be distinguished.
	SamePods bool
	// SameTemplate: the child's template has the same pods as Update.
	SameTemplate bool
	// Initialized: a replica of the parent has been ready once. Before that nothing needs protection.
	Initialized bool
	// Before is the copy of the record of the child that exists or existed; nil if there is none.
	Before *v1alpha1.ChildRecord
	// Outlived: what keeps the replicas of a child that does not exist outlived it, and may remember another revision than
	// the protected one (adapters.Delegating).
	Outlived bool
	// Terms decide which replicas failed, if a rollout under health gates replaces them by itself; nil if users release
	// them (Manual).
	Terms *adapters.Terms
}

// Action is the kind of the next write.
type Action string

// Actions.
const (
	// ActionApply updates an existing child if it differs from Child.
	ActionApply Action = "Apply"
	// ActionCreate creates a child directly on its desired revision.
	ActionCreate Action = "Create"
	// ActionSeed creates a child, or resets one without replicas, so that it remembers the protected revision and has
	// the replicas that run it.
	ActionSeed Action = "Seed"
	// ActionRelearn returns a child to the template of its protected revision, until one of its replicas runs that.
	ActionRelearn Action = "Relearn"
	// ActionRemind restores the protected revision in the status of a child that has forgotten what its protected
	// replicas run.
	ActionRemind Action = "Remind"
	// ActionShrink removes replicas from the child of a removed subset. Only the replicas of Child are set; nothing
	// else of the child can be written.
	ActionShrink Action = "Shrink"
	// ActionRemove deletes the child of a removed subset.
	ActionRemove Action = "Remove"
	// ActionSeek checks whether the child of a removed subset is gone too. If it has only lost its labels, they are
	// restored, and the child is removed once it is in the cache.
	ActionSeek Action = "Seek"
	// ActionWait: nothing can be done before something else has happened.
	ActionWait Action = "Wait"
	// ActionHalt: nothing can be done without a user's help.
	ActionHalt Action = "Halt"
)

// Step is the next write to a child.
type Step struct {
	Action Action
	// Child is what to write; it is empty for Remind, Remove and Wait. For Seek it only identifies the child.
	Child adapters.Child
	// Hash is the child's own revision for a reminder. Instead is the step to take if that revision no longer exists;
	// nil if there is none.
	Hash    string
	Instead *Step
	// Reason explains the step to users; it is empty for an Apply if nothing is in progress.
	Reason string
	// Wake is when the passage of time alone changes the step; zero if it does not.
	Wake time.Time
}

// Next returns the next write that moves the child towards the goal.
func Next(g Goal) Step {
	o := g.Observed
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
		// Our cache lags behind a write of another controller, or of our own.
		return Step{Action: ActionWait, Reason: "waiting for the cache: " + o.Meta.Name + " was written from a later generation of the spec"}
	case g.Protection == adapters.Withheld:
		return g.withhold(o)
	case g.Initialized && o.Replicas > 0 && (g.MissedProtectedRevision || g.FirstRolloutPending) && g.protectedReplicas() > 0:
		return g.completeFirstRollout(o)
	case g.Contested && g.Initialized && o.Replicas > 0 && g.protectedReplicas() > 0:
		return g.keepAsIs(o)
	case g.Initialized && g.protectedReplicas() > 0 && g.Forgot:
		return g.remind(o)
	case g.Initialized && g.protectedReplicas() > 0 && g.relearning(o):
		return g.relearn(o)
	case g.Seeding && o.Replicas > 0 && g.needsProtectedRevision() && g.Revision == g.ProtectedRevision:
		return g.raise(o)
	case g.Initialized && o.Replicas > 0 && g.Revision != g.Update.Revision && finishing(o):
		// If the child got another template now, it would forget the revision that all its replicas run, and protected
		// replicas would come back on the one before it.
		return Step{Action: ActionWait, Reason: "waiting for " + o.Meta.Name + " to record revision " + known.Short(g.Revision) + ", which it has finished"}
	case g.mustObserveProtected(o):
		return g.awaitObserved(o)
	case o.Replicas == 0 && g.needsProtectedRevision():
		return g.restart(o)
	}
	return g.apply(o)
}

// DeletionReason says that a child is being deleted, and which finalizers it has.
func DeletionReason(child metav1.Object) string {
	reason := "waiting for " + child.GetName() + " to be deleted"
	if held := child.GetFinalizers(); len(held) > 0 {
		reason += "; its finalizers are " + strings.Join(held, ", ")
	}
	return reason
}

// mustObserveProtected reports whether the child's controller must first observe the revision that it should remember,
// before the child gets another template. That is necessary even while nothing is protected, because the partition may
// be raised later in the rollout. It is also necessary for a rollback: the child may have finished the revision that it
// is leaving, and then protects that one. If the template cannot be applied, there is nothing to observe.
func (g *Goal) mustObserveProtected(o *adapters.Observed) bool {
	unseen := (!o.SpecObserved || o.CurrentHash == "") && !o.Unmade
	same := g.SamePods && g.Revision == g.ProtectedRevision
	return g.Initialized && !same && o.Replicas > 0 && unseen && g.Revision != g.Update.Revision
}

// awaitObserved returns the step for such a child.
func (g *Goal) awaitObserved(o *adapters.Observed) Step {
	if s, ok := g.holdFirst(o, "protecting replicas of "+o.Meta.Name+" before it gets "+known.Short(g.Update.Revision)); ok {
		return s
	}
	return Step{Action: ActionWait, Reason: "waiting for the controller of " + o.Meta.Name + " to observe its latest spec"}
}

// protectedReplicas returns the number of replicas that the partition protects.
func (g *Goal) protectedReplicas() int32 { return min(g.Child.Partition, g.Child.Replicas) }

// needsProtectedRevision reports whether the child will have replicas for which its protected revision matters. That
// includes the case that nothing is protected yet, because the partition may be raised before the subset has finished.
// A revision that is lost matters only if some replicas should be protected.
func (g *Goal) needsProtectedRevision() bool {
	return g.Initialized && g.Child.Replicas > 0 && (g.Protected != nil || g.protectedReplicas() > 0)
}

// start returns the first step for a child that does not exist.
func (g *Goal) start() Step {
	if g.needsProtectedRevision() && !g.SamePods {
		replicas := g.protectedReplicas()
		if g.Outlived {
			replicas = 0 // it would make them of what it remembers; those that exist are kept (KeepOutlived)
		}
		return g.seed(replicas, "creating %s on %s first, because its protected replicas run that")
	}
	child := g.child(g.Update)
	if !g.Initialized || child.Replicas > 0 {
		// A child that starts from nothing, with only one version of its pods, never had another revision.
		child.ProtectedRevision = g.Update.Revision
	}
	return Step{Action: ActionCreate, Child: child, Reason: fmt.Sprintf("creating %s on %s", child.Name, known.Short(child.Revision))}
}

// completeFirstRollout lets a child come up on the only revision that it has before its partition changes. The
// partition may be low so that a corrected template reaches every replica.
func (g *Goal) completeFirstRollout(o *adapters.Observed) Step {
	version := g.Protected // the version that the child has: it never had another one that worked
	if version == nil {
		version = &g.Update
	}
	child := g.child(*version)
	child.Partition = *g.Recorded
	if g.MissedProtectedRevision {
		child.Partition = 0
	}
	child.ProtectedRevision = ""
	return Step{
		Action: ActionApply, Child: child,
		Reason: fmt.Sprintf("waiting for %s to come up on %s; its partition takes effect after that", o.Meta.Name, known.Short(child.Revision)),
	}
}

// keepAsIs leaves a child as it is, except that it raises the partition again, while somebody keeps lowering it. A
// template that the child gets meanwhile would reach replicas that are not released, so each template that is written
// to teach it the protected revision would restart them. The child does not get more replicas either, because they
// would come up on whatever revision it remembers at that moment.
func (g *Goal) keepAsIs(o *adapters.Observed) Step {
	child := g.child(g.Update)
	child.Partition = max(child.Partition, *g.Recorded)
	child.Replicas = min(child.Replicas, o.Replicas)
	child.Seeding = g.Seeding
	return Step{
		Action: ActionApply, Child: child,
		Reason: "leaving " + o.Meta.Name + " unchanged except for its partition, which somebody keeps lowering",
	}
}

func (g *Goal) apply(o *adapters.Observed) Step {
	child := g.child(g.Update)
	switch {
	case !g.Initialized && g.Revision == g.Update.Revision:
		child.ProtectedRevision = g.RecordedRevision
	case o.Replicas > 0 && g.FirstRolloutPending:
		child.ProtectedRevision = "" // the child does not remember that yet
	}
	if o.Replicas == 0 && child.Replicas > 0 && !g.needsProtectedRevision() && g.Initialized && statusSettled(o) {
		// The child starts from nothing, with only one version of its pods, as if it were new.
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
