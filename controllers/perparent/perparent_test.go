// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package perparent

import (
	"strings"
	"sync"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestMemory(t *testing.T) {
	web, api := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "api"}
	m := &Memory[int]{}
	expect := func(what string, parent types.NamespacedName, name string, want int) {
		t.Helper()
		if got := m.Get(parent, name); got != want {
			t.Errorf("%s: %s of %s is %d, want %d", what, name, parent, got, want)
		}
	}
	m.Delete(web, "a")
	m.Forget(web)
	expect("nothing yet", web, "a", 0)
	m.Set(web, "a", 1)
	m.Set(web, "b", 2)
	m.Set(api, "a", 3)
	expect("set", web, "a", 1)
	expect("another name", web, "b", 2)
	expect("another parent", api, "a", 3)
	m.Set(web, "a", 4)
	expect("set again", web, "a", 4)
	m.Delete(web, "a")
	expect("deleted", web, "a", 0)
	expect("another name", web, "b", 2)
	m.DeleteFunc(web, func(name string, what int) bool { return strings.HasPrefix(name, "b") && what == 3 })
	expect("not deleted", web, "b", 2)
	m.Forget(web)
	expect("forgotten", web, "b", 0)
	expect("another parent is not", api, "a", 3)
	m.Delete(api, "a")
	if len(m.kept) != 0 {
		t.Error("what has nothing left takes room:", m.kept)
	}
}

// Workers use different parents at the same time (go test -race).
func TestMemoryOfManyWorkers(t *testing.T) {
	m, workers := &Memory[int]{}, sync.WaitGroup{}
	for i := range 8 {
		workers.Go(func() {
			parent := types.NamespacedName{Name: string(rune('a' + i))}
			for n := range 100 {
				m.Set(parent, "", n)
				if got := m.Get(parent, ""); got != n {
					t.Error(parent, got, n)
				}
			}
			m.Forget(parent)
		})
	}
	workers.Wait()
}
