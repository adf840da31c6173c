// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// values generates what a template may contain, two levels deep.
var (
	scalars = rapid.OneOf(
		rapid.Map(rapid.Int64(), func(i int64) any { return i }),
		rapid.Map(rapid.SampledFrom([]string{"", "a", "b:1"}), func(s string) any { return s }),
		rapid.Just[any](nil), rapid.Just[any](true), rapid.Just[any](0.5),
	)
	keys    = rapid.SampledFrom([]string{"a", "b", "c"})
	values  = rapid.OneOf(scalars, rapid.Map(rapid.SliceOfN(scalars, 0, 2), func(l []any) any { return l }), rapid.Map(rapid.MapOfN(keys, scalars, 0, 2), func(m object) any { return m }))
	objects = rapid.MapOfN(keys, values, 0, 3)

	subsetNames = rapid.SampledFrom([]string{"x", "y", "z"})
	someOverlay = rapid.Custom(func(t *rapid.T) revision.Overlay {
		o := revision.Overlay{}
		if rapid.Bool().Draw(t, "patched") {
			o.Patch = objects.Draw(t, "patch")
		}
		for _, key := range rapid.SliceOfN(keys, 0, 2).Draw(t, "tolerations") {
			o.Tolerations = append(o.Tolerations, corev1.Toleration{Key: key})
		}
		return o
	})
	contents = rapid.Custom(func(t *rapid.T) revision.Content {
		return revision.Content{
			Template:     objects.Draw(t, "template"),
			Subsets:      rapid.MapOfN(subsetNames, someOverlay, 0, 3).Draw(t, "subsets"),
			VersionLabel: rapid.SampledFrom([]string{"", "v", "w"}).Draw(t, "version"),
		}
	})
)

func kept(t *rapid.T, c revision.Content, number int64) *revision.Revision {
	r, err := revision.Parse(revision.New(parent(), ownerOf(parent()), c, number, 0))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func amended(t *rapid.T, r *revision.Revision, living overlays) *revision.Revision {
	annotation, changed := r.Amend(living)
	if !changed {
		return r
	}
	cr := r.Object.DeepCopy()
	metav1.SetMetaDataAnnotation(&cr.ObjectMeta, v1alpha1.AnnotationSubsets, annotation)
	again, err := revision.Parse(cr)
	if err != nil {
		t.Fatal(err)
	}
	return again
}

// equal reports whether two overlays make the same pods.
func equal(t *rapid.T, a, b revision.Overlay) bool {
	x, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	y, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Equal(x, y)
}

func TestFindsWhatIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := contents.Draw(t, "content")
		all := []*revision.Revision{kept(t, c, 5)}
		for i, other := range rapid.SliceOfN(contents, 0, 3).Draw(t, "others") {
			all = append(all, kept(t, other, int64(i+1)))
		}
		all = rapid.Permutation(all).Draw(t, "order")
		found := revision.Find(all, c, "")
		if found == nil || !found.Matches(c) || found.Number != 5 {
			t.Fatalf("found %+v of %v", found, names(all))
		}
	})
}

// Adding and removing subsets never makes a revision; changing anything that a revision has of an
// existing subset does.
func TestSubsetsThatComeAndGoMakeNoRevision(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := contents.Draw(t, "content")
		r := kept(t, c, 1)
		living := maps.Clone(c.Subsets)
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			name := subsetNames.Draw(t, "subset")
			if _, lives := living[name]; lives {
				delete(living, name)
			} else {
				living[name] = someOverlay.Draw(t, "overlay")
			}
			now := revision.Content{Template: c.Template, Subsets: living, VersionLabel: c.VersionLabel}
			if revision.Find([]*revision.Revision{r}, now, "") != r {
				t.Fatalf("%+v makes a revision beside %s %v", now, r.Object.Data.Raw, r.Object.Annotations)
			}
			r = amended(t, r, living)
			if text, changed := r.Amend(living); changed {
				t.Fatalf("it is not at rest: %s", text)
			}
			for name, overlay := range living {
				if got, known := r.Overlay(name); !known || !equal(t, got, overlay) {
					t.Fatalf("%s: %+v, not %+v", name, got, overlay)
				}
			}
		}
		for name, before := range living {
			after := someOverlay.Draw(t, "changed overlay")
			changed := maps.Clone(living)
			changed[name] = after
			if got := r.Matches(revision.Content{Template: c.Template, Subsets: changed, VersionLabel: c.VersionLabel}); got != equal(t, before, after) {
				t.Fatalf("%s from %+v to %+v: matches %v", name, before, after, got)
			}
		}
	})
}

func TestNumbersOrderWhatIsKept(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all []*revision.Revision
		inUse := map[string]bool{}
		for i := range rapid.IntRange(0, 8).Draw(t, "revisions") {
			r := named(string(rune('a'+i)), rapid.Int64Range(0, 5).Draw(t, "number"))
			inUse[r.Name] = rapid.Bool().Draw(t, "in use")
			all = append(all, r)
		}
		limit := rapid.IntRange(-1, 9).Draw(t, "limit")
		goes := map[string]bool{}
		for _, r := range revision.Surplus(all, inUse, limit) {
			if inUse[r.Name] {
				t.Fatal(r.Name, "is in use")
			}
			goes[r.Name] = true
		}
		idle := 0
		for _, r := range all {
			if inUse[r.Name] {
				continue
			}
			if !goes[r.Name] {
				idle++
			}
			for _, younger := range all {
				if goes[younger.Name] && !goes[r.Name] && younger.Number > r.Number {
					t.Fatal(younger.Name, "goes before", r.Name)
				}
			}
		}
		if idle > max(0, limit) {
			t.Fatal(idle, "are kept of", limit)
		}
		if len(goes) > 0 && idle != max(0, limit) {
			t.Fatal(len(goes), "go, though only", idle, "are kept of", limit)
		}
	})
}

// FuzzParse: anybody may have written the data in a cluster. Parse accepts or rejects it, and what it
// accepts stays the same when it is written again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"template":{"spec":{"a":1}},"subsets":{"x":{"patch":{"b":[null,1.5]}}}}`), `{"x":null,"y":{"tolerations":[{"key":"k"}]}}`)
	f.Add([]byte(`{"template":{},"subsets":{"x":null}}`), `null`)
	f.Add([]byte(`{"template":{"a":1e999}}`), `{"x":{}}`)
	f.Add([]byte(`{"template":{"a":123456789012345678901234567890}}`), ``)
	f.Add([]byte(`{"template":{"a":1},"versionLabel":"v"}`), `{}`)
	f.Add([]byte("{\"template\":{\"\xff\":\"\xff\"}}"), "{\"\xff\":{\"patch\":{\"\xfe\":1}}}")
	f.Fuzz(func(t *testing.T, data []byte, annotation string) {
		cr := &appsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Name: "web-1", Annotations: map[string]string{v1alpha1.AnnotationSubsets: annotation}},
			Data:       runtime.RawExtension{Raw: data},
		}
		r, err := revision.Parse(cr)
		if err != nil {
			return
		}
		runtime.DeepCopyJSON(r.Template())
		c := revision.Content{Template: r.Template(), Subsets: overlays{}, VersionLabel: r.VersionLabel()}
		for _, name := range []string{"x", "y"} {
			if overlay, known := r.Overlay(name); known {
				c.Subsets[name] = overlay
			}
		}
		if !r.Matches(c) {
			t.Errorf("it does not match itself: %+v", c)
		}
		again, err := revision.Parse(revision.New(parent(), ownerOf(parent()), c, 1, 0))
		if err != nil {
			t.Fatal(err)
		}
		if !again.Matches(c) || !cmp.Equal(again.Template(), r.Template()) {
			t.Errorf("another thing is read again: %s from %s", again.Object.Data.Raw, data)
		}
		living := overlays{"z": {}}
		if text, changed := r.Amend(living); changed {
			cr.Annotations[v1alpha1.AnnotationSubsets] = text
			r, err = revision.Parse(cr)
			if err != nil {
				t.Fatal(err)
			}
		}
		if text, changed := r.Amend(living); changed {
			t.Errorf("it is not at rest: %s", text)
		}
	})
}
