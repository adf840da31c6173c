// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package deploymentworlds walks through small worlds of a UnitedDeployment with Deployments as children. Its model of
// the Deployment controller was written from pkg/controller/deployment of Kubernetes, and its oracle from the text of the
// design, without reading the code under test. Its value is that it is independent, so do not replace any of it by code
// of the project. (controllers/united/planner also has small worlds of Deployments, with a model of what their controller
// may do, and with the project's own rules.)
//
// The package has only tests:
//
//	state_test.go       a state: the content of a world
//	controller_test.go  the controllers of Deployments and ReplicaSets
//	objects_test.go     the state as objects of the API
//	manager_test.go     what a pass of the manager writes
//	events_test.go      what else can happen
//	safety_test.go      what must not happen: the oracle
//	ending_test.go      what must happen after all faults have stopped
//	worlds_test.go      the worlds
//	mutants_test.go     wrong controllers, which the oracle must find
package deploymentworlds

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/adapters/deployment"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

const (
	maxChildren = 3
	maxPods     = 12
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

// pod is one pod; the zero value means that there is none.
type pod struct {
	Version uint8
	Phase   phase
	// Aged: a tick has passed since it was created or its phase changed. WasReady: it has been ready.
	Aged, WasReady bool
}

// replicaSet is the ReplicaSet of one version.
type replicaSet struct {
	Exists bool
	// Replicas is the number in its spec. Desired and Max are annotations that the Deployment controller maintains.
	Replicas, Desired, Max uint8
	// Age orders the ReplicaSets: a higher one is newer.
	Age uint8
}

// progress is the condition Progressing of a Deployment.
type progress uint8

const (
	noProgress progress = iota
	progressDone
	progressing
	deadlineExceeded
)

// ofTemplate is the maxUnavailable of a Deployment that takes it from the template, which has 1.
const ofTemplate = 99

// unsaid is the maxSurge of a Deployment that is left to the API server.
const unsaid = 99

// child is a Deployment with its ReplicaSets and pods.
type child struct {
	// Orphaned: it was deleted, and its ReplicaSets outlived it.
	Exists, Orphaned   bool
	Incarnation        uint8
	Template, Replicas uint8
	Paused             bool
	MaxUnavailable     uint8
	MaxSurge           uint8
	// Record are its annotations; ParentGeneration is one of them.
	Record           uint32
	ParentGeneration uint8
	Observed         bool
	Progress         progress
	// The counts of its status.
	StatusReplicas, StatusUpdated, StatusAvailable uint8
	ReplicaSets                                    [worlds.MaxVersion + 1]replicaSet
	Pods                                           [maxPods]pod
	// Protects has a bit for each version that its subset may protect by the text of the design; Released for each
	// version to which it was released. Only the oracle uses them.
	Protects, Released uint8
}

// state is the whole content of a world.
type state struct {
	worlds.Core
	Children [maxChildren]child
}

// setting is a world of Deployments.
type setting struct {
	worlds.Setting
	ways
}

// ways configures the Deployments of a world: their maxSurge, and whether ReplicaSets may be deleted.
type ways struct {
	// unsaid: the template says nothing of maxSurge and maxUnavailable.
	unsaid          bool
	surge           uint8
	loseReplicaSets bool
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
	w.World = worlds.NewWorld(&c.Setting, deployment.New(), w.template)
	return w
}

// template returns the template of a version as the user wrote it.
func (w *game) template(version uint8, coordinated bool) v1alpha1.WorkloadTemplate {
	strategy := fmt.Sprintf(`"strategy":{"rollingUpdate":{"maxSurge":%d,"maxUnavailable":1}},`, w.surge)
	switch {
	case w.unsaid:
		strategy = ""
	case coordinated: // maxUnavailable is refused there
		strategy = fmt.Sprintf(`"strategy":{"rollingUpdate":{"maxSurge":%d}},`, w.surge)
	}
	return v1alpha1.WorkloadTemplate{DeploymentTemplate: &runtime.RawExtension{Raw: fmt.Appendf(nil,
		`{"spec":{%s"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"v%d"}]}}}}`, strategy, version)}}
}

// templateSurge is the maxSurge of a Deployment that the template alone decides on.
func (w *game) templateSurge() uint8 {
	if w.unsaid {
		return unsaid
	}
	return w.surge
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

// count returns how many pods of a child meet all conditions.
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

// asked returns the sum of the replicas of its ReplicaSets.
func (c *child) asked() (n uint8) {
	for v := range c.ReplicaSets {
		n += c.ReplicaSets[v].Replicas
	}
	return n
}

// onItsWay reports whether there are pods or ReplicaSets of another version than the template's.
func (c *child) onItsWay() bool {
	for v := uint8(1); v <= worlds.MaxVersion; v++ {
		if v != c.Template && (c.ReplicaSets[v].Replicas > 0 || c.count(of(v)) > 0) {
			return true
		}
	}
	return false
}

// available reports whether a pod is ready, and has been for minReadySeconds.
func (w *game) available(p *pod) bool { return p.Phase == ready && (!w.MinReady || p.Aged) }

// Tidy brings a state into its canonical form.
func (w *game) Tidy(s *state) {
	for i := range s.Children {
		c := &s.Children[i]
		slices.SortFunc(c.Pods[:], func(a, b pod) int {
			return cmp.Or(-cmp.Compare(a.Version, b.Version), cmp.Compare(a.Phase, b.Phase),
				cmp.Compare(worlds.Int(a.Aged), worlds.Int(b.Aged)), cmp.Compare(worlds.Int(a.WasReady), worlds.Int(b.WasReady)))
		})
		c.rankReplicaSets()
		if !c.Exists && !c.Orphaned {
			c.MaxUnavailable, c.MaxSurge = ofTemplate, w.templateSurge()
		}
		// A subset has finished when all of its replicas are updated and ready; then it protects that version.
		n := c.count(of(c.Template), func(p *pod) bool { return p.Phase == ready })
		finished := c.Exists && c.Replicas > 0 && n == c.count() && n == int(c.Replicas)
		if finished && (c.Template == s.Version || c.Released&worlds.Bit(c.Template) != 0) {
			c.Protects |= worlds.Bit(c.Template)
		}
	}
}

// rankReplicaSets replaces the ages of ReplicaSets by the lowest ones with the same order.
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

// Show formats a child: its template, replicas and maxUnavailable, the versions that its subset protects as bits, the
// replicas of its ReplicaSets, and its pods: "." is ready, "?" starting, "x" crashed, "!" unready, "'" old.
func (w *game) Show(s *state) string {
	var b strings.Builder
	for k := range s.Children {
		c := &s.Children[k]
		if !c.Exists && !c.Orphaned {
			continue
		}
		fmt.Fprintf(&b, " | %s", worlds.SubsetName(k))
		if !c.Exists {
			b.WriteString(" GONE")
		}
		fmt.Fprintf(&b, " v%d r%d mu%d", c.Template, c.Replicas, c.MaxUnavailable)
		if c.Paused {
			b.WriteString(" PAUSED")
		}
		if !c.Observed {
			b.WriteString(" unobserved")
		}
		fmt.Fprintf(&b, " protects%b rs", c.Protects)
		for v := range c.ReplicaSets {
			if c.ReplicaSets[v].Exists {
				fmt.Fprintf(&b, " v%d:%d", v, c.ReplicaSets[v].Replicas)
			}
		}
		b.WriteString(" [")
		for _, p := range c.Pods {
			if p.Version != 0 {
				fmt.Fprintf(&b, " %d%s%s", p.Version, p.Phase.letter(), strings.Repeat("'", worlds.Int(p.Aged)))
			}
		}
		b.WriteString(" ]")
	}
	return b.String()
}
