// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// node is a state, and how it was first reached.
type node[S comparable] struct {
	s    S
	from int
	how  string
}

// Walker walks through everything that can happen, breadth first, so that the first way to a state is a shortest one.
type Walker[S comparable] struct {
	*walk[S]
	nodes     []node[S]
	known     map[uint64]bool
	endedWell []map[uint64]bool // of each kindness, see schedule
	// found are the violations, one for each kind.
	found map[string]*Finding
	order []string
	// visited is the number of visited states; cut: there was no time for more.
	visited int
	cut     bool
}

// Finding is a violation with the way to it.
type Finding struct {
	Breach
	Count int
	Story string
}

// Found returns the violations in the order in which they were found.
func (k *Walker[S]) Found() (all []*Finding) {
	for _, key := range k.order {
		all = append(all, k.found[key])
	}
	return all
}

// Told describes how far the walk came.
func (k *Walker[S]) Told() string {
	whole := ""
	if k.visited == len(k.nodes) {
		whole = " (all there are)"
	}
	return fmt.Sprintf("%d states, %d of them looked at%s, depth %d; exceptions: %v", len(k.nodes), k.visited, whole, k.depth(), k.w.Excepted)
}

// root returns the first version at rest.
func (k *walk[S]) root() S {
	var s S
	core := k.Core(&s)
	core.Version, core.Replicas, core.Subsets, core.Generation = k.w.Versions[0], k.w.Replicas, k.w.First, 1
	kind := k.kindnesses()[1]
	rests := k.ageless == nil || k.ageless.Begin(&s)
	for range mostKindSteps * Int(rests) {
		what, next, _ := k.next(kind, &s)
		if what == "" && k.ageless != nil {
			k.tick(&next)
			k.Tidy(&next)
		}
		if next == s {
			break
		}
		s = next
	}
	if k.ageless == nil {
		k.Age(&s)
	}
	core.Budget, core.Race = k.w.Budget, false
	k.Tidy(&s)
	return s
}

// newWalker returns a walker at the first state of a world.
func newWalker[S comparable](g Game[S]) *Walker[S] {
	w := newWalk(g)
	k := &Walker[S]{walk: w, nodes: []node[S]{{s: w.root(), from: -1}}, known: map[uint64]bool{}, found: map[string]*Finding{}}
	k.known[w.hash(&k.nodes[0].s)] = true
	for range w.kindnesses() {
		k.endedWell = append(k.endedWell, map[uint64]bool{})
	}
	return k
}

// Walk visits up to a number of states, and after the time that walks may take no more than a quarter of them.
func Walk[S comparable](g Game[S], most int) *Walker[S] {
	k, until := newWalker(g), Until()
	for ; k.visited < min(most, len(k.nodes)); k.visited++ {
		if k.cut = k.visited >= most/4 && IsOver(until); k.cut {
			Tell("%s: %d of up to %d states: the time was up", k.w.Name, k.visited, most)
			break
		}
		k.visit(k.visited)
	}
	return k
}

// visit adds what can happen in a state.
func (k *Walker[S]) visit(n int) {
	s := k.nodes[n].s
	next, x, _ := k.passWhole(&s)
	for _, b := range k.Judge(x, &s) {
		k.record(n, b, fmt.Sprint("pass: ", x.Does()))
	}
	k.add(n, next, x.String)
	happens := k.events(&s)
	for _, b := range happens.Breaches {
		k.record(n, b, "")
	}
	for _, e := range happens.List {
		k.add(n, e.Next, func() string { return e.Name })
	}
	k.faults(n, &s, x, happens.List)
	if k.ageless == nil {
		k.onceIsEnough(n, &s)
	}
	k.ends(n, &s)
}

// ends checks how a state ends, whoever is kind to it.
func (k *Walker[S]) ends(n int, s *S) {
	for i, kind := range k.kindnesses() {
		if wrong, trace := k.endsOf(s, kind, k.endedWell[i]); wrong != "" {
			k.record(n, Breach{"I6", kind.name + ": " + wrong}, k.tell(trace))
		}
	}
}

// tell formats a trace, without its middle if it is long.
func (k *Walker[S]) tell(trace []moment[S]) string {
	if len(trace) > 24 {
		trace = slices.Concat(trace[:4], trace[len(trace)-20:])
	}
	var lines []string
	for i := range trace {
		lines = append(lines, trace[i].what+"   => "+k.show(&trace[i].s))
	}
	return "    " + strings.Join(lines, "\n    ")
}

// faults adds passes that die, and passes that act on an outdated state (I7).
func (k *Walker[S]) faults(n int, s *S, x *Pass, happens []Event[S]) {
	budget := &k.Core(s).Budget
	if budget[Deaths] > 0 {
		for m := 1; m <= len(x.Writes)+len(x.Deletes); m++ {
			dead := *s
			k.Core(&dead).Budget[Deaths]--
			k.execute(x, &dead, disturbed[S]{child: -1, dies: m, read: s})
			k.add(n, dead, func() string { return fmt.Sprintf("pass dies after %v", x.Does()[:m]) })
		}
	}
	for _, e := range happens {
		if budget[Stales] > 0 && k.overtakes(x, s, &e) {
			late, how := k.stale(x, s, &e)
			k.add(n, late, how)
		}
		if budget[Lags] > 0 && !k.alone(&e) {
			late, how := k.lag(s, &e)
			k.add(n, late, how)
		}
	}
}

// alone reports whether no pass runs during an event.
func (k *walk[S]) alone(e *Event[S]) bool { return k.ageless != nil && e.Name == tick }

// overtakes reports whether an event may happen between what a pass reads and what it writes. Without a clock, it is one that
// the pass cannot notice.
func (k *walk[S]) overtakes(x *Pass, s *S, e *Event[S]) bool {
	return k.ageless == nil || !k.alone(e) && len(x.Does()) > 0 && k.Core(&e.Raw).Generation == k.Core(s).Generation
}

// stale is a pass that writes after an event what it has decided before it.
func (k *walk[S]) stale(x *Pass, s *S, e *Event[S]) (late S, how func() string) {
	late = e.Raw
	core := k.Core(&late)
	core.Budget[Stales]--
	k.execute(x, &late, disturbed[S]{child: e.Child, status: core.Status != k.Core(s).Status, read: s})
	return late, func() string { return fmt.Sprintf("stale pass after [%s] %v", e.Name, x.Does()) }
}

// lag is a pass that has seen an event on everything but the objects of the children.
func (k *walk[S]) lag(s *S, e *Event[S]) (late S, how func() string) {
	late = e.Raw
	core := k.Core(&late)
	core.Budget[Lags]--
	core.Race = true
	x := k.decide(&e.Raw, s)
	k.execute(x, &late, disturbed[S]{child: -1, read: s})
	return late, func() string {
		return fmt.Sprintf("after [%s] a pass on what was the children's before %v", e.Name, x.Does())
	}
}

// add adds a state, if it is not known yet.
func (k *Walker[S]) add(from int, s S, how func() string) {
	k.Tidy(&s)
	if h := k.hash(&s); !k.known[h] {
		k.known[h] = true
		k.nodes = append(k.nodes, node[S]{s, from, how()})
	}
}

// different matches the words in which two violations of one kind may differ.
var different = regexp.MustCompile(`\b[abc]: |[0-9a-f]{10}|\d+`)

// record adds a violation, if it is the first of its kind, with the way to it.
func (k *Walker[S]) record(n int, b Breach, more string) {
	key := b.Rule
	if b.Rule == "I6" {
		key += " " + different.ReplaceAllString(b.What, "_")
	}
	if k.found[key] == nil {
		k.found[key] = &Finding{Breach: b, Story: k.way(n) + "\n" + more}
		k.order = append(k.order, key)
	}
	k.found[key].Count++
}

// way describes how a state was reached.
func (k *Walker[S]) way(n int) string {
	var lines []string
	for ; n >= 0; n = k.nodes[n].from {
		lines = append(lines, fmt.Sprintf("  %-40s => %s", k.nodes[n].how, k.show(&k.nodes[n].s)))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// show formats a state as one line.
func (k *walk[S]) show(s *S) string {
	core := k.Core(s)
	line := fmt.Sprintf("v%d R%d strategy%d subsets%b paused=%v now%d race=%v", core.Version, core.Replicas, core.Strategy, core.Subsets,
		core.Paused, core.Now, core.Race)
	if rollout := k.w.Status(core).Rollout; rollout != nil {
		line += fmt.Sprintf(" step%d/%s", rollout.Step, rollout.Phase)
	}
	return line + k.Show(s)
}

// depth returns the number of events to the last visited state.
func (k *Walker[S]) depth() (depth int) {
	for n := min(k.visited, len(k.nodes)) - 1; n > 0; n = k.nodes[n].from {
		depth++
	}
	return depth
}
