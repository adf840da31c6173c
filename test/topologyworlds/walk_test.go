// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"fmt"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// node is a state, and how it was first reached.
type node struct {
	s    state
	from int
	how  string
}

// finding is a violation with the way to it.
type finding struct {
	breach
	count int
	story string
}

// walk walks through everything that can happen, breadth first, so that the first way to a state is a shortest one.
type walk struct {
	w     *game
	seed  maphash.Seed
	nodes []node
	known map[uint64]bool
	// endedWell are the states that end well, with either schedule.
	endedWell [2]map[uint64]bool
	found     map[string]*finding
	excepted  map[string]int
	visited   int
}

func (k *walk) hash(s *state) uint64 { return maphash.Comparable(k.seed, *s) }

func (k *walk) except(name string) { k.excepted[name]++ }

func newWalk(c *setting) *walk {
	k := &walk{w: newWorld(c), seed: maphash.MakeSeed(), known: map[uint64]bool{}, found: map[string]*finding{}, excepted: map[string]int{}}
	for i := range k.endedWell {
		k.endedWell[i] = map[uint64]bool{}
	}
	return k
}

// root returns the first version at rest.
func (k *walk) root() state {
	c := k.w.setting
	s := state{Version: 1, Replicas: c.replicas, Generation: 1, Nodes: c.nodes}
	run := &schedule{walk: k}
	for range mostSteps {
		what, next, _ := run.next(&s)
		if what == "" {
			k.w.tick(&next)
			k.w.tidy(&next)
			if next == s {
				break
			}
		}
		s = next
	}
	s.Budget = c.budget
	return s
}

// explore visits up to a number of states.
func explore(c *setting, most int) *walk {
	k := newWalk(c)
	k.add(-1, k.root(), "")
	for ; k.visited < min(most, len(k.nodes)); k.visited++ {
		k.visit(k.visited)
	}
	return k
}

func (k *walk) passWhole(s *state) (state, *pass, *v1alpha1.UnitedDeploymentStatus) {
	after := *s
	x := k.w.decide(s, s)
	status := k.w.execute(x, &after, s, -1, 0)
	k.w.tidy(&after)
	return after, x, status
}

// visit adds what can happen in a state.
func (k *walk) visit(n int) {
	s := k.nodes[n].s
	after, x, _ := k.passWhole(&s)
	for _, b := range k.w.judge(x, &s) {
		k.record(n, b, fmt.Sprint("    pass: ", x.does()))
	}
	k.add(n, after, fmt.Sprintf("pass %v", x.does()))
	happens := k.w.everything(&s)
	for i := range happens {
		k.add(n, happens[i].next, happens[i].name)
	}
	k.faults(n, &s, x, happens)
	k.ends(n, s)
}

// ends runs a state to its end.
func (k *walk) ends(n int, s state) {
	for i := range k.endedWell {
		c := &schedule{walk: k, managerFirst: i == 1, endedWell: k.endedWell[i]}
		s.Budget = budget{}
		if wrong := c.run(s); wrong != nil {
			k.record(n, *wrong, "    "+strings.Join(shortened(c.trace), "\n    "))
		}
	}
}

func shortened(trace []string) []string {
	if len(trace) > 60 {
		return slices.Concat(trace[:20], []string{"..."}, trace[len(trace)-40:])
	}
	return trace
}

// faults adds passes that die, and passes that act on an outdated state.
func (k *walk) faults(n int, s *state, x *pass, happens []event) {
	if s.Budget[deaths] > 0 {
		for m := 1; m <= len(x.does()); m++ {
			dead := *s
			dead.Budget[deaths]--
			k.w.execute(x, &dead, s, -1, m)
			k.add(n, dead, fmt.Sprintf("pass dies after %v", x.does()[:m]))
		}
	}
	for i := range happens {
		e := &happens[i]
		if s.Budget[stales] > 0 && len(x.does()) > 0 && e.raw.Generation == s.Generation && e.name != "tick" {
			late := e.raw
			late.Budget[stales]--
			k.w.execute(x, &late, s, e.child, 0)
			k.add(n, late, fmt.Sprintf("stale pass after [%s] %v", e.name, x.does()))
		}
		if s.Budget[lags] > 0 && e.name != "tick" {
			late := e.raw
			late.Budget[lags]--
			lagging := k.w.decide(&e.raw, s)
			k.w.execute(lagging, &late, s, -1, 0)
			k.add(n, late, fmt.Sprintf("after [%s] a pass on the pods before %v", e.name, lagging.does()))
		}
	}
}

func (k *walk) add(from int, s state, how string) {
	k.w.tidy(&s)
	if h := k.hash(&s); !k.known[h] {
		k.known[h] = true
		k.nodes = append(k.nodes, node{s, from, how})
	}
}

// record adds a violation, if it is the first of its kind, with the way to it.
func (k *walk) record(n int, b breach, more string) {
	if k.found[b.rule] == nil {
		k.found[b.rule] = &finding{breach: b, story: k.way(n) + "\n" + more}
	}
	k.found[b.rule].count++
}

// way describes how a state was reached.
func (k *walk) way(n int) string {
	var lines []string
	for ; n >= 0; n = k.nodes[n].from {
		lines = append(lines, fmt.Sprintf("  %-40s => %s", k.nodes[n].how, k.w.show(&k.nodes[n].s)))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// told describes how far the walk came.
func (k *walk) told() string {
	depth := 0
	for n := min(k.visited, len(k.nodes)) - 1; n > 0; n = k.nodes[n].from {
		depth++
	}
	return fmt.Sprintf("%d states, %d of them looked at, depth %d; exceptions: %v", len(k.nodes), k.visited, depth, k.excepted)
}

// longWay is how many events a random way has.
const longWay = 80

// wander goes a random way through a world.
func (k *walk) wander(s state, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 15))
	k.nodes = []node{{s, -1, ""}}
	for n := range longWay {
		before, x := s, (*pass)(nil)
		happens := k.w.everything(&s)
		if random.IntN(3) == 0 || len(happens) == 0 {
			s, x, _ = k.passWhole(&before)
			for _, b := range k.w.judge(x, &before) {
				k.record(n, b, fmt.Sprint("    pass: ", x.does()))
			}
			k.nodes = append(k.nodes, node{s, n, fmt.Sprint("pass ", x.does())})
		} else {
			s, x = k.disturbed(&before, &happens[random.IntN(len(happens))], random)
		}
		k.visited++
		if x == nil || n%8 == 0 {
			k.ends(n+1, s)
		}
	}
}

// disturbed is an event, and sometimes a fault of the manager with it. The pass is nil if there was none.
func (k *walk) disturbed(s *state, e *event, random *rand.Rand) (state, *pass) {
	k.nodes = append(k.nodes, node{e.next, len(k.nodes) - 1, e.name})
	late, n := e.raw, len(k.nodes)-1
	switch {
	case e.name == "tick" || late.Generation != s.Generation:
	case late.Budget[stales] > 0 && random.IntN(3) == 0:
		late.Budget[stales]--
		x := k.w.decide(s, s)
		k.w.execute(x, &late, s, e.child, 0)
		k.nodes[n].how = fmt.Sprintf("stale pass after [%s] %v", e.name, x.does())
	case late.Budget[lags] > 0 && random.IntN(3) == 0:
		late.Budget[lags]--
		x := k.w.decide(&e.raw, s)
		k.w.execute(x, &late, s, -1, 0)
		k.nodes[n].how = fmt.Sprintf("after [%s] a pass on the pods before %v", e.name, x.does())
	case late.Budget[deaths] > 0 && random.IntN(3) == 0:
		late.Budget[deaths]--
		x := k.w.decide(&late, &late)
		read := late
		if len(x.does()) > 0 {
			k.w.execute(x, &late, &read, -1, 1)
		}
		k.nodes[n].how = fmt.Sprintf("after [%s] a pass dies after its first write %v", e.name, x.does())
	}
	k.w.tidy(&late)
	k.nodes[n].s = late
	return late, nil
}

// report fails the test for each violation.
func (k *walk) report(t *testing.T) {
	t.Helper()
	t.Log(k.told())
	for _, f := range k.found {
		t.Errorf("%s: %s (%d times)\n%s", f.rule, f.what, f.count, f.story)
	}
}

// run walks through a world, and fails the test for each violation, with a shortest way to it.
func run(t *testing.T, c *setting, most int) *walk {
	t.Helper()
	k := explore(c, most)
	k.report(t)
	return k
}

// rules returns the broken rules.
func (k *walk) rules() []string { return slices.Sorted(maps.Keys(k.found)) }
