// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// simulation is one UnitedDeployment, the reconciler as it is, and around it a
// simulated API server, StatefulSet controller and kubelets, each of which moves
// only when it is told to.
type simulation struct {
	t          testingT
	clock      *clocktesting.FakePassiveClock
	api        *simAPI
	sets       *simSets
	oracle     *oracle
	reconciler *Reconciler
	// wake is when the last pass asked to be woken, 0 never.
	wake   time.Duration
	events recorder
	trace  []string
}

// testingT is a test, of package testing or of rapid.
type testingT interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// recorder keeps events as "<type> <reason> <child>: <note>".
type recorder struct{ events []string }

func (r *recorder) Eventf(_ runtime.Object, related runtime.Object, kind, reason, _, note string, args ...any) {
	about := ""
	if ref, ok := related.(*corev1.ObjectReference); ok {
		about = " " + ref.Name
	}
	r.events = append(r.events, fmt.Sprintf("%s %s%s: %s", kind, reason, about, fmt.Sprintf(note, args...)))
}

func newSimulation(t testingT, policy string, subsets ...string) *simulation {
	s := &simulation{t: t, clock: clocktesting.NewFakePassiveClock(time.Unix(1767225600, 0))}
	s.api = newSimAPI(func() metav1.Time { return metav1.NewTime(s.clock.Now()) })
	s.oracle = newOracle(s.api, s.fail)
	s.sets = &simSets{api: s.api, creates: s.oracle.creates, deletes: s.oracle.deletes, finishes: s.oracle.finishes}
	s.api.live.parent = &v1alpha1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1", Generation: 1, ResourceVersion: "0"},
		Spec: v1alpha1.UnitedDeploymentSpec{
			Replicas:             ptr.To[int32](4),
			Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template:             templateOf("v1", policy),
			RevisionHistoryLimit: ptr.To[int32](0),
			UpdateStrategy: v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{
				DefaultPartition: ptr.To(intstr.FromString("100%")),
			}},
		},
	}
	for _, name := range subsets {
		s.api.live.parent.Spec.Topology.Subsets = append(s.api.live.parent.Spec.Topology.Subsets, v1alpha1.Subset{Name: name})
	}
	s.oracle.specChanged()
	s.restart()
	return s
}

func templateOf(image, policy string) v1alpha1.WorkloadTemplate {
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

func patchOf(word string) *runtime.RawExtension {
	if word == "" {
		return nil
	}
	return &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec": {"template": {"metadata": {"annotations": {"patch": %q}}}}}`, word)}
}

// podPatchOf is the pod part of a subset's patch.
func podPatchOf(s *v1alpha1.Subset) map[string]any {
	patch := map[string]any{}
	if s.Patch != nil {
		if err := json.Unmarshal(s.Patch.Raw, &patch); err != nil {
			panic(err)
		}
	}
	part, _, _ := unstructured.NestedMap(patch, "spec", "template")
	return part
}

// wanted is what the spec makes the pods of a subset of.
func wanted(parent *v1alpha1.UnitedDeployment, s *v1alpha1.Subset) string {
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(parent.Spec.Template.StatefulSetTemplate.Raw, &u.Object); err != nil {
		panic(err)
	}
	content := contentOf(&typedSet(u).Spec.Template)
	if patch, _, _ := unstructured.NestedString(podPatchOf(s), "metadata", "annotations", "patch"); patch != "" {
		content += "+" + patch
	}
	return content
}

func (s *simulation) fail(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(s.trace, "\n"))
}

func (s *simulation) note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// restart starts the controller anew: with a cache that is up to date, and
// without a memory.
func (s *simulation) restart() {
	s.api.refresh()
	s.reconciler = &Reconciler{
		Client: s.api.client(), Live: s.api.reader(), Adapters: adapters.Registry{statefulset.New()},
		Recorder: &s.events, Metrics: NewMetrics(prometheus.NewRegistry()), Clock: s.clock,
	}
}

// edit changes the spec.
func (s *simulation) edit(what string, change func(*v1alpha1.UnitedDeploymentSpec)) {
	parent := s.api.live.parent.DeepCopy()
	change(&parent.Spec)
	parent.Generation++
	parent.ResourceVersion = s.api.next()
	s.api.live.parent = parent
	s.oracle.specChanged()
	s.note("user: %s", what)
}

// reconcile is one pass of the controller.
func (s *simulation) reconcile() {
	s.clock.SetTime(s.clock.Now().Add(time.Second))
	from, fails := len(s.api.writes), s.api.fail != nil
	s.oracle.beforePass()
	ctx := ctrl.LoggerInto(s.t.Context(), ctrl.Log.WithSink(log.NullLogSink{}))
	result, err := s.reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.api.live.parent)})
	s.wake = result.RequeueAfter
	for _, w := range s.api.writes[from:] {
		if w != "status" {
			s.note("  controller: %s", w)
		}
	}
	if err != nil && !apierrors.IsInternalError(err) {
		s.fail("reconcile: %v", err)
	}
	s.oracle.afterPass(!fails || s.api.fail != nil)
}

// sync is one pass of the StatefulSet controller over one set.
func (s *simulation) sync(name string) {
	if s.api.live.sets[name] == nil {
		return
	}
	before := s.describe(name)
	s.sets.sync(name)
	s.oracle.look()
	if after := s.describe(name); after != before {
		s.note("  %s", after)
	}
}

// describe is a set and its pods in one line.
func (s *simulation) describe(name string) string {
	u := s.api.live.sets[name]
	if u == nil {
		return name + ": none"
	}
	set := typedSet(u)
	list := []string{fmt.Sprintf("%s: %s replicas %d partition %d current %s update %s:", name,
		contentOf(&set.Spec.Template), *set.Spec.Replicas, *set.Spec.UpdateStrategy.RollingUpdate.Partition,
		s.contentOfHash(name, set.Status.CurrentRevision), s.contentOfHash(name, set.Status.UpdateRevision))}
	for _, p := range s.podsOf(name) {
		text := fmt.Sprintf("%d %s", ordinalOf(name, p.Name), podContent(p))
		if !isReady(p) {
			text += " unready"
		}
		if p.DeletionTimestamp != nil {
			text += " terminating"
		}
		list = append(list, text+",")
	}
	return strings.Join(list, " ")
}

func (s *simulation) contentOfHash(set, hash string) string {
	if r := s.api.own[set][hash]; r != nil {
		return contentOf(r.template)
	}
	return "-"
}

func (s *simulation) podsOf(set string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range s.api.live.pods {
		if ordinalOf(set, p.Name) >= 0 {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return int(ordinalOf(set, a.Name) - ordinalOf(set, b.Name)) })
	return pods
}

// everybody lets everybody but the user do what there is to do.
func (s *simulation) everybody() {
	s.api.refresh()
	s.reconcile()
	for _, name := range slices.Sorted(maps.Keys(s.api.live.sets)) {
		s.sync(name)
	}
	s.sets.collect()
	for _, name := range slices.Sorted(maps.Keys(s.api.live.pods)) {
		s.sets.kubelet(name)
		s.oracle.look()
	}
}

// settle goes on until nothing changes any more.
func (s *simulation) settle() {
	for quiet, rounds := 0, 0; quiet < 3; rounds++ {
		// Whatever failed is tried again.
		s.clock.SetTime(s.clock.Now().Add(31 * time.Second))
		if rounds > 500 {
			s.fail("it does not settle: %v", s.api.writes[len(s.api.writes)-10:])
		}
		last := s.api.last
		s.everybody()
		quiet++
		if s.api.last != last {
			quiet = 0
		}
	}
	writes := len(s.api.writes)
	s.reconcile()
	if len(s.api.writes) != writes {
		s.fail("at rest the controller writes %v", s.api.writes[writes:])
	}
}

var (
	images     = []string{"v1", "v2", "v3", "broken1"}
	partitions = []intstr.IntOrString{
		intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(9), intstr.FromString("50%"), intstr.FromString("100%"),
	}
	wishes = []*intstr.IntOrString{nil, nil, ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromInt32(3)), ptr.To(intstr.FromString("50%")), ptr.To(intstr.FromString("0%"))}
)

func pick[T any](t *rapid.T, label string, from []T) T {
	return from[rapid.IntRange(0, len(from)-1).Draw(t, label)]
}

// user does one thing that a user may do.
func (s *simulation) user(t *rapid.T, policy string) {
	names := []string{"a", "b", "c"}
	switch what := rapid.IntRange(0, 15).Draw(t, "user"); what {
	case 0, 1, 2:
		image := pick(t, "image", images)
		s.edit("image "+image, func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Template = templateOf(image, policy) })
	case 3, 4, 5, 6:
		name, to := pick(t, "subset", append(names, "")), pick(t, "partition", partitions)
		s.edit("partition "+name+" "+to.String(), func(spec *v1alpha1.UnitedDeploymentSpec) { setPartition(spec, name, to) })
	case 7, 8, 9:
		n := rapid.Int32Range(0, 6).Draw(t, "replicas")
		s.edit(fmt.Sprint("replicas ", n), func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Replicas = &n })
	case 10:
		name, wish := pick(t, "subset", names), pick(t, "wish", wishes)
		s.editSubset("wish", name, func(sub *v1alpha1.Subset) { sub.Replicas = wish })
	case 11:
		name, word := pick(t, "subset", names), pick(t, "patch", []string{"", "x", "y"})
		s.editSubset("patch "+word, name, func(sub *v1alpha1.Subset) { sub.Patch = patchOf(word) })
	case 12:
		name := pick(t, "subset", names)
		s.edit("come or go "+name, func(spec *v1alpha1.UnitedDeploymentSpec) { comeOrGo(spec, name) })
	case 13:
		s.edit(fmt.Sprint("paused ", !s.api.live.parent.Spec.Paused), func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Paused = !spec.Paused })
	case 14:
		if pods := slices.Sorted(maps.Keys(s.api.live.pods)); len(pods) > 0 {
			name := pick(t, "pod", pods)
			s.note("user: deletes %s", name)
			s.api.deletePod(s.api.live.pods[name])
		}
	case 15:
		if sets := slices.Sorted(maps.Keys(s.api.live.sets)); len(sets) > 0 {
			name, orphan := pick(t, "set", sets), rapid.Bool().Draw(t, "orphan")
			s.note("user: deletes %s, orphan %v", name, orphan)
			s.sets.deleteSet(name, orphan)
		}
	}
}

func setPartition(spec *v1alpha1.UnitedDeploymentSpec, name string, to intstr.IntOrString) {
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

func (s *simulation) editSubset(what, name string, change func(*v1alpha1.Subset)) {
	s.edit(what+" "+name, func(spec *v1alpha1.UnitedDeploymentSpec) {
		for i := range spec.Topology.Subsets {
			if spec.Topology.Subsets[i].Name == name {
				change(&spec.Topology.Subsets[i])
			}
		}
	})
}

func comeOrGo(spec *v1alpha1.UnitedDeploymentSpec, name string) {
	before := len(spec.Topology.Subsets)
	spec.Topology.Subsets = slices.DeleteFunc(spec.Topology.Subsets, func(s v1alpha1.Subset) bool { return s.Name == name })
	if len(spec.Topology.Subsets) == before {
		spec.Topology.Subsets = append(spec.Topology.Subsets, v1alpha1.Subset{Name: name})
	}
}

// cluster lets one of the others do one thing.
func (s *simulation) cluster(t *rapid.T) {
	switch what := rapid.IntRange(0, 12).Draw(t, "cluster"); {
	case what < 4:
		s.api.refresh()
		s.note("controller looks")
		s.reconcile()
	case what == 4:
		s.note("controller looks at an old cache")
		s.reconcile()
	case what < 8:
		s.sync("web-" + pick(t, "subset", []string{"a", "b", "c"}))
	case what < 10:
		if pods := slices.Sorted(maps.Keys(s.api.live.pods)); len(pods) > 0 {
			s.sets.kubelet(pick(t, "pod", pods))
			s.oracle.look()
		}
	case what == 10:
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			s.everybody()
		}
	case what == 11:
		s.sets.collect()
	default:
		if rapid.Bool().Draw(t, "restart") {
			s.note("the controller restarts")
			s.restart()
		} else {
			s.note("the next write fails")
			s.api.fail = apierrors.NewInternalError(errors.New("etcd is away"))
		}
	}
}

// finish releases everything, with a good template, and expects that it arrives.
func (s *simulation) finish(policy string) {
	s.edit("releases v9", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.Paused, spec.Template, spec.UpdateStrategy.ManualUpdate = false, templateOf("v9", policy), nil
		if len(spec.Topology.Subsets) == 0 {
			comeOrGo(spec, "a")
		}
	})
	s.settle()
	s.judge(true)
	status := &s.api.live.parent.Status
	if status.CurrentRevision != status.UpdateRevision && replicasOf(s.api.live.parent) > 0 {
		s.fail("the current revision is %s, not %s", status.CurrentRevision, status.UpdateRevision)
	}
}

// judge compares what there is with what was asked for; healthy: all can be
// ready.
func (s *simulation) judge(healthy bool) {
	parent := s.api.live.parent
	asks := lines(parent)
	for i := range parent.Spec.Topology.Subsets {
		sub := &parent.Spec.Topology.Subsets[i]
		set, want := "web-"+sub.Name, wanted(parent, sub)
		pods, updated := s.podsOf(set), int32(0)
		for _, p := range pods {
			if podContent(p) == want {
				updated++
			}
			if healthy && !isReady(p) {
				s.fail("%s is not ready: %s", p.Name, s.describe(set))
			}
			if healthy && !parent.Spec.Paused && ordinalOf(set, p.Name) >= asks[sub.Name].partition && podContent(p) != want {
				s.fail("%s is released, and not on %s", p.Name, want)
			}
		}
		if healthy && int32(len(pods)) != asks[sub.Name].replicas {
			s.fail("%s has not %d replicas: %s", set, asks[sub.Name].replicas, s.describe(set))
		}
		status := subsetStatus(&parent.Status, sub.Name)
		if status == nil || status.Replicas != int32(len(pods)) || status.DesiredReplicas != asks[sub.Name].replicas {
			s.fail("the status says %+v of %s", status, s.describe(set))
		}
		if healthy && !parent.Spec.Paused && status.UpdatedReplicas != updated {
			s.fail("the status says that %d are updated of %s", status.UpdatedReplicas, s.describe(set))
		}
	}
	if healthy && !meta.IsStatusConditionTrue(parent.Status.Conditions, v1alpha1.ConditionReady) {
		s.fail("it is not Ready: %+v", parent.Status.Conditions)
	}
	if parent.Status.ObservedGeneration != parent.Generation {
		s.fail("generation %d was not observed", parent.Generation)
	}
}

// The promise of United, over random histories: what is protected is neither
// moved to, nor re-created on, nor created on another revision, nor deleted; and
// in the end everything arrives where it shall.
func TestProtectedReplicasStay(t *testing.T) {
	for _, policy := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		t.Run(string(policy), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { simulate(t, string(policy)) })
		})
	}
}

func simulate(t *rapid.T, policy string) {
	s := newSimulation(t, policy, []string{"a", "b"}[:rapid.IntRange(1, 2).Draw(t, "subsets")]...)
	s.api.live.parent.Spec.RevisionHistoryLimit = ptr.To(rapid.Int32Range(0, 2).Draw(t, "revisionHistoryLimit"))
	s.restart()
	if rapid.Bool().Draw(t, "started") {
		s.settle()
		s.judge(true)
	}
	for range rapid.IntRange(0, 60).Draw(t, "steps") {
		if rapid.IntRange(0, 3).Draw(t, "who") == 0 {
			s.user(t, policy)
		} else {
			s.cluster(t)
		}
	}
	s.api.fail = nil
	s.note("all settles")
	s.settle()
	s.judge(false)
	s.finish(policy)
}
