// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package colocationworlds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	statefulsets "github.com/unitedworkloads/united/adapters/statefulset"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

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

// setting is the first state of a world, and what may happen in it.
type setting struct {
	name       string
	topologies []topology
	strategies []string
	replicas   uint8
	nodes      [maxDomains]uint8
	// scaledTo and nodesTo are what the user, and the cluster, may change to.
	scaledTo []uint8
	nodesTo  []uint8
	// images are the images that the user may set: the first one at the beginning. Pods of a "broken" one crash, those of
	// a "big" one need twice the room, and those of one in "slow" never become ready.
	images []string
	kind   statefulset.Kind
	budget budget
	// rests: the world begins at rest. Otherwise it begins before the first pass.
	rests bool
	// mutant makes a decision wrong.
	mutant func(*planner.Input, *planner.Plan)
}

// version is a revision of the pods.
type version struct {
	*topology
	name, image, id string
}

func (v *version) broken() bool { return strings.HasPrefix(v.image, "broken") }

func (v *version) slow() bool { return strings.HasPrefix(v.image, "slow") }

// size is how much room a pod needs.
func (v *version) size() int { return 1 + one(strings.HasPrefix(v.image, "big")) }

// game is a setting with caches, so that nothing is rendered twice.
type game struct {
	*setting
	adapter   adapters.Adapter
	revisions []*revision.Revision
	versions  []*version
	versionOf map[string]statefulset.Version
	parents   map[string]*parentParts
	statuses  *interner[*v1alpha1.UnitedDeploymentStatus]
	records   *interner[map[string]string]
	built     map[string]built
	children  map[childKey]*world.Child
}

type parentParts struct {
	object *v1alpha1.UnitedDeployment
	spec   *spec.Spec
	update statefulset.Version
}

// interner numbers values that do not fit into a state.
type interner[T any] struct {
	ids    map[string]uint32
	values []T
}

func (n *interner[T]) id(key string, value func() T) uint32 {
	id, known := n.ids[key]
	if !known {
		id = uint32(len(n.values))
		n.ids[key], n.values = id, append(n.values, value())
	}
	return id
}

func newWorld(c *setting) *game {
	w := &game{
		setting: c, adapter: statefulsets.New(), versionOf: map[string]statefulset.Version{}, parents: map[string]*parentParts{},
		statuses: &interner[*v1alpha1.UnitedDeploymentStatus]{ids: map[string]uint32{}}, records: &interner[map[string]string]{ids: map[string]uint32{}},
		built: map[string]built{}, children: map[childKey]*world.Child{},
	}
	w.statuses.id("{}", func() *v1alpha1.UnitedDeploymentStatus { return &v1alpha1.UnitedDeploymentStatus{} })
	w.records.id("", func() map[string]string { return nil })
	for image := range c.images {
		for topology := range c.topologies {
			w.parent(&state{Image: uint8(image), Topology: uint8(topology)})
		}
	}
	if len(w.revisions) > statefulset.MaxVersions {
		panic("too many versions")
	}
	return w
}

func (w *game) policy() string {
	if w.kind.Ordered {
		return "OrderedReady"
	}
	return "Parallel"
}

// parent returns the UnitedDeployment as the user wrote it.
func (w *game) parent(s *state) *parentParts {
	key := fmt.Sprint(s.Image, s.Replicas, s.Topology, s.Strategy)
	if p := w.parents[key]; p != nil {
		return p
	}
	template := fmt.Sprintf(`{"spec":{"podManagementPolicy":%q,"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":%q}]}}}}`,
		w.policy(), w.images[s.Image])
	p := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	p.Spec = v1alpha1.UnitedDeploymentSpec{
		Replicas: ptr.To(int32(s.Replicas)), RevisionHistoryLimit: ptr.To(int32(10)), ProgressDeadlineSeconds: ptr.To(int32(600)),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{Raw: []byte(template)}},
		Topology: w.topologies[s.Topology].spec(),
	}
	strategy, paused := strings.CutPrefix(w.strategies[s.Strategy], "paused ")
	p.Spec.Paused = paused
	if err := json.Unmarshal([]byte(strategy), &p.Spec.UpdateStrategy); err != nil {
		panic(err)
	}
	spec, err := spec.Read(p, adapters.Registry{w.adapter})
	if err != nil {
		panic(err)
	}
	w.parents[key] = &parentParts{p, spec, w.version(s, p, spec)}
	return w.parents[key]
}

// version returns the number of the revision that the spec asks for.
func (w *game) version(s *state, p *v1alpha1.UnitedDeployment, spec *spec.Spec) statefulset.Version {
	for i, r := range w.revisions {
		if r.Matches(spec.Content()) {
			return statefulset.Version(i + 1)
		}
	}
	r, err := revision.Parse(revision.New(p, world.OwnerOf(p), spec.Content(), int64(len(w.revisions)+1), 0))
	if err != nil {
		panic(err)
	}
	t := &w.topologies[s.Topology]
	w.revisions = append(w.revisions, r)
	w.versionOf[r.Name] = statefulset.Version(len(w.revisions))
	w.versions = append(w.versions, &version{t, r.Name, w.images[s.Image], t.id()})
	return w.versionOf[r.Name]
}

// id tells the pods of one colocation from those of another.
func (t *topology) id() string {
	id := fmt.Sprint(t.order != "", t.exclusive)
	for k := range t.subsets {
		if ratio := t.ratio(k); ratio > 0 {
			id += fmt.Sprintf(" %s:%d", subsetName(k), ratio)
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
		sub := v1alpha1.Subset{Name: subsetName(k)}
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

// rolling returns the settings of a coordinated rollout; nil under Manual.
func (w *game) rolling(s *state) *v1alpha1.RollingUpdate {
	return w.parent(s).object.Spec.UpdateStrategy.RollingUpdate
}

// maxUnavailable is a number in all worlds.
func maxUnavailable(r *v1alpha1.RollingUpdate) int {
	if r.MaxUnavailable == nil {
		return 1
	}
	return r.MaxUnavailable.IntValue()
}

// input returns what a pass reads of a state, without the children.
func (w *game) input(s *state) *planner.Input {
	parts := w.parent(s)
	p := &v1alpha1.UnitedDeployment{ObjectMeta: parts.object.ObjectMeta, Spec: parts.object.Spec, Status: *w.statusOf(s).DeepCopy()}
	p.Generation = int64(s.Generation)
	return &planner.Input{World: world.World{Parent: p, Spec: parts.spec, Now: now, Children: map[string]*world.Child{},
		Revisions: slices.Clone(w.revisions),
	}, Update: w.revisions[parts.update-1],
	}
}

func (w *game) statusOf(s *state) *v1alpha1.UnitedDeploymentStatus {
	return w.statuses.values[s.Status]
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

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}
