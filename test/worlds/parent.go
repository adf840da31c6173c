// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Template returns the template of a version. coordinated: United determines the pace.
type Template func(version uint8, coordinated bool) v1alpha1.WorkloadTemplate

// World is a setting with caches, so that nothing is rendered twice.
type World struct {
	*Setting
	Adapter   adapters.Adapter
	Revisions []*revision.Revision
	// VersionOf has the version of each revision, by name.
	VersionOf map[string]uint8
	template  Template
	registry  adapters.Registry
	statuses  *interner[*v1alpha1.UnitedDeploymentStatus]
	texts     *interner[string]
	records   *interner[map[string]string]
	// compared are the records as texts, without what is no reason for a write.
	compared []string
	parents  map[parentKey]*parentParts
	// Drop, if set, drops what the statuses of subsets need not say in these worlds.
	Drop func(*v1alpha1.SubsetStatus)
	// Excepted counts how often each exception occurred.
	Excepted map[string]int
}

// parentKey is what the spec of the UnitedDeployment depends on.
type parentKey struct {
	version, replicas, strategy, subsets, wishes uint8
	paused                                       bool
}

// parentParts is the UnitedDeployment as the user wrote it, and what is read from its spec.
type parentParts struct {
	object *v1alpha1.UnitedDeployment
	spec   *spec.Spec
	// update is the place of the revision that the spec asks for.
	update int
}

// NewWorld returns a world of a kind.
func NewWorld(c *Setting, a adapters.Adapter, template Template) *World {
	w := &World{
		Setting: c, Adapter: a, registry: adapters.Registry{a}, template: template, VersionOf: map[string]uint8{},
		statuses: newInterner[*v1alpha1.UnitedDeploymentStatus](), texts: newInterner[string](), records: newInterner[map[string]string](),
		parents: map[parentKey]*parentParts{}, Excepted: map[string]int{},
	}
	w.Text("")
	w.statuses.id("{}", func() *v1alpha1.UnitedDeploymentStatus { return &v1alpha1.UnitedDeploymentStatus{} })
	w.recordID(nil)
	if len(c.Topologies) == 0 {
		for v := uint8(1); v <= MaxVersion; v++ {
			w.parent(&Core{Version: v, Replicas: 1, Subsets: 1<<len(c.Wishes) - 1})
		}
	}
	for n := range c.Topologies {
		for _, v := range c.Versions {
			w.parent(&Core{Version: v, Replicas: 1, Wishes: uint8(n)})
		}
	}
	return w
}

// Except records that an exception occurred. It returns true, so that it can be used in a condition.
func (w *World) Except(name string) bool {
	w.Excepted[name]++
	return true
}

// Text returns the number of a text.
func (w *World) Text(t string) uint32 { return w.texts.id(t, func() string { return t }) }

// UpdateRevision returns the name of the revision that the spec asks for.
func (w *World) UpdateRevision(s *Core) string { return w.Revisions[w.Update(s)].Name }

// Update returns its place among all revisions.
func (w *World) Update(s *Core) int { return w.parent(s).update }

// parent returns the UnitedDeployment as the user wrote it.
func (w *World) parent(s *Core) *parentParts {
	key := parentKey{s.Version, s.Replicas, s.Strategy, s.Subsets, s.Wishes, s.Paused}
	if parts := w.parents[key]; parts != nil {
		return parts
	}
	p := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	p.Spec = v1alpha1.UnitedDeploymentSpec{
		Replicas: ptr.To(int32(s.Replicas)), Paused: s.Paused, RevisionHistoryLimit: ptr.To(int32(10)),
		Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template:                w.template(s.Version, strings.Contains(w.Strategies[s.Strategy], "rollingUpdate")),
		ProgressDeadlineSeconds: ptr.To(int32(600)),
	}
	if w.MinReady {
		p.Spec.MinReadySeconds = 60
	}
	if err := json.Unmarshal([]byte(w.Strategies[s.Strategy]), &p.Spec.UpdateStrategy); err != nil {
		panic(err)
	}
	if len(w.Topologies) > 0 {
		p.Spec.Topology = w.Topologies[s.Wishes]
	}
	for k, wish := range w.wishes(s) {
		if !s.Has(k) {
			continue
		}
		sub := v1alpha1.Subset{Name: SubsetName(k)}
		if wish != "" {
			sub.Replicas = ptr.To(intstr.Parse(wish))
		}
		p.Spec.Topology.Subsets = append(p.Spec.Topology.Subsets, sub)
	}
	spec, err := spec.Read(p, w.registry)
	if err != nil {
		panic(fmt.Sprint(err, " ", w.Strategies[s.Strategy]))
	}
	w.parents[key] = &parentParts{p, spec, w.revisionOf(s, p, spec)}
	return w.parents[key]
}

// revisionOf returns the place of the revision that a spec asks for, which is a new one if there is none yet.
func (w *World) revisionOf(s *Core, p *v1alpha1.UnitedDeployment, spec *spec.Spec) int {
	n := len(w.Revisions)
	if i := slices.IndexFunc(w.Revisions, func(r *revision.Revision) bool { return r.Matches(spec.Content()) }); i >= 0 {
		return i
	}
	r, err := revision.Parse(revision.New(p, world.OwnerOf(p), spec.Content(), int64(n+1), 0))
	if err != nil {
		panic(err)
	}
	w.Revisions = append(w.Revisions, r)
	w.VersionOf[r.Name] = s.Version
	return n
}

// Input returns what a pass reads of a state, without the children.
func (w *World) Input(s *Core) *planner.Input {
	written := w.parent(s)
	p := &v1alpha1.UnitedDeployment{ObjectMeta: written.object.ObjectMeta, Spec: written.object.Spec, Status: *w.Status(s).DeepCopy()}
	p.Generation = int64(s.Generation)
	p.Annotations = map[string]string{}
	if s.Approved != 0 {
		p.Annotations[v1alpha1.AnnotationApproved] = w.texts.values[s.Approved]
	}
	if s.Forced != 0 {
		p.Annotations[v1alpha1.AnnotationForceUpdate] = w.texts.values[s.Forced]
	}
	return &planner.Input{World: world.World{Parent: p, Spec: written.spec, Now: At(s.Now), Children: map[string]*world.Child{}, Pods: map[string][]*corev1.Pod{},
		Related: map[string][]*unstructured.Unstructured{}, Outlived: map[string][]corev1.Pod{},
		Revisions: slices.Clone(w.Revisions),
	}, Update: w.Revisions[written.update],
	}
}
