// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package leaderworkersetworlds walks through small worlds of a UnitedDeployment with LeaderWorkerSets as children. Its
// model of their controllers was written from pkg/controllers of LeaderWorkerSet 0.9.0, and its oracle from the text of
// the design, and not from the code under test. Its value is that it is independent, so do not replace any of it by code
// of the project. The StatefulSet of the leaders is that of adapters/statefulset/model, which is compared with the real one.
//
// The package has only tests:
//
//	state_test.go       a state: the content of a world
//	controller_test.go  the controllers of LeaderWorkerSets and of their pods
//	objects_test.go     the state as objects of the API
//	manager_test.go     what a pass of the manager writes
//	events_test.go      what else can happen
//	safety_test.go      what must not happen: the oracle; deletions_test.go: its part about deletions by United
//	ending_test.go      what must happen after all faults have stopped
//	worlds_test.go      the worlds
//	mutants_test.go     wrong controllers, which the oracle must find
package leaderworkersetworlds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"

	"github.com/unitedworkloads/united/adapters/leaderworkerset"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

const (
	maxChildren = 3
	maxGroups   = statefulset.MaxPods
)

// The maxUnavailable of a LeaderWorkerSet is 1 if the template determines it, or all of its replicas.
const (
	ofTemplate = 1
	unbounded  = 100
)

// worker is the StatefulSet of the worker of a group, with its one pod; the zero value means that there is none.
type worker struct {
	Version uint8
	Phase   statefulset.Phase
	// Stale: it belongs to an earlier leader, and the garbage collector has not deleted it yet.
	Stale, Aged, WasReady bool
}

// child is a LeaderWorkerSet with its groups.
type child struct {
	// Exists: the LeaderWorkerSet exists. An orphaning deletion leaves its Leaders.
	Exists                                        bool
	Incarnation                                   uint8
	Template, Replicas, Partition, MaxUnavailable uint8
	// Record are its annotations; ParentGeneration is one of them.
	Record           uint32
	ParentGeneration uint8
	Observed         bool
	// Numbers are the numbers of its ControllerRevisions by version, 0 if there is none; Orphans has a bit for each that
	// an earlier LeaderWorkerSet has left.
	Numbers [worlds.MaxVersion + 1]uint8
	Orphans uint8
	// Leaders is the StatefulSet of the leaders. Owned: it belongs to the LeaderWorkerSet; Key is the version that its
	// label names, Asked the replicas in its annotation, Pace its maxUnavailable.
	Leaders          statefulset.Set
	Owned            bool
	Key, Asked, Pace uint8
	LeadersAre       uint8 // its incarnation
	Workers          [maxGroups]worker
	// Protects has a bit for each version that its subset may protect by the text of the design; Opened is 255 less the
	// lowest partition since it finished. Lost: its controller has forgotten the previous version of its groups, and not
	// because of United. Only the oracle uses them.
	Protects, Opened uint8
	Lost             bool
	// Told is Opened as of the last status. Strays has a bit for each group that came up on a version to which it was not
	// released, because its controller had forgotten the previous one. Only the oracle uses these, too.
	Told, Strays uint8
}

// state is the whole content of a world.
type state struct {
	worlds.Core
	Children [maxChildren]child
}

// setting is a world of LeaderWorkerSets.
type setting struct {
	worlds.Setting
	groups
	// least is the minimum number of states to visit.
	least int
}

// groups configures the groups of a world. workers: a group has one worker, otherwise only a leader. restarts: a group in
// which a container restarts is replaced as a whole (RecreateGroupOnPodRestart). older: the StatefulSet is that of
// Kubernetes 1.36.
type groups struct{ workers, restarts, older bool }

// game is a setting with caches.
type game struct {
	*worlds.World
	reads worlds.Reads[child]
	groups
	templates map[[2]uint8]*lwsv1.LeaderWorkerTemplate
	rendered  map[string]map[string]any
}

func newWorld(c *setting) *game {
	w := &game{reads: worlds.Reads[child]{}, groups: c.groups, templates: map[[2]uint8]*lwsv1.LeaderWorkerTemplate{}, rendered: map[string]map[string]any{}}
	w.World = worlds.NewWorld(&c.Setting, leaderworkerset.New(), w.template)
	return w
}

// template returns the template of a version as the user wrote it.
func (w *game) template(version uint8, coordinated bool) v1alpha1.WorkloadTemplate {
	group := map[string]any{
		"size": 1 + worlds.Int(w.workers), "restartPolicy": "None",
		"workerTemplate": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": fmt.Sprintf("v%d", version)}}},
		},
	}
	if w.restarts {
		delete(group, "restartPolicy")
	}
	spec := map[string]any{"leaderWorkerTemplate": group}
	if !coordinated { // a coordinated template must not have it
		spec["rolloutStrategy"] = map[string]any{"rollingUpdateConfiguration": map[string]any{"maxUnavailable": ofTemplate}}
	}
	raw, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		panic(err)
	}
	return v1alpha1.WorkloadTemplate{LeaderWorkerSetTemplate: &runtime.RawExtension{Raw: raw}}
}

func (w *game) Base() *worlds.World { return w.World }

func (w *game) Core(s *state) *worlds.Core { return &s.Core }

func (w *game) Exists(s *state, k int) bool { return s.Children[k].Exists }

func (c *child) pods() []statefulset.Pod { return c.Leaders.Pods[:] }

func (c *child) version(i int) uint8 { return uint8(c.Leaders.Pods[i].Version) }

func (c *child) live(i int) bool { return c.Leaders.Pods[i].Exists() && !c.Leaders.Pods[i].Terminating }

func (c *child) in(versions uint8, i int) bool {
	return c.live(i) && versions&worlds.Bit(c.version(i)) != 0
}

// count returns how many groups of a child meet all conditions, without those whose leader is terminating.
func (c *child) count(is ...func(i int) bool) (n int) {
	for i := range maxGroups {
		if c.live(i) && !slices.ContainsFunc(is, func(f func(int) bool) bool { return !f(i) }) {
			n++
		}
	}
	return n
}

func (c *child) of(version uint8) func(int) bool {
	return func(i int) bool { return c.version(i) == version }
}

// ready reports whether all pods of a group are ready.
func (w *game) ready(c *child, i int) bool {
	wk := &c.Workers[i]
	return c.Leaders.Pods[i].Ready() && (!w.workers || !wk.Stale && wk.Version == c.version(i) && wk.Phase == statefulset.Ready)
}

// available matches groups that are ready, and have been for minReadySeconds.
func (w *game) available(c *child) func(int) bool {
	return func(i int) bool {
		return w.ready(c, i) && (!w.MinReady || c.Leaders.Pods[i].Aged && (!w.workers || c.Workers[i].Aged))
	}
}

func (c *child) crashed(i int) bool {
	return c.live(i) && (c.Leaders.Pods[i].Phase == statefulset.Crashed || !c.Workers[i].Stale && c.Workers[i].Phase == statefulset.Crashed)
}

// seen returns a child without what only the oracle uses.
func (c child) seen() child {
	c.Protects, c.Opened, c.Lost, c.Told, c.Strays = 0, 0, false, 0, 0
	return c
}

// Seen returns the part of a state that a pass can see.
func (w *game) Seen(s *state) state {
	of := *s
	of.Budget, of.Race, of.PassGeneration = worlds.Budget{}, false, 0
	for k := range of.Children {
		of.Children[k] = of.Children[k].seen()
	}
	return of
}

// Tidy brings a state into its canonical form, and keeps what only the oracle knows.
func (w *game) Tidy(s *state) {
	for k := range s.Children {
		c := &s.Children[k]
		c.rank()
		// A subset has finished when all of its replicas are updated and ready; then it protects that version. It may
		// have finished a version that the user has taken back in the meantime.
		n := c.count(c.of(c.Template), func(i int) bool { return w.ready(c, i) })
		if c.Exists && c.Replicas > 0 && n == c.count() && n == int(c.Replicas) {
			c.Protects |= worlds.Bit(c.Template)
		}
		if worlds.Bit(uint8(c.Leaders.Current))&c.Protects != 0 {
			c.Lost = false
		}
		for i := range maxGroups {
			if !c.live(i) {
				c.Strays &^= 1 << i
			}
		}
		w.open(s, k)
	}
}

// open records how far a subset was ever released to a version that it does not protect: under Manual as the user asked,
// otherwise as far as the rollout had come.
func (w *game) open(s *state, k int) {
	c := &s.Children[k]
	if worlds.Bit(c.Template)&c.Protects != 0 && c.count(func(i int) bool { return !c.in(c.Protects, i) }) == 0 {
		c.Opened = 0
		return
	}
	if !s.Has(k) || !c.Exists {
		return
	}
	lowest := w.Partition(&s.Core, k)
	switch {
	case w.Rolling(&s.Core):
		lowest = max(lowest, int(c.Partition))
	case worlds.Bit(c.Template)&c.Protects != 0:
		// The user has taken a version back, and then holds the subset. What its controllers make of that version before a
		// pass raises the partition is already updated when the partition is raised, and so stays.
		lowest = min(lowest, int(c.Partition))
	}
	c.Opened = max(c.Opened, uint8(worlds.All-min(worlds.All, lowest)))
}

// rank renumbers the ControllerRevisions: only their order matters.
func (c *child) rank() {
	have := slices.DeleteFunc(slices.Clone(c.Numbers[:]), func(n uint8) bool { return n == 0 })
	slices.Sort(have)
	for v, n := range c.Numbers {
		if n != 0 {
			c.Numbers[v] = uint8(slices.Index(have, n) + 1)
		}
	}
}

// Show formats a child: its template, replicas, partition and maxUnavailable, the same of the StatefulSet of its leaders
// and what that remembers, the versions that its subset protects as bits, and its groups: "." is ready, "?" starting, "x"
// crashed, "!" unready; "'" old, "t" terminating; then the same of the worker, and "~" for one of an earlier leader.
func (w *game) Show(s *state) string {
	var b strings.Builder
	for k := range s.Children {
		c := &s.Children[k]
		if !c.Exists && !c.Leaders.Exists {
			continue
		}
		fmt.Fprintf(&b, " | %s", worlds.SubsetName(k))
		if c.Exists {
			fmt.Fprintf(&b, " v%d r%d p%d mu%d", c.Template, c.Replicas, c.Partition, c.MaxUnavailable)
		}
		if !c.Observed {
			b.WriteString(" unobserved")
		}
		if set := &c.Leaders; set.Exists {
			fmt.Fprintf(&b, " set v%d r%d p%d", set.Template, set.Replicas, set.Partition)
			if !set.Observed {
				b.WriteString(" unobserved")
			}
			fmt.Fprintf(&b, " %d/%d", set.Current, set.Update)
		}
		fmt.Fprintf(&b, " protects%b opened%d [", c.Protects, c.Opened)
		for i, p := range c.pods() {
			if !p.Exists() && c.Workers[i].Version == 0 {
				b.WriteString(" -")
				continue
			}
			fmt.Fprintf(&b, " %d%s%s%s", p.Version, letter(p.Phase), strings.Repeat("'", worlds.Int(p.Aged)), strings.Repeat("t", worlds.Int(p.Terminating)))
			if wk := &c.Workers[i]; wk.Version != 0 {
				fmt.Fprintf(&b, "/%d%s%s", wk.Version, letter(wk.Phase), strings.Repeat("~", worlds.Int(wk.Stale)))
			}
		}
		b.WriteString(" ]")
	}
	return b.String()
}

// letter formats a phase.
func letter(p statefulset.Phase) string { return string("-?.!x"[p]) }
