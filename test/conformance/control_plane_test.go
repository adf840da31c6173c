// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/test/simulation"
)

const (
	// holder is a finalizer: an object that has it stays terminating until the test removes it.
	holder = "united.dev/conformance"
	// sentinel is the set that shows how far the controller has read.
	sentinel = "sentinel"
)

// actual plays traces on the real controllers, in its own namespace.
type actual struct {
	ctx       context.Context
	namespace string
	policy    appsv1.PodManagementPolicyType
}

func newActual(t *testing.T, policy appsv1.PodManagementPolicyType) *actual {
	t.Helper()
	g := NewWithT(t)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "trace-"}}
	g.Expect(kube.Create(t.Context(), namespace)).To(Succeed())
	r := &actual{t.Context(), namespace.Name, policy}
	g.Eventually(func() error { return r.get("default", &corev1.ServiceAccount{}) }).Should(Succeed())
	g.Expect(kube.Create(r.ctx, r.newSet(sentinel, appsv1.ParallelPodManagement, "v1", 1, 0))).To(Succeed())
	g.Eventually(func() (int32, error) {
		set := &appsv1.StatefulSet{}
		err := r.get(sentinel, set)
		return set.Status.ReadyReplicas, err
	}).Should(BeEquivalentTo(1))
	return r
}

func (r *actual) get(name string, into client.Object) error {
	return kube.Get(r.ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, into)
}

// newSet returns a set whose pods are gone as soon as kwok sees that they are deleted.
func (r *actual) newSet(name string, policy appsv1.PodManagementPolicyType, tag string, replicas, partition int32) *appsv1.StatefulSet {
	labels := map[string]string{"app": name}
	return &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name},
		Spec: appsv1.StatefulSetSpec{
			Replicas:            &replicas,
			PodManagementPolicy: policy,
			Selector:            &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{
				Partition: &partition,
			}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: image(tag)}}},
			},
		},
	}
}

func image(tag string) string { return "web:" + tag }

// Do applies a step; it does nothing if the object of the step does not exist.
func (r *actual) Do(step simulation.Step) error {
	name := fmt.Sprintf("%s-%d", simulation.TraceSet, step.Ordinal)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}}
	var err error
	switch step.Verb {
	case simulation.Create:
		err = kube.Create(r.ctx, r.newSet(simulation.TraceSet, r.policy, step.Image, *step.Replicas, *step.Partition))
		return client.IgnoreAlreadyExists(err)
	case simulation.Update:
		err = r.update(step)
	case simulation.Delete:
		err = r.deleteSet(metav1.DeletePropagationBackground)
	case simulation.Orphan:
		err = r.deleteSet(metav1.DeletePropagationOrphan)
	case simulation.HoldRevisions:
		err = r.holdRevisions(`["` + holder + `"]`)
	case simulation.FreeRevisions:
		err = r.holdRevisions(`[]`)
	case simulation.DeletePod:
		err = kube.Delete(r.ctx, pod)
	case simulation.Unready:
		err = r.setReady(name, corev1.ConditionFalse)
	case simulation.Ready:
		err = r.setReady(name, corev1.ConditionTrue)
	case simulation.Hold:
		err = r.patch(pod, `{"metadata":{"finalizers":["`+holder+`"]}}`)
	case simulation.Free:
		err = r.patch(pod, `{"metadata":{"finalizers":[]}}`)
	default:
		err = fmt.Errorf("there is no step %q", step.Verb)
	}
	return client.IgnoreNotFound(err)
}

func (r *actual) patch(o client.Object, patch string) error {
	return kube.Patch(r.ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))
}

func (r *actual) update(step simulation.Step) error {
	spec := map[string]any{}
	if step.Image != "" {
		// A merge patch replaces lists.
		spec["template"] = map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "image": image(step.Image)}}}}
	}
	if step.Replicas != nil {
		spec["replicas"] = *step.Replicas
	}
	rolling := map[string]any{}
	if step.Partition != nil {
		rolling["partition"] = *step.Partition
	}
	if step.MaxUnavailable != nil {
		rolling["maxUnavailable"] = *step.MaxUnavailable
	}
	if len(rolling) > 0 {
		spec["updateStrategy"] = map[string]any{"rollingUpdate": rolling}
	}
	if step.MinReadySeconds != nil {
		spec["minReadySeconds"] = *step.MinReadySeconds
	}
	patch, err := json.Marshal(map[string]any{"spec": spec})
	if err != nil {
		return err
	}
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: simulation.TraceSet}}
	return kube.Patch(r.ctx, set, client.RawPatch(types.StrategicMergePatchType, patch))
}

func (r *actual) deleteSet(propagation metav1.DeletionPropagation) error {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: simulation.TraceSet}}
	return kube.Delete(r.ctx, set, client.PropagationPolicy(propagation))
}

func (r *actual) holdRevisions(finalizers string) error {
	revisions := &appsv1.ControllerRevisionList{}
	if err := kube.List(r.ctx, revisions, client.InNamespace(r.namespace), ofTheTrace); err != nil {
		return err
	}
	for i := range revisions.Items {
		if err := r.patch(&revisions.Items[i], `{"metadata":{"finalizers":`+finalizers+`}}`); err != nil {
			return err
		}
	}
	return nil
}

// setReady sets the Ready condition of a pod; kwok does not change it afterwards.
func (r *actual) setReady(name string, ready corev1.ConditionStatus) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: name}}
	return kube.Status().Patch(r.ctx, pod, client.RawPatch(types.StrategicMergePatchType,
		fmt.Appendf(nil, `{"status":{"conditions":[{"type":"Ready","status":%q}]}}`, ready)))
}

var ofTheTrace = client.MatchingLabels{"app": simulation.TraceSet}

// view is a view of the objects as the API server has them.
type view struct {
	set       *appsv1.StatefulSet // nil if it does not exist
	pods      []corev1.Pod
	revisions []appsv1.ControllerRevision
}

func (r *actual) observe() (view, error) {
	sets, pods, revisions := &appsv1.StatefulSetList{}, &corev1.PodList{}, &appsv1.ControllerRevisionList{}
	var errs []error
	for _, list := range []client.ObjectList{sets, pods, revisions} {
		errs = append(errs, kube.List(r.ctx, list, client.InNamespace(r.namespace)))
	}
	s := view{}
	for i := range sets.Items {
		if sets.Items[i].Name == simulation.TraceSet {
			s.set = &sets.Items[i]
		}
	}
	for _, p := range pods.Items {
		if p.Labels["app"] == simulation.TraceSet {
			s.pods = append(s.pods, p)
		}
	}
	for _, c := range revisions.Items {
		if c.Labels["app"] == simulation.TraceSet {
			s.revisions = append(s.revisions, c)
		}
	}
	return s, errors.Join(errs...)
}

// busy describes what kwok, the scheduler or the garbage collector still has to do; "" if nothing.
func (s view) busy() string {
	var uid types.UID
	if s.set != nil {
		if uid = s.set.UID; s.set.DeletionTimestamp != nil {
			return "the set is being deleted"
		}
	}
	going := func(o client.Object) string {
		switch owner := metav1.GetControllerOf(o); {
		case o.GetDeletionTimestamp() != nil && !slices.Contains(o.GetFinalizers(), holder):
			return o.GetName() + " goes"
		case o.GetDeletionTimestamp() == nil && owner != nil && owner.UID != uid:
			return o.GetName() + " has lost its owner"
		}
		return ""
	}
	for i := range s.revisions {
		if what := going(&s.revisions[i]); what != "" {
			return what
		}
	}
	for i := range s.pods {
		p := &s.pods[i]
		if what := going(p); what != "" {
			return what
		}
		if p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodRunning {
			return p.Name + " starts"
		}
	}
	return ""
}

// versions identifies the state of a view. It leaves out the set, because the controller writes its status in answer to
// poke.
func (s view) versions() string {
	text := ""
	for _, p := range s.pods {
		text += p.Name + "=" + p.ResourceVersion + " "
	}
	for _, c := range s.revisions {
		text += c.Name + "=" + c.ResourceVersion + " "
	}
	return text
}

// Settle proves that no controller has anything left to do. For kwok, the scheduler and the garbage collector, the
// objects show it. The StatefulSet controller must have read all of them, and then have synced the set without a change.
func (r *actual) Settle() (simulation.Snapshot, error) {
	var after view
	last := "nothing was seen"
	err := r.poll(func() (bool, error) {
		before, err := r.observe()
		if err != nil {
			return false, err
		}
		if last = before.busy(); last != "" {
			return false, nil
		}
		if before.set != nil {
			if err := r.barrier(); err != nil {
				return false, fmt.Errorf("sentinel: %w", err)
			}
			if err := r.poke(before.set); err != nil {
				return false, fmt.Errorf("pass of the controller: %w", err)
			}
		}
		after, err = r.observe()
		last = "from " + before.versions() + "to " + after.versions()
		return before.versions() == after.versions(), err
	})
	if err != nil {
		return simulation.Snapshot{}, fmt.Errorf("it does not settle: %w: %s", err, last)
	}
	return after.snapshot()
}

func (r *actual) poll(done func() (bool, error)) error {
	return wait.PollUntilContextTimeout(r.ctx, interval, waitTimeout, true, func(context.Context) (bool, error) { return done() })
}

// barrier returns when the controller has read everything that existed at its start. The controller reads all pods in one
// stream, so it has done that when it counts a later change of the sentinel's pod.
func (r *actual) barrier() error {
	set := &appsv1.StatefulSet{}
	if err := r.get(sentinel, set); err != nil {
		return err
	}
	want, ready := int32(0), corev1.ConditionFalse
	if set.Status.ReadyReplicas == 0 {
		want, ready = 1, corev1.ConditionTrue
	}
	if err := r.setReady(sentinel+"-0", ready); err != nil {
		return err
	}
	return r.poll(func() (bool, error) {
		err := r.get(sentinel, set)
		return set.Status.ReadyReplicas == want, err
	})
}

// poke returns when the controller has completed a sync of the set: it changes a field that affects no pod, and waits
// until that is observed, which a sync writes last.
func (r *actual) poke(set *appsv1.StatefulSet) error {
	limit := int64(10)
	if ptr.Deref(set.Spec.RevisionHistoryLimit, 10) == 10 {
		limit = 11
	}
	poked := set.DeepCopy()
	if err := r.patch(poked, fmt.Sprintf(`{"spec":{"revisionHistoryLimit":%d}}`, limit)); err != nil {
		return err
	}
	return r.poll(func() (bool, error) {
		now := &appsv1.StatefulSet{}
		err := r.get(set.Name, now)
		return now.Status.ObservedGeneration >= poked.Generation, err
	})
}

func (s view) snapshot() (simulation.Snapshot, error) {
	snapshot := simulation.Snapshot{Set: s.set, Revisions: map[string]string{}}
	for i := range s.pods {
		snapshot.Pods = append(snapshot.Pods, &s.pods[i])
	}
	for _, c := range s.revisions {
		set := appsv1.StatefulSet{}
		if err := json.Unmarshal(c.Data.Raw, &set); err != nil {
			return snapshot, fmt.Errorf("revision %s: %w", c.Name, err)
		}
		snapshot.Revisions[c.Name] = simulation.Tag(set.Spec.Template.Spec.Containers[0].Image)
	}
	return snapshot, nil
}

// play plays a trace in its own namespace.
func play(t *testing.T, policy appsv1.PodManagementPolicyType, steps []simulation.Step) []string {
	t.Helper()
	began := time.Now()
	lines, err := simulation.Play(newActual(t, policy), steps)
	if err != nil {
		t.Fatalf("%v\n%s", err, lines)
	}
	t.Logf("%d steps in %s", len(steps), time.Since(began).Round(100*time.Millisecond))
	return lines
}
