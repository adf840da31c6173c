// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package memory

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

var web, api = types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "shop", Name: "api"}

// Each owner has types of its own.
type (
	count int
	begun time.Time
)

func TestSlots(t *testing.T) {
	m := &Memory{}
	expect := func(what string, got, want any) {
		t.Helper()
		if got != want {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	ofWeb, ofAPI, named, other := Slot[count]{m.Of(web)}, Slot[count]{m.Of(api)}, Named[count]{m.Of(web)}, Named[*count]{m.Of(web)}
	named.Delete("a")
	m.Forget(web)
	expect("nothing yet", ofWeb.Get(), count(0))
	expect("nothing of a name yet", named.Get("a"), count(0))
	expect("reading stores nothing", len(m.kept), 0)
	ofWeb.Set(1)
	named.Set("a", 2)
	named.Set("b", 3)
	ofAPI.Set(4)
	expect("set", ofWeb.Get(), count(1))
	expect("set a name", named.Get("a"), count(2))
	expect("another name", named.Get("b"), count(3))
	expect("another parent", ofAPI.Get(), count(4))
	expect("another type", other.Get("a"), (*count)(nil))
	expect("another handle", Slot[count]{m.Of(web)}.Get(), count(1))
	ofWeb.Set(5)
	named.Set("a", 6)
	expect("set again", ofWeb.Get(), count(5))
	expect("set a name again", named.Get("a"), count(6))
	named.Delete("a")
	expect("deleted", named.Get("a"), count(0))
	expect("another name", named.Get("b"), count(3))
	named.DeleteFunc(func(name string, value count) bool { return strings.HasPrefix(name, "b") && value == 2 })
	expect("not deleted", named.Get("b"), count(3))
	m.Forget(web)
	expect("forgotten", ofWeb.Get(), count(0))
	expect("forgotten by name", named.Get("b"), count(0))
	expect("another parent is not", ofAPI.Get(), count(4))
	m.Forget(api)
	named.Set("a", 7)
	named.Delete("a")
	expect("what has nothing left takes no room", len(m.kept), 0)
}

// What removes one slot leaves those around it.
func TestSlotsStayApart(t *testing.T) {
	m := &Memory{}
	numbers, texts, at := Named[int]{m.Of(web)}, Named[string]{m.Of(web)}, Slot[begun]{m.Of(web)}
	expect := func(what string, number int, text string) {
		t.Helper()
		if numbers.Get("a") != number || texts.Get("a") != text || time.Time(at.Get()) != time.Unix(1, 0) {
			t.Error(what, m.kept)
		}
	}
	numbers.Set("a", 1)
	texts.Set("a", "x")
	at.Set(begun(time.Unix(1, 0)))
	expect("all", 1, "x")
	numbers.Delete("a")
	expect("the first one is removed", 0, "x")
	numbers.Set("a", 2)
	expect("it is set again", 2, "x")
	texts.Delete("a")
	expect("another one is removed", 2, "")
}

// Without a memory nothing is remembered.
func TestNoMemory(t *testing.T) {
	none, named := Slot[count]{}, Named[count]{}
	none.Set(1)
	named.Set("a", 1)
	named.DeleteFunc(func(string, count) bool { return true })
	if none.Get() != 0 || named.Get("a") != 0 {
		t.Error(none.Get(), named.Get("a"))
	}
}

// Workers use different parents at the same time, and event handlers read those of all (go test -race).
func TestMemoryOfManyWorkers(t *testing.T) {
	m, workers := &Memory{}, sync.WaitGroup{}
	parent := func(i int) types.NamespacedName { return types.NamespacedName{Name: string(rune('a' + i))} }
	for i := range 8 {
		workers.Go(func() {
			own, named := Slot[count]{m.Of(parent(i))}, Named[count]{m.Of(parent(i))}
			for n := range count(100) {
				own.Set(n)
				named.Set("a", n)
				if own.Get() != n || named.Get("a") != n {
					t.Error(i, own.Get(), named.Get("a"), n)
				}
			}
			m.Forget(parent(i))
		})
		workers.Go(func() {
			for n := range 100 {
				if got := (Slot[count]{m.Of(parent(n % 8))}).Get(); got < 0 || got >= 100 {
					t.Error(got)
				}
			}
		})
	}
	workers.Wait()
}

// BenchmarkConcurrentReads is what event handlers do: they read a slot, which is not the first one, of any of a thousand parents.
func BenchmarkConcurrentReads(b *testing.B) {
	m, parents := &Memory{}, make([]types.NamespacedName, 1000)
	for i := range parents {
		parents[i] = types.NamespacedName{Namespace: "shop", Name: fmt.Sprint("web-", i)}
		of := m.Of(parents[i])
		Named[int]{of}.Set("a", 1)
		Named[string]{of}.Set("a", "x")
		Slot[count]{of}.Set(1)
		Slot[begun]{of}.Set(begun(time.Unix(1, 0)))
	}
	b.RunParallel(func(pb *testing.PB) {
		for i := 0; pb.Next(); i++ {
			if time.Time(Slot[begun]{m.Of(parents[i%len(parents)])}.Get()).IsZero() {
				b.Error("nothing is kept")
			}
		}
	})
}
