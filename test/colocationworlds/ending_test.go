// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
	"github.com/unitedworkloads/united/test/worlds/placement"
)

// end is a state in which nothing happens anymore.
type end struct {
	*worlds.Rest[state]
	w   *game
	top *topology
	// ready, waiting, faulty and old are the replicas that are ready, that have no node, that crash or never become ready,
	// and that do not have the version of the spec.
	ready, waiting, faulty, old int
	// stuck is why replicas are not ready.
	stuck string
}

// Ending says what is wrong with such a state.
func (w *game) Ending(r *worlds.Rest[state]) string {
	e := &end{Rest: r, w: w, top: &w.topologies[r.S.Wishes]}
	switch wrong := e.look(); {
	case wrong != nil:
		return fmt.Sprint(*wrong)
	case !e.WayOut:
		return e.waysOut()
	case e.stuck != "" && e.stuck != v1alpha1.ReasonBlocked: // its message names the way out
		return fmt.Sprint(worlds.Breach{Rule: "way out", What: "it does not get out of a stall"})
	}
	return ""
}

// waysOut: out of a state that is not ready there are ways: room for everything, a template without faults, and no
// replicas.
func (e *end) waysOut() string {
	whole := true
	for k := range e.S.Kids {
		for i := range e.S.Kids[k].Set.Pods {
			p := &e.S.Kids[k].Set.Pods[i]
			whole = whole && (!p.Exists() || p.Ready())
		}
	}
	opens := slices.IndexFunc(e.w.Strategies, func(text string) bool { return !strings.Contains(text, "artition") })
	if whole || opens < 0 {
		return "" // what is held stays
	}
	wrong := e.Continues("good", func(s *state) {
		s.Strategy, s.Paused = uint8(opens), false
		s.Nodes = [3]uint8{30, 30, 30}
		if v := e.w.versions[e.w.update(s)-1]; v.broken() || v.slow() {
			s.Version = 1 + uint8(slices.IndexFunc(e.w.images, func(image string) bool {
				v := version{image: image}
				return v.size() == 1 && !v.broken() && !v.slow()
			}))
		}
	})
	if wrong == "" && !e.w.Kind.Ordered { // an ordered StatefulSet itself does not delete two replicas that are not ready
		wrong = e.Continues("none", func(s *state) { s.Replicas = 0 })
	}
	return wrong
}

func (e *end) look() *worlds.Breach {
	for k := range e.S.Kids {
		update := e.w.same(k, e.w.update(e.S))
		for i := range e.S.Kids[k].Set.Pods {
			p := &e.S.Kids[k].Set.Pods[i]
			e.ready += worlds.Int(p.Ready())
			e.waiting += worlds.Int(placement.IsUnschedulable(p))
			e.faulty += worlds.Int(placement.IsPlaced(p) && !p.Ready())
			e.old += worlds.Int(p.Exists() && p.Version != update)
		}
	}
	want := int(e.S.Replicas)
	stalled := e.Is(v1alpha1.ConditionStalled)
	switch {
	case e.waiting > 0 && !stalled:
		return &worlds.Breach{Rule: "stalled is said", What: fmt.Sprintf("%d replicas have no node", e.waiting)}
	case e.faulty > 0 && !stalled:
		// The world does not know the time of the last progress, from which a stall is told here.
		e.w.Except("not ready")
		e.stuck = "not ready"
		return nil
	case e.waiting+e.faulty > 0:
		c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionStalled)
		e.w.Except(c.Reason)
		e.stuck = c.Reason
		return e.group()
	case e.ready != want:
		return &worlds.Breach{Rule: "end", What: fmt.Sprintf("%d of %d replicas are ready, and no other one waits for anything", e.ready, want)}
	case stalled || !e.Is(v1alpha1.ConditionReady):
		return &worlds.Breach{Rule: "ready", What: "all replicas are ready"}
	case e.w.Rolling(&e.S.Core) && !e.S.Paused && e.old > 0:
		return &worlds.Breach{Rule: "rollout ends", What: fmt.Sprintf("%d replicas are not updated", e.old)}
	}
	if e.top.order == "" {
		return nil
	}
	for k, n := range e.top.split(want) {
		if int(e.S.Kids[k].Set.Replicas) != n {
			return &worlds.Breach{Rule: "split", What: fmt.Sprintf("%s has %d replicas instead of %d", worlds.SubsetName(k), e.S.Kids[k].Set.Replicas, n)}
		}
	}
	return nil
}

// group: a group that waits for a node is named, with its domain if it has one.
func (e *end) group() *worlds.Breach {
	c := meta.FindStatusCondition(e.Status.Conditions, v1alpha1.ConditionStalled)
	if c.Reason != v1alpha1.ReasonGroupUnschedulable {
		return nil
	}
	for k := range e.S.Kids {
		for i := range e.S.Kids[k].Set.Pods {
			p := &e.S.Kids[k].Set.Pods[i]
			if !placement.IsUnschedulable(p) {
				continue
			}
			group := e.w.group(e.w.versions[p.Version-1], k, i)
			if strings.HasPrefix(c.Message, fmt.Sprintf("Group %d ", group)) {
				return nil
			}
		}
	}
	return &worlds.Breach{Rule: "message", What: "it does not name a group that waits"}
}
