// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

var webParent = types.NamespacedName{Namespace: "shop", Name: "web"}

func newEntry() memory.Entry { return new(memory.Memory).Of(webParent) }

// opponent simulates somebody who undoes every write after a while.
type opponent struct {
	undone.Repeats
	now    time.Time
	after  time.Duration
	writes []time.Time
}

func newOpponent(after time.Duration) *opponent {
	return &opponent{Repeats: undone.RepeatsOf(newEntry()), now: time.Unix(1e9, 0), after: after}
}

func (o *opponent) pass(content, standing string) *undone.OverriddenError {
	e := o.Delay("child", content, standing, func(string) undone.Override { return undone.Override{Field: "spec.replicas", By: "other"} }, o.now)
	if e == nil {
		o.writes = append(o.writes, o.now)
		o.RecordWrite("child", content, content, undone.Override{}, o.now)
	}
	return e
}

// fight writes, and is undone, for the given time, and returns the longest time between two writes.
func (o *opponent) fight(content string, d time.Duration) (longest time.Duration) {
	for end := o.now.Add(d); o.now.Before(end); {
		before := o.now
		if e := o.pass(content, "theirs"); e != nil {
			o.now = e.Until
			continue
		}
		longest = max(longest, o.now.Sub(before))
		o.now = o.now.Add(o.after)
	}
	for i := 1; i < len(o.writes); i++ {
		longest = max(longest, o.writes[i].Sub(o.writes[i-1]))
	}
	return longest
}

func TestRepeatsAreSpaced(t *testing.T) {
	for _, tc := range []struct {
		name          string
		after         time.Duration
		during        time.Duration
		writes        int // at most
		longest       time.Duration
		overridden    bool
		lasting, each bool
	}{
		{name: "undone at once, for a second", after: time.Millisecond, during: time.Second, writes: undone.RepeatsAtOnce + 1, longest: time.Second, overridden: true},
		{name: "undone at once, for a minute", after: time.Millisecond, during: time.Minute, writes: 36, longest: 32 * time.Second, overridden: true, lasting: true},
		{name: "undone at once, for a day", after: time.Millisecond, during: 24 * time.Hour, writes: 330, longest: undone.MaxRepeat, overridden: true, lasting: true},
		{name: "undone after seconds, for a day", after: 9 * time.Second, during: 24 * time.Hour, writes: 330, longest: undone.MaxRepeat, overridden: true, lasting: true},
		{name: "undone each minute is put right each time", after: time.Minute, during: time.Hour, writes: 60, longest: time.Minute, each: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOpponent(tc.after)
			longest := o.fight("A", tc.during)
			if len(o.writes) > tc.writes || longest > tc.longest {
				t.Error(len(o.writes), "writes, up to", longest, "apart")
			}
			if tc.each && len(o.writes) < tc.writes {
				t.Error(len(o.writes), "writes only")
			}
			e := o.Overridden("child", o.now)
			if (e != nil) != tc.overridden || e != nil && e.Lasting != tc.lasting {
				t.Errorf("%+v", e)
			}
			if e != nil && !strings.Contains(e.Error(), `child: spec.replicas was changed by "other" right after it was written`) {
				t.Error(e)
			}
		})
	}
}

// A different write is never delayed: it may be the one that raises protection.
func TestAnotherWriteIsNotPutOff(t *testing.T) {
	o := newOpponent(time.Millisecond)
	o.fight("A", time.Hour)
	_ = o.pass("A", "theirs")
	if e := o.pass("A", "theirs"); e == nil {
		t.Fatal("the positive control: the same is")
	}
	if e := o.pass("B", "theirs"); e != nil {
		t.Error(e)
	}
}

// Two alternating writes, each undone, are delayed too.
func TestWritesByTurns(t *testing.T) {
	o := newOpponent(time.Millisecond)
	for end := o.now.Add(time.Hour); o.now.Before(end); o.now = o.now.Add(time.Second) {
		_ = o.pass("A", "")
		_ = o.pass("B", "")
	}
	if len(o.writes) > 2*50 {
		t.Error(len(o.writes), "writes")
	}
}

// If a write stood until the desired state changed, it was not undone.
func TestAChangeOfMindIsNotPutOff(t *testing.T) {
	o := newOpponent(0)
	standing := ""
	for i := range 1000 {
		content := []string{"A", "B"}[i%2]
		if e := o.pass(content, standing); e != nil {
			t.Fatal(i, e)
		}
		standing = content
		o.now = o.now.Add(time.Millisecond)
	}
}

func TestAWriteThatStandsAgain(t *testing.T) {
	o := newOpponent(time.Millisecond)
	o.fight("A", time.Hour)
	_ = o.pass("A", "theirs")
	e := o.pass("A", "theirs")
	if e == nil {
		t.Fatal("the positive control: it is put off")
	}
	o.RecordStanding("child", o.now)
	if e := o.Overridden("child", o.now); e == nil || e.Until != o.now.Add(undone.Stands) {
		t.Error("not sure yet:", e)
	}
	o.now = o.now.Add(undone.Stands)
	if e := o.Overridden("child", o.now); e != nil {
		t.Error(e)
	}
	o.now = o.now.Add(time.Hour)
	for range undone.RepeatsAtOnce + 1 {
		if e := o.pass("A", "theirs"); e != nil {
			t.Error("it stood for an hour:", e)
		}
	}
}

// If a write reverts the message about one that stood, it does not count as doubtful.
func TestWhatIsTakenBackIsNotDoubted(t *testing.T) {
	o := newOpponent(time.Millisecond)
	o.fight("A", time.Hour)
	o.RecordWrite("child", "A", "A", undone.Override{}, o.now)
	if o.Overridden("child", o.now) == nil {
		t.Fatal("the positive control: it is doubted")
	}
	o.now = o.now.Add(undone.Stands)
	o.RecordWrite("child", "A", "A", undone.Override{}, o.now)
	if e := o.Overridden("child", o.now); e != nil {
		t.Error(e)
	}
}

func TestForgetRepeats(t *testing.T) {
	m := &memory.Memory{}
	for name, forget := range map[string]func(r undone.Repeats){
		"parent": func(undone.Repeats) { m.Forget(webParent) },
		"object": func(r undone.Repeats) { r.Delete("child") },
	} {
		o := newOpponent(time.Millisecond)
		o.Repeats = undone.RepeatsOf(m.Of(webParent))
		o.fight("A", time.Hour)
		forget(o.Repeats)
		if e := o.pass("A", "theirs"); e != nil {
			t.Error(name, e)
		}
	}
	var none undone.Repeats
	none.RecordWrite("child", "A", "A", undone.Override{}, time.Now())
	none.RecordStanding("child", time.Now())
	none.Delete("child")
	if none.Delay("child", "A", "", nil, time.Now()) != nil || none.Overridden("child", time.Now()) != nil || none.BarredByAdmission("child", "A") {
		t.Error("nothing is spaced without it")
	}
}

// Whatever undoes the writes: beyond the burst, no write is made more often than once in ten seconds on average over
// ten minutes, and none is delayed for longer than MaxRepeat.
func TestRepeatsProperties(t *testing.T) {
	const window = 10 * time.Minute
	rapid.Check(t, func(t *rapid.T) {
		o := newOpponent(0)
		made := map[string][]time.Time{}
		contents := rapid.SampledFrom([]string{"A", "B", "C"})
		for range rapid.IntRange(1, 400).Draw(t, "passes") {
			content := contents.Draw(t, "content")
			if e := o.pass(content, "theirs"); e != nil {
				if wait := e.Until.Sub(o.now); wait <= 0 || wait > undone.MaxRepeat {
					t.Fatal("put off for", wait)
				}
				if rapid.Bool().Draw(t, "wait") {
					o.now = e.Until
				}
			} else {
				made[content] = append(made[content], o.now)
			}
			o.now = o.now.Add(time.Duration(rapid.IntRange(0, 12_000).Draw(t, "ms")) * time.Millisecond)
		}
		for content, times := range made {
			most := 2*undone.RepeatsEachSecond + int(window/undone.Stands)
			for i := range times {
				n := slices.IndexFunc(times[i:], func(at time.Time) bool { return at.Sub(times[i]) > window })
				if n > most {
					t.Fatal(content, "was written", n, "times in ten minutes")
				}
			}
		}
	})
}

// overriding returns a bench whose server changes what is applied.
func overriding(t *testing.T, change func(*unstructured.Unstructured)) (*bench, *time.Time) {
	b, now := newBench(t), time.Unix(1e9, 0)
	b.Memory, b.Now = newEntry(), func() time.Time { return now }
	b.change = change
	return b, &now
}

// fight executes the step again and again on the server's result.
func (b *bench) fight(c adapters.Child, current *unstructured.Unstructured, times int) (after *unstructured.Unstructured, last error) {
	b.t.Helper()
	for range times {
		var wrote bool
		if current, wrote, last = b.carry(subset.Step{Action: subset.ActionApply, Child: c}, current); last == nil && !wrote {
			b.t.Fatal("nothing was written, so nothing is undone")
		}
		if b.undo != nil {
			b.undo(current)
		}
	}
	return current, last
}

func TestOverriddenByAdmission(t *testing.T) {
	b, now := overriding(t, func(u *unstructured.Unstructured) { setNumber(u, 9, "spec", "replicas") })
	current := b.asStored(childSpec(), nil)
	setNumber(current, 9, "spec", "replicas")
	current, err := b.fight(childSpec(), current, 50)
	e := (*undone.OverriddenError)(nil)
	if !errors.As(err, &e) || e.Lasting || len(b.applied) != undone.RepeatsAtOnce+1 {
		t.Fatal(err, len(b.applied))
	}
	if want := "StatefulSet web-zone-a: spec.replicas was changed by admission"; !strings.HasPrefix(e.Error(), want) {
		t.Error(e)
	}
	*now = e.Until
	if _, wrote, err := b.carry(subset.Step{Action: subset.ActionApply, Child: childSpec()}, current); err != nil || !wrote {
		t.Error("it is time again:", wrote, err)
	}
	if e := b.Overridden("web-zone-a", nil); e == nil {
		t.Error("it is not sure that this one stands")
	}
}

func TestOverriddenByAManager(t *testing.T) {
	b, _ := overriding(t, func(*unstructured.Unstructured) {})
	b.undo = func(u *unstructured.Unstructured) {
		setNumber(u, 9, "spec", "replicas")
		u.SetManagedFields([]metav1.ManagedFieldsEntry{entry(t, "keda", metav1.ManagedFieldsOperationUpdate, "{f:spec: {f:replicas: {}}}")})
	}
	current := b.asStored(childSpec(), nil)
	b.undo(current)
	_, err := b.fight(childSpec(), current, 50)
	if err == nil || !strings.Contains(err.Error(), `spec.replicas was changed by "keda" right after it was written`) || len(b.applied) != undone.RepeatsAtOnce+1 {
		t.Error(err, len(b.applied))
	}
}

// If somebody scales a child to 0 through the subresource scale, the manager is unknown, because a Scale omits a 0. The
// first difference from the next desired state is in another field.
func TestOverriddenByAScaleToZero(t *testing.T) {
	seed := childSpec()
	seed.Replicas, seed.Seeding = 0, true
	for name, tc := range map[string]struct{ managers, want string }{
		"to 0":      {"", "spec.replicas was changed by somebody (managedFields do not say who) right after"},
		"to 1":      {"{f:spec: {f:replicas: {}}}", `spec.replicas was changed by "kubectl" right after`},
		"a control": {"ours", `metadata.annotations["united.dev/seeding"] was removed right after`},
	} {
		t.Run(name, func(t *testing.T) {
			b, _ := overriding(t, func(*unstructured.Unstructured) {})
			b.undo = func(u *unstructured.Unstructured) {
				setNumber(u, 0, "spec", "replicas")
				annotate(u, v1alpha1.AnnotationSeeding, "false")
				ours := "{f:spec: {f:template: {}}}"
				if tc.managers == "ours" {
					ours = "{f:spec: {f:template: {}, f:replicas: {}}}"
				}
				managed := []metav1.ManagedFieldsEntry{entry(t, "united", metav1.ManagedFieldsOperationApply, ours)}
				if tc.managers != "" && tc.managers != "ours" {
					theirs := entry(t, "kubectl", metav1.ManagedFieldsOperationUpdate, tc.managers)
					theirs.Subresource = "scale"
					managed = append(managed, theirs)
				}
				u.SetManagedFields(managed)
			}
			current := b.asStored(seed, nil)
			b.undo(current)
			if _, err := b.fight(seed, current, 50); err == nil || !strings.Contains(err.Error(), tc.want) || len(b.applied) != undone.RepeatsAtOnce+1 {
				t.Error(err, len(b.applied))
			}
		})
	}
}

// A write that raises the partition is made each time, unless the response showed that it does not.
func TestProtectionIsNotPutOff(t *testing.T) {
	lower := func(u *unstructured.Unstructured) {
		setNumber(u, 0, "spec", "updateStrategy", "rollingUpdate", "partition")
	}
	b, _ := overriding(t, func(*unstructured.Unstructured) {})
	b.undo = lower
	current := b.asStored(childSpec(), nil)
	lower(current)
	if _, err := b.fight(childSpec(), current, 50); err != nil || len(b.applied) != 50 {
		t.Error(err, len(b.applied))
	}
	b, _ = overriding(t, func(u *unstructured.Unstructured) { annotate(u, v1alpha1.AnnotationProtectedRevision, "web-2") })
	b.undo = lower
	current = b.asStored(childSpec(), nil)
	lower(current)
	if _, err := b.fight(childSpec(), current, 50); err != nil || len(b.applied) != 50 {
		t.Error("admission changes something else, and lets the partition be raised:", err, len(b.applied))
	}
	b, _ = overriding(t, lower)
	current = b.asStored(childSpec(), nil)
	lower(current)
	if _, err := b.fight(childSpec(), current, 50); err == nil || len(b.applied) != undone.RepeatsAtOnce+1 {
		t.Error(err, len(b.applied))
	}
}

// A child that is deleted as soon as it is created is created less and less often.
func TestCreatedAgainAndAgain(t *testing.T) {
	b, _ := overriding(t, func(*unstructured.Unstructured) {})
	var err error
	for range 50 {
		_, _, err = b.carry(subset.Step{Action: subset.ActionCreate, Child: childSpec()}, nil)
	}
	if err == nil || !strings.Contains(err.Error(), "the whole object was removed") || len(b.applied) != undone.RepeatsAtOnce+1 {
		t.Error(err, len(b.applied))
	}
}

func annotate(u *unstructured.Unstructured, key, value string) {
	annotations := u.GetAnnotations()
	if annotations[key] = value; value == "" {
		delete(annotations, key)
	}
	u.SetAnnotations(annotations)
}

// The values of a child's record are not compared, because they are only written along with other changes. Their
// checksum shows that admission has changed them.
func TestForgedRecordIsWrittenAgain(t *testing.T) {
	for key, value := range map[string]string{
		v1alpha1.AnnotationProtectedRevision: "web-2", v1alpha1.AnnotationParentGeneration: "99999", v1alpha1.AnnotationReleasedFrom: "7",
		v1alpha1.AnnotationProtectedHash: "", v1alpha1.AnnotationRecordChecksum: "2-0",
	} {
		b, _ := overriding(t, func(u *unstructured.Unstructured) { annotate(u, key, value) })
		current := b.asStored(childSpec(), nil)
		if _, wrote, err := b.carry(subset.Step{Action: subset.ActionApply, Child: childSpec()}, current); wrote || err != nil {
			t.Fatal("the control: it is as it was written", wrote, err)
		}
		annotate(current, key, value)
		_, err := b.fight(childSpec(), current, 50)
		want := fmt.Sprintf("metadata.annotations[%q] was changed by admission", key)
		if err == nil || !strings.Contains(err.Error(), want) || len(b.applied) != undone.RepeatsAtOnce+1 {
			t.Error(key, err, len(b.applied))
		}
	}
}

// TestLabelsAgainAndAgain: labels that are removed each time are restored less and less often. That is still reported
// after the next write.
func TestLabelsAgainAndAgain(t *testing.T) {
	for _, key := range []string{v1alpha1.LabelName, v1alpha1.LabelSubset} {
		lost := set(func(s *appsv1.StatefulSet) { s.Labels[key] = "x" })
		b := newBench(t, lost)
		now := time.Unix(1e9, 0)
		b.Memory, b.Now, b.labels = newEntry(), func() time.Time { return now }, lost.Labels
		c := childSpec()
		var err error
		for range 50 {
			err = b.Relabel(t.Context(), &c)
		}
		e := (*undone.OverriddenError)(nil)
		if !errors.As(err, &e) || b.patches != undone.RepeatsAtOnce+1 || e.Until != now.Add(time.Second) {
			t.Fatal(key, err, b.patches)
		}
		if want := fmt.Sprintf("StatefulSet web-zone-a: metadata.labels[%q] was changed by admission", key); !strings.HasPrefix(e.Error(), want) {
			t.Error(e)
		}
		now = e.Until
		if err := b.Relabel(t.Context(), &c); !errors.Is(err, subset.ErrStale) || b.Overridden("web-zone-a", nil) == nil {
			t.Error("it is time again:", err)
		}
	}
}

// The child of a removed subset that keeps its replicas is scaled again, although no watch reports it.
func TestShrinkToNoAvail(t *testing.T) {
	b := newBench(t, set(func(s *appsv1.StatefulSet) { s.Spec.Replicas = ptr.To[int32](3) }))
	b.Memory, b.Now, b.labels = newEntry(), func() time.Time { return time.Unix(1e9, 0) }, set().Labels
	current := b.asStored(childSpec(), nil)
	if after, err := b.Shrink(t.Context(), current, 2, false); !errors.Is(err, subset.ErrStale) || after != nil {
		t.Error(after, err)
	}
}
