// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

import (
	"fmt"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
	"github.com/unitedworkloads/united/test/worlds/placement"
)

// MayCircle: where too few nodes have room, replicas without a node may be tried here and there.
func (w *game) MayCircle(s *state) bool {
	return w.lacksRoom(s) && w.Except("tries here and there")
}

// lacksRoom reports whether the nodes have too little room for all replicas, within the maximums.
func (w *game) lacksRoom(s *state) bool {
	room, top := 0, &w.topologies[s.Wishes]
	for k := range top.bounds {
		if top.has(k) {
			room += min(int(s.Nodes[k]), top.maximum(k, int(s.Replicas)))
		}
	}
	return room < int(s.Replicas)
}

// end is a state in which nothing happens anymore.
type end struct {
	*worlds.Rest[state]
	w   *game
	top *topology
	// ready, waiting and old are the replicas that are ready, that have no node, and that do not have the template's
	// version.
	ready, waiting, old int
}

// Ending says what is wrong with such a state.
func (w *game) Ending(r *worlds.Rest[state]) string {
	e := &end{Rest: r, w: w, top: &w.topologies[r.S.Wishes]}
	if wrong := e.look(); wrong != nil {
		return fmt.Sprint(*wrong)
	}
	return ""
}

func (e *end) look() *worlds.Breach {
	for k := range e.S.Kids {
		for i := range e.S.Kids[k].Set.Pods {
			p := &e.S.Kids[k].Set.Pods[i]
			e.ready += worlds.Int(p.Ready())
			e.waiting += worlds.Int(placement.IsUnschedulable(p))
			e.old += worlds.Int(p.Exists() && uint8(p.Version) != e.S.Version)
		}
	}
	want, rolling, real, reserved := int(e.S.Replicas), e.w.Rolling(&e.S.Core), 0, 0
	for i := range e.Pass.Plan.Subsets {
		real += int(e.Pass.Plan.Subsets[i].Desired - e.Pass.Plan.Subsets[i].Reserved)
		reserved += int(e.Pass.Plan.Subsets[i].Reserved)
	}
	switch {
	case real != want:
		return &worlds.Breach{Rule: "sum", What: fmt.Sprintf("at rest the subsets get %d of %d replicas", real, want)}
	case e.ready > want:
		return &worlds.Breach{Rule: "end", What: fmt.Sprintf("%d of %d replicas", e.ready, want)}
	case e.ready+e.waiting < want:
		return &worlds.Breach{Rule: "end", What: fmt.Sprintf("%d ready and %d waiting of %d replicas", e.ready, e.waiting, want)}
	case e.Is(v1alpha1.ConditionReady) != (e.ready == want) && e.old == 0:
		return &worlds.Breach{Rule: "ready", What: fmt.Sprintf("%d of %d replicas are ready", e.ready, want)}
	case e.top.mode == reserve && e.ready == want && rolling && e.old > 0, e.waiting == 0 && rolling && e.old > 0:
		return &worlds.Breach{Rule: "rollout ends", What: fmt.Sprintf("%d replicas are not updated", e.old)}
	case e.Is(v1alpha1.ConditionStalled) && e.ready == want:
		return &worlds.Breach{Rule: "ready", What: "stalled"}
	case e.top.mode == reserve && e.waiting == 0:
		return e.afterReserve()
	case e.top.mode == adaptive && e.ready < want:
		return e.whyWaiting()
	case e.top.mode == adaptive && e.waiting+e.ready > want+reserved:
		return &worlds.Breach{Rule: "end", What: "more than the replicas"}
	}
	return nil
}

// whyWaiting: a replica waits only below one that has a node, within the minimum, or if nobody has room.
func (e *end) whyWaiting() *worlds.Breach {
	for k := range e.S.Kids {
		c := &e.S.Kids[k]
		for i := range c.Set.Pods {
			if !placement.IsUnschedulable(&c.Set.Pods[i]) || i < max(kept(c), e.top.minimum(k, int(e.S.Replicas))) {
				continue
			}
			for other := range e.top.bounds {
				o := &e.S.Kids[other]
				if e.top.has(other) && used(e.S, other) < int(e.S.Nodes[other]) && int(o.Set.Replicas) < e.top.maximum(other, int(e.S.Replicas)) {
					return &worlds.Breach{Rule: "waits for nothing", What: fmt.Sprintf("%s-%d waits, and %s has room", worlds.SubsetName(k), i, worlds.SubsetName(other))}
				}
			}
		}
	}
	return nil
}

// afterReserve: if every subset has room for what the spec gives it, it has that.
func (e *end) afterReserve() *worlds.Breach {
	want := e.top.fill(int(e.S.Replicas))
	for k, n := range want {
		if n > int(e.S.Nodes[k]) {
			return nil
		}
	}
	for k, n := range want {
		if int(e.S.Kids[k].Set.Replicas) != n {
			return &worlds.Breach{Rule: "substitutes go", What: fmt.Sprintf("%s has %d replicas instead of %d", worlds.SubsetName(k), e.S.Kids[k].Set.Replicas, n)}
		}
	}
	return nil
}
