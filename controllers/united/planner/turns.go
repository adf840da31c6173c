// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"fmt"
	"time"

	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// clockMargin is how much later than by our clock a replica counts as available when the child's controller must see the same.
const clockMargin = 5 * time.Second

// takeTurns keeps the partition of a subset up where its controller would take more ready replicas at once than the child's
// maxUnavailable: one that replaces unavailable replicas without a bound takes all ready ones that are not available yet, for
// example because minReadySeconds was raised, or because all of them have just come back. What the controller may take already
// stays released.
func (s *SubsetPlan) takeTurns(in *Input, p *Plan) {
	sweeping, ok := in.Spec.Adapter.(adapters.Sweeping)
	o := s.Observed
	if !ok || o == nil || o.Ordered || in.Paused() || !p.Initialized || s.FirstRolloutPending {
		return
	}
	bounds := sweeping.Bounds(s.DecodedPatch, in.Spec.Template)
	minReady := ptr.Deref(bounds.MinReadySeconds, in.Parent.Spec.MinReadySeconds)
	away, hit, wake := s.onTheirWay(in, minReady)
	room := max(0, coordination.MaxUnavailable(bounds.MaxUnavailable, s.Desired)-away)
	if room >= len(hit) {
		return
	}
	asked, partition := s.Decision.Partition, hit[room]+1
	if s.OnUpdate && o.MinReadySeconds == minReady {
		partition = min(partition, max(o.Partition, asked))
	}
	if partition == asked {
		return
	}
	s.Decision.Partition = partition
	s.Decision.WaitReason = fmt.Sprintf("releasing in turn: %s would replace %d ready replicas at once that are not available yet (minReadySeconds %d)",
		s.Workload, len(hit), minReady)
	p.wakeAt(wake)
}

// onTheirWay returns how many replicas of a child are missing, going or updated and not available, and the positions, from the
// top, of those that are released, ready and not available. wake is when time alone makes the first of them available.
func (s *SubsetPlan) onTheirWay(in *Input, minReady int32) (away int, hit []int32, wake time.Time) {
	o, updated, pods := s.Observed, s.runsUpdate(in), map[int32]adapters.Replica{}
	for i := range o.Pods {
		pods[o.Pods[i].Position] = o.Pods[i]
	}
	for position := min(o.Replicas, s.Desired) - 1; position >= 0; position-- {
		r, exists := pods[position]
		available, at := minReady == 0 && r.Serves(), time.Time{}
		if minReady > 0 {
			available, at = r.Available(minReady, in.Now.Add(-clockMargin))
		}
		switch {
		case available:
			continue
		case !exists || r.Terminating || updated(position):
			away++
		case r.Ready && position >= s.Decision.Partition:
			hit = append(hit, position)
		}
		if at = at.Add(clockMargin); r.Serves() && (wake.IsZero() || at.Before(wake)) {
			wake = at
		}
	}
	return away, hit, wake
}
