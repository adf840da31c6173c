// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package spec reads the spec of a parent: it decodes it, and rejects what cannot work. It is pure.
package spec

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/percent"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Spec is the parent's spec, decoded and validated.
type Spec struct {
	Adapter          adapters.Adapter
	Subsets          []Subset
	Template         map[string]any
	revisionTemplate map[string]any
	// content is the content from which pods are made.
	content revision.Content
	// PodSelector is for the scale subresource.
	PodSelector string
	// Relocates is the subset that Subsets does not have because it is being moved to other nodes (planner.NewInput); "" if
	// none is.
	Relocates string
}

// Subset is one subset's part of the spec.
type Subset struct {
	*v1alpha1.Subset
	DecodedPatch map[string]any
	// Overlay is what the subset changes in the pods.
	Overlay revision.Overlay
	// Displaced is why its child stays on nodes that are no longer those of the subset; "" if it does not. fixed: that
	// does not end by itself.
	Displaced string
	Fixed     bool
}

// Read decodes the spec and rejects what cannot work. It repeats what admission rejects, because the policy
// may be missing and an object may be older than a rule. A bad patch affects only its own subset: building the
// child rejects it.
func Read(parent *v1alpha1.UnitedDeployment, known adapters.Registry) (*Spec, error) {
	adapter, err := known.For(&parent.Spec.Template)
	if err != nil {
		return nil, err
	}
	member, raw := adapter.TemplateField(&parent.Spec.Template)
	at := field.NewPath("spec", "template", member)
	s := &Spec{Adapter: adapter}
	size, err := adapters.CheckSize(raw, at)
	if err != nil {
		return nil, err
	}
	if s.Template, err = adapters.Decode(raw, at); err != nil {
		return nil, err
	}
	if s.PodSelector, err = podSelector(parent, s.Adapter); err != nil {
		return nil, err
	}
	if errs := adapter.Validate(&parent.Spec, s.Template, at); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	if err := adapters.CheckTemplate(adapter, s.Template, at); err != nil {
		return nil, err
	}
	if s.revisionTemplate, err = adapters.RevisionData(adapter, s.Template); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if s.revisionTemplate == nil {
		first := adapter.RevisionPaths()[0]
		return nil, field.Required(at.Child(first[0], first[1:]...), "the pod template is missing")
	}
	if err := s.readSubsets(parent, size); err != nil {
		return nil, err
	}
	s.content = revision.Content{Template: s.revisionTemplate, Subsets: s.Overlays(), Colocation: s.colocation(parent.Spec.Topology.Colocation)}
	switch parent.Spec.VersionLabel {
	case "", v1alpha1.NoVersionLabel:
		if check := coordination.NeedsVersion(parent.Spec.UpdateStrategy.RollingUpdate); check != "" {
			return nil, field.Invalid(field.NewPath("spec", "updateStrategy", "rollingUpdate", "checks").Key(check).Child("prometheus", "query"), field.OmitValueType{},
				"${version} is the label united.dev/version of the pods: set spec.versionLabel to TemplateHash")
		}
	case v1alpha1.TemplateHashLabel:
		s.content.VersionLabel = revision.TemplateHash(s.revisionTemplate)
	default:
		return nil, field.NotSupported(field.NewPath("spec", "versionLabel"), parent.Spec.VersionLabel,
			[]v1alpha1.VersionLabel{v1alpha1.NoVersionLabel, v1alpha1.TemplateHashLabel})
	}
	s.content = s.content.Marshalled()
	return s, nil
}

// readSubsets reads the subsets. size is how many values the template has.
func (s *Spec) readSubsets(parent *v1alpha1.UnitedDeployment, size int) error {
	at := field.NewPath("spec", "topology", "subsets")
	seen := map[string]bool{}
	for i := range parent.Spec.Topology.Subsets {
		sub := Subset{Subset: &parent.Spec.Topology.Subsets[i]}
		here := at.Key(sub.Name)
		if seen[sub.Name] {
			return field.Duplicate(here.Child("name"), sub.Name)
		}
		seen[sub.Name] = true
		if name := adapters.ChildName(parent.Name, sub.Name); len(name) > s.Adapter.MaxNameLength() {
			return field.Invalid(here.Child("name"), sub.Name, fmt.Sprintf("the name of the child workload, %s, must not be longer than %d characters: shorten the name of the subset", name, s.Adapter.MaxNameLength()))
		}
		n, err := adapters.CheckSize(sub.Patch, here.Child("patch"))
		if err != nil {
			return err
		}
		if size += n; size > adapters.MaxAllValues {
			return field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("the template and the patches up to that of %s have %d values together (objects, lists, and what is in them), and must have at most %d",
				sub.Name, size, adapters.MaxAllValues))
		}
		if sub.DecodedPatch, err = adapters.Decode(sub.Patch, here.Child("patch")); err != nil {
			return err
		}
		sub.Overlay.Tolerations = sub.Tolerations
		// If the pod part cannot be extracted, building the child reports why.
		if podPatch, err := adapters.RevisionData(s.Adapter, sub.DecodedPatch); err == nil {
			sub.Overlay.Patch = podPatch
		}
		s.Subsets = append(s.Subsets, sub)
	}
	if err := checkBounds(parent.Spec.Topology.Subsets, at); err != nil {
		return err
	}
	if err := checkScheduling(&parent.Spec.Topology, field.NewPath("spec", "topology")); err != nil {
		return err
	}
	if err := s.checkReserve(parent); err != nil {
		return err
	}
	if err := s.checkColocation(&parent.Spec.Topology); err != nil {
		return err
	}
	at = field.NewPath("spec", "updateStrategy")
	if err := checkRuns(parent, at); err != nil {
		return err
	}
	return s.checkStrategy(&parent.Spec.UpdateStrategy, at)
}

// checkBounds rejects minimums and maximums that contradict each other, or that are combined with replicas.
func checkBounds(subsets []v1alpha1.Subset, at *field.Path) error {
	bounded := slices.IndexFunc(subsets, func(sub v1alpha1.Subset) bool { return sub.MinReplicas != nil || sub.MaxReplicas != nil })
	if bounded < 0 {
		return nil
	}
	for i := range subsets {
		sub := &subsets[i]
		if sub.Replicas != nil {
			return field.Forbidden(at.Key(sub.Name).Child("replicas"), "cannot be combined with minReplicas and maxReplicas, also not of another subset")
		}
		if sub.MinReplicas == nil || sub.MaxReplicas == nil {
			continue
		}
		low, badLow := percent.Parse(*sub.MinReplicas)
		high, badHigh := percent.Parse(*sub.MaxReplicas)
		if badLow == nil && badHigh == nil && low.IsPercent == high.IsPercent && low.Value > high.Value {
			return field.Invalid(at.Key(sub.Name).Child("minReplicas"), sub.MinReplicas.String(), "must not be above maxReplicas")
		}
	}
	if !slices.ContainsFunc(subsets, func(sub v1alpha1.Subset) bool { return sub.MaxReplicas == nil }) {
		return field.Invalid(at.Key(subsets[bounded].Name).Child("maxReplicas"), subsets[bounded].MaxReplicas.String(),
			"at least one subset must have no maxReplicas, to take the replicas that the others do not")
	}
	return nil
}

// checkStrategy rejects a strategy that cannot be parsed.
func (s *Spec) checkStrategy(strategy *v1alpha1.UpdateStrategy, at *field.Path) error {
	switch strategy.Type {
	case "", v1alpha1.ManualUpdateStrategy:
		for _, sub := range s.Subsets {
			if _, err := coordination.Manual(strategy.ManualUpdate, sub.Name, 0, ""); err != nil {
				return field.Invalid(at.Child("manualUpdate"), sub.Name, err.Error())
			}
		}
		return nil
	case v1alpha1.RollingUpdateStrategy:
		return coordination.Check(strategy.RollingUpdate, s.Has, at.Child("rollingUpdate")).ToAggregate()
	default:
		return field.NotSupported(at.Child("type"), strategy.Type,
			[]v1alpha1.UpdateStrategyType{v1alpha1.ManualUpdateStrategy, v1alpha1.RollingUpdateStrategy})
	}
}

// Has reports whether the spec has a subset of that name.
func (s *Spec) Has(name string) bool {
	return slices.ContainsFunc(s.Subsets, func(sub Subset) bool { return sub.Name == name })
}

// podSelector returns a selector for the pods of all subsets and no others. For groups of pods it selects one pod
// of each, because a scaler counts the selected pods as replicas.
func podSelector(parent *v1alpha1.UnitedDeployment, adapter adapters.Adapter) (string, error) {
	at := field.NewPath("spec", "selector")
	selector, err := metav1.LabelSelectorAsSelector(parent.Spec.Selector)
	if err != nil {
		return "", field.Invalid(at, parent.Spec.Selector, err.Error())
	}
	if selector.Empty() || parent.Spec.Selector == nil {
		return "", field.Required(at, "must not be empty: it would select every pod in the namespace")
	}
	if err := checkSelected(selector, at); err != nil {
		return "", err
	}
	own, err := labels.NewRequirement(v1alpha1.LabelName, "=", []string{parent.Name})
	if err != nil {
		return "", field.Invalid(field.NewPath("metadata", "name"), parent.Name, err.Error())
	}
	selector = selector.Add(*own)
	if grouping, ok := adapter.(adapters.Grouping); ok {
		one, _ := labels.SelectorFromSet(grouping.ReplicaLabels()).Requirements()
		selector = selector.Add(one...)
	}
	return selector.String(), nil
}

// checkSelected rejects a selector with a label that differs between pods or templates.
func checkSelected(selector labels.Selector, at *field.Path) error {
	requirements, _ := selector.Requirements()
	for i := range requirements {
		switch requirements[i].Key() {
		case v1alpha1.LabelVersion:
			return field.Forbidden(at, "must not have "+v1alpha1.LabelVersion+", which is another one with every template (spec.versionLabel)")
		case v1alpha1.LabelColocation, v1alpha1.LabelColocationGroup, v1alpha1.LabelColocationRatio:
			return field.Forbidden(at, "must not have the labels of spec.topology.colocation, which differ between pods")
		}
	}
	return nil
}

// Content returns the content from which the spec makes pods.
func (s *Spec) Content() revision.Content { return s.content }

// Overlays returns what the subsets change in the pods, by name.
func (s *Spec) Overlays() map[string]revision.Overlay {
	overlays := make(map[string]revision.Overlay, len(s.Subsets))
	for _, sub := range s.Subsets {
		overlays[sub.Name] = sub.Overlay
	}
	return overlays
}

// RevisionLimit returns how many idle revisions are kept; the default is the CRD's.
func RevisionLimit(parent *v1alpha1.UnitedDeployment) int {
	return int(ptr.Deref(parent.Spec.RevisionHistoryLimit, 10))
}

// Replicas returns how many replicas a parent asks for.
func Replicas(parent *v1alpha1.UnitedDeployment) int32 {
	return ptr.Deref(parent.Spec.Replicas, 1)
}

// DefaultProgressDeadline is used if the CRD's default is missing, in seconds.
const DefaultProgressDeadline = int32(600)

// ProgressTime returns spec.progressDeadlineSeconds.
func ProgressTime(parent *v1alpha1.UnitedDeployment) time.Duration {
	return time.Duration(ptr.Deref(parent.Spec.ProgressDeadlineSeconds, DefaultProgressDeadline)) * time.Second
}

// Version returns the version of this subset's pods in a revision. If it does not know the subset, the current
// overlay of the subset is used.
func (s Subset) Version(r *revision.Revision) subset.Version {
	overlay := r.OverlayOr(s.Name, s.Overlay)
	return subset.Version{
		Revision: r.Name, Identity: r.Identity(), RevisionTemplate: r.Template(), RevisionPatch: overlay.Patch, Tolerations: overlay.Tolerations,
		VersionLabel: r.VersionLabel(), Colocation: r.Colocation(s.Name),
	}
}

// Bounds returns the subsets among which replicas are allocated.
func (s *Spec) Bounds() []v1alpha1.Subset {
	all := make([]v1alpha1.Subset, len(s.Subsets))
	for i := range s.Subsets {
		all[i] = *s.Subsets[i].Subset
	}
	return all
}
