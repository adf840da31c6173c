// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"fmt"
	"slices"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/controllers/united/revision"
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
		return nil, fmt.Errorf("%s waits for no approval%s", parent.Name, phaseText(r))
	}
	return &Deed{
		What:       fmt.Sprintf("step %d of %s is approved", r.Step+1, parent.Status.UpdateRevision),
		Operations: []change.Operation{annotate(parent, v1alpha1.AnnotationApproved, r.ApprovalKey)},
	}, nil
}

func phaseText(r *v1alpha1.RolloutStatus) string {
	if r == nil || r.Phase == "" {
		return ": it is of type Manual, so release its subsets"
	}
	return fmt.Sprintf(": its rollout is %s, %s", r.Phase, r.Message)
}

// Pause pauses a rollout, or resumes it.
func Pause(parent *v1alpha1.UnitedDeployment, paused bool) (*Deed, error) {
	state := map[bool]string{true: "paused", false: "not paused"}[paused]
	if parent.Spec.Paused == paused {
		return nil, fmt.Errorf("%s is %s already", parent.Name, state)
	}
	return &Deed{What: state, Operations: []change.Operation{{Op: "add", Path: "/spec/paused", Value: paused}}}, nil
}

// Move is a way to move a rollout of type RollingUpdate.
type Move struct {
	Verb, Annotation string
	// question is asked first, about a revision of a UnitedDeployment.
	question string
}

// Force rolls out the update revision even if replicas are unhealthy, and Promote passes the steps.
var (
	Force = Move{"force", v1alpha1.AnnotationForceUpdate,
		"Force %s of %s? It ignores failed and unavailable replicas and maxSkew; the floor, the steps and their approvals stay."}
	Promote = Move{"promote", v1alpha1.AnnotationPromote,
		"Promote %s of %s? It passes all steps, with their pauses and approvals; the floor, maxUnavailable and failures still count."}
)

// Question is what to ask before it.
func (m Move) Question(parent *v1alpha1.UnitedDeployment) string {
	return fmt.Sprintf(m.question, parent.Status.UpdateRevision, parent.Name)
}

// Of moves the rollout to the update revision.
func (m Move) Of(parent *v1alpha1.UnitedDeployment) (*Deed, error) {
	if parent.Spec.UpdateStrategy.Type != v1alpha1.RollingUpdateStrategy {
		return nil, fmt.Errorf("%s is of type Manual, so there is nothing to %s: release its subsets", parent.Name, m.Verb)
	}
	update := parent.Status.UpdateRevision
	return &Deed{What: m.Verb + " " + update, Operations: []change.Operation{annotate(parent, m.Annotation, update)}}, nil
}

// Partitions sets partitions of subsets, written SUBSET or SUBSET=VALUE, and binds them to the update revision. of reads a value.
func Partitions(parent *v1alpha1.UnitedDeployment, values []string, of func(parent *v1alpha1.UnitedDeployment, subset, value string) (change.Partition, error)) (*Deed, error) {
	if err := isManual(parent); err != nil {
		return nil, err
	}
	var partitions []change.Partition
	var said []string
	for _, text := range values {
		subset, value, _ := strings.Cut(text, "=")
		if err := known(parent, subset); err != nil {
			return nil, err
		}
		p, err := of(parent, subset, value)
		if err != nil {
			return nil, err
		}
		partitions, said = append(partitions, p), append(said, p.Text)
	}
	return &Deed{
		What:       strings.Join(said, "; ") + ", of " + parent.Status.UpdateRevision,
		Operations: []change.Operation{{Op: "add", Path: manualPath, Value: change.Bound(parent, partitions)}},
	}, nil
}

// Hold holds subsets, or all without names.
func Hold(parent *v1alpha1.UnitedDeployment, subsets []string) (*Deed, error) {
	if err := isManual(parent); err != nil {
		return nil, err
	}
	for _, subset := range subsets {
		if err := known(parent, subset); err != nil {
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

// known returns an error if the spec does not have a subset.
func known(parent *v1alpha1.UnitedDeployment, subset string) error {
	if names := SubsetNames(parent); !slices.Contains(names, subset) {
		return fmt.Errorf("%s has no subset %s%s", parent.Name, subset, Suggestion(subset, names))
	}
	return nil
}

// GoBack goes back to the revision with a number or name, or without one to the one before.
func GoBack(parent *v1alpha1.UnitedDeployment, revisions []*revision.Revision, to string) (*Deed, error) {
	var target *revision.Revision
	var err error
	if to == "" {
		target, err = change.Back(parent, revisions)
	} else {
		target, err = Chosen(parent, revisions, to)
	}
	if err != nil {
		return nil, err
	}
	after, notes, err := change.Undo(parent, target)
	if err != nil {
		return nil, err
	}
	return Pods(parent, after, notes, fmt.Sprintf("goes back to %s (revision %d)", target.Name, target.Number))
}

// Pods changes the pods. Without operations, they are like that already.
func Pods(parent, after *v1alpha1.UnitedDeployment, notes []string, what string) (*Deed, error) {
	operations, err := change.Operations(parent, after)
	return &Deed{What: what, Notes: notes, Operations: operations, After: after}, err
}
