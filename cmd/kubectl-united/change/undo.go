// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package change

import (
	"errors"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// Back returns the revision to which undo goes: during a rollout the current one, at rest the one that was current before it.
func Back(parent *v1alpha1.UnitedDeployment, revisions []*revision.Revision) (*revision.Revision, error) {
	status := &parent.Status
	if status.UpdateRevision != status.CurrentRevision {
		if current := revision.ByName(revisions, status.CurrentRevision); current != nil {
			return current, nil
		}
		return nil, fmt.Errorf("the current revision of %s, %s, is lost: somebody has deleted its ControllerRevision", parent.Name, status.CurrentRevision)
	}
	// A second undo must not go back one further only because the first one takes its time.
	if status.UpdatedReplicas < status.Replicas {
		return nil, fmt.Errorf("%s is on its way to %s already, and %d of %d replicas run that: wait for it, or say to which revision with --to-revision", parent.Name, known.Short(status.CurrentRevision), status.UpdatedReplicas, status.Replicas)
	}
	if before := revision.RanBefore(revisions, parent.UID, status.CurrentRevision, 1); len(before) > 0 {
		return before[0], nil
	}
	hint := ""
	if len(revisions) > 1 {
		hint = ", but it has other revisions: choose one with --to-revision, see kubectl united history " + parent.Name
	}
	return nil, fmt.Errorf("there is nothing to go back to: %s has no revision that was the current one before %s%s", parent.Name, known.Short(status.CurrentRevision), hint)
}

// Undo returns the parent with a spec that asks for a revision. What is not part of revisions stays. Notes say what else the
// user should know.
func Undo(parent *v1alpha1.UnitedDeployment, target *revision.Revision) (after *v1alpha1.UnitedDeployment, notes []string, err error) {
	after, err = edited(parent, func(a adapters.Adapter, template map[string]any) (map[string]any, error) {
		return adapters.WithRevisionData(a, template, target.Template(), nil)
	})
	if err != nil {
		return nil, nil, err
	}
	adapter, err := all.Registry().For(&after.Spec.Template)
	if err != nil {
		return nil, nil, err
	}
	for i := range after.Spec.Topology.Subsets {
		sub := &after.Spec.Topology.Subsets[i]
		overlay, there := target.Overlay(sub.Name)
		if !there {
			notes = append(notes, fmt.Sprintf("%s does not know subset %s, so its patch and tolerations stay as they are", known.Short(target.Name), sub.Name))
			continue
		}
		sub.Tolerations = overlay.Tolerations
		if err := undoPatch(adapter, sub, overlay.Patch); err != nil {
			return nil, nil, err
		}
	}
	rest, err := undoRest(after, target)
	if err != nil {
		return nil, nil, err
	}
	notes = append(notes, rest...)
	read, err := spec.Read(after, all.Registry())
	if err != nil {
		return nil, nil, fmt.Errorf("the spec is not valid with the pods of %s: %w", known.Short(target.Name), err)
	}
	if !target.Matches(read.Content()) {
		return nil, nil, fmt.Errorf("the pods of %s cannot be made again: a subset of spec.topology.colocation is gone, or its first ordinal (spec.ordinals.start of the template or its patch) is another one: set that back first", known.Short(target.Name))
	}
	if note := endRelease(after, target); note != "" {
		notes = append(notes, note)
	}
	return after, notes, nil
}

// undoPatch replaces the part of a subset's patch that makes pods.
func undoPatch(adapter adapters.Adapter, sub *v1alpha1.Subset, pods map[string]any) error {
	at := field.NewPath("spec", "topology", "subsets").Key(sub.Name).Child("patch")
	patch, err := adapters.Decode(sub.Patch, at)
	if err != nil {
		return err
	}
	had, err := adapters.RevisionData(adapter, patch)
	if err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	if len(had) == 0 && len(pods) == 0 {
		return nil // also an empty object stays as it was written
	}
	if patch, err = adapters.WithRevisionData(adapter, patch, pods, at); err != nil {
		return err
	}
	if spec, ok := patch["spec"].(map[string]any); ok && len(spec) == 0 {
		delete(patch, "spec")
	}
	if len(patch) == 0 {
		sub.Patch = nil
		return nil
	}
	sub.Patch, err = encoded(patch)
	return err
}

// undoRest sets what a revision has besides pods. The ratios of a colocation are immutable.
func undoRest(parent *v1alpha1.UnitedDeployment, target *revision.Revision) (notes []string, err error) {
	s := &parent.Spec
	switch labelled := s.VersionLabel == v1alpha1.TemplateHashLabel; {
	case labelled && target.VersionLabel() == "":
		s.VersionLabel = v1alpha1.NoVersionLabel
	case !labelled && target.VersionLabel() != "":
		s.VersionLabel = v1alpha1.TemplateHashLabel
	}
	var then *v1alpha1.Colocation
	for i := range s.Topology.Subsets {
		name := s.Topology.Subsets[i].Name
		if was := target.Colocation(name); was != nil {
			if then == nil {
				then = &v1alpha1.Colocation{TopologyKey: was.TopologyKey, Exclusive: was.Exclusive, Order: v1alpha1.SequentialGroups, Ratios: map[string]v1alpha1.ColocationRatio{}}
			}
			then.Ratios[name] = v1alpha1.ColocationRatio(was.Ratio)
		}
	}
	switch now := s.Topology.Colocation; {
	case now == nil && then != nil:
		notes = append(notes, "spec.topology.colocation comes back with the defaults of order and timeoutSeconds, which are in no revision")
	case now != nil && then != nil && !maps.Equal(now.Ratios, then.Ratios):
		return nil, fmt.Errorf("spec.topology.colocation.ratios is immutable, and not as in %s: remove spec.topology.colocation first, then run: kubectl united undo %s --to-revision %d",
			known.Short(target.Name), parent.Name, target.Number)
	case now != nil && then != nil:
		then.Order, then.TimeoutSeconds = now.Order, now.TimeoutSeconds
	}
	s.Topology.Colocation = then
	return notes, nil
}

// endRelease holds everything if the partitions are for the revision that is left: otherwise it would go out at once, where it had
// been released, when something writes it back.
func endRelease(parent *v1alpha1.UnitedDeployment, target *revision.Revision) (note string) {
	m, left := parent.Spec.UpdateStrategy.ManualUpdate, parent.Status.UpdateRevision
	if m == nil || m.Revision == "" || m.Revision != left || target.Name == left {
		return ""
	}
	parent.Spec.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{DefaultPartition: ptr.To(intstr.FromString("100%"))}
	note = fmt.Sprintf("the partitions were for %s: now they hold everything", known.Short(left))
	if target.Name != parent.Status.CurrentRevision {
		note += fmt.Sprintf("; what runs stays until you run: kubectl united release %s --all", parent.Name)
	}
	return note
}

// errNoTemplate is for a template that has nothing to change.
var errNoTemplate = errors.New("spec.template has no pod template")
