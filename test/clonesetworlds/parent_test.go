// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/cloneset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// setting is what a world begins with, and what may happen in it.
type setting struct {
	name string
	// wishes are the subsets' replicas, "" for none; first are those that exist at first, a bit for each.
	wishes []string
	first  uint8
	// replicas are those at first, strategies spec.updateStrategy in JSON; the user may go to any
	// other of them, of scaledTo, of versions and of subsetsTo while the budget lasts.
	replicas            uint8
	strategies          []string
	scaledTo, subsetsTo []uint8
	versions            []uint8
	surge               uint8
	// bad are versions whose pods crash, a bit for each.
	bad      uint8
	minReady bool
	// lingers: a pod that is deleted takes its time to go.
	lingers bool
	budget  budget
	// meets are the exceptions to rules that are met in it, see safety_test.go.
	meets []string
	// mutant spoils what is decided.
	mutant func(*planner.Plan)
}

// world is a setting with what is remembered of it, so that no state is decided or rendered twice.
type world struct {
	*setting
	adapter   adapters.Adapter
	registry  adapters.Registry
	revisions []*revision.Revision
	// versionOf is the version of a revision by name.
	versionOf map[string]uint8
	statuses  *interner[*v1alpha1.UnitedDeploymentStatus]
	texts     *interner[string]
	records   *interner[map[string]string]
	// compared are records as texts, less what is no reason for a write.
	compared  []string
	templates map[[2]uint8]map[string]any
	parents   map[string]*v1alpha1.UnitedDeployment
	specs     map[string]*planner.Spec
	passes    map[uint64]*pass
	seed      maphash.Seed
	// excepted counts how often an exception was met.
	excepted map[string]int
}

// interner gives what is large a number, so that a state stays small.
type interner[T any] struct {
	ids    map[string]uint32
	values []T
}

func (n *interner[T]) id(key string, value func() T) uint32 {
	if id, ok := n.ids[key]; ok {
		return id
	}
	id := uint32(len(n.values))
	n.ids[key] = id
	n.values = append(n.values, value())
	return id
}

func newInterner[T any]() *interner[T] { return &interner[T]{ids: map[string]uint32{}} }

func newWorld(c *setting) *world {
	a := cloneset.New()
	w := &world{
		setting: c, adapter: a, registry: adapters.Registry{a}, versionOf: map[string]uint8{},
		statuses: newInterner[*v1alpha1.UnitedDeploymentStatus](), texts: newInterner[string](), records: newInterner[map[string]string](),
		templates: map[[2]uint8]map[string]any{}, parents: map[string]*v1alpha1.UnitedDeployment{}, specs: map[string]*planner.Spec{},
		passes: map[uint64]*pass{}, seed: maphash.MakeSeed(), excepted: map[string]int{},
	}
	w.text("")
	w.statuses.id("{}", func() *v1alpha1.UnitedDeploymentStatus { return &v1alpha1.UnitedDeploymentStatus{} })
	w.records.id("", func() map[string]string { return map[string]string{} })
	w.compared = append(w.compared, "")
	for v := uint8(1); v <= maxVersion; v++ {
		p, s := w.parent(&state{Version: v, Replicas: 1, Subsets: 1<<len(c.wishes) - 1})
		r, err := revision.Parse(revision.New(p, planner.OwnerOf(p), s.Content(), int64(v), 0))
		if err != nil {
			panic(err)
		}
		w.revisions = append(w.revisions, r)
		w.versionOf[r.Name] = v
	}
	return w
}

func (w *world) text(t string) uint32 { return w.texts.id(t, func() string { return t }) }

func (w *world) status(s *state) *v1alpha1.UnitedDeploymentStatus { return w.statuses.values[s.Status] }

// updateRevision is the name of what the spec asks for.
func (w *world) updateRevision(s *state) string { return w.revisions[s.Version-1].Name }

func subsetName(k int) string { return string(rune('a' + k)) }

// parent is the UnitedDeployment as the user wrote it.
func (w *world) parent(s *state) (*v1alpha1.UnitedDeployment, *planner.Spec) {
	key := fmt.Sprint(s.Version, s.Replicas, s.Strategy, s.Subsets, s.Paused)
	if p := w.parents[key]; p != nil {
		return p, w.specs[key]
	}
	pace := `,"maxUnavailable":1`
	if strings.Contains(w.strategies[s.Strategy], "rollingUpdate") {
		pace = "" // it is refused there
	}
	template := fmt.Sprintf(`{"spec":{"updateStrategy":{"type":"ReCreate","maxSurge":%d%s},"template":{"metadata":{"labels":{"app":"web"}},`+
		`"spec":{"containers":[{"name":"web","image":"v%d"}]}}}}`, w.surge, pace, s.Version)
	p := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}}
	p.Spec = v1alpha1.UnitedDeploymentSpec{
		Replicas: ptr.To(int32(s.Replicas)), Paused: s.Paused, RevisionHistoryLimit: ptr.To(int32(10)),
		Selector:                &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template:                v1alpha1.WorkloadTemplate{CloneSetTemplate: &runtime.RawExtension{Raw: []byte(template)}},
		ProgressDeadlineSeconds: ptr.To(int32(600)),
	}
	if w.minReady {
		p.Spec.MinReadySeconds = 60
	}
	if err := json.Unmarshal([]byte(w.strategies[s.Strategy]), &p.Spec.UpdateStrategy); err != nil {
		panic(err)
	}
	for k, wish := range w.wishes {
		if !s.has(k) {
			continue
		}
		sub := v1alpha1.Subset{Name: subsetName(k)}
		if wish != "" {
			sub.Replicas = ptr.To(intstr.Parse(wish))
		}
		p.Spec.Topology.Subsets = append(p.Spec.Topology.Subsets, sub)
	}
	spec, err := planner.ReadSpec(p, w.registry)
	if err != nil {
		panic(fmt.Sprint(err, " ", w.strategies[s.Strategy]))
	}
	w.parents[key], w.specs[key] = p, spec
	return p, spec
}

// input is what a pass reads: a state, and the pods, which it may have read earlier.
func (w *world) input(s, podsOf *state) *planner.Input {
	written, spec := w.parent(s)
	p := &v1alpha1.UnitedDeployment{ObjectMeta: written.ObjectMeta, Spec: written.Spec, Status: *w.status(s).DeepCopy()}
	p.Generation = int64(s.Generation)
	p.Annotations = map[string]string{}
	if s.Approved != 0 {
		p.Annotations[v1alpha1.AnnotationApproved] = w.texts.values[s.Approved]
	}
	if s.Forced != 0 {
		p.Annotations[v1alpha1.AnnotationForceUpdate] = w.texts.values[s.Forced]
	}
	in := &planner.Input{
		Parent: p, Spec: spec, Now: at(s.Now), Children: map[string]*planner.Child{}, Pods: map[string][]*corev1.Pod{},
		Revisions: slices.Clone(w.revisions), Update: w.revisions[s.Version-1],
	}
	for k := range s.Children {
		c := &s.Children[k]
		if !c.Exists {
			continue
		}
		have := w.dependents(podsOf, k)
		in.Pods[subsetName(k)] = have.Pods
		in.Children[subsetName(k)] = w.observe(s, k, have)
	}
	return in
}

// observe reads a child through the adapter.
func (w *world) observe(s *state, k int, have adapters.Dependents) *planner.Child {
	u := w.object(s, k)
	o, err := w.adapter.Observe(u, have)
	if err != nil {
		panic(err)
	}
	o.StatusOutdated = false // that a step is left for a moment is no matter here
	return &planner.Child{Object: u, Observed: o}
}
