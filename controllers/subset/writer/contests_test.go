// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// arena is a child whose partition somebody lowers, with a clock.
type arena struct {
	*bench
	now     time.Time
	memory  memory.Memory
	current *unstructured.Unstructured
}

func newArena(t *testing.T) *arena {
	a := &arena{bench: newBench(t), now: time.Unix(1e9, 0)}
	a.Memory, a.Now = a.memory.Of(webParent), func() time.Time { return a.now }
	a.current = a.asStored(childSpec(), nil)
	return a
}

// lowered lowers the partition now; by is the manager, "" if none is known.
func (a *arena) lowered(by string) *arena {
	partition := fieldpath.MakePathOrDie("spec", "updateStrategy", "rollingUpdate", "partition")
	next := a.asStored(childSpec(), func(ours *fieldpath.Set) {
		if by != "" {
			*ours = *ours.Difference(fieldpath.NewSet(partition))
		}
	})
	if err := unstructured.SetNestedField(next.Object, int64(0), "spec", "updateStrategy", "rollingUpdate", "partition"); err != nil {
		a.t.Fatal(err)
	}
	if by != "" {
		raw, err := fieldpath.NewSet(partition).ToJSON()
		if err != nil {
			a.t.Fatal(err)
		}
		next.SetManagedFields(append(next.GetManagedFields(), metav1.ManagedFieldsEntry{
			Manager: by, Operation: metav1.ManagedFieldsOperationUpdate, Time: ptr.To(metav1.NewTime(a.now)), FieldsV1: metav1.NewFieldsV1(string(raw)),
		}))
	}
	return a.is(next)
}

// without sets a strategy that has no partition.
func (a *arena) without(by string) *arena {
	strategy := fieldpath.MakePathOrDie("spec", "updateStrategy", "type")
	next := a.asStored(childSpec(), func(ours *fieldpath.Set) {
		*ours = *ours.Difference(fieldpath.NewSet(strategy, fieldpath.MakePathOrDie("spec", "updateStrategy", "rollingUpdate", "partition")))
	})
	if err := unstructured.SetNestedMap(next.Object, map[string]any{"type": "OnDelete"}, "spec", "updateStrategy"); err != nil {
		a.t.Fatal(err)
	}
	raw, err := fieldpath.NewSet(strategy).ToJSON()
	if err != nil {
		a.t.Fatal(err)
	}
	next.SetManagedFields(append(next.GetManagedFields(), metav1.ManagedFieldsEntry{
		Manager: by, Operation: metav1.ManagedFieldsOperationUpdate, Time: ptr.To(metav1.NewTime(a.now)), FieldsV1: metav1.NewFieldsV1(string(raw)),
	}))
	return a.is(next)
}

// TestContestedStrategy: whoever sets the strategy also removes the partition, and is reported with the strategy.
func TestContestedStrategy(t *testing.T) {
	a := newArena(t)
	for range undone.ContestedAfter {
		a.now = a.now.Add(time.Second)
		a.raised().without("fighter").contestedFor()
	}
	if a.contestedFor() != undone.ContestQuiet {
		t.Error("it is no contest:", a.contestedFor())
	}
	if e := a.contested(a.current.GetName()); e == nil || !strings.Contains(e.Error(), `spec.updateStrategy.type was changed by "fighter"`) {
		t.Error(e)
	}
}

// raised restores the state that was written.
func (a *arena) raised() *arena { return a.is(a.asStored(childSpec(), nil)) }

func (a *arena) is(next *unstructured.Unstructured) *arena {
	next.SetUID(a.current.GetUID())
	next.SetGeneration(a.current.GetGeneration() + 1)
	a.current = next
	return a
}

// contestedFor returns how long it is a contest if nothing happens; 0 if it is none.
func (a *arena) contestedFor() time.Duration {
	a.t.Helper()
	observed, err := a.Adapter.Observe(a.current, adapters.Dependents{})
	if err != nil {
		a.t.Fatal(err)
	}
	until, err := a.Contested(a.current, observed)
	if err != nil {
		a.t.Fatal(err)
	}
	if until.IsZero() {
		return 0
	}
	return until.Sub(a.now)
}

// TestContested: a single time is an edit by hand; twice within a minute is a contest, until the child was left alone
// for half a minute.
func TestContested(t *testing.T) {
	lower := func(by string, after time.Duration) func(*arena) {
		return func(a *arena) {
			a.now = a.now.Add(after)
			a.lowered(by).contestedFor()
		}
	}
	raise := func(a *arena) { a.raised().contestedFor() }
	wait := func(d time.Duration) func(*arena) { return func(a *arena) { a.now = a.now.Add(d) } }
	for _, tc := range []struct {
		name string
		play []func(*arena)
		want time.Duration
	}{
		{"never", nil, 0},
		{"once", []func(*arena){lower("other", 0)}, 0},
		{"once, seen by two passes", []func(*arena){lower("other", 0), func(a *arena) { a.contestedFor() }}, 0},
		{"twice", []func(*arena){lower("other", 0), raise, lower("other", time.Second)}, undone.ContestQuiet},
		{"twice, by two", []func(*arena){lower("other", 0), raise, lower("another", time.Second)}, undone.ContestQuiet},
		{"twice, and closed again", []func(*arena){lower("other", 0), raise, lower("other", time.Second), raise, wait(time.Second)}, undone.ContestQuiet - time.Second},
		{"twice, and left alone", []func(*arena){lower("other", 0), raise, lower("other", time.Second), raise, wait(undone.ContestQuiet)}, 0},
		{"again, soon after that", []func(*arena){lower("other", 0), raise, lower("other", time.Second), raise, wait(undone.ContestQuiet), lower("other", time.Second)}, undone.ContestQuiet},
		{"again, long after that", []func(*arena){lower("other", 0), raise, lower("other", time.Second), raise, wait(undone.ContestMemory), lower("other", 0)}, 0},
		{"each minute", []func(*arena){lower("other", 0), raise, lower("other", time.Minute), raise, lower("other", time.Minute)}, 0},
		{"by admission", []func(*arena){lower("", 0), lower("", 0), lower("", 0)}, 0},
		{"another child of the name", []func(*arena){lower("other", 0), raise, func(a *arena) { a.current.SetUID("s-2") }, lower("other", time.Second)}, 0},
		{"before there was another child of the name", []func(*arena){lower("other", 0), lower("other", 0), raise, func(a *arena) { a.current.SetUID("s-2") }}, 0},
		{"the parent is gone", []func(*arena){lower("other", 0), lower("other", 0), func(a *arena) { a.memory.Forget(webParent) }, raise}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := newArena(t)
			for _, step := range tc.play {
				step(a)
			}
			if got := a.contestedFor(); got != tc.want {
				t.Errorf("want %s, have %s", tc.want, got)
			}
		})
	}
}

// A contest is reported with its author as long as it lasts, and as lasting when it is. Writes that raise the partition
// are never delayed.
func TestContestIsSaid(t *testing.T) {
	a, c := newArena(t), childSpec()
	said := func() string {
		e := a.Overridden("web-zone-a", a.current)
		if e == nil {
			return ""
		}
		if e.Until != a.now.Add(undone.ContestQuiet) {
			t.Error("until", e.Until)
		}
		return strings.TrimPrefix(e.Error(), "StatefulSet web-zone-a: ") + map[bool]string{true: " LASTS"}[e.Lasting]
	}
	const want = `spec.updateStrategy.rollingUpdate.partition was changed by "other" right after it was written, repeatedly; ` +
		"United raises it each time, and changes nothing else until nobody has touched it for 30s"
	for round := range 100 {
		a.lowered("other").contestedFor()
		expected := ""
		if round > 0 {
			expected = want
		}
		if round >= 30 {
			expected += " LASTS"
		}
		if got := said(); got != expected {
			t.Fatalf("round %d: want %q\nhave %q", round, expected, got)
		}
		if _, wrote, err := a.update(t.Context(), &c, a.current); err != nil || !wrote {
			t.Fatalf("round %d: it is not raised: %v", round, err)
		}
		a.raised()
		a.now = a.now.Add(time.Second)
	}
	if a.now = a.now.Add(undone.ContestQuiet); said() != "" {
		t.Error("it is over:", said())
	}
}

// The memory is bounded, and without a memory there are no contests.
func TestContestsAreForgotten(t *testing.T) {
	a := newArena(t)
	for i := range 100 {
		a.current.SetName("web-" + string(rune('a'+i%26)) + string(rune('a'+i/26)))
		undone.ContestsOf(a.Memory).RecordLowered(a.current, "other", "spec.updateStrategy.rollingUpdate.partition", a.now)
		a.now = a.now.Add(time.Second)
	}
	n := 0
	undone.ContestsOf(a.Memory).DeleteFunc(func(string, *undone.Contest) bool { n++; return false })
	if n == 0 || n > int(undone.ContestMemory/time.Second)+1 {
		t.Error(n, "are remembered")
	}
	a.Memory = memory.Entry{}
	if _, err := a.Contested(a.current, &adapters.Observed{}); err != nil || a.contested("web-zone-a") != nil {
		t.Error(err)
	}
}
