// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func TestRestore(t *testing.T) {
	kept := func() *v1alpha1.ChildRecord { return Record(&finished().recorded(2, "h1", 2).Observed, nil) }
	if len(kept().Annotations) != len(RecordKeys())-2 { // it is not being seeded, and the generation is not copied
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
		{"all was removed", aChild().without(RecordKeys()...), RecordKeys(), kept(), kept().Annotations},
		{"all is gone", func() *childBuilder { b := aChild(); b.Meta.Annotations = nil; return b }(), RecordKeys(), kept(), kept().Annotations},
		{"one was changed", finished().recorded(2, "h1", 2).writtenFrom(99), []string{v1alpha1.AnnotationParentGeneration}, kept(), kept().Annotations},
		{"there is no copy", aChild(), RecordKeys(), nil, aChild().Meta.Annotations},
		{"the copy is of another child", aChild(), RecordKeys(), &v1alpha1.ChildRecord{UID: "s-0", Annotations: kept().Annotations}, aChild().Meta.Annotations},
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
