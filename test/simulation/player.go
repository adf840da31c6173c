// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
)

// Simulated plays traces on Sets.
type Simulated struct {
	// Spoil, if set, replaces every sync of the StatefulSet controller and may call it: it makes a wrong controller, for
	// a test which shows that the comparison finds it.
	Spoil func(api *API, pass func())

	api    *API
	sets   *Sets
	policy appsv1.PodManagementPolicyType
	random *rand.Rand // nil for always the same order
	// held and unready are pods, kept are revisions.
	held, unready map[types.UID]bool
	kept          map[string]bool
}

// NewSimulated returns a world without a set. The schedule determines in what order everybody acts; 0 is one after the
// other.
func NewSimulated(version Version, policy appsv1.PodManagementPolicyType, schedule uint64) *Simulated {
	api := newAPI(func() metav1.Time { return metav1.NewTime(time.Unix(1767225600, 0)) })
	s := &Simulated{api: api, policy: policy, held: map[types.UID]bool{}, unready: map[types.UID]bool{}, kept: map[string]bool{}}
	s.sets = &Sets{
		api:      api,
		Version:  version,
		creates:  func(*appsv1.StatefulSet, int32, *corev1.Pod) {},
		deletes:  func(*appsv1.StatefulSet, int32, *corev1.Pod, string) {},
		finishes: func(*unstructured.Unstructured) {},
	}
	if schedule != 0 {
		s.random = rand.New(rand.NewPCG(schedule, 0))
	}
	return s
}

// Do applies a step.
func (s *Simulated) Do(step Step) error {
	set := s.api.Live.Sets[TraceSet]
	pod := s.api.Live.Pods[fmt.Sprintf("%s-%d", TraceSet, step.Ordinal)]
	switch step.Verb {
	case Create:
		if set == nil {
			s.create(step)
		}
	case Update:
		if set != nil {
			s.update(set.DeepCopy(), step)
		}
	case Delete, Orphan:
		if set != nil {
			s.sets.DeleteSet(TraceSet, step.Verb == Orphan)
		}
	case HoldRevisions:
		for name := range s.api.own[TraceSet] {
			s.kept[name] = true
		}
	case FreeRevisions:
		clear(s.kept)
	default:
		if pod != nil {
			s.pod(pod, step.Verb)
		}
	}
	return nil
}

func (s *Simulated) pod(pod *corev1.Pod, verb Verb) {
	switch verb {
	case DeletePod:
		s.api.DeletePod(pod)
	case Unready, Ready:
		s.unready[pod.UID] = verb == Unready
		s.sets.SetReady(pod, verb == Ready)
	case Hold, Free:
		s.held[pod.UID] = verb == Hold
	}
}

func (s *Simulated) create(step Step) {
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{"namespace": "shop", "name": TraceSet, "uid": s.api.Next()},
		"spec": map[string]any{
			"podManagementPolicy": string(s.policy),
			"selector":            map[string]any{"matchLabels": map[string]any{"app": "web"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
			},
		},
	}}
	s.update(set, step)
}

func (s *Simulated) update(set *unstructured.Unstructured, step Step) {
	put := func(value any, path ...string) {
		if err := unstructured.SetNestedField(set.Object, value, path...); err != nil {
			panic(err)
		}
	}
	if step.Image != "" {
		put([]any{map[string]any{"name": "web", "image": step.Image}}, "spec", "template", "spec", "containers")
	}
	if step.Replicas != nil {
		put(int64(*step.Replicas), "spec", "replicas")
	}
	if step.Partition != nil {
		put(int64(*step.Partition), "spec", "updateStrategy", "rollingUpdate", "partition")
	}
	if step.MinReadySeconds != nil {
		put(int64(*step.MinReadySeconds), "spec", "minReadySeconds")
	}
	if step.MaxUnavailable != nil {
		put(int64(*step.MaxUnavailable), "spec", "updateStrategy", "rollingUpdate", "maxUnavailable")
	}
	set.SetGeneration(set.GetGeneration() + 1)
	s.api.PutSet(set)
}

// Settle lets everybody act until nothing changes anymore.
func (s *Simulated) Settle() (Snapshot, error) {
	for range 1000 {
		if s.random != nil {
			actions := s.actions()
			for _, act := range actions[:s.random.IntN(len(actions))] {
				act()
			}
		}
		before := s.fingerprint()
		for _, act := range s.actions() {
			act()
		}
		if s.fingerprint() == before {
			return s.snapshot(), nil
		}
	}
	return Snapshot{}, errors.New("it does not settle")
}

// fingerprint changes when something changes to which somebody reacts.
func (s *Simulated) fingerprint() string {
	text := strings.Join(slices.Sorted(maps.Keys(s.api.own[TraceSet])), " ")
	if set := s.api.Live.Sets[TraceSet]; set != nil {
		text += fmt.Sprint(set.Object["status"])
	}
	for _, name := range slices.Sorted(maps.Keys(s.api.Live.Pods)) {
		p := s.api.Live.Pods[name]
		text += fmt.Sprint("\n", name, p.UID, p.OwnerReferences, p.DeletionTimestamp, p.Status.Phase, IsReady(p))
	}
	return text
}

// actions returns what everybody can do next, in the order in which it is done.
func (s *Simulated) actions() []func() {
	actions := []func(){s.pass, s.collect}
	for _, name := range slices.Sorted(maps.Keys(s.api.Live.Pods)) {
		actions = append(actions, func() { s.kubelet(name) })
	}
	if s.random != nil {
		s.random.Shuffle(len(actions), func(i, j int) { actions[i], actions[j] = actions[j], actions[i] })
	}
	return actions
}

func (s *Simulated) pass() {
	pass := func() { s.sets.Sync(TraceSet) }
	if s.Spoil == nil || s.api.Live.Sets[TraceSet] == nil {
		pass()
		return
	}
	s.Spoil(s.api, pass)
}

func (s *Simulated) collect() {
	before := maps.Clone(s.api.own[TraceSet])
	s.sets.Collect()
	for name := range s.kept {
		if revision := before[name]; revision != nil {
			s.api.own[TraceSet][name] = revision
		}
	}
}

func (s *Simulated) kubelet(name string) {
	pod := s.api.Live.Pods[name]
	switch {
	case pod == nil:
	case pod.DeletionTimestamp != nil && s.held[pod.UID]:
	case pod.DeletionTimestamp == nil && s.unready[pod.UID]:
	default:
		s.sets.Kubelet(name)
	}
}

func (s *Simulated) snapshot() Snapshot {
	snapshot := Snapshot{Pods: slices.Collect(maps.Values(s.api.Live.Pods)), Revisions: map[string]string{}}
	if set := s.api.Live.Sets[TraceSet]; set != nil {
		snapshot.Set = typedSet(set)
	}
	for name, r := range s.api.own[TraceSet] {
		snapshot.Revisions[name] = contentOf(r.template)
	}
	return snapshot
}
