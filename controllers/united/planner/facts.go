// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"slices"

	"github.com/unitedworkloads/united/controllers/united/known"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// factsOf returns what is known of a subset of the spec. Nothing else derives it again.
func factsOf(in *Input, p *Plan, sub *spec.Subset) known.Facts {
	observed, inStatus := in.Observed(sub.Name), knownRevision(in, p, sub.Name)
	f := subset.FactsOf(observed)
	if child := in.Unreadable[sub.Name]; child != nil {
		f.Unreadable, f.LastAvailable = child.Why, in.LastKnown(sub.Name).AvailableReplicas
	}
	f.LastPartition = coordination.Held
	if was := world.SubsetStatus(&in.Parent.Status, sub.Name); was != nil && was.Partition < was.DesiredReplicas {
		f.LastPartition = was.Partition
	}
	f.Reverted = in.templateReverted(sub.Name, observed)
	f.MissedProtectedRevision = p.Initialized && observed != nil && subset.MissedProtectedRevision(observed, inStatus, in.Parent.Status.ObservedGeneration)
	f.ProtectedRevision = protectedRevision(in, p, &f, inStatus)
	if protected := revision.ByName(in.Revisions, f.ProtectedRevision); protected != nil {
		f.Proven = revision.SamePods(in.Update, protected, sub.Name, sub.Overlay)
	}
	if has := revision.ByName(in.Revisions, f.Revision); has != nil {
		f.OnUpdate = revision.SamePods(in.Update, has, sub.Name, sub.Overlay)
	}
	switch {
	case f.OnUpdate:
		f.UpdatedHash = observed.UpdateHash
	case f.Proven:
		f.UpdatedHash = f.ProtectedHash
	}
	// Somebody lowers its partition again and again, so it is kept as it is, which requires the revision that it has.
	_, contested := in.Contested[sub.Name]
	f.Contested = contested && observed != nil && revision.ByName(in.Revisions, f.Revision) != nil
	f.Asked = subset.LastAsked(observed, in.RecordInStatus(sub.Name))
	return f
}

// FactsOf returns the facts of a subset of the plan in a later input, for example after the writes of the pass.
func (p *Plan) FactsOf(in *Input, s *SubsetPlan) known.Facts {
	if s.Removed {
		return subset.FactsOf(in.Observed(s.Name))
	}
	return factsOf(in, p, &s.Subset)
}

// Asked returns the facts of all subsets as they are to somebody who asks for the revision of the spec, also while that is
// rejected. Of a subset that the spec no longer has, they are what its child says.
func Asked(in *Input) map[string]known.Facts {
	asked, p, all := *in, &Plan{Initialized: in.Initialized(), believedCurrent: in.BelievedCurrent()}, map[string]known.Facts{}
	p.CurrentRevision, asked.Update = currentRevision(in, p), in.Asked()
	for name := range in.Children {
		all[name] = subset.FactsOf(in.Observed(name))
	}
	for i := range in.Spec.Subsets {
		all[in.Spec.Subsets[i].Name] = factsOf(&asked, p, &in.Spec.Subsets[i])
	}
	return all
}

// protectedRevision returns what the subset's protected replicas run: from its child, otherwise from the status,
// otherwise what the whole parent ran last. inStatus is the revision in the status.
func protectedRevision(in *Input, p *Plan, f *known.Facts, inStatus string) string {
	switch {
	case p.Initialized:
	case !in.Paused():
		return in.Update.Name
	case f.Observed != nil:
		return f.Revision // no other revision replaces it now
	default:
		return cmp.Or(inStatus, p.CurrentRevision)
	}
	if f.Observed != nil && !f.MissedProtectedRevision {
		if recorded := protectedBy(f.Observed, f.Reverted, inStatus, in.Parent.Status.ObservedGeneration); recorded != "" {
			return recorded
		}
	}
	return cmp.Or(inStatus, p.CurrentRevision)
}

// Protected returns what the child of a subset protects according to its record (subset.Protected).
func (in *Input) Protected(name string, observed *adapters.Observed, known string, knownAt int64) string {
	return protectedBy(observed, in.templateReverted(name, observed), known, knownAt)
}

func protectedBy(observed *adapters.Observed, reverted bool, known string, knownAt int64) string {
	if reverted {
		return subset.RecordedProtectedRevision(observed)
	}
	return subset.Protected(observed, known, knownAt)
}

// TemplateReverted reports whether a subset's child, with the given result, has the revision that it protects,
// although it was written with another one.
func (in *Input) TemplateReverted(name string, o *Result) bool {
	after := in.After(Results{name: o})
	return after.templateReverted(name, after.Observed(name))
}

// templateReverted reports whether the child has the revision that it protects, although it was written with one
// that makes other pods: admission has kept its template as it was. So all its replicas look updated, although it
// has not finished. Two revisions can also differ only in notation, such as "1024Mi" and "1Gi"; this is why it
// compares the template.
func (in *Input) templateReverted(name string, observed *adapters.Observed) bool {
	i := slices.IndexFunc(in.Spec.Subsets, func(s spec.Subset) bool { return s.Name == name })
	if i < 0 || observed == nil || !subset.LooksFinished(observed) {
		return false
	}
	s, has, protects := in.Spec.Subsets[i], revision.ByName(in.Revisions, subset.RevisionOf(observed)), revision.ByName(in.Revisions, subset.RecordedProtectedRevision(observed))
	if has == nil || protects != nil && revision.SamePods(has, protects, name, s.Overlay) {
		return false
	}
	version, child := s.Version(has), childOf(in, &SubsetPlan{Subset: s, Workload: observed.Meta.Name})
	version.Of(&child)
	built, err := adapters.Build(in.Spec.Adapter, &child)
	return err == nil && adapters.Altered(in.Spec.Adapter, built, in.Children[name].Object) != ""
}

// knownRevision returns what the subset protects according to the status; "" if nothing, or if that is not
// credible.
func knownRevision(in *Input, p *Plan, name string) string {
	if status := world.SubsetStatus(&in.Parent.Status, name); status != nil {
		return subset.Credible(status.CurrentRevision, p.believedCurrent, status.ChildRecord)
	}
	return ""
}
