// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package store_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/revision/store"
)

// history is a store on a fake API server, and the writes that the server has seen. The fake server
// detects creates that collide and merges patches, but it does not check the preconditions of a
// delete; the tests do.
type history struct {
	store.Store
	t      *testing.T
	server client.Client
	writes []string
	// deletes are the UID preconditions of deletes, versions the resourceVersion preconditions.
	deletes  []types.UID
	versions []string
}

// EnsureContent is Ensure after a look for the revision of the content.
func (h *history) EnsureContent(ctx context.Context, parent *v1alpha1.UnitedDeployment, owner metav1.OwnerReference,
	kept []*revision.Revision, c revision.Content,
) (*revision.Revision, error) {
	found := revision.Find(kept, c, parent.Status.UpdateRevision)
	if found == nil {
		return h.Create(ctx, parent, owner, kept, c)
	}
	return h.Change(ctx, found, revision.Change{Number: found.Front(kept, parent.Status.UpdateRevision)})
}

// Amend lets a revision know the living subsets.
func (h *history) Amend(ctx context.Context, r *revision.Revision, living overlays) (*revision.Revision, error) {
	return h.Change(ctx, r, r.Amendment(living))
}

func newHistory(t *testing.T, kept ...*appsv1.ControllerRevision) *history {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := appsv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	h := &history{t: t}
	h.server = fake.NewClientBuilder().WithScheme(scheme).WithIndex(&appsv1.ControllerRevision{}, v1alpha1.LabelName, func(o client.Object) []string {
		return []string{o.GetLabels()[v1alpha1.LabelName]}
	}).Build()
	for _, cr := range kept {
		h.put(cr)
	}
	h.Client = interceptor.NewClient(h.server.(client.WithWatch), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetUID(types.UID("uid-" + o.GetName()))
			err := c.Create(ctx, o, opts...)
			if err == nil {
				h.writes = append(h.writes, "create "+o.GetName())
			}
			return err
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			raw, err := p.Data(o)
			if err != nil {
				return err
			}
			h.writes = append(h.writes, "patch "+o.GetName()+" "+string(raw))
			return c.Patch(ctx, o, p, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			h.writes = append(h.writes, "delete "+o.GetName())
			asked := client.DeleteOptions{}
			asked.ApplyOptions(opts)
			if asked.Preconditions != nil && asked.Preconditions.UID != nil {
				h.deletes = append(h.deletes, *asked.Preconditions.UID)
			}
			if asked.Preconditions != nil && asked.Preconditions.ResourceVersion != nil {
				h.versions = append(h.versions, *asked.Preconditions.ResourceVersion)
			}
			return c.Delete(ctx, o, opts...)
		},
	})
	h.Live = h.server
	return h
}

func (h *history) put(cr *appsv1.ControllerRevision) {
	h.t.Helper()
	cr = cr.DeepCopy()
	if cr.UID == "" {
		cr.UID = types.UID("uid-" + cr.Name)
	}
	if err := h.server.Create(h.t.Context(), cr); err != nil {
		h.t.Fatal(err)
	}
}

func (h *history) reader() *store.Reader { return &store.Reader{Cached: h.Client, Live: h.server} }

// list returns the revisions of the parent, oldest first.
func (h *history) list() []*revision.Revision {
	h.t.Helper()
	revisions, err := h.reader().List(h.t.Context(), parent())
	if err != nil {
		h.t.Fatal(err)
	}
	slices.SortFunc(revisions, func(a, b *revision.Revision) int { return int(a.Number - b.Number) })
	return revisions
}

func (h *history) keep(p *v1alpha1.UnitedDeployment, c revision.Content) *revision.Revision {
	h.t.Helper()
	r, err := h.EnsureContent(h.t.Context(), p, ownerOf(p), h.list(), c)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// wrote checks the writes since the last call.
func (h *history) wrote(want ...string) {
	h.t.Helper()
	if diff := cmp.Diff(want, h.writes); diff != "" {
		h.t.Error("writes: want -, have +\n", diff)
	}
	h.writes = nil
}

func of(c revision.Content, number int64, edits ...func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
	cr := revision.New(parent(), ownerOf(parent()), c, number, 0)
	for _, edit := range edits {
		edit(cr)
	}
	return cr
}

func TestListLeavesOutWhatIsNotTheParents(t *testing.T) {
	c := func(image string) revision.Content { return content(image, nil) }
	h := newHistory(t,
		of(c("a:1"), 1),
		of(c("a:2"), 2, func(cr *appsv1.ControllerRevision) { cr.Labels[v1alpha1.LabelSubset] = "zone-a" }),
		of(c("a:3"), 3, func(cr *appsv1.ControllerRevision) { cr.OwnerReferences = nil }),
		of(c("a:4"), 4, func(cr *appsv1.ControllerRevision) { cr.OwnerReferences[0].UID = "u-0" }),
		of(c("a:5"), 5, func(cr *appsv1.ControllerRevision) { cr.OwnerReferences[0].Controller = nil }),
		of(c("a:6"), 6, func(cr *appsv1.ControllerRevision) { cr.Labels[v1alpha1.LabelName] = "api" }),
		of(c("a:7"), 7, func(cr *appsv1.ControllerRevision) { cr.Namespace = "other" }),
		of(c("a:8"), 8, func(cr *appsv1.ControllerRevision) { cr.Data.Raw = []byte(`{"no": "template"}`) }),
		of(c("a:9"), 9),
	)
	got := h.list()
	if len(got) != 4 || got[0].Number != 1 || got[1].Number != 3 || got[2].Number != 5 || got[3].Number != 9 {
		t.Error(names(got), "a:3 and a:5 are the parent's, though somebody has taken the owner")
	}
}

// A revision that somebody has replaced, with other content under its name, does not count: a caller
// that needs it learns that it is lost. Content that somebody else has stored must never count as
// what protected replicas run.
func TestAReplacedRevisionIsNone(t *testing.T) {
	replaced := of(content("a:1", nil), 1, func(cr *appsv1.ControllerRevision) { cr.Data = of(content("a:2", nil), 2).Data })
	h := newHistory(t, replaced, of(content("a:2", nil), 2))
	if got := h.list(); len(got) != 1 || got[0].Number != 2 {
		t.Error(names(got))
	}
	got, err := h.reader().Unlabelled(t.Context(), parent(), replaced.Name)
	if got != nil || err != nil {
		t.Error(got, err)
	}
	if again := h.keep(parent(), content("a:1", nil)); again.Name == replaced.Name || !again.Matches(content("a:1", nil)) {
		t.Error("it is made anew under another name, not", again.Name)
	}
}

// Adopt restores what somebody has removed from a revision; at rest it writes nothing.
func TestAdopt(t *testing.T) {
	for name, edit := range map[string]func(*appsv1.ControllerRevision){
		"its owner":                        func(cr *appsv1.ControllerRevision) { cr.OwnerReferences = nil },
		"that the owner is the controller": func(cr *appsv1.ControllerRevision) { cr.OwnerReferences[0].Controller = nil },
	} {
		t.Run(name, func(t *testing.T) {
			h := newHistory(t, of(content("a:1", nil), 1, edit))
			r, err := h.Adopt(t.Context(), parent(), ownerOf(parent()), h.list()[0])
			if err != nil {
				t.Fatal(err)
			}
			if !metav1.IsControlledBy(r.Object, parent()) || len(r.Object.OwnerReferences) != 1 {
				t.Error(r.Object.OwnerReferences)
			}
			if len(h.writes) != 1 {
				t.Error(h.writes)
			}
			h.writes = nil
			if _, err := h.Adopt(t.Context(), parent(), ownerOf(parent()), r); err != nil {
				t.Fatal(err)
			}
			h.wrote()
		})
	}
}

func TestSnapshot(t *testing.T) {
	h := newHistory(t)
	first := h.keep(parent(), content("a:1", nil))
	if first.Number != 1 {
		t.Error(first.Number)
	}
	h.wrote("create " + first.Name)
	second := h.keep(parent(), content("a:2", nil))
	if second.Number != 2 {
		t.Error(second.Number)
	}
	h.wrote("create " + second.Name)

	if again := h.keep(parent(), content("a:2", nil)); again.Name != second.Name {
		t.Error("at rest", again.Name)
	}
	h.wrote()

	back := h.keep(parent(), content("a:1", nil))
	if back.Name != first.Name || back.Number != 3 {
		t.Error("going back makes", back.Name, back.Number)
	}
	h.wrote("patch " + first.Name + ` {"metadata":{"resourceVersion":"1","uid":"uid-` + first.Name + `"},"revision":3}`)
	if kept := h.list(); len(kept) != 2 || kept[1].Name != first.Name || !cmp.Equal(kept[1].Template(), template("a:1")) {
		t.Error(names(kept))
	}
}

// The update revision that the status names needs no new number, whatever the numbers are: a pass at
// rest must not write.
func TestSnapshotAtRestWritesNothing(t *testing.T) {
	h := newHistory(t, of(content("a:1", nil), 1), of(content("a:2", nil), 2))
	p := parent()
	p.Status.UpdateRevision = h.list()[0].Name
	if got := h.keep(p, content("a:1", nil)); got.Number != 1 {
		t.Error(got)
	}
	h.wrote()
}

func TestSnapshotWhenTheNameIsTaken(t *testing.T) {
	c := content("a:1", nil)
	taken := func(number int64, edits ...func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
		return of(c, number, edits...)
	}
	name := taken(1).Name
	for _, tc := range []struct {
		name string
		by   *appsv1.ControllerRevision
		same bool
	}{
		{"by itself, which the cache does not show yet", taken(4), true},
		{"by another content", taken(4, func(cr *appsv1.ControllerRevision) { cr.Data = of(content("a:2", nil), 1).Data }), false},
		{"by what cannot be read", taken(4, func(cr *appsv1.ControllerRevision) { cr.Data.Raw = []byte("[]") }), false},
		{"by another owner", taken(4, func(cr *appsv1.ControllerRevision) { cr.OwnerReferences[0].UID = "u-0" }), false},
		{"by an orphan of another content", taken(4, func(cr *appsv1.ControllerRevision) {
			cr.OwnerReferences, cr.Data = nil, of(content("a:2", nil), 1).Data
		}), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHistory(t, tc.by)
			r, err := h.EnsureContent(t.Context(), parent(), ownerOf(parent()), nil, c)
			if err != nil {
				t.Fatal(err)
			}
			if (r.Name == name) != tc.same || !r.Matches(c) {
				t.Error(r.Name)
			}
			untouched := &appsv1.ControllerRevision{}
			if err := h.server.Get(t.Context(), client.ObjectKeyFromObject(tc.by), untouched); err != nil {
				t.Fatal(err)
			}
			if !cmp.Equal(untouched.Data.Raw, tc.by.Data.Raw) || !cmp.Equal(untouched.OwnerReferences, tc.by.OwnerReferences) || untouched.Revision != 4 {
				t.Error("the other one was changed")
			}
		})
	}
}

// A revision without a controller belongs to the parent if its name is that of its content.
func TestSnapshotTakesBackItsOwn(t *testing.T) {
	c := content("a:1", nil)
	h := newHistory(t, of(c, 4, func(cr *appsv1.ControllerRevision) { cr.OwnerReferences = nil }))
	r, err := h.EnsureContent(t.Context(), parent(), ownerOf(parent()), nil, c)
	if err != nil || r.Name != of(c, 4).Name || !metav1.IsControlledBy(r.Object, parent()) {
		t.Error(r, err)
	}
}

func TestSnapshotGivesUp(t *testing.T) {
	c := content("a:1", nil)
	h := newHistory(t)
	for collision := range 8 {
		other := revision.New(parent(), ownerOf(parent()), c, 1, collision)
		other.OwnerReferences[0].UID = "u-0"
		h.put(other)
	}
	if r, err := h.EnsureContent(t.Context(), parent(), ownerOf(parent()), nil, c); err == nil {
		t.Error(r)
	}
}

func TestStoreTellsOfErrors(t *testing.T) {
	broken := errors.New("broken pipe")
	h := newHistory(t, of(content("a:1", nil), 1), of(content("a:2", nil), 2))
	kept := h.list()
	h.Client = interceptor.NewClient(h.server.(client.WithWatch), interceptor.Funcs{
		Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return broken },
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			return broken
		},
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return broken },
		List:   func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return broken },
	})
	_, list := h.reader().List(t.Context(), parent())
	_, create := h.EnsureContent(t.Context(), parent(), ownerOf(parent()), kept, content("a:3", nil))
	_, front := h.EnsureContent(t.Context(), parent(), ownerOf(parent()), kept, content("a:1", nil))
	_, amend := h.Amend(t.Context(), kept[0], overlays{"x": {}})
	truncate := h.Truncate(t.Context(), kept, nil, 0)
	for name, err := range map[string]error{"list": list, "create": create, "bring to front": front, "amend": amend, "truncate": truncate} {
		if !errors.Is(err, broken) {
			t.Error(name, err)
		}
	}
}

func TestStoreAmend(t *testing.T) {
	h := newHistory(t, of(content("a:1", overlays{"x": patched("b:1")}), 1))
	living := overlays{"y": patched("c:1")}
	r, err := h.Amend(t.Context(), h.list()[0], living)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*revision.Revision{r, h.list()[0]} {
		if _, known := r.Overlay("x"); known || !r.Matches(content("a:1", living)) || r.Matches(content("a:1", overlays{"y": {}})) {
			t.Error(r.Object.Annotations)
		}
	}
	if len(h.writes) != 1 {
		t.Error(h.writes)
	}
	h.writes = nil
	if _, err := h.Amend(t.Context(), h.list()[0], living); err != nil {
		t.Fatal(err)
	}
	h.wrote()
}

func TestTruncate(t *testing.T) {
	h := newHistory(t, of(content("a:1", nil), 1), of(content("a:2", nil), 2), of(content("a:3", nil), 3), of(content("a:4", nil), 4))
	kept := h.list()
	if err := h.Truncate(t.Context(), kept, map[string]bool{kept[0].Name: true}, 1); err != nil {
		t.Fatal(err)
	}
	h.wrote("delete "+kept[1].Name, "delete "+kept[2].Name)
	if diff := cmp.Diff([]types.UID{kept[1].Object.UID, kept[2].Object.UID}, h.deletes); diff != "" {
		t.Error("deletes are not fenced:", diff)
	}
	if diff := cmp.Diff([]string{kept[0].Name, kept[3].Name}, names(h.list())); diff != "" {
		t.Error("want -, have +\n", diff)
	}
	// Going back to a revision writes it, so a controller that has not seen that cannot delete it.
	if diff := cmp.Diff([]string{kept[1].Object.ResourceVersion, kept[2].Object.ResourceVersion}, h.versions); diff != "" || h.versions[0] == "" {
		t.Error("deletes are not fenced:", diff)
	}
	// A revision that is gone already is not an error.
	if err := h.Truncate(t.Context(), kept, nil, 0); err != nil {
		t.Error(err)
	}
	if left := h.list(); len(left) != 0 {
		t.Error(names(left))
	}
}

func TestNothingIsWrittenThatIsNotConfirmed(t *testing.T) {
	for _, moved := range []error{errors.New("the parent has moved on"), nil} {
		h := newHistory(t, of(content("a:1", nil), 1), of(content("a:2", nil), 2))
		h.Confirm = func(context.Context) error { return moved }
		kept := h.list()
		_, create := h.EnsureContent(t.Context(), parent(), ownerOf(parent()), kept, content("a:3", nil))
		_, front := h.EnsureContent(t.Context(), parent(), ownerOf(parent()), kept, content("a:1", nil))
		_, amend := h.Amend(t.Context(), kept[1], overlays{"x": {}})
		for name, err := range map[string]error{"create": create, "bring to front": front, "amend": amend} {
			if !errors.Is(err, moved) {
				t.Error(name, err)
			}
		}
		if wrote := len(h.writes) == 3; wrote == (moved != nil) {
			t.Error(moved, h.writes)
		}
	}
}
