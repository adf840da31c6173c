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

// TraceSet is the name of the StatefulSet that a trace is about.
const TraceSet = "web"

// Verb is what a step does.
type Verb string

// The verbs. What a step is about may not be there: then it does nothing, so
// every list of steps is a trace.
const (
	// Create creates the set, of Image, Replicas and Partition.
	Create Verb = "create"
	// Update changes the set in one write: those of Image, Replicas and Partition
	// that are given, MinReadySeconds and MaxUnavailable.
	Update Verb = "update"
	// Delete deletes the set with its pods, Orphan without them.
	Delete Verb = "delete the set"
	Orphan Verb = "delete the set, orphan its pods"
	// DeletePod deletes the pod of Ordinal.
	DeletePod Verb = "delete pod"
	// Unready and Ready set the condition of the pod of Ordinal, which stays so.
	Unready Verb = "unready pod"
	Ready   Verb = "ready pod"
	// Hold keeps the pod of Ordinal from going when it is deleted: it is
	// terminating until Free.
	Hold Verb = "hold pod"
	Free Verb = "free pod"
	// HoldRevisions keeps the revisions that the set has now from going when
	// they are deleted, until FreeRevisions.
	HoldRevisions Verb = "hold the revisions"
	FreeRevisions Verb = "free the revisions"
)

// Step is one thing that a user, or United, does to a StatefulSet or to a pod.
type Step struct {
	Verb                Verb
	Ordinal             int32
	Image               string // the tag; broken... is never ready
	Replicas, Partition *int32
	MinReadySeconds     *int32 // of an Update
	MaxUnavailable      *int32 // of an Update; a server without it drops it
}

// String is the step in words.
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

// Player plays steps on a StatefulSet controller, a simulated one or the real one.
type Player interface {
	// Do does what the step says.
	Do(Step) error
	// Settle waits until nobody has anything more to do.
	Settle() (Snapshot, error)
}

// Snapshot is what there is at a moment.
type Snapshot struct {
	Set  *appsv1.StatefulSet // nil when there is none
	Pods []*corev1.Pod       // of TraceSet, in any order
	// Revisions are the tags in the set's own revisions, by the name of these.
	Revisions map[string]string
}

// Play plays the steps, and gives a line for each: the step, and what there is
// after all has settled.
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

// describe is a snapshot in words. "again" is a pod whose UID is not the one that
// was seen last for the ordinal; seen is brought up to date.
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

// Tag is the tag of an image.
func Tag(image string) string { return image[strings.LastIndex(image, ":")+1:] }

// Difference is the number of the first line in which the two differ, -1 when they
// are the same.
func Difference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}

// Shrink leaves out steps, one by one, until none can be left out of what still
// fails.
func Shrink(steps []Step, fails func([]Step) bool) []Step {
	for i := len(steps) - 1; i >= 0; i-- {
		if fewer := slices.Delete(slices.Clone(steps), i, i+1); fails(fewer) {
			steps, i = fewer, len(fewer)
		}
	}
	return steps
}
