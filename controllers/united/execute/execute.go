// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package execute has the hands of the manager that write beside the status (pass.Hands): they store revisions, write children, and
// start runs.
package execute

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/writer"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Executor has the hands for one pass over a parent.
type Executor struct {
	// Context is that of the pass.
	Context context.Context
	Client  client.Client
	// Live reads past the cache.
	Live   client.Reader
	Clock  clock.PassiveClock
	Writer *writer.Writer
	// Memory is what is remembered of the parent.
	Memory memory.Entry
	// ReadChild reads a child that was written.
	ReadChild func(w *world.World, subset string, object *unstructured.Unstructured) (*world.Child, error)
}

func (e *Executor) repeats() undone.Repeats { return undone.RepeatsOf(e.Memory) }

func (e *Executor) failures() undone.Failures { return undone.FailuresOf(e.Memory) }

// executor executes a write of a pass. It changes neither the plan nor the input.
type executor struct {
	*Executor
	in *planner.Input
}

// Write writes a child, as the plan says.
func (e *Executor) Write(in *planner.Input, w *planner.Write) *planner.Result {
	return (&executor{Executor: e, in: in}).write(e.Context, w.SubsetPlan, w.Step, w.Why)
}

// write executes the step of a subset. why explains what the subset is waiting for, if anything.
func (e *executor) write(ctx context.Context, s *planner.SubsetPlan, step subset.Step, why string) *planner.Result {
	switch {
	case step.Action == subset.ActionHalt:
		return e.halt(ctx, s)
	case s.Removed && step.Action == subset.ActionWait:
		return &planner.Result{WaitReason: why}
	case e.stripped(s) && (step.Action == subset.ActionWait || step.Action == subset.ActionRemind):
		return e.relabel(ctx, s) // it does not get a write that would restore them
	}
	switch step.Action {
	case subset.ActionRemind:
		return e.remind(ctx, s)
	case subset.ActionSeek:
		return e.confirmGone(ctx, s)
	case subset.ActionShrink:
		return e.shrink(ctx, s, &step.Child, why)
	case subset.ActionRemove:
		return e.remove(ctx, s)
	default:
		return e.apply(ctx, s, step, why)
	}
}

// apply updates a child to its desired state. If the child is already in that state, it deletes the replicas of the
// plan.
func (e *executor) apply(ctx context.Context, s *planner.SubsetPlan, step subset.Step, why string) *planner.Result {
	current := e.currentChild(s)
	e.failures().Expire(reminderKey(s.Name), e.in.Now)
	o := e.attempt(ctx, e.in, s.Name, current, func(o *planner.Result) error {
		o.WaitReason = why
		after, wrote, err := e.Writer.Execute(ctx, step, current)
		if err != nil {
			return err
		}
		o.Corrected = e.Writer.Corrected
		if !wrote {
			return e.deleteReplicas(ctx, s, o)
		}
		if err := e.setWrittenChild(o, s.Name, after, &step.Child); err != nil {
			return err
		}
		return errIfUnlabelled(&step.Child, after)
	})
	if o.Child != nil {
		current = o.Child.Object
	}
	return e.withNote(orOverridden(o, e.Writer.Overridden(s.Workload, current)), s)
}

// withNote converts a failure into a note if admission has changed the pod template of a child. A policy that redirects
// image registries does so on purpose, and nothing waits for it. But if admission reverted the template, the child does
// not have its desired state, and the failure remains.
func (e *executor) withNote(o *planner.Result, s *planner.SubsetPlan) *planner.Result {
	if o.Failure == nil || !o.NotRetried || e.in.TemplateReverted(s.Name, o) {
		return o
	}
	o.Note, o.Failure = o.Failure.Message, nil
	return o
}

// halt reports why nothing can be done for a subset. If the reason is that no child was found, it checks for the child
// first: one that has lost its labels still knows what it protects.
func (e *executor) halt(ctx context.Context, s *planner.SubsetPlan) *planner.Result {
	if e.stripped(s) || e.in.Children[s.Name] == nil && e.in.Unreadable[s.Name] == nil {
		o := e.attempt(ctx, e.in, s.Name, e.currentChild(s), func(*planner.Result) error { return e.Writer.Relabel(ctx, &s.Step.Child) })
		if o.Refused() {
			return orOverridden(o, e.Writer.Overridden(s.Workload, nil))
		}
	}
	if was := world.SubsetStatus(&e.in.Parent.Status, s.Name); was == nil || was.Message != s.Failure.Message { // only once
		ctrl.LoggerFrom(ctx).Info("cannot continue with subset", "subset", s.Name, "reason", s.Failure.Reason, "message", s.Failure.Message)
	}
	return &planner.Result{Failure: s.Failure}
}

// confirmGone checks whether the child of a removed subset is gone too.
func (e *executor) confirmGone(ctx context.Context, s *planner.SubsetPlan) *planner.Result {
	o := e.attempt(ctx, e.in, s.Name, nil, func(*planner.Result) error {
		err := e.Writer.Relabel(ctx, &s.Step.Child)
		if errors.Is(err, subset.ErrNameConflict) || errors.Is(err, subset.ErrPredecessor) {
			return nil // the name belongs to another object, or is about to be free
		}
		return err
	})
	if !o.Refused() {
		return o // it is gone
	}
	return orOverridden(o, e.Writer.Overridden(s.Workload, nil))
}

// remove deletes the child of a removed subset.
func (e *executor) remove(ctx context.Context, s *planner.SubsetPlan) *planner.Result {
	return e.attemptGone(ctx, s, func(o *planner.Result) error {
		err := e.Writer.Remove(ctx, e.currentChild(s))
		o.Deleted = err == nil
		return err
	})
}

// shrink removes replicas from the child of a subset that is being removed.
func (e *executor) shrink(ctx context.Context, s *planner.SubsetPlan, to *adapters.Child, why string) *planner.Result {
	fight := func() *undone.OverriddenError { // its template no longer matters
		return e.Writer.Overridden(s.Workload, nil)
	}
	if e.in.Children[s.Name].Observed.Replicas == to.Replicas {
		return orOverridden(&planner.Result{WaitReason: why}, fight())
	}
	o := e.attemptGone(ctx, s, func(o *planner.Result) error {
		o.WaitReason = why
		after, err := e.Writer.Shrink(ctx, e.currentChild(s), to.Replicas, to.Paused)
		if err != nil {
			return err
		}
		return e.setChild(o, s.Name, after)
	})
	return orOverridden(o, fight())
}

// attemptGone is attempt for the child of a removed subset, if the subset is still removed.
func (e *executor) attemptGone(ctx context.Context, s *planner.SubsetPlan, try func(*planner.Result) error) *planner.Result {
	return e.attempt(ctx, e.in, s.Name, e.currentChild(s), func(o *planner.Result) error {
		if err := e.confirmSpec(ctx, e.in.Parent); err != nil {
			return err
		}
		return try(o)
	})
}

// currentChild returns the child of a subset as it was read; nil if there is none.
func (e *executor) currentChild(s *planner.SubsetPlan) *unstructured.Unstructured {
	if c := e.in.Children[s.Name]; c != nil {
		return c.Object
	}
	return nil
}

// setChild sets the child in the result after a write.
func (e *executor) setChild(o *planner.Result, name string, after *unstructured.Unstructured) (err error) {
	o.Child, err = e.ReadChild(&e.in.World, name, after)
	return err
}

// setWrittenChild reads a child that was just written as c. Its record is set to what was written, whatever admission
// has changed: so the copy in the status is correct, and the next pass can detect the change.
func (e *executor) setWrittenChild(o *planner.Result, name string, after *unstructured.Unstructured, c *adapters.Child) error {
	if err := e.setChild(o, name, after); err != nil {
		return err
	}
	annotations := maps.Clone(o.Child.Observed.Meta.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	maps.Copy(annotations, adapters.Record(c))
	o.Child.Observed.Meta.Annotations = annotations
	return nil
}

// deleteReplicas deletes the replicas of the plan. Trap: in the cache a pod can be ahead of its child, for seconds
// after a restart of the API server. Then a replica that was just released looks as if it had come up unreleased.
func (e *executor) deleteReplicas(ctx context.Context, s *planner.SubsetPlan, o *planner.Result) error {
	if slices.ContainsFunc(s.Deletes, func(d planner.Deletion) bool { return d.Unreleased }) {
		if err := e.Writer.CheckUnchanged(ctx, e.currentChild(s)); err != nil {
			return err
		}
	}
	for _, d := range s.Deletes {
		if err := e.Writer.DeleteReplica(ctx, e.in.Parent.Namespace, d.Replica); err != nil {
			return fmt.Errorf("delete the replica %s: %w", d.Name, err)
		}
		switch {
		case d.Unreleased:
			o.DeletedUnreleased = append(o.DeletedUnreleased, d.Name)
		case !d.Ready:
			o.DeletedStuck = append(o.DeletedStuck, d.Name)
		default: // no event: the replica was released, and the release has an event
			ctrl.LoggerFrom(ctx).Info("deleted a released replica that its controller does not replace yet", "pod", d.Name)
		}
	}
	return nil
}

// orOverridden adds a failure to the result while it is uncertain whether a write stands that was undone each time
// before. So the status does not change back and forth with each write.
func orOverridden(o *planner.Result, e *undone.OverriddenError) *planner.Result {
	if e != nil && o.Failure == nil {
		o.Failure, o.NotRetried = overridden(e), e.NotRetried
	}
	return o
}

func overridden(e *undone.OverriddenError) *subset.Failure {
	return &subset.Failure{Reason: v1alpha1.ReasonOverridden, Message: e.Error(), Stalled: e.Lasting, RetryAt: e.Until}
}

// attempt tries a write on a subset's child, unless the same write failed and it is too early to try again.
func (e *Executor) attempt(ctx context.Context, in *planner.Input, name string, current *unstructured.Unstructured, try func(*planner.Result) error) *planner.Result {
	attempt := undone.AttemptOn(in.Parent, current)
	if pending := e.failures().Pending(name, attempt, in.Now); pending != nil {
		return &planner.Result{Failure: pending}
	}
	o, putOff := &planner.Result{}, (*undone.OverriddenError)(nil)
	switch err := try(o); {
	case errors.As(err, &putOff):
		o.Failure = overridden(putOff)
	case errors.Is(err, subset.ErrStale):
		markStale(o, err)
		if old := world.SubsetStatus(&in.Parent.Status, name); o.WaitReason != "" && (old == nil || old.Message != o.WaitReason) { // only once
			ctrl.LoggerFrom(ctx).Info("cannot write yet", "subset", name, "error", err.Error())
		}
	case err != nil:
		o.Failure = e.failures().Failed(name, attempt, err, in.Now)
		ctrl.LoggerFrom(ctx).Info("could not write", "subset", name, "reason", o.Failure.Reason, "error", err.Error(), "retryAt", o.Failure.RetryAt)
	default:
		e.failures().Succeeded(name)
	}
	return o
}

// markStale sets in a result that the cluster has changed, and what the retry is waiting for if the error has that.
func markStale(o *planner.Result, err error) {
	o.Stale = true
	if e := (*subset.WaitError)(nil); errors.As(err, &e) {
		o.WaitReason = "waiting: " + e.Reason
	}
}
