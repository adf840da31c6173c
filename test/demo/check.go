// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// check compares the result of a step with the expected one. findings describe for the reader what is
// correct; wrong has the errors.
func check(s *step, before, after *picture) (findings []string, wrong []error) {
	for _, part := range []func(*step, *picture, *picture) (string, []error){
		checkStatus, checkTemplates, checkPods, checkMoves,
	} {
		finding, errs := part(s, before, after)
		if len(errs) == 0 {
			findings = append(findings, finding)
		}
		wrong = append(wrong, errs...)
	}
	return findings, wrong
}

// checkStatus compares the table.
func checkStatus(s *step, _, after *picture) (string, []error) {
	var wrong []error
	rows := make([]row, 0, len(s.subsets))
	for _, got := range after.parent.Status.Subsets {
		rows = append(rows, row{got.Name, got.Replicas, got.UpdatedReplicas, got.ReadyReplicas, got.Partition, got.Phase})
	}
	if len(rows) != len(s.subsets) {
		return "", []error{fmt.Errorf("status: %d subsets, not %d", len(rows), len(s.subsets))}
	}
	for i, want := range s.subsets {
		if got := rows[i]; got != want {
			wrong = append(wrong, fmt.Errorf("status of %s: %+v, not %+v", want.name, got, want))
		}
	}
	return "the status says so for every zone", wrong
}

// checkTemplates checks that the image has reached the templates: otherwise it would prove nothing that
// no pod moves.
func checkTemplates(s *step, _, after *picture) (string, []error) {
	var wrong []error
	for _, subset := range s.subsets {
		child := name + "-" + subset.name
		if got := after.templates[child]; got != s.template {
			wrong = append(wrong, fmt.Errorf("StatefulSet %s: its template has image %q, not %s", child, got, s.template))
		}
	}
	return "the template of each of the " + fmt.Sprint(len(s.subsets)) + " StatefulSets has " + s.template, wrong
}

// checkPods compares the pods themselves: which pods exist, where, and what they run.
func checkPods(s *step, _, after *picture) (string, []error) {
	var wrong []error
	for _, pod := range allPods() {
		if _, ok := after.pods[pod]; !ok {
			wrong = append(wrong, fmt.Errorf("pod %s is missing", pod))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after.pods)) {
		pod, want := after.pods[name], oldImage
		if slices.Contains(s.updated, name) {
			want = newImage
		}
		if !slices.Contains(allPods(), name) {
			wrong = append(wrong, fmt.Errorf("pod %s should not be there", name))
		}
		if pod.image != want {
			wrong = append(wrong, fmt.Errorf("pod %s has image %s, not %s", name, pod.image, want))
		}
		if pod.zone != pod.subset {
			wrong = append(wrong, fmt.Errorf("pod %s of %s is on node %q of zone %q", name, pod.subset, pod.node, pod.zone))
		}
		if !pod.ready {
			wrong = append(wrong, fmt.Errorf("pod %s is not ready", name))
		}
	}
	return fmt.Sprintf("%d of %d pods run the new image, each pod is ready and on a node of its zone", len(s.updated), len(after.pods)), wrong
}

// checkMoves checks that exactly the pods that the step released were replaced. The other steps are the
// positive control of a step that replaces no pod.
func checkMoves(s *step, before, after *picture) (string, []error) {
	if before == nil {
		return fmt.Sprintf("%d pods were created", len(after.pods)), nil
	}
	var moved, stayed []string
	var wrong []error
	for _, name := range allPods() {
		was, is := before.pods[name], after.pods[name]
		switch released := slices.Contains(s.updated, name) && was.image != newImage; {
		case released && was.uid == is.uid:
			wrong = append(wrong, fmt.Errorf("pod %s was released and is not updated", name))
		case !released && was.uid != is.uid:
			wrong = append(wrong, fmt.Errorf("pod %s was replaced, and should not have been", name))
		case released:
			moved = append(moved, name)
		default:
			stayed = append(stayed, name)
		}
	}
	if len(moved) == 0 {
		return "no pod was updated: all are the same pods as before (same UIDs)", wrong
	}
	return fmt.Sprintf("updated: %s; the other %d are the same pods as before (same UIDs)", strings.Join(moved, ", "), len(stayed)), wrong
}
