// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package lint

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/percent"
)

// These rules are about what is legal, but surely not meant, and about images.

// zoneName is how zones are named.
var zoneName = regexp.MustCompile(`^(zone|az)-?[a-z0-9]*$|^[a-z]{2,12}-[a-z]+-?[0-9]+-?[a-z]?$`)

// containersOf returns the containers of a list in all pod templates of a workload, with their paths in it.
func containersOf(a adapters.Adapter, workload map[string]any, list string) (found []map[string]any, paths []string) {
	for _, path := range a.PodTemplates() {
		at := append(slices.Clone(path), "spec", list)
		items, _, _ := unstructured.NestedFieldNoCopy(workload, at...)
		list, _ := items.([]any)
		for i, item := range list {
			if container, ok := item.(map[string]any); ok {
				found, paths = append(found, container), append(paths, fmt.Sprintf("%s[%d]", strings.Join(at, "."), i))
			}
		}
	}
	return found, paths
}

func nameOf(container map[string]any) string {
	name, _ := container["name"].(string)
	return name
}

// withoutImage: containers of a child that have no image. They are named where they are written.
func withoutImage(s *source, a adapters.Adapter, child *unstructured.Unstructured, subset string) (problems []Problem) {
	for _, list := range []string{"initContainers", "containers"} {
		found, _ := containersOf(a, child.Object, list)
		for _, c := range found {
			if image, _ := c["image"].(string); image == "" {
				problems = append(problems, problemOf(writtenAt(s, a, subset, list, nameOf(c))+".image", "is empty, and the API server refuses the "+child.GetKind()))
			}
		}
	}
	return problems
}

// writtenAt returns where a container is written: in the template, otherwise in the patch of the subset.
func writtenAt(s *source, a adapters.Adapter, subset, list, name string) string {
	member, raw := a.TemplateField(&s.parent.Spec.Template)
	if template, err := adapters.Decode(raw, nil); err == nil {
		found, paths := containersOf(a, template, list)
		if i := slices.IndexFunc(found, func(c map[string]any) bool { return nameOf(c) == name }); i >= 0 {
			return "spec.template." + member + "." + paths[i]
		}
	}
	return "spec.topology.subsets[" + subset + "].patch: container " + name
}

// addedContainers: a patch finds a container by its name, and adds one that it does not find.
func addedContainers(s *source) (problems []Problem) {
	a, err := all.Registry().For(&s.parent.Spec.Template)
	if err != nil {
		return nil
	}
	_, raw := a.TemplateField(&s.parent.Spec.Template)
	template, err := adapters.Decode(raw, nil)
	if err != nil {
		return nil
	}
	for i := range s.parent.Spec.Topology.Subsets {
		sub := &s.parent.Spec.Topology.Subsets[i]
		patch, err := adapters.Decode(sub.Patch, nil)
		if err != nil {
			continue
		}
		for _, list := range []string{"initContainers", "containers"} {
			var names []string
			there, _ := containersOf(a, template, list)
			for _, c := range there {
				names = append(names, nameOf(c))
			}
			found, paths := containersOf(a, patch, list)
			for n, c := range found {
				if name := nameOf(c); name != "" && c["$patch"] == nil && len(names) > 0 && !slices.Contains(names, name) {
					problems = append(problems, advice("spec.topology.subsets["+sub.Name+"].patch."+paths[n],
						fmt.Sprintf("adds a container %s to the pods of the subset, because the template has only %s", name, strings.Join(names, ", "))))
				}
			}
		}
	}
	return problems
}

// raisedSteps: a step releases nothing of a subset of which an earlier one released as much.
func raisedSteps(s *source) (problems []Problem) {
	u := s.parent.Spec.UpdateStrategy.RollingUpdate
	if u == nil || s.parent.Spec.UpdateStrategy.Type != v1alpha1.RollingUpdateStrategy {
		return nil
	}
	lowest := map[string]int{}
	for i := range u.Steps {
		step := &u.Steps[i]
		subsets := step.Subsets
		if slices.Equal(subsets, []string{"*"}) {
			subsets = nil
			for _, sub := range s.parent.Spec.Topology.Subsets {
				subsets = append(subsets, sub.Name)
			}
		}
		for _, name := range subsets {
			before, released := lowest[name]
			if released && above(step.Partition, u.Steps[before].Partition) {
				problems = append(problems, advice(fmt.Sprintf("spec.updateStrategy.rollingUpdate.steps[%d].partition", i),
					fmt.Sprintf("%s takes nothing of %s back: steps[%d] releases it down to %s already", step.Partition, name, before, u.Steps[before].Partition)))
				continue
			}
			lowest[name] = i
		}
	}
	return problems
}

// above reports whether a partition is above another one, as far as that does not depend on how many replicas there are.
func above(partition, other *intstr.IntOrString) bool {
	if partition == nil || other == nil {
		return false
	}
	p, err := percent.Parse(*partition)
	o, errOther := percent.Parse(*other)
	return err == nil && errOther == nil && (p.IsPercent == o.IsPercent || o.Value == 0) && p.Value > o.Value
}

// tooManyReplicas: subsets that ask for more than there is.
func tooManyReplicas(s *source) []Problem {
	if s.parent.Spec.Replicas == nil || *s.parent.Spec.Replicas < 0 { // an autoscaler writes it, or it is refused
		return nil
	}
	asked := int64(0)
	for _, sub := range s.parent.Spec.Topology.Subsets {
		if sub.Replicas != nil && sub.Replicas.Type == intstr.Int {
			asked += int64(sub.Replicas.IntVal)
		}
	}
	if asked <= int64(*s.parent.Spec.Replicas) {
		return nil
	}
	return []Problem{advice("spec.topology.subsets", fmt.Sprintf("ask for %d replicas, and spec.replicas is %d", asked, *s.parent.Spec.Replicas))}
}

// otherKeys: a zone that selects its nodes by another label than all other zones.
func otherKeys(s *source) (problems []Problem) {
	keys := map[string][]string{}
	var zones []string
	for i := range s.parent.Spec.Topology.Subsets {
		sub := &s.parent.Spec.Topology.Subsets[i]
		if sub.NodeSelector == nil || !zoneName.MatchString(sub.Name) {
			continue
		}
		zones = append(zones, sub.Name)
		for _, term := range sub.NodeSelector.NodeSelectorTerms {
			for _, e := range term.MatchExpressions {
				keys[sub.Name] = append(keys[sub.Name], e.Key)
			}
		}
	}
	if len(zones) < 3 {
		return nil
	}
	for _, zone := range zones {
		others := slices.DeleteFunc(slices.Clone(zones), func(name string) bool { return name == zone })
		for _, key := range keys[others[0]] {
			if !slices.Contains(keys[zone], key) && !slices.ContainsFunc(others, func(name string) bool { return !slices.Contains(keys[name], key) }) {
				problems = append(problems, advice("spec.topology.subsets["+zone+"].nodeSelector", fmt.Sprintf("has no key %s, which all other zones have; it has %s", key, strings.Join(keys[zone], ", "))))
				break
			}
		}
	}
	return problems
}

// releasingAll: type Manual, and yet every next template is released at once.
func releasingAll(s *source) []Problem {
	m := s.parent.Spec.UpdateStrategy.ManualUpdate
	if m == nil || m.DefaultPartition == nil || m.Revision != "" || s.parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		return nil
	}
	if p, err := percent.Parse(*m.DefaultPartition); err != nil || p.Value != 0 {
		return nil
	}
	return []Problem{advice("spec.updateStrategy.manualUpdate.defaultPartition", m.DefaultPartition.String()+
		` releases every next template at once, in all subsets without a partition of their own: to hold them, write "100%", or use type RollingUpdate`)}
}
