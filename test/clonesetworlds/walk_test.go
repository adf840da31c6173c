// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// node is a state, and how it was reached first.
type node struct {
	s    state
	from int
	how  string
}

// walker walks through all that can happen, breadth first, so that the first way to a state is a shortest one.
type walker struct {
	w     *world
	nodes []node
	known map[uint64]bool
	well  []map[uint64]bool // of each kindness, see schedule
	// found are the breaches, each told once, by what it is.
	found map[string]*finding
	order []string
	// looked is how many states were looked at.
	looked int
}

// finding is a breach with the way to it.
type finding struct {
	breach
	count int
	story string
}

// root is the first version at rest.
func (w *world) root() state {
	s := state{Version: w.versions[0], Replicas: w.replicas, Subsets: w.first, Generation: 1}
	kind := kindnesses()[1]
	for range mostKindSteps {
		what, next, _ := kind.next(w, &s)
		if what == "" {
			break
		}
		s = next
	}
	for k := range s.Children {
		for i := range s.Children[k].Pods {
			s.Children[k].Pods[i].Aged = s.Children[k].Pods[i].Version != 0
		}
	}
	s.Budget, s.Race = w.budget, false
	w.tidy(&s)
	return s
}

// walk looks at so many states.
func (c *setting) walk(most int) *walker {
	w := newWorld(c)
	k := &walker{w: w, nodes: []node{{s: w.root(), from: -1}}, known: map[uint64]bool{}, found: map[string]*finding{}}
	k.known[w.hash(&k.nodes[0].s)] = true
	for range kindnesses() {
		k.well = append(k.well, map[uint64]bool{})
	}
	for ; k.looked < min(most, len(k.nodes)); k.looked++ {
		k.look(k.looked)
	}
	return k
}

// look asks what can happen in a state.
func (k *walker) look(n int) {
	w, s := k.w, k.nodes[n].s
	next, x, _ := w.passWhole(&s)
	for _, b := range w.judge(x, &s) {
		k.tell(n, b, fmt.Sprint("pass: ", x.does()))
	}
	k.add(n, next, fmt.Sprintf("pass %v", x.does()))
	happens, breaches := w.events(&s)
	for _, b := range breaches {
		k.tell(n, b, "")
	}
	for _, e := range happens {
		k.add(n, e.next, e.name)
	}
	k.faults(n, &s, x, happens)
	k.onceIsEnough(n, &s)
	for i, kind := range kindnesses() {
		if wrong, trace := w.endsOf(&s, &kind, k.well[i]); wrong != "" {
			if len(trace) > 24 {
				trace = slices.Concat(trace[:4], trace[len(trace)-20:])
			}
			k.tell(n, breach{"I6", kind.name + ": " + wrong}, "    "+strings.Join(trace, "\n    "))
		}
	}
}

// faults are passes that die, and passes that act on what is not so any more (I7).
func (k *walker) faults(n int, s *state, x *pass, happens []event) {
	w := k.w
	if s.Budget[deaths] > 0 {
		for m := 1; m <= len(x.does()); m++ {
			dead := *s
			dead.Budget[deaths]--
			w.execute(x, &dead, disturbed{dies: m})
			k.add(n, dead, fmt.Sprintf("pass dies after %v", x.does()[:m]))
		}
	}
	for _, e := range happens {
		if s.Budget[stales] > 0 {
			late := e.raw
			late.Budget[stales]--
			d := disturbed{status: late.Status != s.Status, read: s}
			if e.child >= 0 {
				d.children[e.child] = true
			}
			w.execute(x, &late, d)
			k.add(n, late, fmt.Sprintf("stale pass after [%s] %v", e.name, x.does()))
		}
		if s.Budget[lags] > 0 {
			k.lag(n, s, &e)
		}
	}
}

// lag is a pass that has seen an event on everything but the pods.
func (k *walker) lag(n int, s *state, e *event) {
	late := e.raw
	late.Budget[lags]--
	late.Race = true
	x := k.w.decide(&e.raw, s)
	k.w.execute(x, &late, disturbed{read: s})
	k.add(n, late, fmt.Sprintf("after [%s] a pass on the pods before %v", e.name, x.does()))
}

func (k *walker) add(from int, s state, how string) {
	k.w.tidy(&s)
	if h := k.w.hash(&s); !k.known[h] {
		k.known[h] = true
		k.nodes = append(k.nodes, node{s, from, how})
	}
}

// different is what differs from one breach of a kind to the next.
var different = regexp.MustCompile(`\b[abc]: |[0-9a-f]{10}|\d+`)

// tell notes a breach, the first of each kind with the way to it.
func (k *walker) tell(n int, b breach, more string) {
	key := b.rule
	if b.rule == "I6" {
		key += " " + different.ReplaceAllString(b.what, "_")
	}
	if k.found[key] == nil {
		k.found[key] = &finding{breach: b, story: k.way(n) + "\n" + more}
		k.order = append(k.order, key)
	}
	k.found[key].count++
}

// way is how a state was reached.
func (k *walker) way(n int) string {
	var lines []string
	for ; n >= 0; n = k.nodes[n].from {
		lines = append(lines, fmt.Sprintf("  %-40s => %s", k.nodes[n].how, k.w.show(&k.nodes[n].s)))
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

// depth is how many events it takes to the last state that was looked at.
func (k *walker) depth() (depth int) {
	for n := k.looked - 1; n > 0; n = k.nodes[n].from {
		depth++
	}
	return depth
}

// show is a state in a line. Of a child: its template, replicas, partition and maxUnavailable, what its subset
// protects as bits, the current version of its status, and its pods: "." is ready, "?" starting, "x" crashed,
// "!" unready; "'" old, "m" marked, "t" being deleted.
func (w *world) show(s *state) string {
	var b strings.Builder
	fmt.Fprintf(&b, "v%d R%d strategy%d subsets%b paused=%v now%d race=%v", s.Version, s.Replicas, s.Strategy, s.Subsets, s.Paused, s.Now, s.Race)
	if rollout := w.status(s).Rollout; rollout != nil {
		fmt.Fprintf(&b, " step%d/%s", rollout.Step, rollout.Phase)
	}
	for k := range s.Children {
		c := &s.Children[k]
		if !c.Exists {
			continue
		}
		fmt.Fprintf(&b, " | %s v%d r%d p%d mu%d", subsetName(k), c.Template, c.Replicas, c.Partition, c.MaxUnavailable)
		if !c.Observed {
			b.WriteString(" unobserved")
		}
		fmt.Fprintf(&b, " protects%b released%d current%d [", c.Protects, c.Released, c.Current)
		for _, p := range c.Pods {
			if p.Version != 0 {
				fmt.Fprintf(&b, " %d%s%s%s%s", p.Version, p.Phase.letter(), strings.Repeat("'", toInt(p.Aged)),
					strings.Repeat("m", toInt(p.Marked)), strings.Repeat("t", toInt(p.Terminating)))
			}
		}
		b.WriteString(" ]")
	}
	return b.String()
}
