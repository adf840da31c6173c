// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package undone

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/memory"
)

func TestClassify(t *testing.T) {
	sets := schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	kind := schema.GroupKind{Group: "apps", Kind: "StatefulSet"}
	invalid := field.Invalid(field.NewPath("spec"), "x", "is not right")
	for _, tc := range []struct {
		name   string
		err    error
		reason string
		final  bool
	}{
		{"foreign object", fmt.Errorf("StatefulSet web-zone-a exists and is %w", subset.ErrNameConflict), v1alpha1.ReasonNameConflict, true},
		{"built wrong", invalid, v1alpha1.ReasonApplyRefused, true},
		{"built wrong, wrapped", fmt.Errorf("build: %w", invalid), v1alpha1.ReasonApplyRefused, true},
		{"built wrong, among others", errors.Join(errors.New("x"), invalid), v1alpha1.ReasonApplyRefused, true},
		{"invalid", apierrors.NewInvalid(kind, "web", field.ErrorList{invalid}), v1alpha1.ReasonApplyRefused, true},
		{"bad request", apierrors.NewBadRequest("no"), v1alpha1.ReasonApplyRefused, true},
		{"too large", apierrors.NewRequestEntityTooLargeError("no"), v1alpha1.ReasonApplyRefused, true},
		{"misspelt", apierrors.NewInternalError(errors.New("failed to create typed patch object: .spec.replcas: field not declared in schema")), v1alpha1.ReasonApplyRefused, true},
		{"forbidden", apierrors.NewForbidden(sets, "web", errors.New("cannot patch")), v1alpha1.ReasonApplyRefused, false},
		{"quota", apierrors.NewForbidden(sets, "web", errors.New("exceeded quota: q, requested: count/statefulsets.apps=1")), v1alpha1.ReasonApplyFailed, false},
		{"server error", apierrors.NewInternalError(errors.New("etcd is away")), v1alpha1.ReasonApplyFailed, false},
		{"overload", apierrors.NewTooManyRequests("later", 1), v1alpha1.ReasonApplyFailed, false},
		{"unavailable", apierrors.NewServiceUnavailable("later"), v1alpha1.ReasonApplyFailed, false},
		{"timeout", apierrors.NewTimeoutError("later", 1), v1alpha1.ReasonApplyFailed, false},
		{"no namespace", apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, "shop"), v1alpha1.ReasonApplyFailed, false},
		{"network", errors.New("connection refused"), v1alpha1.ReasonApplyFailed, false},
		{"its own revision is gone", fmt.Errorf("revision x %w", subset.ErrRevisionGone), v1alpha1.ReasonRevisionLost, true},
		{"forgets again", fmt.Errorf("web-zone-a %w", subset.ErrForgets), v1alpha1.ReasonProtectionLost, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			reason, final := Classify(tc.err)
			if reason != tc.reason || final != tc.final {
				t.Errorf("%s, final %v", reason, final)
			}
		})
	}
}

// A rejection by an admission plugin or policy is the user's error, like one by validation, and its status
// distinguishes it from a lack of permissions.
func TestClassifyDenied(t *testing.T) {
	denied := &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: 422, Reason: metav1.StatusReasonInvalid,
		Message: "statefulsets.apps \"web-zone-a\" is forbidden: ValidatingAdmissionPolicy 'p' denied request: no",
	}}
	if reason, final := Classify(denied); reason != v1alpha1.ReasonApplyRefused || !final {
		t.Error(reason, final)
	}
}

func newEntry() memory.Entry {
	return new(memory.Memory).Of(types.NamespacedName{Namespace: "ns", Name: "web"})
}

func TestFailuresBackOff(t *testing.T) {
	f := FailuresOf(newEntry())
	now, attempt := epoch(), Attempt{Generation: 1}
	var waits []string
	var stalled []bool
	for range 9 {
		if p := f.Pending("a", attempt, now); p != nil {
			t.Fatalf("pending when it is time: %+v", p)
		}
		failure := f.Failed("a", attempt, errors.New("etcd is away"), now)
		if failure.Reason != v1alpha1.ReasonApplyFailed || failure.Message != "etcd is away" {
			t.Errorf("%+v", failure)
		}
		waits = append(waits, failure.RetryAt.Sub(now).String())
		stalled = append(stalled, failure.Stalled)
		if p := f.Pending("a", attempt, failure.RetryAt.Add(-1)); p == nil || *p != *failure {
			t.Errorf("not pending just before it is time: %+v", p)
		}
		now = failure.RetryAt
	}
	if diff := cmp.Diff("1s 2s 4s 8s 16s 30s 30s 30s 30s", strings.Join(waits, " ")); diff != "" {
		t.Error("want -, have +\n", diff)
	}
	// The sixth failure in a row comes after 31 seconds.
	if diff := cmp.Diff([]bool{false, false, false, false, false, true, true, true, true}, stalled); diff != "" {
		t.Error("want -, have +\n", diff)
	}
}

func TestFailuresStallAtOnceOnWhatIsFinal(t *testing.T) {
	f := FailuresOf(newEntry())
	failure := f.Failed("a", Attempt{}, apierrors.NewBadRequest("no"), epoch())
	if !failure.Stalled || failure.RetryAt.Sub(epoch()) != time.Second {
		t.Errorf("%+v", failure)
	}
}

func TestAnotherAttemptIsMadeAtOnce(t *testing.T) {
	broken := errors.New("broken")
	base := Attempt{Generation: 1, ChildUID: "s-1", ChildGeneration: 1}
	for name, next := range map[string]Attempt{
		"another generation of the parent": {Generation: 2, ChildUID: "s-1", ChildGeneration: 1},
		"another parent of the name":       {UID: "u-2", Generation: 1, ChildUID: "s-1", ChildGeneration: 1},
		"another child":                    {Generation: 1, ChildUID: "s-2", ChildGeneration: 1},
		"another generation of the child":  {Generation: 1, ChildUID: "s-1", ChildGeneration: 2},
		"the child is gone":                {Generation: 1},
	} {
		t.Run(name, func(t *testing.T) {
			f := FailuresOf(newEntry())
			for range StalledAfterFailures {
				f.Failed("a", base, broken, epoch())
			}
			if p := f.Pending("a", next, epoch()); p != nil {
				t.Errorf("it waits: %+v", p)
			}
			failure := f.Failed("a", next, broken, epoch())
			if failure.Stalled || failure.RetryAt.Sub(epoch()) != time.Second {
				t.Errorf("it counts on: %+v", failure)
			}
		})
	}
}

func TestFailuresAreForgotten(t *testing.T) {
	broken := errors.New("broken")
	fail := func() *memory.Memory {
		m := &memory.Memory{}
		for _, parent := range []types.NamespacedName{{Name: "u-1"}, {Name: "u-2"}} {
			for _, subset := range []string{"", "a", "b"} {
				FailuresOf(m.Of(parent)).Failed(subset, Attempt{}, broken, epoch())
			}
		}
		return m
	}
	pending := func(m *memory.Memory) string {
		var list []string
		for _, parent := range []types.NamespacedName{{Name: "u-1"}, {Name: "u-2"}} {
			for _, subset := range []string{"", "a", "b"} {
				if FailuresOf(m.Of(parent)).Pending(subset, Attempt{}, epoch()) != nil {
					list = append(list, parent.Name+"/"+subset)
				}
			}
		}
		return strings.Join(list, " ")
	}
	for _, tc := range []struct {
		name   string
		forget func(*memory.Memory)
		want   string
	}{
		{"nothing", func(*memory.Memory) {}, "u-1/ u-1/a u-1/b u-2/ u-2/a u-2/b"},
		{"one that succeeded", func(m *memory.Memory) { FailuresOf(m.Of(types.NamespacedName{Name: "u-1"})).Succeeded("a") }, "u-1/ u-1/b u-2/ u-2/a u-2/b"},
		{"a parent that is gone", func(m *memory.Memory) { m.Forget(types.NamespacedName{Name: "u-1"}) }, "u-2/ u-2/a u-2/b"},
		{"what never failed", func(m *memory.Memory) {
			FailuresOf(m.Of(types.NamespacedName{Name: "u-3"})).Succeeded("a")
			m.Forget(types.NamespacedName{Name: "u-3"})
		}, "u-1/ u-1/a u-1/b u-2/ u-2/a u-2/b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := fail()
			tc.forget(m)
			if diff := cmp.Diff(tc.want, pending(m)); diff != "" {
				t.Error("want -, have +\n", diff)
			}
		})
	}
	var empty Failures
	empty.Failed("a", Attempt{}, broken, epoch())
	empty.Succeeded("a")
	if empty.Pending("a", Attempt{}, epoch()) != nil {
		t.Error("without a memory, it is remembered")
	}
}

// A success in between resets the count.
func TestFailuresCountInARow(t *testing.T) {
	f := FailuresOf(newEntry())
	for i := range 3 * StalledAfterFailures {
		if failure := f.Failed("a", Attempt{}, errors.New("broken"), epoch()); failure.Stalled {
			t.Fatal("stalled after", i, "failures, none of them in a row")
		}
		if i%2 == 1 {
			f.Succeeded("a")
		}
	}
}

// Workers use different parents at the same time (go test -race).
func TestFailuresAreSharedByWorkers(*testing.T) {
	var m memory.Memory
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			parent := types.NamespacedName{Name: fmt.Sprint(i)}
			f := FailuresOf(m.Of(parent))
			for range 100 {
				f.Failed("a", Attempt{}, errors.New("broken"), epoch())
				f.Pending("a", Attempt{}, epoch())
				f.Succeeded("a")
				m.Forget(parent)
			}
		})
	}
	wg.Wait()
}

// A back-off continues across attempts that succeeded, until none was needed for a while.
func TestCalm(t *testing.T) {
	f, a := FailuresOf(newEntry()), Attempt{UID: "u-1"}
	now := epoch()
	for range 3 {
		f.Failed("zone-a/memory", a, subset.ErrForgets, now)
	}
	f.Expire("zone-b/memory", now)
	f.Expire("zone-a/memory", now.Add(4*time.Second+MaxBackOff))
	if f.Pending("zone-a/memory", a, now) == nil {
		t.Error("it is forgotten before its time")
	}
	f.Expire("zone-a/memory", now.Add(4*time.Second+MaxBackOff+1))
	if f.Pending("zone-a/memory", a, now) != nil {
		t.Error("it is kept for good")
	}
}

// The stored part of an error is bounded: the API server can quote most of a child in it.
func TestFailedKeepsAPart(t *testing.T) {
	failure := FailuresOf(newEntry()).Failed("a", Attempt{}, errors.New(strings.Repeat("é", 1<<19)), time.Unix(0, 0))
	if len(failure.Message) > MaxMessage+3 || !strings.HasSuffix(failure.Message, "é...") {
		t.Error(len(failure.Message))
	}
}

// epoch is a time.
func epoch() time.Time { return time.Unix(1_700_000_000, 0) }

// The API server quotes a whole list before it says what is wrong with it.
func TestMessageOfAnImmutableField(t *testing.T) {
	templates := make([]corev1.PersistentVolumeClaim, 9)
	path := field.NewPath("spec")
	err := apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind(), "web-a", field.ErrorList{
		field.Invalid(path.Child("volumeClaimTemplates"), templates, "field is immutable"), field.Required(path.Child("selector"), ""),
	})
	message := MessageOf(fmt.Errorf("apply: %w", err))
	want := `^apply: StatefulSet.apps "web-a" is invalid: \[spec.volumeClaimTemplates: field is immutable: Invalid value: \[\{.{150,220}\.\.\., spec.selector: Required value\]; see https://.*docs/workloads.md#fields-that-cannot-be-changed$`
	if !regexp.MustCompile(want).MatchString(message) {
		t.Errorf("%s, want %s", message, want)
	}
	short := apierrors.NewInvalid(appsv1.SchemeGroupVersion.WithKind("StatefulSet").GroupKind(), "web-a", field.ErrorList{field.Invalid(path.Child("replicas"), -1, "must not be negative")})
	if got := MessageOf(short); got != short.Error() {
		t.Errorf("%s, want %s", got, short)
	}
}

func TestLacksRight(t *testing.T) {
	jobs := schema.GroupResource{Group: "batch", Resource: "jobs"}
	for text, want := range map[string]bool{
		`User "u" cannot create resource "jobs" in API group "batch" in the namespace "shop"`: true,
		`exceeded quota: none, requested: count/jobs.batch=1`:                                 false,
		`ValidatingAdmissionPolicy 'p' denied request: a Job cannot be so large`:              false,
	} {
		if got := LacksRight(apierrors.NewForbidden(jobs, "web", errors.New(text))); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if LacksRight(fmt.Errorf("cannot, in API group")) {
		t.Error("another error")
	}
}
