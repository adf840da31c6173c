// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// relocating returns the spec to plan with, if children were made for other nodes than those of their subsets: the subsets
// were removed and added again with another nodeSelector, and no pass has seen the spec without them. It is as if one
// had. The first such subset is not in the spec, so the others take its replicas, its child is drained and deleted, and
// after that the subset is new. The others keep their placement until it is their turn.
func relocating(w *world.World) *spec.Spec {
	if !slices.ContainsFunc(w.Spec.Subsets, w.OnOtherNodes) {
		return w.Spec
	}
	out := *w.Spec
	out.Subsets = nil
	for _, s := range w.Spec.Subsets {
		if w.OnOtherNodes(s) {
			s.Displaced, s.Fixed = whyItStays(w, &s)
			if out.Relocates != "" && !s.Fixed {
				s.Displaced = "it is the turn of " + out.Relocates
			}
			if s.Displaced == "" {
				out.Relocates = s.Name
				continue
			}
		}
		out.Subsets = append(out.Subsets, s)
	}
	return &out
}

// whyItStays returns why the child of a subset cannot be moved to other nodes now, and whether that does not end by itself;
// "" if it can.
func whyItStays(w *world.World, s *spec.Subset) (why string, fixed bool) {
	if o := w.Observed(s.Name); o.Replicas == 0 && len(o.Pods) == 0 {
		return "", false
	}
	takes := func(other spec.Subset) bool { return other.Name != s.Name && other.MaxReplicas == nil }
	switch {
	case w.Parent.Spec.Topology.Colocation != nil:
		return "its replicas are in groups (spec.topology.colocation)", true
	case !slices.ContainsFunc(w.Spec.Subsets, takes):
		return "no other subset can take its replicas meanwhile", true
	case !w.Coordinates() && w.AvailableReplicas() < spec.Replicas(w.Parent): // no ledger counts them
		return "not all replicas are available", false
	}
	return "", false
}
