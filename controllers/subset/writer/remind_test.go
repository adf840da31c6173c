// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// ownedBy adds an object to the child of zone-a; with owner "" it is an orphan.
func ownedBy(o client.Object, owner string) client.Object {
	o.SetNamespace("shop")
	o.SetLabels(map[string]string{v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "zone-a"})
	if owner != "" {
		o.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "web-zone-a", UID: "s-1", Controller: ptr.To(true)}})
		if owner != "s-1" {
			o.GetOwnerReferences()[0].UID = "s-0"
		}
	}
	return o
}

func ownRevision(name, owner string) client.Object {
	return ownedBy(&appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: name}}, owner)
}

func replica(name, hash string) client.Object {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	ownedBy(pod, "s-1")
	pod.Labels[appsv1.ControllerRevisionHashLabelKey] = hash
	return pod
}

// forgetfulSet returns a stored child that has forgotten h1; its template was never released below the position from.
func (b *bench) forgetfulSet(from int32) *unstructured.Unstructured {
	c := childSpec()
	c.ProtectedHash, c.ReleasedFrom, c.ReleasedBefore = "h1", from, from
	u := b.asStored(c, nil)
	u.SetGeneration(3)
	u.Object["status"] = map[string]any{"observedGeneration": int64(3), "currentRevision": "h2", "updateRevision": "h2"}
	return u
}

// remind reminds a child of h1, with its own record.
func (b *bench) remind(current *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	return b.Remind(b.t.Context(), "h1", current.GetAnnotations(), current)
}

// invalid returns the error for a JSON patch whose test failed.
func invalid() error {
	return apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "StatefulSet"}, "web-zone-a", nil)
}

func TestRemind(t *testing.T) {
	kind := schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	for _, tc := range []struct {
		name  string
		from  int32
		there []client.Object
		// answer is the API server's error.
		answer error
		want   error
		// says is part of the error.
		says string
	}{
		{"it is reminded", 2, []client.Object{ownRevision("h1", "s-1"), ownRevision("h2", "s-1")}, nil, nil, ""},
		{"its revision is gone", 2, []client.Object{ownRevision("h2", "s-1")}, nil, subset.ErrRevisionGone, "lower the partition to 0"},
		{"its revision is an orphan still, and adopted when it looks", 2, []client.Object{ownRevision("h1", "")}, nil, nil, ""},
		{"its revision is an earlier child's", 2, []client.Object{ownRevision("h1", "s-0")}, nil, subset.ErrStale, "the garbage collector has yet to delete revision h1"},
		{"it cannot have finished, by a replica of before", 0, []client.Object{ownRevision("h1", "s-1"), replica("web-zone-a-0", "h1")}, nil, nil, ""},
		{"it has finished, as is known past the cache", 0, []client.Object{ownRevision("h1", "s-1"), replica("web-zone-a-0", "h2")}, nil, subset.ErrStale, ""},
		{"it has changed since", 2, []client.Object{ownRevision("h1", "s-1")}, apierrors.NewConflict(kind, "web-zone-a", errors.New("x")), subset.ErrStale, ""},
		{"it has another spec since, or remembers", 2, []client.Object{ownRevision("h1", "s-1")}, invalid(), subset.ErrStale, ""},
		{"it is gone", 2, []client.Object{ownRevision("h1", "s-1")}, apierrors.NewNotFound(kind, "web-zone-a"), subset.ErrStale, ""},
		{"no right to", 2, []client.Object{ownRevision("h1", "s-1")}, apierrors.NewForbidden(kind, "web-zone-a", errors.New("x")), nil, "remind web-zone-a: "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.there...)
			b.remindErr = tc.answer
			current := b.forgetfulSet(tc.from)
			before := current.DeepCopy()
			after, wrote, err := b.remind(current)
			if fails := tc.want != nil || tc.says != ""; fails != (err != nil) || wrote == fails || fails && after != current {
				t.Fatal(after, wrote, err)
			}
			if err != nil && (tc.want != nil && !errors.Is(err, tc.want) || !strings.Contains(err.Error(), tc.says)) {
				t.Error(err)
			}
			if diff := cmp.Diff(before, current); diff != "" {
				t.Error("what the cache holds was changed:", diff)
			}
			if len(b.applied)+len(b.deleted) > 0 {
				t.Error("more was written:", b.applied, b.deleted)
			}
			if wrote {
				want := `status web-zone-a [{"op":"test","path":"/metadata/uid","value":"s-1"},{"op":"test","path":"/metadata/generation","value":3},` +
					`{"op":"test","path":"/status/currentRevision","value":"h2"},{"op":"test","path":"/status/updateRevision","value":"h2"},` +
					`{"op":"replace","path":"/status/currentRevision","value":"h1"}]`
				if diff := cmp.Diff([]string{want}, b.reminded); diff != "" || after.GetResourceVersion() != "79" {
					t.Error(diff, after.GetResourceVersion())
				}
			}
		})
	}
}

// The writer checks the live objects that the adapter reads.
func TestForgetfulSetIsForgetful(t *testing.T) {
	b := newBench(t)
	for from, want := range map[int32]bool{2: true, 0: false} {
		o, err := b.Adapter.Observe(b.forgetfulSet(from), adapters.Dependents{})
		if err != nil || subset.Forgot(o) != want {
			t.Error(from, err)
		}
	}
	var none []adapters.Replica
	if o, err := b.Adapter.Observe(b.forgetfulSet(2), adapters.Dependents{}); err != nil || !cmp.Equal(none, subset.Unreleased(o)) {
		t.Error(err)
	}
}

// TestLabelsOfARevisionTakenEachTime: if somebody removes the labels from a child's own revision each time, they are
// restored less and less often, and that is reported.
func TestLabelsOfARevisionTakenEachTime(t *testing.T) {
	bare := ownRevision("h1", "s-1")
	bare.SetLabels(nil)
	b := newBench(t, bare)
	now := epoch()
	b.Now, b.Memory = func() time.Time { return now }, newEntry()
	b.labels = map[string]string{"example.com/not": "ours"} // what admission makes of them
	said := ""
	for range 600 {
		_, _, err := b.remind(b.forgetfulSet(2))
		if e := (*undone.OverriddenError)(nil); errors.As(err, &e) {
			said = e.Error()
		} else if !errors.Is(err, subset.ErrStale) {
			t.Fatal(err)
		}
		now = now.Add(100 * time.Millisecond)
	}
	if b.patches > 45 || b.patches <= undone.RepeatsAtOnce {
		t.Error("written", b.patches, "times in a minute")
	}
	if want := `ControllerRevision h1: metadata.labels["united.dev/subset"] was changed by admission`; !strings.HasPrefix(said, want) {
		t.Error(said)
	}
}

// TestRevisionOfAChildTaken: a child's own revision that its controller no longer finds gets its labels back, if it
// belongs to the child. Then the controller does not create another one.
func TestRevisionOfAChildTaken(t *testing.T) {
	for _, tc := range []struct {
		name, revision, owner string
		want                  error
		labelled              bool
	}{
		{"its labels", "web-zone-a-h1", "s-1", subset.ErrStale, true},
		{"its labels and its owner", "web-zone-a-h1", "", subset.ErrStale, true},
		{"another has it", "web-zone-a-h1", "s-0", subset.ErrRevisionTaken, false},
		{"one that nobody has, of another child", "web-zone-a-b-h1", "", subset.ErrRevisionTaken, false},
		{"one that nobody has, of no child", "other-h1", "", subset.ErrRevisionTaken, false},
		{"there is none", "", "", subset.ErrRevisionGone, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			hash, there := "web-zone-a-h1", []client.Object{}
			if tc.revision != "" {
				hash = tc.revision
				bare := ownRevision(tc.revision, tc.owner)
				bare.SetLabels(nil)
				there = append(there, bare)
			}
			b := newBench(t, there...)
			current := b.forgetfulSet(2)
			_, wrote, err := b.Remind(t.Context(), hash, current.GetAnnotations(), current)
			if !errors.Is(err, tc.want) || wrote || (b.patches > 0) != tc.labelled {
				t.Error(err, wrote, b.patches)
			}
			if tc.labelled && len(b.ownRevisionsFound()) != 1 {
				t.Error("its controller does not find it")
			}
		})
	}
}

// ownRevisionsFound returns the revisions that the child's controller finds by their labels.
func (b *bench) ownRevisionsFound() []appsv1.ControllerRevision {
	list := &appsv1.ControllerRevisionList{}
	if err := b.server.List(b.t.Context(), list, client.MatchingLabels{"app": "web"}); err != nil {
		b.t.Fatal(err)
	}
	return list.Items
}

// TestRemindFromTheCopy: a child that has forgotten, and whose record somebody removed, is reminded from the copy in
// the status.
func TestRemindFromTheCopy(t *testing.T) {
	b := newBench(t, ownRevision("h1", "s-1"), ownRevision("h2", "s-1"))
	current := b.forgetfulSet(2)
	record := current.GetAnnotations()
	current.SetAnnotations(nil)
	if _, wrote, err := b.Remind(t.Context(), "h1", record, current); !wrote || err != nil {
		t.Error(wrote, err)
	}
	if _, wrote, err := b.Remind(t.Context(), "h1", nil, current); wrote || !errors.Is(err, subset.ErrStale) {
		t.Error("the control: without a copy it has forgotten nothing:", wrote, err)
	}
}
