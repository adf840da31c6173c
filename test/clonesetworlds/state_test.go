// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clonesetworlds walks through small worlds of a UnitedDeployment with CloneSets as children. Its model of the
// CloneSet controller was written from pkg/controller/cloneset of OpenKruise 1.9.1, and its oracle from the text of the
// design, without reading the code under test. Its value is that it is independent, so do not replace any of it by code
// of the project.
//
// The package has only tests:
//
//	state_test.go       a state: the content of a world
//	controller_test.go  the CloneSet controller
//	objects_test.go     the state as objects of the API
//	manager_test.go     what a pass of the manager writes
//	events_test.go      what else can happen
//	safety_test.go      what must not happen: the oracle; deletions_test.go: its part about deletions by United
//	ending_test.go      what must happen after all faults have stopped
//	worlds_test.go      the worlds
//	mutants_test.go     wrong controllers, which the oracle must find
package clonesetworlds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/adapters/cloneset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

const (
	maxChildren = 3
	maxPods     = 8
)

// phase is the state of a pod.
type phase uint8

const (
	starting phase = iota
	ready
	crashed
	unready
)

// letter formats a phase.
func (p phase) letter() string { return string("?.x!"[p]) }

// pod is one pod; the zero value means that there is none. The pods of a child are in the order in which they were
// created or last became ready.
type pod struct {
	Version uint8
	Phase   phase
	// Aged: a tick has passed since it was created or its phase changed. WasReady: it has been ready.
	Aged, WasReady bool
	// Marked: the controller has chosen to delete it (label specified-delete). Terminating: it is being deleted.
	Marked, Terminating bool
}

// The maxUnavailable of a CloneSet is 1 if the template determines it, or all of its replicas.
const (
	ofTemplate = 1
	unbounded  = 100
)

// child is a CloneSet with its pods.
type child struct {
	Exists                        bool
	Incarnation                   uint8
	Template, Replicas, Partition uint8
	MaxUnavailable                uint8
	// Record are its annotations; ParentGeneration is one of them.
	Record           uint32
	ParentGeneration uint8
	// From its status. Current and Update are versions.
	Observed                                   bool
	Current, Update                            uint8
	StatusReplicas, StatusReady, StatusUpdated uint8
	// Known has a bit for each version that has a ControllerRevision.
	Known uint8
	Pods  [maxPods]pod
	// Protects has a bit for each version that its subset may protect by the text of the design; Released is the highest
	// number of replicas that the user has released since it finished. Only the oracle uses them.
	Protects, Released uint8
}

// state is the whole content of a world.
type state struct {
	worlds.Core
	Children [maxChildren]child
}

// setting is a world of CloneSets.
type setting struct {
	worlds.Setting
	ways
}

// ways configures the CloneSets of a world: their maxSurge, and whether deleted pods take time to terminate.
type ways struct {
	surge   uint8
	lingers bool
}

// game is a setting with caches.
type game struct {
	*worlds.World
	reads worlds.Reads[child]
	ways
	templates map[[2]uint8]map[string]any
}

func newWorld(c *setting) *game {
	w := &game{reads: worlds.Reads[child]{}, ways: c.ways, templates: map[[2]uint8]map[string]any{}}
	w.World = worlds.NewWorld(&c.Setting, cloneset.New(), w.template)
	return w
}

// template returns the template of a version as the user wrote it.
func (w *game) template(version uint8, coordinated bool) v1alpha1.WorkloadTemplate {
	pace := `,"maxUnavailable":1`
	if coordinated {
		pace = "" // it is refused there
	}
	return v1alpha1.WorkloadTemplate{CloneSetTemplate: &runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"spec":{"updateStrategy":{"type":"ReCreate","maxSurge":%d%s},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"v%d"}]}}}}`,
		w.surge, pace, version)}}
}

func (w *game) Base() *worlds.World { return w.World }

func (w *game) Core(s *state) *worlds.Core { return &s.Core }

func (w *game) Exists(s *state, k int) bool { return s.Children[k].Exists }

// seen returns a child without what only the oracle uses.
func (c child) seen() child {
	c.Protects, c.Released = 0, 0
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

// count returns how many pods of a child meet all conditions, without terminating ones.
func (c *child) count(is ...func(p *pod) bool) (n int) {
	for i := range c.Pods {
		p := &c.Pods[i]
		if p.live() && !slices.ContainsFunc(is, func(f func(*pod) bool) bool { return !f(p) }) {
			n++
		}
	}
	return n
}

func (p *pod) live() bool { return p.Version != 0 && !p.Terminating }

func of(version uint8) func(*pod) bool { return func(p *pod) bool { return p.Version == version } }

// in matches pods of one of several versions.
func in(versions uint8) func(*pod) bool {
	return func(p *pod) bool { return versions&worlds.Bit(p.Version) != 0 }
}

func not(f func(*pod) bool) func(*pod) bool { return func(p *pod) bool { return !f(p) } }

func marked(p *pod) bool { return p.Marked }

func isReady(p *pod) bool { return p.Phase == ready }

// serves reports whether a pod is ready, and has been for minReadySeconds.
func (w *game) serves(p *pod) bool { return p.Phase == ready && (!w.MinReady || p.Aged) }

// available reports whether a pod serves, and is not marked.
func (w *game) available(p *pod) bool { return w.serves(p) && !p.Marked }

// Tidy brings a state into its canonical form, and keeps what only the oracle knows.
func (w *game) Tidy(s *state) {
	for k := range s.Children {
		c := &s.Children[k]
		slices.SortStableFunc(c.Pods[:], func(a, b pod) int {
			return cmp.Compare(worlds.Int(a.Version == 0), worlds.Int(b.Version == 0))
		})
		// A subset has finished when all of its replicas are updated and ready; then it protects that version. It may
		// have finished a version that the user has taken back in the meantime.
		n := c.count(of(c.Template), isReady)
		if c.Exists && c.Replicas > 0 && n == c.count() && n == int(c.Replicas) {
			c.Protects |= worlds.Bit(c.Template)
		}
		if s.Has(k) {
			c.Released = max(c.Released, uint8(max(0, w.Allotted(&s.Core, k)-w.Partition(&s.Core, k))))
		}
	}
}

// touch makes a pod the one that changed last.
func (c *child) touch(n int) {
	p := c.Pods[n]
	copy(c.Pods[n:], c.Pods[n+1:])
	c.Pods[maxPods-1] = p
}

// Show formats a child: its template, replicas, partition and maxUnavailable, the versions that its subset protects as
// bits, the current version of its status, and its pods: "." is ready, "?" starting, "x" crashed, "!" unready; "'" old,
// "m" marked, "t" terminating.
func (w *game) Show(s *state) string {
	var b strings.Builder
	for k := range s.Children {
		c := &s.Children[k]
		if !c.Exists {
			continue
		}
		fmt.Fprintf(&b, " | %s v%d r%d p%d mu%d", worlds.SubsetName(k), c.Template, c.Replicas, c.Partition, c.MaxUnavailable)
		if !c.Observed {
			b.WriteString(" unobserved")
		}
		fmt.Fprintf(&b, " protects%b released%d current%d [", c.Protects, c.Released, c.Current)
		for _, p := range c.Pods {
			if p.Version != 0 {
				fmt.Fprintf(&b, " %d%s%s%s%s", p.Version, p.Phase.letter(), strings.Repeat("'", worlds.Int(p.Aged)),
					strings.Repeat("m", worlds.Int(p.Marked)), strings.Repeat("t", worlds.Int(p.Terminating)))
			}
		}
		b.WriteString(" ]")
	}
	return b.String()
}
