// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestTaken: an annotation that is gone, or that another has set, is not ours any more.
func TestTaken(t *testing.T) {
	b := newBench(t)
	whole := b.asStored(childSpec(), nil)
	if taken, err := Taken(whole); err != nil || len(taken) > 0 {
		t.Fatal("nobody has touched it", taken, err)
	}
	for _, key := range recordKeys() {
		changed := b.asStored(childSpec(), func(owned *fieldpath.Set) {
			*owned = *owned.Difference(fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "annotations", key)))
		})
		removed := whole.DeepCopy()
		annotations := removed.GetAnnotations()
		delete(annotations, key)
		removed.SetAnnotations(annotations)
		if taken, err := Taken(changed); err != nil || !slices.Equal(taken, []string{key}) {
			t.Error(key, "was changed:", taken, err)
		}
		if taken, err := Taken(removed); err != nil || !slices.Equal(taken, []string{key}) {
			t.Error(key, "was removed:", taken, err)
		}
	}
	whole.SetManagedFields(nil)
	if taken, err := Taken(whole); err != nil || !slices.Equal(taken, recordKeys()) {
		t.Error("managedFields were cleared:", taken, err)
	}
}

func TestRestore(t *testing.T) {
	kept := func() *v1alpha1.ChildRecord { return Record(&finished().recorded(2, "h1", 2).Observed, nil) }
	if len(kept().Annotations) != len(recordKeys())-2 { // it is not being seeded, and the generation is not copied
		t.Fatal(kept())
	}
	for _, tc := range []struct {
		name  string
		child *childBuilder
		taken []string
		kept  *v1alpha1.ChildRecord
		want  map[string]string
	}{
		{"nothing was taken", aChild(), nil, kept(), aChild().Meta.Annotations},
		{"all was removed", aChild().without(recordKeys()...), recordKeys(), kept(), kept().Annotations},
		{"all is gone", func() *childBuilder { b := aChild(); b.Meta.Annotations = nil; return b }(), recordKeys(), kept(), kept().Annotations},
		{"one was changed", finished().recorded(2, "h1", 2).writtenFrom(99), []string{v1alpha1.AnnotationParentGeneration}, kept(), kept().Annotations},
		{"there is no copy", aChild(), recordKeys(), nil, aChild().Meta.Annotations},
		{"the copy is of another child", aChild(), recordKeys(), &v1alpha1.ChildRecord{UID: "s-0", Annotations: kept().Annotations}, aChild().Meta.Annotations},
	} {
		t.Run(tc.name, func(t *testing.T) {
			shared := tc.child.Meta.Annotations
			before := cmp.Diff(shared, map[string]string(nil))
			Restore(&tc.child.Observed, tc.taken, tc.kept)
			if diff := cmp.Diff(tc.want, tc.child.Meta.Annotations); diff != "" {
				t.Error(diff)
			}
			if cmp.Diff(shared, map[string]string(nil)) != before {
				t.Error("it writes to the cache")
			}
		})
	}
}
