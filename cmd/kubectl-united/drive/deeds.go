// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/world"
)

const (
	annotationsPath = "/metadata/annotations"
	manualPath      = "/spec/updateStrategy/manualUpdate"
)

// annotate is the operation that sets an annotation.
func annotate(parent *v1alpha1.UnitedDeployment, key, value string) change.Operation {
	if parent.Annotations == nil {
		return change.Operation{Op: "add", Path: annotationsPath, Value: map[string]string{key: value}}
	}
	return change.Operation{Op: "add", Path: annotationsPath + "/" + change.Escaped(key), Value: value}
}

// Approve approves the step that waits for it.
func Approve(parent *v1alpha1.UnitedDeployment) (*Deed, error) {
	r := parent.Status.Rollout
	if r == nil || r.Phase != v1alpha1.RolloutAwaitingApproval || r.ApprovalKey == "" {
		return nil, fmt.Errorf("%s waits for no approval%s", parent.Name, phaseText(parent))
	}
	return &Deed{
		What:       fmt.Sprintf("step %d of %s is approved; %s", r.Step+1, known.Short(parent.Status.UpdateRevision), view.Releases(parent)),
		Operations: []change.Operation{annotate(parent, v1alpha1.AnnotationApproved, r.ApprovalKey)},
	}, nil
}

func phaseText(parent *v1alpha1.UnitedDeployment) string {
	r := parent.Status.Rollout
	switch {
	case r == nil || r.Phase == "":
		return ": it is of type Manual, so release its subsets"
	case parent.Spec.Paused:
		return ": it is paused; to go on: kubectl united resume " + parent.Name
	}
	return strings.TrimSuffix(fmt.Sprintf(": its rollout is %s, %s", r.Phase, r.Message), ", ")
}

// Pause pauses a rollout, or resumes it.
func Pause(parent *v1alpha1.UnitedDeployment, paused bool) (*Deed, error) {
	state := map[bool]string{true: "paused", false: "not paused"}[paused]
	if parent.Spec.Paused == paused {
		return nil, fmt.Errorf("%s is already %s: nothing was changed", parent.Name, state)
	}
	return &Deed{What: state, Operations: []change.Operation{{Op: "add", Path: "/spec/paused", Value: paused}}}, nil
}

// Move is a way to move a rollout of type RollingUpdate.
type Move struct{ Verb, Annotation string }

// Force rolls out the update revision even if replicas are unhealthy, and Promote passes the steps.
var (
	Force   = Move{"force", v1alpha1.AnnotationForceUpdate}
	Promote = Move{"promote", v1alpha1.AnnotationPromote}
)

// Question is what to ask before it.
func (m Move) Question(parent *v1alpha1.UnitedDeployment) string {
	update := known.Short(parent.Status.UpdateRevision)
	switch {
	case m == Force:
		return fmt.Sprintf("Force %s of %s? It replaces the other replicas too, even if the new ones fail: failed and unavailable replicas and maxSkew hold nothing back. "+
			"The floor, the steps and their approvals stay. To go back instead: kubectl united undo %s.", update, parent.Name, parent.Name)
	case parent.Status.Rollout != nil && parent.Status.Rollout.Forced:
		return fmt.Sprintf("Promote %s of %s? It passes all steps, with their pauses and approvals, and failures hold nothing back, because it is forced; only the floor counts.", update, parent.Name)
	}
	question := fmt.Sprintf("Promote %s of %s? It passes all steps, with their pauses and approvals; the floor, maxUnavailable and failures still count.", update, parent.Name)
	if _, err := Approve(parent); err == nil {
		question += fmt.Sprintf(" To pass only one step: kubectl united approve %s.", parent.Name)
	}
	return question
}

// Of moves the rollout to the update revision.
func (m Move) Of(parent *v1alpha1.UnitedDeployment, now time.Time) (*Deed, error) {
	if parent.Spec.UpdateStrategy.Type != v1alpha1.RollingUpdateStrategy {
		return nil, fmt.Errorf("%s is of type Manual, so there is nothing to %s: release its subsets", parent.Name, m.Verb)
	}
	update := parent.Status.UpdateRevision
	if r := parent.Status.Rollout; update == parent.Status.CurrentRevision && (r == nil || r.Phase == v1alpha1.RolloutDone) {
		return nil, fmt.Errorf("%s is rolled out, so there is nothing to %s", parent.Name, m.Verb)
	}
	return &Deed{What: m.Verb + " " + known.Short(update), Operations: []change.Operation{annotate(parent, m.Annotation, anew(update, now))}}, nil
}

// anew names a revision in a value that an annotation never had before. What was there before a rollout does not count in it, and
// a value of retry has an effect once.
func anew(revision string, now time.Time) string {
	return revision + "/" + now.UTC().Format("20060102T150405.000Z")
}

// Retry measures the checks of the rollout anew, or rolls out a rejected revision once more.
func Retry(parent *v1alpha1.UnitedDeployment, now time.Time) (*Deed, error) {
	r, update := parent.Status.Rollout, parent.Status.UpdateRevision
	rejected := r != nil && r.RejectedRevision != "" && r.RejectedRevision == update
	if r == nil || !rejected && (r.Phase == v1alpha1.RolloutDone || len(r.Checks) == 0) {
		return nil, fmt.Errorf("no check of %s is measured now, and its update revision is not rejected%s", parent.Name, phaseText(parent))
	}
	what := "the checks of " + known.Short(update) + " are measured anew"
	if rejected {
		what = known.Short(update) + " is rolled out once more"
	}
	return &Deed{What: what, Operations: []change.Operation{annotate(parent, v1alpha1.AnnotationRetry, anew(update, now))}}, nil
}

// Partitions sets partitions of subsets and binds them to the update revision; see ReadPartitions.
func Partitions(parent *v1alpha1.UnitedDeployment, values []string, of func(parent *v1alpha1.UnitedDeployment, subset, value string) (change.Partition, error)) (*Deed, error) {
	partitions, err := ReadPartitions(parent, values, of)
	if err != nil {
		return nil, err
	}
	var said []string
	for _, p := range partitions {
		said = append(said, p.Text)
	}
	return &Deed{
		What: strings.Join(said, "; ") + ", of " + known.Short(parent.Status.UpdateRevision), Notes: idle(parent, partitions),
		Operations: []change.Operation{{Op: "add", Path: manualPath, Value: change.Bound(parent, partitions)}},
	}, nil
}

// ReadPartitions reads partitions of subsets, written SUBSET or SUBSET=VALUE. of reads a value.
func ReadPartitions(parent *v1alpha1.UnitedDeployment, values []string, of func(parent *v1alpha1.UnitedDeployment, subset, value string) (change.Partition, error)) (partitions []change.Partition, err error) {
	if err := isManual(parent); err != nil {
		return nil, err
	}
	if names := SubsetNames(parent); len(values) == 0 && len(names) == 0 {
		return nil, fmt.Errorf("%s has no subsets, so there is nothing to release", parent.Name)
	}
	if len(values) == 0 {
		return nil, fmt.Errorf("which subsets? %s has %s", parent.Name, strings.Join(SubsetNames(parent), ", "))
	}
	for _, text := range values {
		subset, value, valued := strings.Cut(text, "=")
		if err := hasSubset(parent, subset); err != nil {
			return nil, err
		}
		if valued && value == "" {
			return nil, fmt.Errorf("%s: write a value, such as %s50%%", text, text)
		}
		if slices.ContainsFunc(partitions, func(p change.Partition) bool { return p.Subset == subset }) {
			return nil, fmt.Errorf("%s is there twice", subset)
		}
		p, err := of(parent, subset, value)
		if err != nil {
			return nil, err
		}
		partitions = append(partitions, p)
	}
	return partitions, nil
}

// idle says why partitions release nothing, though they could, and what would release something.
func idle(parent *v1alpha1.UnitedDeployment, partitions []change.Partition) (notes []string) {
	var done, named []string
	for _, p := range partitions {
		named = append(named, p.Subset)
		if p.Hint != "" {
			notes = append(notes, p.Hint)
		}
		if s := world.SubsetStatus(&parent.Status, p.Subset); s != nil && s.DesiredReplicas > 0 && s.UpdatedReplicas >= s.DesiredReplicas {
			done = append(done, p.Subset)
		}
	}
	if len(done) > 0 {
		notes = append(notes, fmt.Sprintf("all replicas of %s run %s already", strings.Join(done, ", "), known.Short(parent.Status.UpdateRevision)))
	}
	if refused := view.RefusedIn(parent, named...); len(refused) > 0 {
		notes = append(notes, view.RefusalText(refused, "kubectl united why "+parent.Name))
	}
	if parent.Spec.Paused {
		notes = append(notes, "it is paused, so nothing is released until you run: kubectl united resume "+parent.Name)
	}
	return notes
}

// Hold holds subsets, or all without names.
func Hold(parent *v1alpha1.UnitedDeployment, subsets []string) (*Deed, error) {
	if err := isManual(parent); err != nil {
		return nil, err
	}
	for _, subset := range subsets {
		if err := hasSubset(parent, subset); err != nil {
			return nil, err
		}
	}
	what := "all subsets are held"
	if len(subsets) > 0 {
		what = strings.Join(subsets, ", ") + " held"
	}
	return &Deed{What: what, Operations: []change.Operation{{Op: "add", Path: manualPath, Value: change.Hold(parent, subsets)}}}, nil
}

func isManual(parent *v1alpha1.UnitedDeployment) error {
	if parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		return fmt.Errorf("%s is of type RollingUpdate, so the controller releases: use approve, promote or pause", parent.Name)
	}
	return nil
}

// hasSubset returns an error if the spec does not have a subset.
func hasSubset(parent *v1alpha1.UnitedDeployment, subset string) error {
	if names := SubsetNames(parent); !slices.Contains(names, subset) {
		said := Suggestion(subset, names)
		if strings.HasSuffix(said, "?") && len(names) <= 8 { // otherwise, it has the names
			said += " There is " + strings.Join(names, ", ")
		}
		return fmt.Errorf("%s has no subset %s%s", parent.Name, subset, said)
	}
	return nil
}

// GoBack goes back to the revision with a number or name, or without one to the one before. in is the world of the parent; nil if it
// could not be read.
func GoBack(parent *v1alpha1.UnitedDeployment, in *planner.Input, revisions []*revision.Revision, to string) (*Deed, error) {
	var target *revision.Revision
	var err error
	if to == "" {
		target, err = change.Back(parent, revisions)
	} else {
		target, err = Chosen(parent, revisions, to)
	}
	stall := view.StallOf(parent, in)
	if to == "" && stall.KeepsFrom(parent) {
		anyway := ""
		if target != nil {
			anyway = fmt.Sprintf("; to go back to %s all the same, give --to-revision %d", known.Short(target.Name), target.Number)
		}
		return nil, fmt.Errorf("what stalls %s is not in its pods, which are what undo sets back: %s%s", parent.Name, stall, anyway)
	}
	if err != nil {
		return nil, err
	}
	after, notes, err := change.Undo(parent, target)
	if err != nil {
		return nil, err
	}
	if stall.Lasts() {
		notes = append(notes, "only the pods go back; to end the stall, also "+stall.String())
	}
	return Pods(parent, after, notes, fmt.Sprintf("goes back to %s (revision %d)", known.Short(target.Name), target.Number))
}

// Pods changes the pods. Without operations, they are like that already.
func Pods(parent, after *v1alpha1.UnitedDeployment, notes []string, what string) (*Deed, error) {
	operations, err := change.Operations(parent, after)
	if len(operations) > 0 {
		operations = append(operations, spent(parent)...)
	}
	return &Deed{What: what, Notes: notes, Operations: operations, After: after}, err
}

// spent takes away the annotations that moved the rollout to the revision that is left: for another one they mean nothing.
func spent(parent *v1alpha1.UnitedDeployment) (operations []change.Operation) {
	for _, key := range []string{v1alpha1.AnnotationApproved, v1alpha1.AnnotationForceUpdate, v1alpha1.AnnotationPromote, v1alpha1.AnnotationRetry} {
		if _, found := parent.Annotations[key]; found {
			operations = append(operations, change.Operation{Op: "remove", Path: annotationsPath + "/" + change.Escaped(key)})
		}
	}
	return operations
}
