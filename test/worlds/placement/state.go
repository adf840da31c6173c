// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package placement has what small worlds of StatefulSets share whose pods need nodes: the state, the objects of the API, the
// StatefulSet controller, the kubelets, and time. The scheduler, and the oracle, are in the tests of a separate package (such as
// test/topologyworlds).
//
//	state.go    a state: the content of a world
//	objects.go  the state as objects of the API
//	manager.go  what a pass of the manager writes
//	events.go   what can happen
//	judged.go   a pass that an oracle checks
package placement

import (
	"fmt"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/adapters"
	statefulsets "github.com/unitedworkloads/united/adapters/statefulset"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
)

const (
	maxKids = 3
	// maxRooms bounds the groups of nodes.
	maxRooms = 3
	// tick is a step of the age of everything.
	tick = 15 * time.Second
	// oldAge is an age in ticks that counts as an hour, which is longer than every deadline.
	oldAge = 4
)

// Now is the time of every state. When time passes, everything else becomes older.
var Now = worlds.At(0)

// ago returns the time of an age in ticks.
func ago(age int) time.Time {
	if age >= oldAge {
		return Now.Add(-time.Hour)
	}
	return Now.Add(-time.Duration(age) * tick)
}

// placed is in the marks of a pod that has a node, with the number of its room. Without a node, the marks are the age in ticks
// of the scheduler's verdict plus 1, or 0 if the scheduler has not seen the pod.
const placed = 0x80

// Place gives a pod a node. Refuse is the verdict that there is none, unless that was said before.
func Place(p *statefulset.Pod, room int) { p.Marks = placed | uint8(room) }

// Refuse is the scheduler's verdict that there is no node for a pod, unless it was given before.
func Refuse(p *statefulset.Pod) { p.Marks = max(p.Marks, 1) }

// IsPlaced reports whether a pod has a node, RoomOf where.
func IsPlaced(p *statefulset.Pod) bool { return p.Exists() && p.Marks&placed != 0 }

// RoomOf returns the number of the room of a pod that has a node.
func RoomOf(p *statefulset.Pod) int { return int(p.Marks &^ placed) }

// IsUnschedulable reports whether the scheduler has found no node for a pod.
func IsUnschedulable(p *statefulset.Pod) bool {
	return p.Exists() && p.Marks&placed == 0 && p.Marks > 0
}

// IsStuck reports whether it has done so at least one tick ago, which is longer than the time that the spec grants.
func IsStuck(p *statefulset.Pod) bool { return IsUnschedulable(p) && p.Marks > 1 }

// Kid is the child of a subset.
type Kid struct {
	Set statefulset.Set
	// Record are its annotations; Generation is one of them.
	Record     uint32
	Generation uint8
	// Had and Cap are what an oracle knows, and the pass does not.
	Had, Cap uint8
}

// State is the whole content of a world.
type State struct {
	worlds.Core
	// Nodes is how many pods have room in each room.
	Nodes [maxRooms]uint8
	Kids  [maxKids]Kid
}

// World has what the games of this package share. Kind is the kind of its StatefulSets, and Nodes are those of the first state.
type World struct {
	*worlds.World
	Kind  statefulset.Kind
	Nodes [maxRooms]uint8
	// TemplateOf returns the version of the pods of an object that is about to be written, Becomes the phase in which pods of a
	// version end, Absent if they never leave theirs.
	TemplateOf func(k int, c *adapters.Child, u *unstructured.Unstructured) statefulset.Version
	Becomes    func(statefulset.Version) statefulset.Phase
	// Ages reports whether the condition of a pod gets older, Label completes it as the API server has it.
	Ages   func(p *statefulset.Pod) bool
	Label  func(pod *corev1.Pod, k, ordinal int, p *statefulset.Pod)
	reads  worlds.Reads[Kid]
	writes map[string]worlds.Write
}

// New returns a world whose versions have images.
func New(c *worlds.Setting, kind statefulset.Kind, nodes [maxRooms]uint8, image func(version uint8) string) *World {
	w := &World{Kind: kind, Nodes: nodes, reads: worlds.Reads[Kid]{}, writes: map[string]worlds.Write{}}
	w.World = worlds.NewWorld(c, statefulsets.New(), func(version uint8, _ bool) v1alpha1.WorkloadTemplate {
		return v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{Raw: fmt.Appendf(nil,
			`{"spec":{"podManagementPolicy":%q,"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":%q}]}}}}`,
			w.policy(), image(version))}}
	})
	w.Drop = func(sub *v1alpha1.SubsetStatus) {
		sub.Conditions, sub.ChildRecord = nil, nil
		if sub.Cap != nil {
			sub.Cap.Message = times.ReplaceAllString(sub.Cap.Message, "T")
		}
	}
	return w
}

// times matches the times in a message.
var times = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:]+Z`)

func (w *World) policy() string {
	if w.Kind.Ordered {
		return "OrderedReady"
	}
	return "Parallel"
}

// Base is for the walk, as are Core and Exists.
func (w *World) Base() *worlds.World { return w.World }

// Core returns the part that every state has.
func (w *World) Core(s *State) *worlds.Core { return &s.Core }

// Exists reports whether a child exists.
func (w *World) Exists(s *State, k int) bool { return s.Kids[k].Set.Exists }

// Begin completes the first state.
func (w *World) Begin(s *State) bool {
	s.Nodes = w.Nodes
	return true
}

// MayCircle reports that no world goes round in circles.
func (w *World) MayCircle(*State) bool { return false }

// Seen returns the part of a state that a pass can see.
func (w *World) Seen(s *State) State {
	of := *s
	of.Budget, of.Edited, of.Nodes = worlds.Budget{}, false, [maxRooms]uint8{}
	for k := range of.Kids {
		of.Kids[k] = of.Kids[k].seen()
	}
	return of
}

// seen returns a child without what only an oracle knows.
func (c Kid) seen() Kid {
	c.Had, c.Cap = 0, 0
	return c
}

// Tidy brings a state into its canonical form. These worlds know no races.
func (w *World) Tidy(s *State) {
	s.Race, s.PassGeneration = false, 0
	for k := range s.Kids {
		for i := range s.Kids[k].Set.Pods {
			p := &s.Kids[k].Set.Pods[i]
			if p.Terminating && p.Marks&placed == 0 {
				*p = statefulset.Pod{} // without a kubelet it is gone at once
			}
			p.WasReady = p.WasReady || p.Phase == statefulset.Ready
		}
	}
}

// Heal does nothing: kubelets act as controllers do. Look leaves endings to Ending.
func (w *World) Heal(*State, bool) bool { return false }

// Look leaves endings to the games.
func (w *World) Look(*State) worlds.Look { return worlds.Look{} }

// Show formats a state. In the pods, "." is ready, "?" not ready, both with the letter of a room, "-" without the scheduler's
// verdict, a digit the age of its verdict, and "~" terminating.
func (w *World) Show(s *State) string {
	var b strings.Builder
	fmt.Fprintf(&b, " topology%d nodes%v edited=%v", s.Wishes, s.Nodes, s.Edited)
	status := w.Status(&s.Core)
	for k := range s.Kids {
		c := &s.Kids[k]
		fmt.Fprintf(&b, " | %s", worlds.SubsetName(k))
		for i := range status.Subsets {
			sub := &status.Subsets[i]
			if sub.Name != worlds.SubsetName(k) {
				continue
			}
			fmt.Fprintf(&b, " want%d", sub.DesiredReplicas)
			if sub.Cap != nil {
				fmt.Fprintf(&b, " CAP%d+%d", sub.Cap.Replicas, sub.Cap.Reserved)
				if sub.Cap.ClearedTime != nil {
					fmt.Fprintf(&b, "c%v", Now.Sub(sub.Cap.ClearedTime.Time))
				}
			}
		}
		if c.Set.Exists {
			fmt.Fprintf(&b, " v%d r%d p%d", c.Set.Template, c.Set.Replicas, c.Set.Partition)
		}
		fmt.Fprintf(&b, " cap%d[", c.Cap)
		for i := range c.Set.Pods {
			b.WriteString(letters(&c.Set.Pods[i]))
		}
		b.WriteString(" ]")
	}
	return b.String()
}

func letters(p *statefulset.Pod) string {
	if !p.Exists() {
		return " _"
	}
	text := fmt.Sprintf(" %d", p.Version)
	switch {
	case p.Marks == 0:
		text += "-"
	case !IsPlaced(p):
		text += fmt.Sprintf("(%d)", p.Marks-1)
	case p.Phase == statefulset.Ready:
		text += fmt.Sprintf(".%c", 'x'+RoomOf(p))
	default:
		text += fmt.Sprintf("?%c", 'x'+RoomOf(p))
	}
	if p.Terminating {
		text += "~"
	}
	return text
}
