// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/writer"
)

// retryStale is how soon to look again when the cluster had moved on. The watch
// usually is sooner.
const retryStale = time.Second

// outcome is what became of the plan for one subset.
type outcome struct {
	failure *subset.Failure
	// stale: the cluster had moved on; nothing failed.
	stale bool
	// waits says for what it has to look again; "" when nothing is known but that the
	// cluster had moved on.
	waits string
	wrote bool
	// freed are the stuck replicas that were deleted, undone those that had come up on
	// the update revision without having been released.
	freed, undone []string
	// why a coordinated rollout changed the partition.
	why string
	// left: what failed is the template of the pods, which is not written again.
	left bool
	// note is what is to be said of the child beside all else.
	note string
}

// carried is what became of a plan.
type carried struct {
	subsets map[string]*outcome
	// removed are the subsets whose children were deleted in this pass.
	removed []string
}

// of is what became of a subset; nil if nothing was tried.
func (c *carried) of(name string) *outcome {
	if c == nil {
		return nil
	}
	return c.subsets[name]
}

// waitsOf is what a subset has to look again for; "" when nothing is known.
func (c *carried) waitsOf(name string) string {
	if o := c.of(name); o != nil {
		return o.waits
	}
	return ""
}

// carryOut writes the children, each by itself: one that fails keeps no other
// back. The world is brought up to date with what was written.
func (r *Reconciler) carryOut(ctx context.Context, w *world, p *plan) *carried {
	done := &carried{subsets: map[string]*outcome{}}
	wr := r.writer(w.spec.adapter)
	capacity := w.capacity()
	for _, s := range p.order(w) {
		before := w.replicas(s.Name)
		o := &outcome{stale: true}
		if r.goOn(ctx, w) {
			o = r.carrySubset(ctx, wr, w, s, capacity)
		}
		done.subsets[s.Name] = o
		wanted := s.asks
		if !o.refused() {
			wanted = 0
		}
		capacity.wrote(s.Name, before, w.replicas(s.Name), wanted)
	}
	if !r.goOn(ctx, w) {
		done.leave(p)
		return done
	}
	for _, d := range p.drained {
		before := w.replicas(d.name)
		if keep := capacity.keep(before, d.replicas); keep > d.replicas {
			d = drain{d.name, keep, capacity.why(keep)}
		}
		done.subsets[d.name] = r.drainSubset(ctx, wr, w, d)
		capacity.wrote(d.name, before, w.replicas(d.name), 0)
	}
	for _, name := range p.removed {
		has := w.replicas(name)
		if keep := capacity.keep(has, 0); keep > 0 {
			done.subsets[name] = &outcome{waits: capacity.why(has)}
			continue
		}
		done.subsets[name] = r.removeSubset(ctx, wr, w, name)
		if done.subsets[name].wrote {
			capacity.living -= int64(has)
			done.removed = append(done.removed, name)
		}
	}
	for _, name := range p.unseen {
		done.subsets[name] = r.seekGone(ctx, wr, w, name)
	}
	return done
}

// seekGone looks whether the child of a subset that is gone is gone too. One that has only
// lost its labels gets them back, and is removed when it is seen.
func (r *Reconciler) seekGone(ctx context.Context, wr *writer.Writer, w *world, name string) *outcome {
	child := adapters.Child{
		Namespace: w.parent.Namespace, Name: adapters.ChildName(w.parent.Name, name),
		Parent: w.parent.Name, Subset: name, Owner: ownerOf(w.parent),
	}
	o := r.attempt(ctx, w, name, nil, func(*outcome) error {
		err := wr.Vacant(ctx, &child)
		if errors.Is(err, writer.ErrNameConflict) || errors.Is(err, writer.ErrPredecessor) {
			return nil // the name has gone to another, or is about to be free
		}
		return err
	})
	if !o.refused() {
		return o // it is gone
	}
	return o.unlessOverridden(wr.Overridden(client.ObjectKeyFromObject(w.parent), child.Name, nil))
}

// leave leaves the subsets that are going for another pass.
func (c *carried) leave(p *plan) {
	for _, d := range p.drained {
		c.subsets[d.name] = &outcome{stale: true}
	}
	for _, name := range slices.Concat(p.removed, p.unseen) {
		c.subsets[name] = &outcome{stale: true}
	}
}

func (r *Reconciler) removeSubset(ctx context.Context, wr *writer.Writer, w *world, name string) *outcome {
	current := w.children[name].object
	return r.attemptGone(ctx, w, name, current, func(o *outcome) error {
		if err := wr.Remove(ctx, current); err != nil {
			return err
		}
		o.wrote = true
		return nil
	})
}

// drainSubset takes replicas from the child of a subset that is being removed.
func (r *Reconciler) drainSubset(ctx context.Context, wr *writer.Writer, w *world, d drain) *outcome {
	c := w.children[d.name]
	fight := func() *writer.OverriddenError { // its template matters to nobody any more
		return wr.Overridden(client.ObjectKeyFromObject(w.parent), c.object.GetName(), nil)
	}
	if c.observed.Replicas == d.replicas {
		return (&outcome{}).unlessOverridden(fight())
	}
	o := r.attemptGone(ctx, w, d.name, c.object, func(o *outcome) error {
		after, err := wr.Shrink(ctx, c.object, d.replicas)
		if err != nil {
			return err
		}
		o.wrote = true
		w.children[d.name], err = w.read(d.name, after)
		return err
	})
	return o.unlessOverridden(fight())
}

// attemptGone is attempt on the child of a subset that is gone, if it still is.
func (r *Reconciler) attemptGone(ctx context.Context, w *world, name string, current *unstructured.Unstructured, try func(*outcome) error) *outcome {
	return r.attempt(ctx, w, name, current, func(o *outcome) error {
		if err := r.confirm(ctx, w.parent); err != nil {
			return err
		}
		return try(o)
	})
}

// replicas are what the child of a subset is asked for; 0 without one.
func (w *world) replicas(name string) int32 {
	if observed := w.observed(name); observed != nil {
		return observed.Replicas
	}
	return 0
}

// refused: the child is not as the plan asks, whether for good or for now.
func (o *outcome) refused() bool { return o.failure != nil || o.stale }

func (r *Reconciler) carrySubset(ctx context.Context, wr *writer.Writer, w *world, s *subsetPlan, capacity *capacity) *outcome {
	var current *unstructured.Unstructured
	if c := w.children[s.Name]; c != nil {
		current = c.object
	}
	if s.step.Action == subset.ActionHalt {
		return r.haltSubset(ctx, wr, w, s, current)
	}
	if s.defers {
		return &outcome{stale: true} // as if it had been refused
	}
	if s.step.Action == subset.ActionRemind {
		return r.remindSubset(ctx, wr, w, s)
	}
	r.failures.Calm(client.ObjectKeyFromObject(w.parent), memoryOf(s.Name), w.now)
	step, waits := s.step, ""
	if observed := w.observed(s.Name); observed != nil && step.Action == subset.ActionApply {
		if keep := capacity.keep(observed.Replicas, step.Child.Replicas); keep > step.Child.Replicas {
			step, waits = keepReplicas(step, keep, subset.RecordedPartition(observed), subset.RevisionOf(observed)), capacity.why(keep)
		}
	}
	o := r.attempt(ctx, w, s.Name, current, func(o *outcome) error {
		o.waits = waits
		after, wrote, err := wr.Carry(ctx, step, current)
		o.wrote = wrote
		if err != nil {
			return err
		}
		o.why = s.does
		if !wrote {
			return r.deleteReplicas(ctx, wr, w, w.observed(s.Name), s.deletes, o)
		}
		w.children[s.Name], err = w.readWritten(s.Name, after, &step.Child)
		return err
	})
	return o.unlessOverridden(w.overridden(wr, s.Name)).noting(w, s.Name)
}

// unlessOverridden is the outcome, and a failure while it is not sure that what was
// written stands: it was undone each time before. So what the status says of it does not
// come and go with each write.
func (o *outcome) unlessOverridden(e *writer.OverriddenError) *outcome {
	if e != nil && o.failure == nil {
		o.failure, o.left = overridden(e), e.Left
	}
	return o
}

// noting makes a note of what admission has changed in the template of a child's pods. A
// policy that has them come from a mirror does so on purpose, and nothing waits for it; but
// where it has kept the template as it was, the child has not got what it should have.
func (o *outcome) noting(w *world, name string) *outcome {
	if o.failure == nil || !o.left || w.unmade(name, w.observed(name)) {
		return o
	}
	o.note, o.failure = o.failure.Message, nil
	return o
}

// overridden is what somebody makes of what is written to the child of a subset; nil when
// it stands.
func (w *world) overridden(wr *writer.Writer, name string) *writer.OverriddenError {
	var current *unstructured.Unstructured
	if c := w.children[name]; c != nil {
		current = c.object
	}
	return wr.Overridden(client.ObjectKeyFromObject(w.parent), adapters.ChildName(w.parent.Name, name), current)
}

func overridden(e *writer.OverriddenError) *subset.Failure {
	return &subset.Failure{Reason: v1alpha1.ReasonOverridden, Message: e.Error(), Stalled: e.Lasting, RetryAt: e.Until}
}

// haltSubset says that nobody knows what the subset's protected replicas run. Where no
// child is seen it is looked up first: one that has lost its labels still knows.
func (r *Reconciler) haltSubset(ctx context.Context, wr *writer.Writer, w *world, s *subsetPlan, current *unstructured.Unstructured) *outcome {
	if current == nil {
		child := w.childOf(s)
		if o := r.attempt(ctx, w, s.Name, nil, func(*outcome) error { return wr.Vacant(ctx, &child) }); o.refused() {
			return o.unlessOverridden(w.overridden(wr, s.Name))
		}
	}
	return &outcome{failure: &subset.Failure{Reason: v1alpha1.ReasonRevisionLost, Message: s.step.Reason, Stalled: true}}
}

// attemptOn is what is tried on a subset's child now.
func (w *world) attemptOn(current *unstructured.Unstructured) writer.Attempt {
	attempt := writer.Attempt{UID: w.parent.UID, Generation: w.parent.Generation}
	if current != nil {
		attempt.ChildUID, attempt.ChildGeneration = current.GetUID(), current.GetGeneration()
	}
	return attempt
}

// attempt tries a write on a subset's child, unless the same write failed and it
// is not yet time to try it again.
func (r *Reconciler) attempt(ctx context.Context, w *world, name string, current *unstructured.Unstructured, try func(*outcome) error) *outcome {
	parent, attempt := client.ObjectKeyFromObject(w.parent), w.attemptOn(current)
	if pending := r.failures.Pending(parent, name, attempt, w.now); pending != nil {
		return &outcome{failure: pending}
	}
	o, putOff := &outcome{}, (*writer.OverriddenError)(nil)
	switch err := try(o); {
	case errors.As(err, &putOff):
		o.failure = overridden(putOff)
	case errors.Is(err, writer.ErrStale):
		o.stale = true
		if e := (*writer.WaitError)(nil); errors.As(err, &e) {
			o.waits = "waits: " + e.For
		}
		if old := subsetStatus(&w.parent.Status, name); o.waits != "" && (old == nil || old.Message != o.waits) { // once
			ctrl.LoggerFrom(ctx).Info("cannot write yet", "subset", name, "error", err.Error())
		}
	case err != nil:
		o.failure = r.failures.Failed(parent, name, attempt, err, w.now)
		ctrl.LoggerFrom(ctx).Info("could not write", "subset", name, "reason", o.failure.Reason, "error", err.Error(), "retryAt", o.failure.RetryAt)
	default:
		r.failures.Succeeded(parent, name)
	}
	return o
}

// deleteReplicas deletes what the plan says. A child that was just written has to be
// observed first.
func (r *Reconciler) deleteReplicas(ctx context.Context, wr *writer.Writer, w *world, observed *adapters.Observed, deletes []adapters.Replica, o *outcome) error {
	unreleased := subset.Unreleased(observed)
	for _, replica := range deletes {
		if err := wr.Free(ctx, w.parent.Namespace, replica); err != nil {
			return fmt.Errorf("delete the replica %s: %w", replica.Name, err)
		}
		if among(unreleased, replica) {
			o.undone = append(o.undone, replica.Name)
		} else {
			o.freed = append(o.freed, replica.Name)
		}
	}
	return nil
}

func among(list []adapters.Replica, replica adapters.Replica) bool {
	return slices.ContainsFunc(list, func(r adapters.Replica) bool { return r.UID == replica.UID })
}
