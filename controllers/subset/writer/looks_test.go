// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
)

// A child is not looked at again only while nobody has written it, and it is to be what
// it was to be.
func TestLooks(t *testing.T) {
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
		after   func(*Looks)
		want    bool
	}{
		"the same":           {c, seen, nil, true},
		"written since":      {c, object("u", "2", "f"), nil, false},
		"another child":      {c, object("v", "1", "f"), nil, false},
		"is to be another":   {c, object("u", "1", "g"), nil, false},
		"of another parent":  {&adapters.Child{Namespace: "ns", Name: "web-a", Parent: "we"}, seen, nil, false},
		"the child is gone":  {c, seen, func(l *Looks) { l.forgetChild(seen) }, false},
		"the parent is gone": {c, seen, func(l *Looks) { l.Forget(types.NamespacedName{Namespace: "ns", Name: "web"}) }, false},
		"another parent is":  {c, seen, func(l *Looks) { l.Forget(types.NamespacedName{Namespace: "ns", Name: "other"}) }, true},
	} {
		t.Run(name, func(t *testing.T) {
			looks := &Looks{}
			if looks.unharmed(c, seen, seen) {
				t.Error("knows what it has not seen")
			}
			looks.saw(c, seen, seen, "")
			if tc.after != nil {
				tc.after(looks)
			}
			if have := looks.unharmed(tc.child, tc.current, tc.current); have != tc.want {
				t.Error("have", have)
			}
		})
	}
	var none *Looks
	none.saw(c, seen, seen, "")
	if none.forgetChild(seen); none.unharmed(c, seen, seen) {
		t.Error("remembers without a memory")
	}
}
