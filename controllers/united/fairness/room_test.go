// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package fairness_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/controllers/united/fairness"
)

func in(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// If passes counted only when they have ended, all workers could be waiting for the webhooks of one namespace.
func TestANamespaceLeavesWorkers(t *testing.T) {
	now := time.Now()
	s, woken := fairness.New(8), []string{}
	s.OnWake(func(p types.NamespacedName) { woken = append(woken, p.String()) })
	var slow []*fairness.Turn
	begin := func(namespace string) (begun int) {
		for i := range 8 {
			turn, wait := s.Begin(in(namespace, fmt.Sprint(i)), now)
			if turn == nil {
				if wait <= 0 {
					t.Error("it is never looked at again")
				}
				continue
			}
			begun++
			slow = append(slow, turn)
		}
		return begun
	}
	for _, tc := range []struct {
		namespace string
		want      int
	}{{"first", 4}, {"second", 2}, {"third", 1}, {"fourth", 0}, {"fifth", 0}} {
		if begun := begin(tc.namespace); begun != tc.want {
			t.Errorf("%s has %d workers, want %d", tc.namespace, begun, tc.want)
		}
	}
	slow[6].End(0, now) // the one of the third namespace
	if want := []string{"fifth/0", "fourth/0", "third/1"}; !slices.Equal(woken, want) {
		t.Error("woken", woken, "want", want)
	}
	woken = nil
	s.Forget(in("fourth", "0"))
	if want := []string{"fifth/0", "fourth/1", "third/1"}; !slices.Equal(woken, want) {
		t.Error("woken", woken, "want", want)
	}
	if turn, _ := s.Begin(in("fourth", "3"), now); turn != nil {
		t.Error("it went past the first of its namespace")
	}
	if turn, _ := s.Begin(in("fourth", "1"), now); turn == nil {
		t.Error("it was woken, and does not get the worker")
	}
}

// With halves alone, four namespaces whose webhooks are slow had all of eight workers, and everybody else waited for them.
func TestTheLastWorkerIsForShortPasses(t *testing.T) {
	now := time.Now()
	s := fairness.New(8)
	may := func(namespace, name string) *fairness.Turn {
		turn, _ := s.Begin(in(namespace, name), now)
		return turn
	}
	may("short", "before").End(fairness.Allowance, now)
	may("both", "short").End(0, now)
	may("both", "long").End(much, now)
	for i := range 10 {
		for j := range 8 {
			may(fmt.Sprint("slow-", i), fmt.Sprint(j))
		}
	}
	if may("both", "another") != nil {
		t.Error("a namespace that had a long pass as well takes the last worker")
	}
	for range 3 {
		turn := may("short", "one")
		if turn == nil {
			t.Fatal("there is no worker for it")
		}
		if may("other", "one") != nil {
			t.Error("there are more passes than workers")
		}
		turn.End(fairness.Allowance, now)
		if may("other", "one") != nil {
			t.Error("it has not shown that its passes are short")
		}
	}
}

func TestALongPassCountsForAWhile(t *testing.T) {
	now := time.Now()
	s := fairness.New(2)
	first, _ := s.Begin(in("ns", "long"), now)
	first.End(much, now)
	second, _ := s.Begin(in("ns", "short"), now)
	second.End(0, now)
	if turn, _ := s.Begin(in("slow", "one"), now); turn == nil {
		t.Fatal("there are two workers")
	}
	if turn, _ := s.Begin(in("ns", "short"), now); turn != nil {
		t.Error("it takes the last worker")
	}
	if turn, _ := s.Begin(in("ns", "short"), now.Add(time.Hour)); turn == nil {
		t.Fatal("it never gets the last worker again")
	} else {
		turn.End(0, now)
	}
	s.Forget(in("ns", "short"))
	if turn, _ := s.Begin(in("ns", "new"), now.Add(time.Hour)); turn != nil {
		t.Error("nobody is left there who had a short pass")
	}
}

// The only worker is for all.
func TestOneWorker(t *testing.T) {
	now := time.Now()
	s := fairness.New(1)
	for _, used := range []time.Duration{0, much} {
		turn, _ := s.Begin(in("ns", "one"), now)
		if turn == nil {
			t.Fatal("it never begins")
		}
		turn.End(used, now)
	}
}

// Nobody waits for a place behind a parent whose namespace has no worker for it.
func TestAPlaceIsNotKeptForWhoCannotBegin(t *testing.T) {
	now := time.Now()
	s := fairness.New(4) // one of these is a place
	long := func(p types.NamespacedName) *fairness.Turn {
		turn, _ := s.Begin(p, now)
		if turn == nil {
			t.Fatal(p, "cannot begin")
		}
		turn.MayContinue(much)
		return turn
	}
	placed := long(in("theirs", "placed"))
	for _, p := range []types.NamespacedName{in("theirs", "first"), in("ours", "second")} {
		long(p).End(much, now)
	}
	var slow []*fairness.Turn
	for i := range 2 {
		turn, _ := s.Begin(in("theirs", fmt.Sprint("slow-", i)), now)
		slow = append(slow, turn)
	}
	if slow[0] == nil || slow[1] != nil {
		t.Fatal("they have half of the workers")
	}
	placed.End(much, now)
	if turn, _ := s.Begin(in("theirs", "slow-1"), now); turn == nil {
		t.Fatal("there is a worker for it again")
	}
	if turn, _ := s.Begin(in("theirs", "first"), now); turn != nil {
		t.Fatal("it begins beyond what its namespace may have")
	}
	if turn, _ := s.Begin(in("ours", "second"), now); turn == nil {
		t.Error("it waits for a place that nobody uses")
	}
}

// In any sequence of passes: there are no more passes than workers, a namespace without a worker gets one while two are
// free, or if it has had only short passes while one is, and no parent is forgotten.
func TestNamespaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		workers, now := rapid.IntRange(1, 12).Draw(t, "workers"), time.Unix(0, 0)
		s, woken := fairness.New(workers), map[types.NamespacedName]bool{}
		s.OnWake(func(p types.NamespacedName) { woken[p] = true })
		under, waits, busy := map[types.NamespacedName]*fairness.Turn{}, map[types.NamespacedName]bool{}, map[string]int{}
		short := map[string]map[types.NamespacedName]bool{}
		begin := func(p types.NamespacedName) {
			free, ahead := workers-len(under), 0
			for other := range waits {
				if other.Namespace == p.Namespace && other != p {
					ahead++
				}
			}
			turn, _ := s.Begin(p, now)
			delete(woken, p)
			if delete(waits, p); turn == nil {
				if (free > 1 || free == 1 && (workers == 1 || len(short[p.Namespace]) > 0)) && busy[p.Namespace] == 0 && ahead == 0 {
					t.Fatal("there is a worker, and it has none:", p)
				}
				waits[p] = true
				return
			}
			if busy[p.Namespace] >= free {
				t.Fatal(p, "takes more than it leaves", busy, free)
			}
			under[p] = turn
			busy[p.Namespace]++
		}
		end := func(p types.NamespacedName) {
			under[p].End(0, now)
			delete(under, p)
			busy[p.Namespace]--
			if short[p.Namespace] == nil {
				short[p.Namespace] = map[types.NamespacedName]bool{}
			}
			short[p.Namespace][p] = true
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			p := in(fmt.Sprint("ns", rapid.IntRange(0, 3).Draw(t, "namespace")), fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "name")))
			switch {
			case under[p] != nil:
				end(p)
			case rapid.IntRange(0, 9).Draw(t, "forget") == 0:
				s.Forget(p)
				delete(waits, p)
				delete(short[p.Namespace], p)
			default:
				begin(p)
			}
		}
		for p := range under {
			end(p)
		}
		for len(waits) > 0 {
			if len(woken) == 0 {
				t.Fatal("nobody is woken, and there wait", waits)
			}
			for p := range woken {
				if !waits[p] {
					delete(woken, p)
					continue
				}
				if begin(p); under[p] != nil {
					end(p)
				}
			}
		}
	})
}
