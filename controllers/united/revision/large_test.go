// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package revision_test

import (
	"fmt"
	"reflect"
	"runtime"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// stored returns the ControllerRevision of a template with so many tolerations.
func stored(tolerations int) *appsv1.ControllerRevision {
	var list []any
	for i := range tolerations {
		list = append(list, map[string]any{"key": fmt.Sprint("k", i)})
	}
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	cr := revision.New(parent, metav1.OwnerReference{UID: "u-1"}, revision.Content{
		Template: map[string]any{"spec": map[string]any{"tolerations": list}},
		Subsets:  map[string]revision.Overlay{"zone-a": {Patch: map[string]any{"spec": map[string]any{"hostname": "a"}}}},
	}, 1, 0)
	cr.UID, cr.ResourceVersion = "r-1", "7"
	return cr
}

// TestLargeRevisions: from pass to pass a large revision takes no more than it does in the cache, and says the same.
func TestLargeRevisions(t *testing.T) {
	heap := func(of func() *revision.Revision) uint64 {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		r := of()
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(r)
		return after.HeapAlloc - min(before.HeapAlloc, after.HeapAlloc)
	}
	cr := stored(20_000)
	parse := func() *revision.Revision {
		r, err := revision.Parse(cr)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	decoded, kept := heap(parse), heap(func() *revision.Revision { return parse().Anew() })
	t.Logf("%d KiB of JSON: %d KiB decoded, %d KiB kept", len(cr.Data.Raw)/1024, decoded/1024, kept/1024)
	if kept > decoded/8 {
		t.Errorf("it keeps %d of %d bytes", kept, decoded)
	}
	whole, again := parse(), parse().Anew().Anew()
	if !reflect.DeepEqual(whole.Template(), again.Template()) || !whole.Matches(revision.Content{Template: again.Template()}) {
		t.Error("it has another template")
	}
	if overlay, ok := again.Overlay("zone-a"); !ok || overlay.Patch == nil || again.Identity() != "r-1/7" {
		t.Error(overlay, ok, again.Identity())
	}
	if r, err := revision.Parse(stored(3)); err != nil || r.Anew() != r {
		t.Error("a small one is not decoded again:", err)
	}
}
