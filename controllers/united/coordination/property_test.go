// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

var (
	replicas = rapid.OneOf(rapid.Int32Range(0, 30), rapid.Int32Min(0))
	percents = rapid.Map(rapid.IntRange(0, 100), func(p int) intstr.IntOrString {
		return intstr.FromString(fmt.Sprintf("%d%%", p))
	})
	integers   = rapid.Map(rapid.OneOf(rapid.Int32Range(0, 30), rapid.Int32Min(0)), intstr.FromInt32)
	malformeds = rapid.SampledFrom([]intstr.IntOrString{
		intstr.FromInt32(-1), intstr.FromString("5"), intstr.FromString("101%"), intstr.FromString(""),
	})
	values  = rapid.OneOf(percents, integers, malformeds)
	subsets = rapid.SampledFrom([]string{"zone-a", "zone-b", "zone-c", "zone-d"})
	manuals = rapid.Custom(func(t *rapid.T) *v1alpha1.ManualUpdate {
		return &v1alpha1.ManualUpdate{
			Partitions:       rapid.MapOf(subsets, values).Draw(t, "partitions"),
			DefaultPartition: rapid.Ptr(values, true).Draw(t, "default"),
		}
	})
)

func mustResolve(t *rapid.T, value intstr.IntOrString, replicas int32) int32 {
	partition, err := coordination.Resolve(value, replicas)
	if err != nil {
		t.Fatal(err)
	}
	return partition
}

func TestPercentages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r, p := replicas.Draw(t, "replicas"), rapid.IntRange(0, 99).Draw(t, "p")
		lower := mustResolve(t, intstr.FromString(fmt.Sprintf("%d%%", p)), r)
		upper := mustResolve(t, intstr.FromString(fmt.Sprintf("%d%%", p+1)), r)
		if lower < 0 || lower > upper || upper > r {
			t.Fatalf("%d%% of %d is %d, %d%% is %d", p, r, lower, p+1, upper)
		}
		// The lowest partition that protects the share.
		if 100*int64(lower) < int64(p)*int64(r) || lower > 0 && 100*int64(lower-1) >= int64(p)*int64(r) {
			t.Fatalf("%d%% of %d is not %d", p, r, lower)
		}
	})
}

func TestManualLine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, r := manuals.Draw(t, "manual"), replicas.Draw(t, "replicas")
		assertLine(t, m, subsets.Draw(t, "subset"), r)
	})
}

// assertLine checks the properties of every line, including malformed ones.
func assertLine(t interface{ Fatalf(string, ...any) }, m *v1alpha1.ManualUpdate, subset string, r int32) {
	got, err := coordination.Manual(m, subset, r, "")
	if got.Partition < 0 || got.Reason == "" {
		t.Fatalf("%d replicas: %+v", r, got)
	}
	if err != nil && !holds(got) {
		t.Fatalf("%v, but released: %+v", err, got)
	}
	other, otherErr := coordination.Manual(m, subset, math.MaxInt32, "")
	if holds(got) != holds(other) || (err == nil) != (otherErr == nil) {
		t.Fatalf("at %d replicas %+v, at the most %+v", r, got, other)
	}
	if holds(got) && (got.Partition < r || other.Partition < math.MaxInt32) {
		t.Fatalf("a hold that releases: %+v, %+v", got, other)
	}
}

// holds reports whether everything is protected at any scale.
func holds(line coordination.DesiredPartition) bool {
	return strings.HasSuffix(line.Reason, "holds all replicas")
}

func TestNamingOneSubsetChangesNoOther(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m, r := manuals.Draw(t, "manual"), replicas.Draw(t, "replicas")
		changed := subsets.Draw(t, "changed")
		edited := &v1alpha1.ManualUpdate{Partitions: maps.Clone(m.Partitions), DefaultPartition: m.DefaultPartition}
		if rapid.Bool().Draw(t, "name") {
			edited.Partitions[changed] = values.Draw(t, "value")
		} else {
			delete(edited.Partitions, changed)
		}
		for _, subset := range []string{"zone-a", "zone-b", "zone-c", "zone-d"} {
			before, errBefore := coordination.Manual(m, subset, r, "")
			after, errAfter := coordination.Manual(edited, subset, r, "")
			if subset != changed && (before != after || fmt.Sprint(errBefore) != fmt.Sprint(errAfter)) {
				t.Fatalf("editing %s moves %s from %+v to %+v", changed, subset, before, after)
			}
		}
	})
}

// A paused child, scaled and asked again in any way: no ordinal that is protected or has not moved may ever be
// released.
func TestFreezeReleasesNothing(t *testing.T) {
	small := rapid.Int32Range(0, 12)
	rapid.Check(t, func(t *rapid.T) {
		count, live := small.Draw(t, "replicas"), small.Draw(t, "partition")
		updated := make([]bool, count) // by ordinal; the top is updated first
		updatedFrom := rapid.Int32Range(0, count).Draw(t, "updatedFrom")
		for i := updatedFrom; i < count; i++ {
			updated[i] = true
		}
		for range 5 {
			asked := coordination.DesiredPartition{Partition: small.Draw(t, "asked"), Reason: "asked"}
			desired := small.Draw(t, "desired")
			got := coordination.Freeze(asked, live, count, desired, updatedFrom)
			if got.Partition < asked.Partition || got.Partition < live || got.Reason == "" {
				t.Fatalf("asked %+v, live %d: %+v", asked, live, got)
			}
			for i := got.Partition; i < desired; i++ {
				if i >= count || !updated[i] {
					t.Fatalf("ordinal %d of %d to %d is released: %+v", i, count, desired, got)
				}
			}
			updated = append(updated[:min(count, desired)], make([]bool, max(desired-count, 0))...)
			live, count, updatedFrom = got.Partition, desired, topBlock(updated)
		}
	})
}

func topBlock(updated []bool) int32 {
	from := len(updated)
	for from > 0 && updated[from-1] {
		from--
	}
	return int32(from)
}

// admitted is the rule of the CRD.
var admitted = regexp.MustCompile(`^(100|[1-9]?[0-9])%$`)

func FuzzResolve(f *testing.F) {
	for _, s := range []string{"80%", "0%", "100%", "101%", "050%", "-1%", " 5%", "1.5%", "%", "5", "", "1_0%", "٣%"} {
		f.Add(s, int32(10))
	}
	f.Fuzz(func(t *testing.T, s string, replicas int32) {
		partition, err := coordination.Resolve(intstr.FromString(s), replicas)
		if (err == nil) != admitted.MatchString(s) {
			t.Fatalf("Resolve(%q) = %d, %v: admission thinks otherwise", s, partition, err)
		}
		if err == nil && (partition < 0 || partition > max(replicas, 0)) {
			t.Fatalf("Resolve(%q) of %d = %d", s, replicas, partition)
		}
		partition, err = coordination.Resolve(intstr.FromInt32(replicas), 3)
		if (err == nil) != (replicas >= 0) || err == nil && partition != replicas {
			t.Fatalf("Resolve(%d) = %d, %v", replicas, partition, err)
		}
	})
}

func FuzzManual(f *testing.F) {
	f.Add(`{"partitions":{"zone-a":0,"zone-b":"80%"},"defaultPartition":"100%"}`, "zone-a", int32(7))
	f.Add(`{"partitions":{"zone-a":-1}}`, "zone-a", int32(0))
	f.Add(`{"defaultPartition":"101%"}`, "", int32(-3))
	f.Fuzz(func(t *testing.T, input, subset string, replicas int32) {
		var m v1alpha1.ManualUpdate
		if json.Unmarshal([]byte(input), &m) != nil {
			t.Skip()
		}
		assertLine(t, &m, subset, replicas)
		for name := range m.Partitions {
			assertLine(t, &m, name, replicas)
		}
	})
}
