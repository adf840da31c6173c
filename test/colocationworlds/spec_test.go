// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package colocationworlds walks through small worlds of a UnitedDeployment with spec.topology.colocation. A small
// scheduler gives the pods of a group nodes of one domain, or says that it finds none, kubelets make pods ready, and
// users edit. The model of what the spec asks for was written from the documentation, without reading the code under
// test. Its value is that it is independent, so do not replace any of it by code of the project.
//
// What worlds with nodes share is in test/worlds/placement. The package has only tests:
//
//	dealing_test.go  how replicas are dealt in groups, without a world
//	spec_test.go     the parents that a world may have
//	events_test.go   what else can happen
//	judge_test.go    what a pass must not decide: the oracle
//	ending_test.go   what must be true after everything has come to rest
//	worlds_test.go   the worlds
//	mutants_test.go  wrong decisions, which the oracle must find
package colocationworlds

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/worlds"
	"github.com/unitedworkloads/united/test/worlds/placement"
)

// timeout is spec.topology.colocation.timeoutSeconds. A replica that has waited for one tick has waited for longer.
const timeout = 10

// state is the whole content of a world. Its rooms are the domains.
type state = placement.State

// topology is spec.topology: for each subset, a member with a ratio, another one, or, with the text "-", none. Without an
// order there is no colocation, and the ratios do not count.
type topology struct {
	order     v1alpha1.ColocationOrder
	exclusive bool
	subsets   []dealt
}

func (t *topology) has(k int) bool { return k < len(t.subsets) && t.subsets[k].text != "-" }

// ratio returns the ratio of a member, 0 for other subsets.
func (t *topology) ratio(k int) int {
	if t.order == "" || !t.has(k) {
		return 0
	}
	return t.subsets[k].ratio
}

// split is what the subsets get when everything is done.
func (t *topology) split(replicas int) []int {
	rest, list := replicas, slices.Clone(t.subsets)
	got := make([]int, len(list))
	if t.order == "" {
		panic("only groups are modelled")
	}
	for i, d := range list {
		if d.text != "" && d.text != "-" {
			got[i], _ = d.asked(replicas)
			got[i] = min(got[i], rest)
			rest -= got[i]
		}
	}
	for i, n := range inGroups(rest, list) {
		got[i] += n
	}
	return got
}

// setting is a world with groups.
type setting struct {
	worlds.Setting
	cluster
}

// cluster is what the nodes, the topologies and the images may be. The nodes of each domain may change to nodesTo.
type cluster struct {
	topologies []topology
	nodes      [3]uint8
	nodesTo    []uint8
	kind       statefulset.Kind
	// images are those of the versions. Pods of a "broken" one crash, those of a "big" one need twice the room, and those of a
	// "slow" one never become ready.
	images []string
	// rests: the world begins at rest. Otherwise it begins before the first pass.
	rests bool
}

// version is a revision of the pods.
type version struct {
	*topology
	name, image, id string
}

func (v *version) broken() bool { return strings.HasPrefix(v.image, "broken") }

func (v *version) slow() bool { return strings.HasPrefix(v.image, "slow") }

// becomes is the phase in which its pods end, if they leave theirs.
func (v *version) becomes() statefulset.Phase {
	switch {
	case v.broken():
		return statefulset.Crashed
	case v.slow():
		return statefulset.Absent
	}
	return statefulset.Ready
}

// size is how much room a pod needs.
func (v *version) size() int { return 1 + worlds.Int(strings.HasPrefix(v.image, "big")) }

// game is a setting with caches.
type game struct {
	*placement.World
	cluster
	// versions are those of the pods: one for each revision.
	versions []*version
}

func newWorld(c *setting) *game {
	w := &game{cluster: c.cluster}
	c.Topologies = nil
	for i := range c.topologies {
		c.Topologies = append(c.Topologies, c.topologies[i].spec())
	}
	w.World = placement.New(&c.Setting, c.kind, c.nodes, func(version uint8) string { return w.images[version-1] })
	if len(w.Revisions) > statefulset.MaxVersions {
		panic("too many versions")
	}
	w.versions = make([]*version, len(w.Revisions))
	for n := len(c.topologies) - 1; n >= 0; n-- {
		for i, image := range w.images {
			s := worlds.Core{Version: uint8(i + 1), Replicas: 1, Wishes: uint8(n)}
			w.versions[w.Update(&s)] = &version{&w.topologies[n], w.UpdateRevision(&s), image, w.topologies[n].id()}
		}
	}
	w.TemplateOf = func(k int, c *adapters.Child, u *unstructured.Unstructured) statefulset.Version {
		v := w.named(c.Revision)
		w.marked(k, v, u)
		return w.same(k, v)
	}
	w.Becomes = func(v statefulset.Version) statefulset.Phase { return w.versions[v-1].becomes() }
	w.Ages = placement.IsPlaced
	w.Label = func(pod *corev1.Pod, k, ordinal int, p *statefulset.Pod) {
		v := w.versions[p.Version-1]
		if ratio := v.ratio(k); ratio > 0 {
			pod.Labels[v1alpha1.LabelColocation], pod.Labels[v1alpha1.LabelColocationRatio] = v.id, strconv.Itoa(ratio)
			pod.Labels[v1alpha1.LabelColocationGroup] = strconv.Itoa(ordinal / ratio)
		}
	}
	return w
}

// Begin completes the first state.
func (w *game) Begin(s *state) bool { return w.World.Begin(s) && w.rests }

// named returns the version of a revision, update the one that the spec asks for.
func (w *game) named(revision string) statefulset.Version {
	return statefulset.Version(slices.IndexFunc(w.versions, func(v *version) bool { return v.name == revision }) + 1)
}

func (w *game) update(s *state) statefulset.Version {
	return statefulset.Version(w.Update(&s.Core) + 1)
}

// id tells the pods of one colocation from those of another.
func (t *topology) id() string {
	id := fmt.Sprint(t.order != "", t.exclusive)
	for k := range t.subsets {
		if ratio := t.ratio(k); ratio > 0 {
			id += fmt.Sprintf(" %s:%d", worlds.SubsetName(k), ratio)
		}
	}
	return id
}

// spec returns a topology as the user writes it.
func (t *topology) spec() v1alpha1.Topology {
	spec := v1alpha1.Topology{}
	if t.order != "" {
		spec.Colocation = &v1alpha1.Colocation{
			TopologyKey: "kubernetes.io/hostname", Ratios: map[string]v1alpha1.ColocationRatio{}, Order: t.order, Exclusive: t.exclusive, TimeoutSeconds: ptr.To(int32(timeout)),
		}
	}
	for k, d := range t.subsets {
		if !t.has(k) {
			continue
		}
		sub := v1alpha1.Subset{Name: worlds.SubsetName(k)}
		if d.ratio > 0 && t.order != "" {
			spec.Colocation.Ratios[sub.Name] = v1alpha1.ColocationRatio(d.ratio)
		}
		if d.text != "" {
			sub.Replicas = ptr.To(intstr.Parse(d.text))
		}
		spec.Subsets = append(spec.Subsets, sub)
	}
	return spec
}

// marked checks that a child's pods have what makes them members of a group, if the revision has that, and only then.
func (w *game) marked(k int, v statefulset.Version, u *unstructured.Unstructured) {
	labels, _, _ := unstructured.NestedStringMap(u.Object, "spec", "template", "metadata", "labels")
	gates, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "schedulingGates")
	affinity, _, _ := unstructured.NestedSlice(u.Object, "spec", "template", "spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")
	ratio := w.versions[v-1].ratio(k)
	want := ""
	if ratio > 0 {
		want = strconv.Itoa(ratio)
	}
	if labels[v1alpha1.LabelColocationRatio] != want || (labels[v1alpha1.LabelColocation] != "") != (ratio > 0) || len(gates) != worlds.Int(ratio > 0) || len(affinity) != worlds.Int(ratio > 0) {
		panic(fmt.Sprintf("%s of %s has the labels %v, the gates %v and the affinity %v", u.GetName(), w.versions[v-1].name, labels, gates, affinity))
	}
}

// same returns the first version whose pods of a subset are the same, as a StatefulSet sees them.
func (w *game) same(k int, v statefulset.Version) statefulset.Version {
	of := w.versions[v-1]
	for i, other := range w.versions {
		if other.image == of.image && other.ratio(k) == of.ratio(k) && (of.ratio(k) == 0 || other.id == of.id) {
			return statefulset.Version(i + 1)
		}
	}
	return v
}
