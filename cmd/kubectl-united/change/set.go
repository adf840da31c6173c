// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package change

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// AnnotationRestarted is the one that kubectl rollout restart sets on pod templates.
const AnnotationRestarted = "kubectl.kubernetes.io/restartedAt"

// Variable is an environment variable: one to set, or one to remove.
type Variable struct {
	Name, Value string
	Remove      bool
}

// edited returns a copy of the parent with another workload template.
func edited(parent *v1alpha1.UnitedDeployment, edit func(adapters.Adapter, map[string]any) (map[string]any, error)) (*v1alpha1.UnitedDeployment, error) {
	after := parent.DeepCopy()
	adapter, err := all.Registry().For(&after.Spec.Template)
	if err != nil {
		return nil, err
	}
	member, raw := adapter.TemplateField(&after.Spec.Template)
	at := field.NewPath("spec", "template", member)
	template, err := adapters.Decode(raw, at)
	if err != nil {
		return nil, err
	}
	if template, err = edit(adapter, template); err != nil {
		return nil, err
	}
	written, err := encoded(template)
	if err != nil {
		return nil, err
	}
	*raw = *written
	return after, nil
}

func encoded(v map[string]any) (*runtime.RawExtension, error) {
	raw, err := json.Marshal(v)
	return &runtime.RawExtension{Raw: raw}, err
}

// Restart returns the parent with an annotation in every pod template, which makes a new revision of the same pods.
func Restart(parent *v1alpha1.UnitedDeployment, now time.Time) (after *v1alpha1.UnitedDeployment, notes []string, err error) {
	path := []string{"metadata", "annotations", AnnotationRestarted}
	after, err = edited(parent, func(a adapters.Adapter, template map[string]any) (map[string]any, error) {
		templates := podTemplates(a, template)
		if len(templates) == 0 {
			return nil, errNoTemplate
		}
		for _, pods := range templates {
			if err := unstructured.SetNestedField(pods, now.UTC().Format(time.RFC3339), path...); err != nil {
				return nil, fmt.Errorf("the annotations of a pod template cannot be set: %w", err)
			}
		}
		return template, nil
	})
	if err != nil {
		return nil, nil, err
	}
	for name, patch := range patches(parent) {
		for _, pods := range patch.templates {
			if _, found, _ := unstructured.NestedString(pods, path...); found {
				notes = append(notes, fmt.Sprintf("the patch of subset %s sets the annotation %s of its own, so its pods do not restart", name, AnnotationRestarted))
			}
		}
	}
	return after, notes, nil
}

// SetImages returns the parent with other images of containers, by their names, in all pod templates; * is all others.
func SetImages(parent *v1alpha1.UnitedDeployment, images map[string]string) (after *v1alpha1.UnitedDeployment, notes []string, err error) {
	names := slices.Sorted(maps.Keys(images))
	image := func(container any) string { return cmp.Or(images[nameOf(container)], images["*"]) }
	if images["*"] != "" {
		names = nil
	}
	after, err = editContainers(parent, names, func(container map[string]any) error {
		container["image"] = image(container)
		return nil
	})
	if err != nil {
		return nil, nil, err
	}
	for subset, patch := range patches(parent) {
		for _, container := range patch.containers() {
			if patched, sets := container["image"].(string); sets && image(container) != "" && image(container) != patched {
				notes = append(notes, fmt.Sprintf("the patch of subset %s sets the image of container %s, so there it stays %s", subset, nameOf(container), patched))
			}
		}
	}
	return after, notes, nil
}

// SetEnv returns the parent with other environment variables of a container, or of all containers if its name is "", in all pod
// templates.
func SetEnv(parent *v1alpha1.UnitedDeployment, container string, variables []Variable) (after *v1alpha1.UnitedDeployment, notes []string, err error) {
	var wanted []string
	if container != "" {
		wanted = []string{container}
	}
	after, err = editContainers(parent, wanted, func(c map[string]any) error { return setEnv(c, variables) })
	if err != nil {
		return nil, nil, err
	}
	for subset, patch := range patches(parent) {
		for _, c := range patch.containers() {
			if container != "" && container != nameOf(c) {
				continue
			}
			env, _ := c["env"].([]any)
			for _, v := range variables {
				if slices.ContainsFunc(env, func(e any) bool { return nameOf(e) == v.Name }) {
					notes = append(notes, fmt.Sprintf("the patch of subset %s sets %s of container %s, so there it stays as it is", subset, v.Name, nameOf(c)))
				}
			}
		}
	}
	return after, notes, nil
}

// setEnv changes the variables of one container. Those that are there keep their places: a later one may refer to an earlier one.
func setEnv(container map[string]any, variables []Variable) error {
	env, isList := container["env"].([]any)
	if !isList && container["env"] != nil {
		return fmt.Errorf("env of container %s is not a list", nameOf(container))
	}
	for _, v := range variables {
		i := slices.IndexFunc(env, func(e any) bool { return nameOf(e) == v.Name })
		entry := map[string]any{"name": v.Name, "value": v.Value}
		switch {
		case v.Remove:
			env = slices.DeleteFunc(env, func(e any) bool { return nameOf(e) == v.Name })
		case i < 0:
			env = append(env, entry)
		default:
			env[i] = entry
		}
	}
	if len(env) > 0 {
		container["env"] = env
	} else if isList {
		delete(container, "env")
	}
	return nil
}

// editContainers edits the containers with these names, or all without names, in all pod templates. Every name must be there.
func editContainers(parent *v1alpha1.UnitedDeployment, names []string, edit func(map[string]any) error) (*v1alpha1.UnitedDeployment, error) {
	return edited(parent, func(a adapters.Adapter, template map[string]any) (map[string]any, error) {
		all := part{templates: podTemplates(a, template)}.containers()
		var there []string
		for _, container := range all {
			there = append(there, nameOf(container))
			if len(names) > 0 && !slices.Contains(names, nameOf(container)) {
				continue
			}
			if err := edit(container); err != nil {
				return nil, err
			}
		}
		slices.Sort(there)
		for _, name := range names {
			if !slices.Contains(there, name) {
				return nil, unknownContainer(parent, name, slices.Compact(there))
			}
		}
		if len(there) == 0 {
			return nil, errNoTemplate
		}
		return template, nil
	})
}

func unknownContainer(parent *v1alpha1.UnitedDeployment, name string, there []string) error {
	for subset, patch := range patches(parent) {
		if slices.ContainsFunc(patch.containers(), func(c map[string]any) bool { return nameOf(c) == name }) {
			return fmt.Errorf("only the patch of subset %s has a container %s, and the pod template of %s has %s: change it in that patch", subset, name, parent.Name, strings.Join(there, ", "))
		}
	}
	return fmt.Errorf("the pod template of %s has no container %s; it has %s", parent.Name, name, strings.Join(there, ", "))
}

// part is what a template or a patch says about pods.
type part struct{ templates []map[string]any }

// podTemplates returns the pod templates in a workload that are there.
func podTemplates(a adapters.Adapter, workload map[string]any) (templates []map[string]any) {
	for _, path := range a.PodTemplates() {
		found, _, _ := unstructured.NestedFieldNoCopy(workload, path...)
		if pods, ok := found.(map[string]any); ok {
			templates = append(templates, pods)
		}
	}
	return templates
}

// containers returns the containers and init containers of all pod templates.
func (p part) containers() (all []map[string]any) {
	for _, pods := range p.templates {
		for _, list := range []string{"initContainers", "containers"} {
			found, _, _ := unstructured.NestedFieldNoCopy(pods, "spec", list)
			items, _ := found.([]any)
			for _, item := range items {
				if container, ok := item.(map[string]any); ok {
					all = append(all, container)
				}
			}
		}
	}
	return all
}

// patches yields what the patches of the subsets say about pods, in the order of the spec.
func patches(parent *v1alpha1.UnitedDeployment) func(yield func(subset string, patch part) bool) {
	return func(yield func(string, part) bool) {
		adapter, err := all.Registry().For(&parent.Spec.Template)
		if err != nil {
			return
		}
		for i := range parent.Spec.Topology.Subsets {
			sub := &parent.Spec.Topology.Subsets[i]
			patch, err := adapters.Decode(sub.Patch, nil)
			if err != nil {
				continue // the API server says what is wrong with it
			}
			if !yield(sub.Name, part{podTemplates(adapter, patch)}) {
				return
			}
		}
	}
}

// nameOf returns the name of an item of a list, such as a container.
func nameOf(item any) string {
	m, _ := item.(map[string]any)
	name, _ := m["name"].(string)
	return name
}
