// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package topologyworlds

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

// mode is the schedule strategy.
type mode uint8

const (
	fixed mode = iota
	adaptive
	reserve
)

// topology is spec.topology: the bounds of the subsets in the form "min..max", by subset; "-" for a subset that does
// not exist.
type topology struct {
	mode   mode
	bounds []string
}

func (t *topology) has(k int) bool { return k < len(t.bounds) && t.bounds[k] != "-" }

// bounds returns the minimum and the maximum of a subset as the user wrote them, "" if absent.
func (t *topology) boundsOf(k int) (low, high string) {
	low, high, _ = strings.Cut(t.bounds[k], "..")
	return low, high
}

// setting is the first state of a world, and what may happen in it.
type setting struct {
	name       string
	topologies []topology
	strategies []string
	replicas   uint8
	nodes      [maxKids]uint8
	// scaledTo and nodesTo are what the user, and the cluster, may change to.
	scaledTo []uint8
	nodesTo  [maxKids][]uint8
	versions uint8
	kind     statefulset.Kind
	budget   budget
	// mutant makes a decision wrong.
	mutant func(*planner.Input, *planner.Plan)
}

// game is a setting with caches, so that nothing is rendered twice.
type game struct {
	*setting
	adapter   adapters.Adapter
	revisions []*revision.Revision
	versionOf map[string]statefulset.Version
	parents   map[string]*parentParts
	statuses  *interner[*v1alpha1.UnitedDeploymentStatus]
	records   *interner[map[string]string]
	built     map[string]built
	children  map[childKey]*world.Child
	// ahead is how often a subset that maxSkew does not bind was ahead of the others by more than that.
	ahead int
}

type parentParts struct {
	object *v1alpha1.UnitedDeployment
	spec   *spec.Spec
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
	for v := uint8(1); v <= max(1, c.versions); v++ {
		parts := w.parent(&state{Version: v, Replicas: 1})
		r, err := revision.Parse(revision.New(parts.object, world.OwnerOf(parts.object), parts.spec.Content(), int64(v), 0))
		if err != nil {
			panic(err)
		}
		w.revisions = append(w.revisions, r)
		w.versionOf[r.Name] = statefulset.Version(v)
	}
	return w
}

// parent returns the UnitedDeployment as the user wrote it.
func (w *game) parent(s *state) *parentParts {
	key := fmt.Sprint(s.Version, s.Replicas, s.Topology, s.Strategy)
	if p := w.parents[key]; p != nil {
		return p
	}
	template := fmt.Sprintf(`{"spec":{"podManagementPolicy":"Parallel","template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"v%d"}]}}}}`, s.Version)
	p := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	p.Spec = v1alpha1.UnitedDeploymentSpec{
		Replicas: ptr.To(int32(s.Replicas)), RevisionHistoryLimit: ptr.To(int32(10)), ProgressDeadlineSeconds: ptr.To(int32(600)),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{Raw: []byte(template)}},
		Topology: w.topologies[s.Topology].spec(),
	}
	if err := json.Unmarshal([]byte(w.strategies[s.Strategy]), &p.Spec.UpdateStrategy); err != nil {
		panic(err)
	}
	spec, err := spec.Read(p, adapters.Registry{w.adapter})
	if err != nil {
		panic(err)
	}
	w.parents[key] = &parentParts{p, spec}
	return w.parents[key]
}

// spec returns a topology as the user writes it.
func (t *topology) spec() v1alpha1.Topology {
	spec := v1alpha1.Topology{}
	if t.mode != fixed {
		spec.ScheduleStrategy = &v1alpha1.ScheduleStrategy{Type: v1alpha1.AdaptiveScheduleStrategy, Adaptive: &v1alpha1.AdaptiveScheduling{
			RescheduleAfterSeconds: ptr.To(int32(reschedule)), RetryAfterSeconds: ptr.To(int32(retry)), ReserveUnschedulablePods: t.mode == reserve,
		}}
	}
	for k := range t.bounds {
		if !t.has(k) {
			continue
		}
		sub := v1alpha1.Subset{Name: subsetName(k)}
		low, high := t.boundsOf(k)
		if low != "" {
			sub.MinReplicas = ptr.To(intstr.Parse(low))
		}
		if high != "" {
			sub.MaxReplicas = ptr.To(intstr.Parse(high))
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
	}, Update: w.revisions[s.Version-1],
	}
}

func (w *game) statusOf(s *state) *v1alpha1.UnitedDeploymentStatus {
	return w.statuses.values[s.Status]
}
