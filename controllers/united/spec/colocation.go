// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// colocationPath is the path of the field.
func colocationPath() *field.Path { return field.NewPath("spec", "topology", "colocation") }

// checkColocation rejects groups that cannot come into being.
func (s *Spec) checkColocation(topology *v1alpha1.Topology) error {
	c, at := topology.Colocation, colocationPath()
	if c == nil {
		return nil
	}
	if s.Adapter.Traits().Partition != adapters.ByOrdinal {
		return field.Forbidden(at, "is only for kinds whose pods have ordinals, from which the group follows, and not for "+s.Adapter.GroupVersionKind().Kind)
	}
	if strategy := topology.ScheduleStrategy; strategy != nil && strategy.Type == v1alpha1.AdaptiveScheduleStrategy {
		return field.Forbidden(at, "cannot be used with scheduleStrategy Adaptive, which moves single replicas to other subsets")
	}
	if err := s.checkGroups(c, at); err != nil {
		return err
	}
	for _, sub := range s.Subsets {
		if err := s.checkShare(c, &sub); err != nil {
			return err
		}
	}
	if err := s.checkMemberTemplates(c); err != nil {
		return err
	}
	return s.checkCommonNodes(c)
}

// checkGroups checks the fields of colocation itself.
func (s *Spec) checkGroups(c *v1alpha1.Colocation, at *field.Path) error {
	if c.TopologyKey == "" {
		return field.Required(at.Child("topologyKey"), "must be the name of a label of nodes, such as kubernetes.io/hostname")
	}
	if len(c.Ratios) == 0 {
		return field.Required(at.Child("ratios"), "must name at least one subset")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Ratios)) {
		switch ratio := c.Ratios[name]; {
		case !s.Has(name):
			return field.Invalid(at.Child("ratios").Key(name), name, "there is no such subset in spec.topology.subsets")
		case ratio < 1:
			return field.Invalid(at.Child("ratios").Key(name), int32(ratio), "must be at least 1")
		}
	}
	switch c.Order {
	case "", v1alpha1.SequentialGroups, v1alpha1.ParallelGroups:
		return nil
	}
	return field.NotSupported(at.Child("order"), c.Order, []v1alpha1.ColocationOrder{v1alpha1.SequentialGroups, v1alpha1.ParallelGroups})
}

// checkShare checks what a subset asks for: a member gets whole groups, and any other subset must leave something to
// the groups.
func (s *Spec) checkShare(c *v1alpha1.Colocation, sub *Subset) error {
	at := field.NewPath("spec", "topology", "subsets").Key(sub.Name)
	if !IsMember(c, sub.Name) {
		if sub.Replicas == nil && sub.MaxReplicas == nil {
			return field.Required(at.Child("replicas"), "a subset that is not in colocation.ratios must have replicas or maxReplicas, because the groups take the rest")
		}
		return nil
	}
	for _, set := range []struct {
		name string
		set  bool
	}{{"replicas", sub.Replicas != nil}, {"minReplicas", sub.MinReplicas != nil}, {"maxReplicas", sub.MaxReplicas != nil}} {
		if set.set {
			return field.Forbidden(at.Child(set.name), "cannot be set for a subset in colocation.ratios, because its replicas come in whole groups: set spec.replicas")
		}
	}
	return nil
}

// IsMember reports whether the replicas of a subset are members of groups.
func IsMember(c *v1alpha1.Colocation, subset string) bool { return c != nil && c.Ratios[subset] > 0 }

// source is the template, or a patch, and its path.
type source struct {
	object map[string]any
	at     *field.Path
}

// checkMemberTemplates rejects what would keep the pods of a group from being scheduled, in the template and in the
// patches of members.
func (s *Spec) checkMemberTemplates(c *v1alpha1.Colocation) error {
	member, _ := s.Adapter.TemplateField(&v1alpha1.WorkloadTemplate{})
	template := source{s.Template, field.NewPath("spec", "template", member)}
	sources := []source{template}
	for _, sub := range s.Subsets {
		if IsMember(c, sub.Name) {
			sources = append(sources, source{sub.DecodedPatch, field.NewPath("spec", "topology", "subsets").Key(sub.Name).Child("patch")})
		}
	}
	for _, from := range sources {
		if value, _, _ := unstructured.NestedFieldNoCopy(from.object, "spec", "reserveOrdinals"); !isEmpty(value) {
			return field.Forbidden(from.at.Child("spec", "reserveOrdinals"), "cannot be used with spec.topology.colocation: the group of a pod follows from its ordinal")
		}
		for _, steps := range s.Adapter.PodTemplates() {
			path := slices.Concat(steps, []string{"spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution"})
			if value, _, _ := unstructured.NestedFieldNoCopy(from.object, path...); !isEmpty(value) {
				return field.Forbidden(from.at.Child(path[0], path[1:]...),
					"cannot be used with spec.topology.colocation: the first pod of a group would wait for the others for ever")
			}
		}
	}
	if err := s.checkPlacementAnnotations(sources); err != nil {
		return err
	}
	return s.checkScheduler(template, sources[1:])
}

// checkPlacementAnnotations rejects annotations with which a webhook adds a required podAffinity to pods. Trap: the
// scheduler counts only pods that match all terms, so with a second term it takes every pod for the first one of its
// group, and the group is split without a word.
func (s *Spec) checkPlacementAnnotations(sources []source) error {
	grouping, ok := s.Adapter.(adapters.Grouping)
	if !ok {
		return nil
	}
	for _, from := range sources {
		for _, steps := range slices.Concat([][]string{nil}, s.Adapter.PodTemplates()) {
			for _, annotation := range grouping.PlacementAnnotations() {
				path := slices.Concat(steps, []string{"metadata", "annotations"})
				if value, _, _ := unstructured.NestedFieldNoCopy(from.object, slices.Concat(path, []string{annotation})...); value != nil {
					return field.Forbidden(from.at.Child(path[0], path[1:]...).Key(annotation),
						"cannot be used with spec.topology.colocation: it adds a podAffinity, with which groups would be split")
				}
			}
		}
	}
	return nil
}

func isEmpty(value any) bool {
	list, isList := value.([]any)
	return value == nil || isList && len(list) == 0
}

// checkScheduler rejects several schedulers: none of them would know which nodes the others have just chosen.
func (s *Spec) checkScheduler(template source, members []source) error {
	first := ""
	for _, from := range members {
		for _, steps := range s.Adapter.PodTemplates() {
			path := slices.Concat(steps, []string{"spec", "schedulerName"})
			if _, found, _ := unstructured.NestedFieldNoCopy(template.object, steps...); !found {
				if _, found, _ = unstructured.NestedFieldNoCopy(from.object, steps...); !found {
					continue // leaders that have the template of the workers
				}
			}
			name, patched, _ := unstructured.NestedString(from.object, path...)
			at := from.at
			if !patched {
				name, _, _ = unstructured.NestedString(template.object, path...)
				at = template.at
			}
			if name = cmp.Or(name, corev1.DefaultSchedulerName); first == "" {
				first = name
			}
			if name != first {
				return field.Invalid(at.Child(path[0], path[1:]...), name, "must be the same scheduler for all pods of spec.topology.colocation, and others have "+first)
			}
		}
	}
	return nil
}

// checkCommonNodes rejects members whose nodeSelectors have no domain in common, so that no group can be complete. It
// finds requirements that contradict each other: of the topology key itself and, if each domain is one node, of any
// label. It does not know the nodes.
func (s *Spec) checkCommonNodes(c *v1alpha1.Colocation) error {
	var members []Subset
	for _, sub := range s.Subsets {
		if IsMember(c, sub.Name) && sub.NodeSelector != nil {
			members = append(members, sub)
		}
	}
	for i, a := range members {
		for _, b := range members[:i] {
			key := contradiction(a.NodeSelector, b.NodeSelector, c.TopologyKey)
			if key == "" {
				continue
			}
			return field.Invalid(field.NewPath("spec", "topology", "subsets").Key(a.Name).Child("nodeSelector"), key, fmt.Sprintf(
				"contradicts that of subset %s, so no %s has nodes for both, and no group of spec.topology.colocation can be complete", b.Name, c.TopologyKey))
		}
	}
	return nil
}

// contradiction returns a label for which each term of a contradicts each term of b; "" if there may be a domain that
// matches both. Several labels can be involved; it returns the last one.
func contradiction(a, b *corev1.NodeSelector, topologyKey string) string {
	found := ""
	for _, x := range a.NodeSelectorTerms {
		for _, y := range b.NodeSelectorTerms {
			key := contradictory(x.MatchExpressions, y.MatchExpressions, topologyKey)
			if key == "" {
				return ""
			}
			found = key
		}
	}
	return found
}

// contradictory returns the label for which no value meets both lists of requirements; "" if none is found.
func contradictory(a, b []corev1.NodeSelectorRequirement, topologyKey string) string {
	for _, x := range a {
		for _, y := range b {
			sameNode := topologyKey == corev1.LabelHostname
			if x.Key == y.Key && (sameNode || x.Key == topologyKey) && (excludes(x, y) || excludes(y, x)) {
				return x.Key
			}
		}
	}
	return ""
}

// excludes reports whether no value in x is allowed by y.
func excludes(x, y corev1.NodeSelectorRequirement) bool {
	if x.Operator == corev1.NodeSelectorOpExists {
		return y.Operator == corev1.NodeSelectorOpDoesNotExist
	}
	if x.Operator != corev1.NodeSelectorOpIn {
		return false
	}
	return !slices.ContainsFunc(x.Values, func(value string) bool {
		switch y.Operator {
		case corev1.NodeSelectorOpIn:
			return slices.Contains(y.Values, value)
		case corev1.NodeSelectorOpNotIn:
			return !slices.Contains(y.Values, value)
		case corev1.NodeSelectorOpDoesNotExist:
			return false
		default:
			return true // Exists, or a comparison of numbers, which is left to the scheduler
		}
	})
}

// colocation returns the part of the colocation that reaches pods. The first ordinal is in it, because the group of a
// pod depends on it.
func (s *Spec) colocation(c *v1alpha1.Colocation) *revision.Colocation {
	if c == nil {
		return nil
	}
	content := &revision.Colocation{TopologyKey: c.TopologyKey, Exclusive: c.Exclusive, Members: map[string]revision.Member{}}
	for _, sub := range s.Subsets {
		if IsMember(c, sub.Name) {
			content.Members[sub.Name] = revision.Member{Ratio: int32(c.Ratios[sub.Name]), Start: s.firstOrdinal(&sub)}
		}
	}
	content.ID = revision.ColocationID(content)
	return content
}

// firstOrdinal returns the first ordinal of a subset, from its patch or the template. If it has another type, the API
// server rejects the child.
func (s *Spec) firstOrdinal(sub *Subset) int32 {
	for _, from := range []map[string]any{sub.DecodedPatch, s.Template} {
		value, found, err := unstructured.NestedFieldNoCopy(from, "spec", "ordinals", "start")
		if start, isNumber := value.(int64); found && err == nil && (isNumber || value == nil) {
			return int32(start) // 0 if the patch removes it
		}
		if ordinals, found, _ := unstructured.NestedFieldNoCopy(from, "spec", "ordinals"); found && ordinals == nil {
			return 0 // the patch removes it
		}
	}
	return 0
}
