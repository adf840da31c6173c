// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/test/simulation"
)

// simulate plays steps on the simulated controllers of the version under test.
func simulate(t *testing.T, policy appsv1.PodManagementPolicyType, steps []simulation.Step) []string {
	t.Helper()
	lines, err := simulation.Play(simulation.NewSimulated(version, policy, 0), steps)
	if err != nil {
		t.Fatalf("the simulation: %v", err)
	}
	return lines
}

// differ describes the difference between the two; "" if they are the same.
func differ(simulated, real []string) string {
	i := simulation.Difference(simulated, real)
	if i < 0 {
		return ""
	}
	line := func(of []string) string {
		if i < len(of) {
			return of[i]
		}
		return "the end"
	}
	return fmt.Sprintf("%s\nsimulated: %s\nreal:      %s", strings.Join(real[:min(i, len(real))], "\n"), line(simulated), line(real))
}

// recorded are the results of the traces on the real controllers, by name and policy.
var recorded sync.Map

// record plays a trace of simulation.Traces on the real controllers, once.
func record(t *testing.T, trace simulation.Trace, policy appsv1.PodManagementPolicyType) []string {
	t.Helper()
	key := trace.Name + "/" + string(policy)
	if lines, ok := recorded.Load(key); ok {
		return lines.([]string)
	}
	lines := play(t, policy, trace.Steps)
	recorded.Store(key, lines)
	return lines
}

func TestTraces(t *testing.T) {
	for _, trace := range simulation.Traces() {
		for _, policy := range policies {
			t.Run(trace.Name+"/"+string(policy), func(t *testing.T) {
				t.Parallel()
				simulated, real := simulate(t, policy, trace.Steps), record(t, trace, policy)
				if text := differ(simulated, real); text != "" {
					t.Errorf("they differ:\n%s", text)
				}
			})
		}
	}
}

// The steps of a user while the set exists, and while it does not. Steps that should be more frequent are listed more
// often.
var (
	verbs = []simulation.Verb{
		simulation.Update, simulation.Update, simulation.Update, simulation.Update, simulation.Update, simulation.Update,
		simulation.DeletePod, simulation.DeletePod, simulation.Unready, simulation.Unready, simulation.Ready,
		simulation.Hold, simulation.Free, simulation.Delete, simulation.Orphan,
	}
	verbsWithout = []simulation.Verb{simulation.Create, simulation.Create, simulation.DeletePod, simulation.Free}
)

// anySteps generates a dozen steps, each of which is possible.
var anySteps = rapid.Custom(func(t *rapid.T) []simulation.Step {
	replicas := rapid.Int32Range(2, 5).Draw(t, "replicas at first")
	steps := []simulation.Step{{Verb: simulation.Create, Image: "v1", Replicas: ptr.To(replicas), Partition: ptr.To(int32(0))}}
	there := true
	for len(steps) < 12 {
		step := simulation.Step{Verb: rapid.SampledFrom(verbs).Draw(t, "verb")}
		if !there {
			step.Verb = rapid.SampledFrom(verbsWithout).Draw(t, "verb without a set")
		}
		switch step.Verb {
		case simulation.Create, simulation.Update:
			there = true
			// A set that is created needs the first three of the four fields.
			which := rapid.IntRange(1, 15).Draw(t, "which")
			if step.Verb == simulation.Create {
				which = 7
			}
			if which&1 != 0 {
				step.Image = rapid.SampledFrom([]string{"v1", "v2", "v3", "broken-v4"}).Draw(t, "image")
			}
			if which&2 != 0 {
				replicas = rapid.Int32Range(0, 5).Draw(t, "replicas")
				step.Replicas = ptr.To(replicas)
			}
			if which&4 != 0 {
				step.Partition = ptr.To(rapid.Int32Range(0, 6).Draw(t, "partition"))
			}
			if which&8 != 0 {
				step.MaxUnavailable = ptr.To(rapid.Int32Range(1, 3).Draw(t, "maxUnavailable"))
			}
		case simulation.Delete, simulation.Orphan:
			there = false
		default:
			step.Ordinal = rapid.Int32Range(0, max(0, replicas-1)).Draw(t, "ordinal")
		}
		steps = append(steps, step)
	}
	return steps
})

// certain returns the first steps whose outcome does not depend on the order in which the controllers act. What comes
// after them cannot be compared.
func certain(t *testing.T, policy appsv1.PodManagementPolicyType, steps []simulation.Step) []simulation.Step {
	t.Helper()
	want := simulate(t, policy, steps)
	for schedule := range uint64(30) {
		got, err := simulation.Play(simulation.NewSimulated(version, policy, schedule+1), steps)
		if err != nil {
			t.Fatalf("the simulation: %v", err)
		}
		if i := simulation.Difference(want, got); i >= 0 {
			want, steps = want[:i], steps[:i]
		}
	}
	return steps
}

// TestRandomTraces compares random traces; the seed is in the name of the test.
func TestRandomTraces(t *testing.T) {
	from := *seed
	if from == 0 {
		from = int(time.Now().UnixNano() % 1e9)
	}
	t.Logf("random traces from -seed %d", from)
	for i := range *traces {
		policy, drawn := policies[i%len(policies)], anySteps.Example(from+i)
		t.Run(fmt.Sprintf("seed %d/%s", from+i, policy), func(t *testing.T) {
			t.Parallel()
			steps := certain(t, policy, drawn)
			t.Logf("%d of %d steps", len(steps), len(drawn))
			simulated, real := simulate(t, policy, steps), play(t, policy, steps)
			text := differ(simulated, real)
			if text == "" {
				return
			}
			t.Errorf("they differ:\n%s", text)
			steps = simulation.Shrink(steps[:simulation.Difference(simulated, real)+1], func(fewer []simulation.Step) bool {
				if len(certain(t, policy, fewer)) < len(fewer) {
					return false
				}
				other := differ(simulate(t, policy, fewer), play(t, policy, fewer))
				if other != "" {
					text = other
				}
				return other != ""
			})
			t.Errorf("they differ already after %v:\n%s", steps, text)
		})
	}
}

// traceOf returns a trace by its name.
func traceOf(t *testing.T, name string) simulation.Trace {
	t.Helper()
	all := simulation.Traces()
	i := slices.IndexFunc(all, func(trace simulation.Trace) bool { return trace.Name == name })
	if i < 0 {
		t.Fatalf("there is no trace %q", name)
	}
	return all[i]
}
