// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

var writeTraces = flag.Bool("write-traces", false, "write testdata/traces.txt; test/conformance tells whether it is true")

var policies = []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement}

func played(t *testing.T, version Version, policy appsv1.PodManagementPolicyType, schedule uint64, steps []Step) []string {
	t.Helper()
	lines, err := Play(NewSimulated(version, policy, schedule), steps)
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

// The result of a trace does not depend on the order in which everybody acts: otherwise it could not be compared with
// that of the real controllers, which have their own order.
func TestTracesHaveOneEnd(t *testing.T) {
	for _, trace := range Traces() {
		for _, policy := range policies {
			for _, version := range Versions() {
				t.Run(fmt.Sprintf("%s/%s/%s", trace.Name, policy, version), func(t *testing.T) {
					t.Parallel()
					want := played(t, version, policy, 0, trace.Steps)
					for schedule := range uint64(20) {
						got := played(t, version, policy, schedule+1, trace.Steps)
						if i := Difference(want, got); i >= 0 {
							t.Fatalf("schedule %d: %s\nschedule 0: %s", schedule+1, got[i], want[i])
						}
					}
				})
			}
		}
	}
}

// The positive control: with a controller that fails if pod 1 starts before pod 0, the result depends on the order, and
// the schedules show that.
func TestSchedulesDiffer(t *testing.T) {
	play := func(schedule uint64) []string {
		world := NewSimulated(Newest, appsv1.ParallelPodManagement, schedule)
		world.Spoil = func(api *API, pass func()) {
			low, high := api.Live.Pods["web-0"], api.Live.Pods["web-1"]
			if low != nil && high != nil && !IsReady(low) && IsReady(high) {
				world.update(api.Live.Sets[TraceSet].DeepCopy(), scale(1))
			}
			pass()
		}
		lines, err := Play(world, []Step{create("v1", 2, 0)})
		if err != nil {
			t.Fatal(err)
		}
		return lines
	}
	for schedule := range uint64(20) {
		if Difference(play(0), play(schedule+1)) >= 0 {
			return
		}
	}
	t.Error("all schedules come to the same")
}

// The traces give the recorded results. test/conformance compares the simulation with the real controllers, so these are
// their results, without running any of them.
func TestTracesAreAsWritten(t *testing.T) {
	var text strings.Builder
	for _, trace := range Traces() {
		for _, policy := range policies {
			fmt.Fprint(&text, written(t, trace, policy))
		}
	}
	file := filepath.Join("testdata", "traces.txt")
	if *writeTraces {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	want, got := strings.Split(string(raw), "\n"), strings.Split(text.String(), "\n")
	if i := Difference(want, got); i >= 0 {
		t.Fatalf("%s:%d differs (-write-traces writes it anew)\nwritten: %q\nplayed:  %q", file, i+1,
			strings.Join(want[i:min(i+1, len(want))], ""), strings.Join(got[i:min(i+1, len(got))], ""))
	}
}

// written formats a trace for every version, or only once if all versions agree.
func written(t *testing.T, trace Trace, policy appsv1.PodManagementPolicyType) string {
	t.Helper()
	text, newest := "", played(t, Newest, policy, 0, trace.Steps)
	for _, version := range Versions() {
		lines := played(t, version, policy, 0, trace.Steps)
		if version != Newest && Difference(lines, newest) >= 0 {
			text += fmt.Sprintf("# %s (%s, Kubernetes %s)\n%s\n\n", trace.Name, policy, version, strings.Join(lines, "\n"))
		}
	}
	head := ""
	if text != "" {
		head = fmt.Sprintf(", Kubernetes %s", Newest)
	}
	return text + fmt.Sprintf("# %s (%s%s)\n%s\n\n", trace.Name, policy, head, strings.Join(newest, "\n"))
}

func TestShrink(t *testing.T) {
	steps := slices.Concat(
		[]Step{create("v1", 3, 0), on(Hold, 1), stage("v2", 3), on(DeletePod, 9)},
		[]Step{scale(0), on(Free, 1), scale(4), on(DeletePod, 0)},
	)
	// It fails if pods were protected, and no longer are.
	fails := func(steps []Step) bool {
		lines := played(t, Newest, appsv1.ParallelPodManagement, 0, steps)
		return strings.Contains(strings.Join(lines, " "), "v1 to v2") && len(lines) > 0 && strings.Contains(lines[len(lines)-1], "0 v2")
	}
	if !fails(steps) {
		t.Fatal("the steps do not fail before they are shrunk")
	}
	got := fmt.Sprint(Shrink(steps, fails))
	want := fmt.Sprint([]Step{create("v1", 3, 0), stage("v2", 3), scale(0), scale(4)})
	if got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
