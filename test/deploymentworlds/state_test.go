// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deploymentworlds walks through small worlds of a UnitedDeployment whose children are
// Deployments. Its model of the Deployments' controller was written from pkg/controller/deployment
// of Kubernetes, and its oracle from the words of the design, by somebody who had not read the code
// that is judged. So nothing in it may be replaced by what the project has: that it is independent
// is what it is for. (controllers/united/planner has small worlds of Deployments too, with a model of
// what their controller may do, and the project's own idea of what is right.)
//
// There are only tests in it:
//
//	state_test.go       a state: what is in a world
//	controller_test.go  the Deployments' and ReplicaSets' controllers
//	objects_test.go     the state as objects of the API; parent_test.go: the UnitedDeployment
//	manager_test.go     a pass of the manager: the real decisions, and what they do to the state
//	events_test.go      what else can happen
//	safety_test.go      what must not: the oracle
//	kind_test.go        what must, once the world is kind; ending_test.go judges the end
//	walk_test.go        the walk
//	worlds_test.go      the worlds
//	mutants_test.go     wrong controllers, which are convicted
package deploymentworlds

import (
	"cmp"
	"slices"
	"time"
)

const (
	maxChildren = 3
	maxPods     = 8
	// versions are 1 to maxVersion.
	maxVersion = 3
	// tick is how long it takes until what is young is old: longer than any deadline here.
	tick = 15 * time.Minute
)

// phase is where a pod stands.
type phase uint8

const (
	starting phase = iota
	ready
	crashed
	unready
)

// letter is a phase in a line.
func (p phase) letter() string { return string("?.x!"[p]) }

// pod is one pod; the zero one is none.
type pod struct {
	Version uint8
	Phase   phase
	// Aged: a tick has passed since it was created or its phase changed. WasReady: it was ready once.
	Aged, WasReady bool
}

// replicaSet is that of one version.
type replicaSet struct {
	Exists bool
	// Replicas is what its spec asks for. Desired and Max are the annotations that its Deployment
	// keeps on it.
	Replicas, Desired, Max uint8
	// Age ranks it among the others: a higher one is newer.
	Age uint8
}

// progress is condition Progressing of a Deployment.
type progress uint8

const (
	noProgress progress = iota
	progressDone
	progressing
	deadlineExceeded
)

// ofTemplate is the maxUnavailable of a Deployment that is left to the template, which says 1.
const ofTemplate = 99

// child is a Deployment with its ReplicaSets and pods.
type child struct {
	// Orphaned: it is gone, and its ReplicaSets outlived it.
	Exists, Orphaned   bool
	Incarnation        uint8
	Template, Replicas uint8
	Paused             bool
	MaxUnavailable     uint8
	// Record are its annotations, ParentGeneration is one of them.
	Record           uint32
	ParentGeneration uint8
	Observed         bool
	Progress         progress
	// What its status counts.
	StatusReplicas, StatusUpdated, StatusAvailable uint8
	ReplicaSets                                    [maxVersion + 1]replicaSet
	Pods                                           [maxPods]pod
	// Protects are the versions that its subset may protect by the words of the design, a bit for each;
	// Released those to which it was let go. Only the oracle knows.
	Protects, Released uint8
}

// state is all that is in a world.
type state struct {
	Version, Replicas, Strategy, Subsets, Generation uint8
	Paused                                           bool
	Approved, Forced                                 uint32
	Status                                           uint32
	Now                                              uint8
	// Race: something has happened that a pass which is under way, or a controller, cannot know.
	Race bool
	// PassGeneration is the generation that the last pass had read which wrote all that it wanted to.
	PassGeneration uint8
	Budget         budget
	Children       [maxChildren]child
}

// budget is what may still happen.
type budget [budgets]int8

const (
	templates = iota
	scales
	pauses
	strategies // edits of the strategy, and of the subsets
	crashes
	evictions
	deletions
	stales // a pass that writes what it decided before something happened
	deaths // a pass that dies between two writes
	ticks
	budgets
)

func bit(version uint8) uint8 {
	if version == 0 {
		return 0
	}
	return 1 << version
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// has reports whether the spec has a subset.
func (s *state) has(k int) bool { return s.Subsets>>k&1 == 1 }

// count is how many pods of a child are so; all, without a question.
func (c *child) count(is ...func(p *pod) bool) (n int) {
	for i := range c.Pods {
		p := &c.Pods[i]
		if p.Version != 0 && !slices.ContainsFunc(is, func(f func(*pod) bool) bool { return !f(p) }) {
			n++
		}
	}
	return n
}

func of(version uint8) func(*pod) bool { return func(p *pod) bool { return p.Version == version } }

// asked is how many replicas its ReplicaSets are asked for.
func (c *child) asked() (n uint8) {
	for v := range c.ReplicaSets {
		n += c.ReplicaSets[v].Replicas
	}
	return n
}

// onItsWay reports whether there is anything but what its template makes.
func (c *child) onItsWay() bool {
	for v := uint8(1); v <= maxVersion; v++ {
		if v != c.Template && (c.ReplicaSets[v].Replicas > 0 || c.count(of(v)) > 0) {
			return true
		}
	}
	return false
}

// available reports whether a pod serves, and has for minReadySeconds.
func (w *world) available(p *pod) bool { return p.Phase == ready && (!w.minReady || p.Aged) }

// down is how many replicas of a child are not available.
func (w *world) down(c *child) int { return max(0, int(c.Replicas)-c.count(w.available)) }

// tidy brings a state into its one form.
func (w *world) tidy(s *state) {
	for i := range s.Children {
		c := &s.Children[i]
		slices.SortFunc(c.Pods[:], func(a, b pod) int {
			return cmp.Or(-cmp.Compare(a.Version, b.Version), cmp.Compare(a.Phase, b.Phase),
				cmp.Compare(toInt(a.Aged), toInt(b.Aged)), cmp.Compare(toInt(a.WasReady), toInt(b.WasReady)))
		})
		c.rankReplicaSets()
		// A subset has finished when all of its replicas are updated and ready; then that is what it protects.
		n := c.count(of(c.Template), func(p *pod) bool { return p.Phase == ready })
		finished := c.Exists && c.Replicas > 0 && n == c.count() && n == int(c.Replicas)
		if finished && (c.Template == s.Version || c.Released&bit(c.Template) != 0) {
			c.Protects |= bit(c.Template)
		}
	}
}

// rankReplicaSets makes ages of ReplicaSets the lowest that keep their order.
func (c *child) rankReplicaSets() {
	var ages []uint8
	for v := range c.ReplicaSets {
		if c.ReplicaSets[v].Exists {
			ages = append(ages, c.ReplicaSets[v].Age)
		} else {
			c.ReplicaSets[v] = replicaSet{}
		}
	}
	slices.Sort(ages)
	for v := range c.ReplicaSets {
		if r := &c.ReplicaSets[v]; r.Exists {
			r.Age = uint8(slices.Index(ages, r.Age)) + 1
		}
	}
}
