// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/test/worlds"
)

// Events collects what can happen in a state.
type Events = worlds.Events[State]

// Act adds what the StatefulSet controller, the garbage collector, a scheduler and the kubelets do next, in this order.
func (w *World) Act(e *Events, scheduler func(*Events)) {
	for k := range e.S.Kids {
		e.Add("sync "+worlds.SubsetName(k), k, func(s *State) { s.Kids[k].Set.Sync(w.Kind) })
		e.Add("collect "+worlds.SubsetName(k), -1, func(s *State) { s.Kids[k].Set.Collect(true) })
	}
	scheduler(e)
	Pods(e, "kubelet", func(_ *State, _, _ int, p *statefulset.Pod) {
		ends := w.Becomes(p.Version)
		switch {
		case p.Marks&placed == 0:
		case p.Terminating:
			*p = statefulset.Pod{}
		case ends != statefulset.Absent && p.Phase != ends:
			p.Phase, p.Aged = ends, false
		}
	})
}

// Pods adds an event for each pod that it changes.
func Pods(e *Events, name string, f func(s *State, k, ordinal int, p *statefulset.Pod)) {
	for k := range e.S.Kids {
		for i := range e.S.Kids[k].Set.Pods {
			if e.S.Kids[k].Set.Pods[i].Exists() {
				e.Add(fmt.Sprintf("%s %s-%d", name, worlds.SubsetName(k), i), -1, func(s *State) { f(s, k, i, &s.Kids[k].Set.Pods[i]) })
			}
		}
	}
}

// Disturb adds what happens to the pods of a child by chance, or by hand.
func Disturb(e *Events, k int) {
	for i := range e.S.Kids[k].Set.Pods {
		p := &e.S.Kids[k].Set.Pods[i]
		if p.Phase == statefulset.Ready && !p.Terminating {
			e.Spend(fmt.Sprintf("flap %s-%d", worlds.SubsetName(k), i), worlds.Flaps, -1, func(s *State) {
				s.Kids[k].Set.Pods[i].Phase, s.Kids[k].Set.Pods[i].Aged = statefulset.Unready, false
			})
		}
		if p.Exists() && !p.Terminating {
			e.Spend(fmt.Sprintf("delete by hand %s-%d", worlds.SubsetName(k), i), worlds.Deletions, -1, func(s *State) { s.Kids[k].Set.Delete(i) })
		}
	}
}

// Age lets time pass.
func (w *World) Age(s *State) {
	for k := range s.Kids {
		for i := range s.Kids[k].Set.Pods {
			p := &s.Kids[k].Set.Pods[i]
			if IsUnschedulable(p) {
				p.Marks = min(p.Marks+1, oldAge+1)
			}
			p.Aged = p.Aged || w.Ages(p)
		}
	}
	w.older(s)
}

// older lets the times in the status become older by one tick.
func (w *World) older(s *State) {
	status := w.Status(&s.Core).DeepCopy()
	shift := func(t *metav1.Time) {
		if t == nil || t.IsZero() {
			return
		}
		age := Now.Sub(t.Time) + tick
		if age >= oldAge*tick {
			age = time.Hour
		}
		*t = metav1.NewTime(Now.Add(-age))
	}
	for i := range status.Subsets {
		if c := status.Subsets[i].Cap; c != nil {
			shift(&c.SinceTime)
			shift(c.ClearedTime)
		}
	}
	if r := status.Rollout; r != nil {
		shift(r.StartTime)
		shift(r.ReachedTime)
	}
	s.Status = w.Store(status)
}
