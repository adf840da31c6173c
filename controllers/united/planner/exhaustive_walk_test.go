// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"hash/maphash"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

// smallHash identifies a state; nothing else of a state is kept.
type smallHash [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func hashOf(s *smallState, extra byte) smallHash {
	var buffer [256]byte
	b := append(s.encode(buffer[:0]), extra)
	return smallHash{maphash.Bytes(seeds[0], b), maphash.Bytes(seeds[1], b)}
}

// origin is how a state was first reached.
type origin struct {
	from uint32
	by   smallEvent
}

// found is one way in which a world breaks a rule: how often, and how it happened first.
type found struct {
	rule  string
	count int
	// state is the one from which it happens, by the event; live is set instead if the kind schedule with that
	// number does not end well from the state.
	state uint32
	by    smallEvent
	live  int
}

// walker walks everything that can happen in a small world, breadth first, so that the first way to a state is a
// shortest one.
type walker struct {
	config  *smallConfig
	origins []origin
	visited map[smallHash]struct{}
	endings *endings
	found   []*found
	depth   int
	passes  int
	// cut: there are more states.
	cut bool
	// limit is how many states are expanded, 0 for all; after until, no more than enough.
	limit int
	until time.Time
	took  time.Duration
}

// offspring is the result of one state.
type offspring struct {
	states []smallState
	hashes []smallHash
	events []smallEvent
	found  []found
}

// block is how many states are expanded before their results are merged.
const block = 2048

// enough is how many states of each world make test looks at, and make test-full when it has no time for more.
const enough = 1_000

// walk expands all states for which there is time.
func (c *smallConfig) walk(limit int, until time.Time) *walker {
	w := &walker{config: c, visited: map[smallHash]struct{}{}, endings: &endings{}, limit: limit, until: until}
	began := time.Now()
	first := c.first()
	w.visited[hashOf(&first, 0)] = struct{}{}
	w.origins = append(w.origins, origin{})
	seams := make([]*seam, runtime.GOMAXPROCS(0))
	for i := range seams {
		seams[i] = newSeam(c)
	}
	frontier, number := []smallState{first}, uint32(0)
	for len(frontier) > 0 {
		var next []smallState
		for begin := 0; begin < len(frontier); begin += block {
			chunk := frontier[begin:min(begin+block, len(frontier))]
			for i, o := range w.expand(seams, chunk) {
				next = w.add(next, number+uint32(i), &o)
			}
			number += uint32(len(chunk))
			if w.full() {
				w.cut, next = len(next) > 0 || begin+block < len(frontier), nil
				break
			}
		}
		frontier = next
		w.depth++
	}
	w.took = time.Since(began)
	return w
}

func (w *walker) full() bool {
	return w.limit > 0 && len(w.origins) >= w.limit || len(w.origins) >= enough && worlds.IsOver(w.until)
}

// add merges the result of one state.
func (w *walker) add(next []smallState, from uint32, o *offspring) []smallState {
	w.passes++
	for i := range o.states {
		if _, known := w.visited[o.hashes[i]]; known {
			continue
		}
		w.visited[o.hashes[i]] = struct{}{}
		w.origins = append(w.origins, origin{from, o.events[i]})
		next = append(next, o.states[i])
	}
	for _, f := range o.found {
		f.state = from
		w.note(f)
	}
	return next
}

func (w *walker) note(f found) {
	key := ruleOf(f.rule)
	for _, known := range w.found {
		if ruleOf(known.rule) == key {
			known.count++
			return
		}
	}
	f.count = 1
	w.found = append(w.found, &f)
}

// ruleOf returns a complaint without the names and numbers in it, so that similar ones are counted together.
func ruleOf(complaint string) string {
	words := strings.Fields(complaint)
	for i, word := range words {
		if i > 0 && (len(word) == 1 || strings.ContainsAny(word, "0123456789")) && word != "I6" {
			words[i] = "_"
		}
	}
	return strings.Join(words, " ")
}

// expand expands states, with all processors. States in which a pass sees the same go to the same seam, which keeps
// what it has decided.
func (w *walker) expand(seams []*seam, chunk []smallState) []offspring {
	out := make([]offspring, len(chunk))
	shares := make([][]int, len(seams))
	for i := range chunk {
		seen := chunk[i].seen()
		n := hashOf(&seen, 0)[0] % uint64(len(seams))
		shares[n] = append(shares[n], i)
	}
	var wait sync.WaitGroup
	for n, e := range seams {
		wait.Go(func() {
			for _, i := range shares[n] {
				w.expandOne(e, &chunk[i], &out[i])
			}
		})
	}
	wait.Wait()
	return out
}

func (w *walker) expandOne(e *seam, s *smallState, o *offspring) {
	ev := smallEvent{what: happensPass}
	defer func() {
		if r := recover(); r != nil {
			o.found = append(o.found, found{rule: fmt.Sprintf("panic: %v\n%s", r, panicked()), by: ev})
		}
	}()
	c := w.config
	pass := e.decide(s)
	w.expandPass(e, s, pass, o)
	c.possible(s, func(event smallEvent) {
		ev = event
		after := *s
		synced := c.happen(&after, ev)
		if after == *s {
			return
		}
		if ev.what == happensTick && (c.stands(e, s) || believesItStands(s)) {
			after.parent.soaked = true
		}
		if ev.what == happensSync {
			if said := c.judgeSync(s, &after, int(ev.k), synced); len(said) > 0 {
				o.complain(ev, said)
				return
			}
		}
		w.reach(o, &after, ev)
		w.expandLate(e, s, &after, pass, ev, o)
	})
	ev = smallEvent{what: happensPass}
	w.askLife(e, s, o)
}

// believesItStands reports whether no pass has seen yet that the running step does not stand. If nobody sees a
// replica become unready twice in a row, this cannot be distinguished from standing: a replica shows only the last
// time at which it became ready. (TestSoakKnowsWhatItDidNotSee has the case of once.)
func believesItStands(s *smallState) bool {
	rollout := statuses.at(s.parent.status).Rollout
	return rollout != nil && rollout.ReachedTime != nil
}

func (o *offspring) complain(ev smallEvent, said []string) {
	for _, rule := range said {
		o.found = append(o.found, found{rule: rule, by: ev})
	}
}

func (w *walker) reach(o *offspring, s *smallState, ev smallEvent) {
	h := hashOf(s, 0)
	if _, known := w.visited[h]; known {
		return
	}
	o.states = append(o.states, *s)
	o.hashes = append(o.hashes, h)
	o.events = append(o.events, ev)
}

// expandPass expands the pass itself, and the pass that dies after each of its writes.
func (w *walker) expandPass(e *seam, s *smallState, pass *smallPass, o *offspring) {
	ev := smallEvent{what: happensPass}
	said := w.config.judge(e, s, pass)
	if o.complain(ev, said); !w.config.knowsAll(said) {
		return
	}
	after := *s
	status := e.carry(pass, s, &after, pass.everything(), [maxKids + 1]bool{})
	if said := w.config.judgeStatus(e, s, status); len(said) > 0 {
		o.complain(ev, said)
		return
	}
	if w.config.judgedState(e, s).failed {
		after.parent.soaked = false
	}
	after.forgetSoak(status)
	if after != *s {
		w.reach(o, &after, ev)
	}
	if s.budget[budgetDie] == 0 {
		return
	}
	for n := 1; n <= len(pass.writes); n++ {
		dead := *s
		dead.budget[budgetDie]--
		e.carry(pass, s, &dead, n, statusLost())
		w.reach(o, &dead, smallEvent{what: happensDeath, i: uint8(n)})
	}
}

// statusLost is for carry: the status is not written.
func statusLost() [maxKids + 1]bool { return [maxKids + 1]bool{maxKids: true} }

// expandLate expands a pass that had read the world before an event, and writes after it.
func (w *walker) expandLate(e *seam, s, after *smallState, pass *smallPass, ev smallEvent, o *offspring) {
	if s.budget[budgetStale] == 0 {
		return
	}
	late := *after
	late.budget[budgetStale]--
	e.carry(pass, s, &late, pass.everything(), changedBy(s, after))
	ev.late = true
	w.reach(o, &late, ev)
}

// askLife checks whether every kind schedule ends well.
func (w *walker) askLife(e *seam, s *smallState, o *offspring) {
	for i, n := range kindnesses() {
		begun := *s
		n.correct(w.config, &begun)
		if wrong := n.live(w.config, e, begun, w.endings, i, nil); wrong != "" {
			o.found = append(o.found, found{rule: fmt.Sprintf("I6: %s (%s)", wrong, n.name), live: i + 1})
		}
	}
}

// first returns the initial state of a world: nothing, or v1 at rest.
func (c *smallConfig) first() smallState {
	s := smallState{parent: smallParent{version: 1, replicas: c.replicas, subsets: c.subsets, generation: 1}}
	s.parent.status = internStatus(&v1alpha1.UnitedDeploymentStatus{ObservedGeneration: -1}, false)
	s.parent.approved = textID("")
	for k := range s.kids {
		s.kids[k].notes = noNotes()
	}
	s.tidy()
	if !c.fresh {
		sane := *c
		sane.mutant = nil
		e := newSeam(&sane)
		kind := kindnesses()[0]
		for range kindSteps {
			if _, any := kind.next(c, e, &s); !any {
				break
			}
		}
		if wrong := c.missed(e, &s, &kind); wrong != "" || !meta.IsStatusConditionTrue(statuses.at(s.parent.status).Conditions, v1alpha1.ConditionInitialized) {
			panic(fmt.Sprintf("%s does not even begin: %s: %s", c.name, wrong, s.String()))
		}
		for k := range s.kids {
			for i := range s.kids[k].set.Pods {
				s.kids[k].set.Pods[i].Marks = 0
			}
		}
	}
	s.budget = c.budget
	return s
}

// trace describes how a breach happens, with a line for each event.
func (w *walker) trace(f *found) string {
	var events []smallEvent
	for n := f.state; n != 0; n = w.origins[n].from {
		events = append([]smallEvent{w.origins[n].by}, events...)
	}
	var b strings.Builder
	e := newSeam(w.config)
	s := w.config.first()
	fmt.Fprintf(&b, "   %s\n", s.String())
	for _, ev := range events {
		w.redo(e, &s, ev)
		fmt.Fprintf(&b, "%3s%-26s %s\n", "", ev.in(w.config), s.String())
	}
	if f.live == 0 {
		w.redo(e, &s, f.by)
		fmt.Fprintf(&b, "   %-26s %s\n", f.by.in(w.config)+" <<<", s.String())
		return b.String()
	}
	kind := kindnesses()[f.live-1]
	kind.correct(w.config, &s)
	fmt.Fprintf(&b, "   from here on it is kind\n")
	kind.live(w.config, e, s, &endings{}, f.live-1, func(happened string, s *smallState) {
		fmt.Fprintf(&b, "   . %-24s %s\n", happened, s.String())
	})
	return b.String()
}

// redo lets an event happen once more.
func (w *walker) redo(e *seam, s *smallState, ev smallEvent) {
	defer func() { _ = recover() }() // it is already reported
	before := *s
	if ev.what == happensPass || ev.what == happensDeath || ev.late {
		pass := e.decide(&before)
		n, changed := pass.everything(), [maxKids + 1]bool{}
		if ev.what == happensDeath {
			n, changed = int(ev.i), statusLost()
			s.budget[budgetDie]--
		}
		if ev.late {
			w.config.happen(s, smallEvent{what: ev.what, k: ev.k, i: ev.i})
			changed = changedBy(&before, s)
			s.budget[budgetStale]--
		}
		e.carry(pass, &before, s, n, changed)
		if ev.what == happensPass && w.config.judgedState(e, &before).failed {
			s.parent.soaked = false
		}
		return
	}
	w.config.happen(s, ev)
	if ev.what == happensTick && (w.config.stands(e, &before) || believesItStands(&before)) {
		s.parent.soaked = true
	}
}

// panicked returns where a panic came from, in a few lines.
func panicked() string {
	lines := strings.Split(string(debug.Stack()), "\n")
	var own []string
	for _, line := range lines {
		if strings.Contains(line, "/controllers/") && !strings.Contains(line, "exhaustive_") {
			own = append(own, strings.TrimSpace(line))
		}
	}
	return strings.Join(own[:min(3, len(own))], "\n")
}

// endings records how kind schedules end, by the hash of the state.
type endings struct {
	shards [64]endingShard
}

type endingShard struct {
	sync.Mutex
	known map[smallHash]uint32
}

func (k *endings) get(h smallHash) (string, bool) {
	shard := &k.shards[h[0]%64]
	shard.Lock()
	defer shard.Unlock()
	id, found := shard.known[h]
	if !found {
		return "", false
	}
	return texts.at(id), true
}

func (k *endings) set(h smallHash, ending string) {
	id := textID(ending)
	shard := &k.shards[h[0]%64]
	shard.Lock()
	defer shard.Unlock()
	if shard.known == nil {
		shard.known = map[smallHash]uint32{}
	}
	shard.known[h] = id
}

func intOf(n int32) *intstr.IntOrString { i := intstr.FromInt32(n); return &i }
