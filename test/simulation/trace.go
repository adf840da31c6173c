// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TraceSet is the name of the StatefulSet of all traces.
const TraceSet = "web"

// Verb is the action of a step.
type Verb string

// The verbs. If the object of a step does not exist, the step does nothing, so every list of steps is a trace.
const (
	// Create creates the set with Image, Replicas and Partition.
	Create Verb = "create"
	// Update changes the set in one write: those of Image, Replicas, Partition, MinReadySeconds and MaxUnavailable that
	// are given.
	Update Verb = "update"
	// Delete deletes the set with its pods, Orphan without them.
	Delete Verb = "delete the set"
	Orphan Verb = "delete the set, orphan its pods"
	// DeletePod deletes the pod of Ordinal.
	DeletePod Verb = "delete pod"
	// Unready and Ready set the condition of the pod of Ordinal, which then stays.
	Unready Verb = "unready pod"
	Ready   Verb = "ready pod"
	// Hold keeps the pod of Ordinal terminating, if it is deleted, until Free.
	Hold Verb = "hold pod"
	Free Verb = "free pod"
	// HoldRevisions keeps the current revisions of the set, if they are deleted, until FreeRevisions.
	HoldRevisions Verb = "hold the revisions"
	FreeRevisions Verb = "free the revisions"
)

// Step is one action of a user, or of United, on a StatefulSet or on a pod.
type Step struct {
	Verb                Verb
	Ordinal             int32
	Image               string // the tag; broken... is never ready
	Replicas, Partition *int32
	MinReadySeconds     *int32 // of an Update
	MaxUnavailable      *int32 // of an Update; a server without it drops it
}

// String describes the step.
func (s Step) String() string {
	text := string(s.Verb)
	if strings.HasSuffix(text, " pod") {
		return fmt.Sprintf("%s %d", text, s.Ordinal)
	}
	if s.Image != "" {
		text += " " + s.Image
	}
	if s.Replicas != nil {
		text += fmt.Sprintf(" replicas %d", *s.Replicas)
	}
	if s.Partition != nil {
		text += fmt.Sprintf(" partition %d", *s.Partition)
	}
	if s.MinReadySeconds != nil {
		text += fmt.Sprintf(" minReadySeconds %d", *s.MinReadySeconds)
	}
	if s.MaxUnavailable != nil {
		text += fmt.Sprintf(" maxUnavailable %d", *s.MaxUnavailable)
	}
	return text
}

// Trace is a named list of steps.
type Trace struct {
	Name  string
	Steps []Step
}

// Player plays steps on a StatefulSet controller, simulated or real.
type Player interface {
	// Do applies a step.
	Do(Step) error
	// Settle waits until nobody has anything left to do.
	Settle() (Snapshot, error)
}

// Snapshot has the objects at one moment.
type Snapshot struct {
	Set  *appsv1.StatefulSet // nil if it does not exist
	Pods []*corev1.Pod       // of TraceSet, in any order
	// Revisions are the tags in the set's own revisions, by their names.
	Revisions map[string]string
}

// Play plays the steps, and returns a line for each: the step, and the objects after everything has settled.
func Play(p Player, steps []Step) ([]string, error) {
	var lines []string
	seen := map[int32]types.UID{}
	for _, step := range steps {
		if err := p.Do(step); err != nil {
			return lines, fmt.Errorf("%s: %w", step, err)
		}
		snapshot, err := p.Settle()
		if err != nil {
			return lines, fmt.Errorf("after %s: %w", step, err)
		}
		lines = append(lines, fmt.Sprintf("%s => %s", step, describe(snapshot, seen)))
	}
	return lines, nil
}

// describe formats a snapshot. "again" marks a pod whose UID differs from the one last seen for its ordinal; describe
// updates seen.
func describe(s Snapshot, seen map[int32]types.UID) string {
	text := "no set"
	uid := types.UID("")
	if s.Set != nil {
		uid = s.Set.UID
		status := s.Set.Status
		text = fmt.Sprintf("%d replicas, %d ready, %d updated, ", status.Replicas, status.ReadyReplicas, status.UpdatedReplicas)
		if status.CurrentRevision == status.UpdateRevision {
			text += "all on " + s.tag(status.UpdateRevision)
		} else {
			text += s.tag(status.CurrentRevision) + " to " + s.tag(status.UpdateRevision)
		}
	}
	slices.SortFunc(s.Pods, func(a, b *corev1.Pod) int { return int(OrdinalOf(TraceSet, a.Name) - OrdinalOf(TraceSet, b.Name)) })
	var pods []string
	for _, p := range s.Pods {
		ordinal := OrdinalOf(TraceSet, p.Name)
		words := []string{fmt.Sprint(ordinal), Tag(PodContent(p))}
		if before, ok := seen[ordinal]; ok && before != p.UID {
			words = append(words, "again")
		}
		seen[ordinal] = p.UID
		if !IsReady(p) {
			words = append(words, "unready")
		}
		if p.DeletionTimestamp != nil {
			words = append(words, "terminating")
		}
		if owner := metav1.GetControllerOf(p); owner == nil || owner.UID != uid {
			words = append(words, "not the set's")
		}
		pods = append(pods, strings.Join(words, " "))
	}
	return fmt.Sprintf("%s [%s]", text, strings.Join(pods, ", "))
}

func (s Snapshot) tag(revision string) string {
	if tag, ok := s.Revisions[revision]; ok {
		return tag
	}
	return "nothing"
}

// Tag returns the tag of an image.
func Tag(image string) string { return image[strings.LastIndex(image, ":")+1:] }

// Difference returns the index of the first line in which the two differ, or -1 if they are equal.
func Difference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

// Shrink removes steps, one by one, as long as the rest still fails.
func Shrink(steps []Step, fails func([]Step) bool) []Step {
	for i := len(steps) - 1; i >= 0; i-- {
		if fewer := slices.Delete(slices.Clone(steps), i, i+1); fails(fewer) {
			steps, i = fewer, len(fewer)
		}
	}
	return steps
}
