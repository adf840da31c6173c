// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// why returns in which fields the pods of two revisions differ in a child.
func (f *future) why(c *child, from, to string) []string {
	a, b := f.podTemplates(c, from), f.podTemplates(c, to)
	if a == nil || b == nil {
		return nil
	}
	var all []string
	for _, path := range f.world.Spec.Adapter.PodTemplates() {
		was, _, _ := unstructured.NestedFieldNoCopy(a.Object, path...)
		is, _, _ := unstructured.NestedFieldNoCopy(b.Object, path...)
		below := "" // a kind with one template needs no path to it
		if len(f.world.Spec.Adapter.PodTemplates()) > 1 {
			below = strings.Join(path[1:], ".")
		}
		differences(was, is, below, &all)
	}
	return all
}

// podTemplates returns the child with the pods of a revision; nil if that is not known.
func (f *future) podTemplates(c *child, name string) *unstructured.Unstructured {
	if r := revision.ByName(f.world.Revisions, name); r != nil {
		return built(&f.world, c.subset, r)
	}
	return nil
}

// built returns the child of a subset with the pods of a revision; nil if the subset is gone, or it cannot be built.
func built(w *world.World, name string, r *revision.Revision) *unstructured.Unstructured {
	i := slices.IndexFunc(w.Spec.Subsets, func(s spec.Subset) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	s, child := w.Spec.Subsets[i], w.ChildIdentity(name)
	child.Selector, child.Template, child.Patch, child.NodeSelector = w.Parent.Spec.Selector, w.Spec.Template, s.DecodedPatch, s.NodeSelector
	version := s.Version(r)
	version.Of(&child)
	object, err := adapters.Build(w.Spec.Adapter, &child)
	if err != nil {
		return nil
	}
	return object
}

// recognize finds the revisions of replicas whose own revision the child does not name, because it has had two others since. A
// replica has all that its revision asks for, and more; so of several revisions the one that asks for most is taken.
func (c *child) recognize(w *world.World) {
	paths := w.Spec.Adapter.PodTemplates()
	if len(paths) != 1 {
		return
	}
	unknown := map[string]*unstructured.Unstructured{}
	for _, pod := range w.Pods[c.subset] {
		i := slices.IndexFunc(c.pods, func(r adapters.Replica) bool { return r.UID == pod.UID && r.Hash != "" && r.HashChanged == "" })
		if i < 0 || c.revisionOf(c.pods[i].Hash) != "" || unknown[c.pods[i].Hash] != nil {
			continue
		}
		object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			continue
		}
		workload := &unstructured.Unstructured{Object: map[string]any{}}
		if unstructured.SetNestedMap(workload.Object, object, paths[0]...) == nil {
			unknown[c.pods[i].Hash] = workload
		}
	}
	for _, hash := range slices.Sorted(maps.Keys(unknown)) {
		pod := unknown[hash]
		most, found := 0, ""
		for _, r := range w.Revisions {
			workload := built(w, c.subset, r)
			if workload == nil || c.hashes[r.Name] != "" || adapters.Altered(w.Spec.Adapter, workload, pod) != "" {
				continue
			}
			if raw, err := json.Marshal(workload.Object); err == nil && len(raw) > most {
				most, found = len(raw), r.Name
			}
		}
		if found != "" {
			c.hashes[found] = hash
		}
	}
}

// deviation is a field in which two values differ.
type deviation struct {
	at      string
	was, is any
}

// differences adds the fields in which two values differ.
func differences(was, is any, at string, all *[]string) {
	walk(was, is, at, func(d deviation) { *all = append(*all, fmt.Sprintf("%s: %s -> %s", d.at, brief(d.was), brief(d.is))) })
}

// walk finds the fields in which two values differ. Items of lists are compared by their names, if they have any.
func walk(was, is any, at string, found func(deviation)) {
	if equality.Semantic.DeepEqual(was, is) {
		return
	}
	a, aObject := was.(map[string]any)
	b, bObject := is.(map[string]any)
	if aObject && bObject {
		for _, key := range union(a, b) {
			walk(a[key], b[key], strings.TrimPrefix(at+"."+key, "."), found)
		}
		return
	}
	first, ok := byName(was)
	second, ok2 := byName(is)
	if ok && ok2 {
		for _, key := range union(first, second) {
			walk(first[key], second[key], at+"["+key+"]", found)
		}
		return
	}
	found(deviation{at, was, is})
}

func union(a, b map[string]any) []string {
	keys := slices.Collect(maps.Keys(a))
	for key := range b {
		if _, there := a[key]; !there {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// byName returns the items of a list by their names; false if not all have one.
func byName(v any) (items map[string]any, ok bool) {
	list, ok := v.([]any)
	if !ok {
		return nil, false
	}
	items = map[string]any{}
	for _, item := range list {
		object, _ := item.(map[string]any)
		name, ok := object["name"].(string)
		if metadata, nested := object["metadata"].(map[string]any); nested && !ok { // a claim
			name, ok = metadata["name"].(string)
		}
		if _, twice := items[name]; !ok || twice {
			return nil, false
		}
		items[name] = item
	}
	return items, true
}

// longest is how much of a value is shown.
const longest = 60

func brief(v any) string {
	if v == nil {
		return "(none)"
	}
	text, ok := v.(string)
	if !ok || text == "" {
		raw, err := json.Marshal(v)
		if err != nil {
			return "?"
		}
		text = string(raw)
	}
	if runes := []rune(text); len(runes) > longest {
		text = string(runes[:longest-3]) + "..."
	}
	return text
}
