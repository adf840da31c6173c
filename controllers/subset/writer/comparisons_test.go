// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
)

// A child is compared again if somebody has written it, or its desired state has changed.
func TestComparisons(t *testing.T) {
	object := func(uid, version, fingerprint string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{
			"namespace": "ns", "name": "web-a", "uid": uid, "resourceVersion": version,
			"labels":      map[string]any{"united.dev/name": "web"},
			"annotations": map[string]any{"united.dev/fingerprint": fingerprint},
		}}}
	}
	c := &adapters.Child{Namespace: "ns", Name: "web-a", Parent: "web", Subset: "a"}
	seen := object("u", "1", "f")
	for name, tc := range map[string]struct {
		child   *adapters.Child
		current *unstructured.Unstructured
		after   func(*Comparisons)
		want    bool
	}{
		"the same":           {c, seen, nil, true},
		"written since":      {c, object("u", "2", "f"), nil, false},
		"another child":      {c, object("v", "1", "f"), nil, false},
		"is to be another":   {c, object("u", "1", "g"), nil, false},
		"of another parent":  {&adapters.Child{Namespace: "ns", Name: "web-a", Parent: "we"}, seen, nil, false},
		"the child is gone":  {c, seen, func(l *Comparisons) { l.forgetChild(seen) }, false},
		"the parent is gone": {c, seen, func(l *Comparisons) { l.Forget(types.NamespacedName{Namespace: "ns", Name: "web"}) }, false},
		"another parent is":  {c, seen, func(l *Comparisons) { l.Forget(types.NamespacedName{Namespace: "ns", Name: "other"}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			looks := &Comparisons{}
			if looks.nothingLost(c, seen, seen) {
				t.Error("knows what it has not seen")
			}
			looks.recordComparison(c, seen, seen, "", "")
			if tc.after != nil {
				tc.after(looks)
			}
			if have := looks.nothingLost(tc.child, tc.current, tc.current); have != tc.want {
				t.Error("have", have)
			}
		})
	}
	var none *Comparisons
	none.recordComparison(c, seen, seen, "", "")
	if none.forgetChild(seen); none.nothingLost(c, seen, seen) {
		t.Error("remembers without a memory")
	}
}
