// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united"
)

// World is one UnitedDeployment, the reconciler as it is, and around it a
// simulated API server, StatefulSet controller and kubelets, each of which moves
// only when it is told to.
type World struct {
	T          TestingT
	Clock      *clocktesting.FakePassiveClock
	API        *API
	Sets       *Sets
	Oracle     *Oracle
	Reconciler *united.Reconciler
	// Wake is when the last pass asked to be woken, 0 never.
	Wake time.Duration
	// Recorded are the events.
	Recorded Recorder
	trace    []string
	// rollout is what was last noted of the rollout.
	rollout string
	// seen is what of the API the last pass could know; again: it is to be tried
	// again.
	seen  int
	again bool
}

// TestingT is a test, of package testing or of rapid.
type TestingT interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Recorder keeps events as "<type> <reason> <child>: <note>".
type Recorder struct{ Events []string }

// Eventf records an event.
func (r *Recorder) Eventf(_ runtime.Object, related runtime.Object, kind, reason, _, note string, args ...any) {
	about := ""
	if ref, ok := related.(*corev1.ObjectReference); ok {
		about = " " + ref.Name
	}
	r.Events = append(r.Events, fmt.Sprintf("%s %s%s: %s", kind, reason, about, fmt.Sprintf(note, args...)))
}

// New is a world of 4 replicas of v1 in the given subsets, everything held, in
// which nothing has happened yet.
func New(t TestingT, policy string, subsets ...string) *World {
	s := &World{T: t, Clock: clocktesting.NewFakePassiveClock(time.Unix(1767225600, 0))}
	s.API = newAPI(func() metav1.Time { return metav1.NewTime(s.Clock.Now()) })
	s.API.notes = func(write string) {
		if write != "status" {
			s.Note("  controller: %s", write)
		}
	}
	s.Oracle = newOracle(s.API, s.Fail)
	s.Sets = &Sets{api: s.API, creates: s.Oracle.creates, deletes: s.Oracle.deletes, finishes: s.Oracle.finishes}
	s.API.Live.Parent = &v1alpha1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1", Generation: 1, ResourceVersion: "0"},
		Spec: v1alpha1.UnitedDeploymentSpec{
			Replicas:             ptr.To[int32](4),
			Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template:             TemplateOf("v1", policy),
			RevisionHistoryLimit: ptr.To[int32](0),
			UpdateStrategy: v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{
				DefaultPartition: ptr.To(intstr.FromString("100%")),
			}},
		},
	}
	for _, name := range subsets {
		s.API.Live.Parent.Spec.Topology.Subsets = append(s.API.Live.Parent.Spec.Topology.Subsets, v1alpha1.Subset{Name: name})
	}
	s.Oracle.specChanged()
	s.Restart()
	return s
}

// TemplateOf is a template of an image, with a pod management policy.
func TemplateOf(image, policy string) v1alpha1.WorkloadTemplate {
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{
		"podManagementPolicy": policy,
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": image}}},
		},
	}})
	if err != nil {
		panic(err)
	}
	return v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{Raw: raw}}
}

// PatchOf is a patch that adds a word to what pods are made of; nil for "".
func PatchOf(word string) *runtime.RawExtension {
	if word == "" {
		return nil
	}
	return &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec": {"template": {"metadata": {"annotations": {"patch": %q}}}}}`, word)}
}

// Fail fails the test, and tells what has happened.
func (s *World) Fail(format string, args ...any) {
	s.T.Helper()
	s.T.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(s.trace, "\n"))
}

// Note adds a line to what has happened.
func (s *World) Note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// Restart starts the controller anew: with a cache that is up to date, and
// without a memory.
func (s *World) Restart() {
	s.API.Refresh()
	s.again = true // everything is new to it
	s.Reconciler = &united.Reconciler{
		Client: s.API.Client(), Live: s.API.Reader(), Adapters: adapters.Registry{statefulset.New()},
		Recorder: &s.Recorded, Metrics: united.NewMetrics(prometheus.NewRegistry()), Clock: s.Clock,
	}
}

// Edit changes the spec.
func (s *World) Edit(what string, change func(*v1alpha1.UnitedDeploymentSpec)) {
	parent := s.API.Live.Parent.DeepCopy()
	change(&parent.Spec)
	parent.Generation++
	parent.ResourceVersion = s.API.Next()
	s.API.Live.Parent = parent
	s.Oracle.specChanged()
	s.Note("user: %s", what)
}

// Reconcile is one pass of the controller.
func (s *World) Reconcile() {
	s.Clock.SetTime(s.Clock.Now().Add(time.Second))
	failing := s.API.failing()
	s.Oracle.beforePass()
	s.seen = s.API.Heard()
	untold := s.API.untold
	crashed, err := s.pass()
	s.again = err != nil || crashed
	if r := s.API.Live.Parent.Status.Rollout; r != nil {
		if text := fmt.Sprintf("  rollout: step %d %s: %s", r.Step, r.Phase, r.Message); text != s.rollout {
			s.rollout = text
			s.Note("%s", text)
		}
	}
	if err != nil && !apierrors.IsInternalError(err) && !apierrors.IsConflict(err) {
		s.Fail("reconcile: %v", err)
	}
	s.Oracle.afterPass((failing == 0 || s.API.failing() == failing) && s.API.untold == untold)
	if crashed {
		s.Note("  the controller crashes")
		s.Restart()
	}
}

// pass is a pass, which may end in a crash.
func (s *World) pass() (hasCrashed bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, hasCrashed = r.(crashed); !hasCrashed {
				panic(r)
			}
		}
	}()
	ctx := ctrl.LoggerInto(s.T.Context(), ctrl.Log.WithSink(log.NullLogSink{}))
	result, err := s.Reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.API.Live.Parent)})
	s.Wake = result.RequeueAfter
	return false, err
}

// Sync is one pass of the StatefulSet controller over one set.
func (s *World) Sync(name string) {
	if s.API.Live.Sets[name] == nil {
		return
	}
	before := s.Describe(name)
	s.Sets.Sync(name)
	s.Oracle.Look()
	if after := s.Describe(name); after != before {
		s.Note("  %s", after)
	}
}

// Describe is a set and its pods in one line.
func (s *World) Describe(name string) string {
	u := s.API.Live.Sets[name]
	if u == nil {
		return name + ": none"
	}
	set := s.API.typed(u)
	list := []string{fmt.Sprintf("%s: %s replicas %d partition %d current %s update %s:", name,
		contentOf(&set.Spec.Template), *set.Spec.Replicas, *set.Spec.UpdateStrategy.RollingUpdate.Partition,
		s.contentOfHash(name, set.Status.CurrentRevision), s.contentOfHash(name, set.Status.UpdateRevision))}
	for _, p := range s.PodsOf(name) {
		text := fmt.Sprintf("%d %s", OrdinalOf(name, p.Name), PodContent(p))
		if !IsReady(p) {
			text += " unready"
		}
		if p.DeletionTimestamp != nil {
			text += " terminating"
		}
		list = append(list, text+",")
	}
	return strings.Join(list, " ")
}

func (s *World) contentOfHash(set, hash string) string {
	if r := s.API.own[set][hash]; r != nil {
		return contentOf(r.template)
	}
	return "-"
}

// PodsOf are the pods of a set, the lowest first.
func (s *World) PodsOf(set string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range s.API.Live.Pods {
		if OrdinalOf(set, p.Name) >= 0 {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return int(OrdinalOf(set, a.Name) - OrdinalOf(set, b.Name)) })
	return pods
}

// Everybody lets everybody but the user do what there is to do.
func (s *World) Everybody() {
	s.API.Refresh()
	s.Reconcile()
	s.others()
}

// Settle goes on until nothing changes any more.
func (s *World) Settle() {
	for quiet, rounds := 0, 0; quiet < 3; rounds++ {
		// Whatever failed is tried again.
		s.Clock.SetTime(s.Clock.Now().Add(31 * time.Second))
		if rounds > 500 {
			s.Fail("it does not settle: %v", s.API.Writes[len(s.API.Writes)-10:])
		}
		last := s.API.Last
		s.Everybody()
		quiet++
		if s.API.Last != last {
			quiet = 0
		}
	}
	writes := len(s.API.Writes)
	s.Reconcile()
	if len(s.API.Writes) != writes {
		s.Fail("at rest the controller writes %v", s.API.Writes[writes:])
	}
}

// SetPartition sets the partition of a subset under Manual, "" sets the default
// and forgets all others.
func SetPartition(spec *v1alpha1.UnitedDeploymentSpec, name string, to intstr.IntOrString) {
	manual := spec.UpdateStrategy.ManualUpdate
	if name == "" {
		manual.DefaultPartition, manual.Partitions = &to, nil
		return
	}
	if manual.Partitions == nil {
		manual.Partitions = map[string]intstr.IntOrString{}
	}
	manual.Partitions[name] = to
}

// Annotate sets an annotation of the parent, which makes no generation.
func (s *World) Annotate(key, value string) {
	parent := s.API.Live.Parent.DeepCopy()
	if parent.Annotations == nil {
		parent.Annotations = map[string]string{}
	}
	parent.Annotations[key] = value
	parent.ResourceVersion = s.API.Next()
	s.API.Live.Parent = parent
	s.Note("user: annotates %s=%s", key, value)
}

// EditSubset changes one subset in the spec.
func (s *World) EditSubset(what, name string, change func(*v1alpha1.Subset)) {
	s.Edit(what+" "+name, func(spec *v1alpha1.UnitedDeploymentSpec) {
		for i := range spec.Topology.Subsets {
			if spec.Topology.Subsets[i].Name == name {
				change(&spec.Topology.Subsets[i])
			}
		}
	})
}

// ComeOrGo adds a subset, or takes it away, and with it the steps that name it: those
// would be refused.
func ComeOrGo(spec *v1alpha1.UnitedDeploymentSpec, name string) {
	before := len(spec.Topology.Subsets)
	spec.Topology.Subsets = slices.DeleteFunc(spec.Topology.Subsets, func(s v1alpha1.Subset) bool { return s.Name == name })
	if len(spec.Topology.Subsets) == before {
		spec.Topology.Subsets = append(spec.Topology.Subsets, v1alpha1.Subset{Name: name})
		return
	}
	if s := spec.UpdateStrategy.RollingUpdate; s != nil {
		s.Steps = slices.DeleteFunc(s.Steps, func(step v1alpha1.RolloutStep) bool { return slices.Contains(step.Subsets, name) })
	}
}

// statusOf is what a status says of a subset; nil if nothing.
func statusOf(status *v1alpha1.UnitedDeploymentStatus, name string) *v1alpha1.SubsetStatus {
	i := slices.IndexFunc(status.Subsets, func(s v1alpha1.SubsetStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &status.Subsets[i]
}

func replicasOf(parent *v1alpha1.UnitedDeployment) int32 {
	return ptr.Deref(parent.Spec.Replicas, 1)
}
