// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/runs"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// runKey is the key of a check in the failures by subset. It is not a valid name of a subset.
func runKey(check string) string { return "check/" + check }

// runAttempt identifies the creation of the run of a round.
func runAttempt(parent *v1alpha1.UnitedDeployment, round string) undone.Attempt {
	return undone.Attempt{UID: parent.UID, Generation: parent.Generation, ChildUID: types.UID(round)}
}

// ExplainAbsent adds to the results of checks why their Jobs and AnalysisRuns could not be created.
func ExplainAbsent(failures undone.Failures, parent *v1alpha1.UnitedDeployment, seen map[string]known.CheckResult) {
	for check, result := range seen {
		if !result.Absent {
			continue
		}
		if last := failures.Last(runKey(check), runAttempt(parent, result.Round)); last != nil {
			result.Message, result.Refused = runs.Cut(last.Message), last.Stalled
			seen[check] = result
		}
	}
}

// Start creates the Jobs and AnalysisRuns that a plan starts, and returns after how long to try again what failed; 0 if
// nothing did. Their names follow from what they are for, so none is created twice.
func (e *Executor) Start(in *planner.Input, asks []known.CheckAsk) (again time.Duration) {
	soonest := func(at time.Time) {
		if after := max(at.Sub(in.Now), time.Millisecond); again == 0 || after < again {
			again = after
		}
	}
	for _, ask := range asks {
		key, attempt := runKey(ask.Check.Name), runAttempt(in.Parent, ask.Round)
		if pending := e.failures().Pending(key, attempt, in.Now); pending != nil {
			soonest(pending.RetryAt)
			continue
		}
		switch err := e.startRun(e.Context, in.Parent, &ask); {
		case errors.Is(err, subset.ErrStale):
			soonest(in.Now.Add(planner.RetryStale))
		case err != nil:
			failure := e.failures().Failed(key, attempt, err, in.Now)
			ctrl.LoggerFrom(e.Context).Info("could not create", "check", ask.Check.Name, "run", ask.Run, "error", err.Error(), "retryAt", failure.RetryAt)
			soonest(failure.RetryAt)
		default:
			e.failures().Succeeded(key)
		}
	}
	return again
}

func (e *Executor) startRun(ctx context.Context, parent *v1alpha1.UnitedDeployment, ask *known.CheckAsk) error {
	run, err := e.buildRun(ctx, parent, ask)
	if err != nil {
		return err
	}
	if err := e.confirmSpec(ctx, parent); err != nil {
		return err
	}
	// A field that the API server does not know is refused: it would be dropped.
	err = client.WithFieldValidation(e.Client, client.FieldValidation(metav1.FieldValidationStrict)).Create(ctx, run)
	switch {
	case apierrors.IsAlreadyExists(err):
		return e.ownRun(ctx, parent, run)
	case undone.LacksRight(err):
		return apierrors.NewBadRequest(runs.NotPermitted(run.GroupVersionKind()))
	case err != nil:
		return fmt.Errorf("create %s %s: %w", run.GetKind(), run.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("created", "check", ask.Check.Name, "kind", run.GetKind(), "name", run.GetName())
	return nil
}

// buildRun returns the run of a check.
func (e *Executor) buildRun(ctx context.Context, parent *v1alpha1.UnitedDeployment, ask *known.CheckAsk) (*unstructured.Unstructured, error) {
	_, name := runs.Named(ask.Run)
	id := runs.Identity{Namespace: parent.Namespace, Name: name, Parent: parent.Name, Owner: world.OwnerOf(parent), Check: ask.Check.Name}
	if ask.Check.Analysis == nil {
		return runs.Job(id, ask.Check.Job)
	}
	template := runs.TemplateOf(ask.Check.Analysis, parent.Namespace)
	switch err := e.Live.Get(ctx, client.ObjectKeyFromObject(template), template); {
	case apierrors.IsNotFound(err):
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s %s does not exist", template.GetKind(), template.GetName()))
	case undone.LacksRight(err):
		return nil, apierrors.NewBadRequest(runs.TemplateNotPermitted(template))
	case err != nil:
		return nil, fmt.Errorf("read %s %s: %w", template.GetKind(), template.GetName(), err)
	}
	return runs.Analysis(id, ask.Check.Analysis, template)
}

// ownRun returns nil if the object that has the name of a run is that run: the watch shows it in a moment.
func (e *Executor) ownRun(ctx context.Context, parent *v1alpha1.UnitedDeployment, run *unstructured.Unstructured) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(run.GroupVersionKind())
	switch err := e.Live.Get(ctx, client.ObjectKeyFromObject(run), live); {
	case apierrors.IsNotFound(err):
		return fmt.Errorf("%s %s is gone again: %w", run.GetKind(), run.GetName(), subset.ErrStale)
	case err != nil:
		return fmt.Errorf("read %s %s: %w", run.GetKind(), run.GetName(), err)
	case !metav1.IsControlledBy(live, parent):
		return fmt.Errorf("%s %s %w", run.GetKind(), run.GetName(), subset.ErrNameConflict)
	}
	return nil
}

// tidied says for which runs the others of a parent were last tidied.
type tidied string

// TidyRuns ends the runs of a parent that nobody waits for any more, and deletes those that have ended long ago, when what the
// parent waits for has changed.
func (e *Executor) TidyRuns(in *planner.Input, p *planner.Plan) error {
	if in.Parent.Spec.Paused {
		return nil // everything stays as it is
	}
	wanted, used, last := p.WantedRuns(), in.KindsOfRuns(), memory.Slot[tidied]{Entry: e.Memory}
	key := tidied(strings.Join(wanted, ",") + "/" + fmt.Sprint(len(used)))
	if len(used) == 0 || last.Get() == key {
		return nil
	}
	for _, kind := range used {
		if err := e.tidy(e.Context, in.Parent, kind, wanted); err != nil {
			return err
		}
	}
	last.Set(key)
	return nil
}

// tidy does that for the runs of a kind.
func (e *Executor) tidy(ctx context.Context, parent *v1alpha1.UnitedDeployment, kind schema.GroupVersionKind, wanted []string) error {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	err := e.Live.List(ctx, list, client.InNamespace(parent.Namespace), client.MatchingLabels{v1alpha1.LabelName: parent.Name})
	if apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
		return nil // then there are none of ours
	}
	if err != nil {
		return fmt.Errorf("list %ss: %w", kind.Kind, err)
	}
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { // the latest first
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	kept := map[string]int{} // by check
	for i := range list.Items {
		run := &list.Items[i]
		check := run.GetLabels()[v1alpha1.LabelCheck]
		switch {
		case !metav1.IsControlledBy(run, parent) || run.GetDeletionTimestamp() != nil:
		case slices.ContainsFunc(wanted, func(w string) bool { of, name := runs.Named(w); return of == kind && name == run.GetName() }):
		case !runs.Finished(run):
			err = errors.Join(err, e.endRun(ctx, run))
		case kept[check] < spec.RevisionLimit(parent):
			kept[check]++
		default:
			err = errors.Join(err, e.deleteRun(ctx, run))
		}
	}
	return err
}

// endRun ends a run that has not finished. A Job has no other end than its deletion.
func (e *Executor) endRun(ctx context.Context, run *unstructured.Unstructured) error {
	if run.GetKind() == runs.JobKind.Kind {
		return e.deleteRun(ctx, run)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"terminate":true}}`, run.GetUID())
	err := client.IgnoreNotFound(e.Client.Patch(ctx, run, client.RawPatch(types.MergePatchType, patch)))
	if err != nil {
		return fmt.Errorf("terminate %s %s: %w", run.GetKind(), run.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("terminated", "kind", run.GetKind(), "name", run.GetName())
	return nil
}

// deleteRun deletes a run together with its pods.
func (e *Executor) deleteRun(ctx context.Context, run *unstructured.Unstructured) error {
	uid := run.GetUID()
	err := e.Client.Delete(ctx, run, client.Preconditions{UID: &uid}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s %s: %w", run.GetKind(), run.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("deleted", "kind", run.GetKind(), "name", run.GetName())
	return nil
}
