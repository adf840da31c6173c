// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

func pick[T any](t *rapid.T, label string, from []T) T { return rapid.SampledFrom(from).Draw(t, label) }

// anyPod is a pod of the StatefulSet web, in any state.
var anyPod = rapid.Custom(func(t *rapid.T) *corev1.Pod {
	at := func(label string) metav1.Time {
		return metav1.Unix(rapid.Int64Range(1767225600, 1767225700).Draw(t, label), 0)
	}
	statuses := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.ContainerStatus {
		s := corev1.ContainerStatus{Name: "c", RestartCount: 7, Image: "i", Ready: rapid.Bool().Draw(t, "ready")}
		ended := func(label string) *corev1.ContainerStateTerminated {
			if !rapid.Bool().Draw(t, label) {
				return nil
			}
			return &corev1.ContainerStateTerminated{ExitCode: rapid.Int32Range(0, 1).Draw(t, "exit code"), Message: "m"}
		}
		s.LastTerminationState.Terminated = ended("ended before")
		switch rapid.IntRange(0, 3).Draw(t, "state") {
		case 3:
			s.State.Terminated = ended("ended")
		case 0:
			s.State.Waiting = &corev1.ContainerStateWaiting{
				Reason: pick(t, "reason", []string{"ContainerCreating", "CrashLoopBackOff", "ImagePullBackOff"}), Message: "m"}
		case 1:
			s.State.Running = &corev1.ContainerStateRunning{}
		}
		return s
	}), 0, 3)
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: pick(t, "name", []string{"web-0", "web-1", "web-10", "web-x"}), UID: types.UID(pick(t, "uid", []string{"p", "q"})),
			Labels:            map[string]string{appsv1.ControllerRevisionHashLabelKey: pick(t, "hash", []string{"h1", "h2"}), "app": "web"},
			Annotations:       map[string]string{"large": "annotation"},
			OwnerReferences:   []metav1.OwnerReference{{Kind: "StatefulSet", UID: types.UID(pick(t, "owner", []string{"s", "t"})), Controller: ptr.To(rapid.Bool().Draw(t, "controls"))}},
			CreationTimestamp: at("created"),
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: metav1.NewFieldsV1(
				`{"f:metadata":{"f:labels":{"f:controller-revision-hash":{}}},"f:spec":{"f:restartPolicy":{}}}`)}},
		},
		Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		Status: corev1.PodStatus{
			Phase:  pick(t, "phase", []corev1.PodPhase{"", corev1.PodPending, corev1.PodRunning, corev1.PodFailed, corev1.PodSucceeded, corev1.PodUnknown}),
			Reason: pick(t, "why", []string{"", "Evicted"}), Message: "m", PodIP: "10.0.0.1",
			InitContainerStatuses: statuses.Draw(t, "init containers"), ContainerStatuses: statuses.Draw(t, "containers"),
		},
	}
	if rapid.Bool().Draw(t, "gated") {
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: v1alpha1.GateColocation}}
	}
	if rapid.Bool().Draw(t, "deleted") {
		p.DeletionTimestamp = ptr.To(at("deletion"))
		p.DeletionGracePeriodSeconds = rapid.Ptr(rapid.Int64Range(0, 60), true).Draw(t, "grace")
	}
	for _, kind := range rapid.SliceOfNDistinct(rapid.SampledFrom([]corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled, corev1.ContainersReady}), 0, 3, rapid.ID).Draw(t, "conditions") {
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: kind, Status: pick(t, "status", []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse, corev1.ConditionUnknown}),
			LastTransitionTime: at("transition"), Message: "m",
		})
	}
	return p
})

// For the controller, a pod is the same whether the cache holds the complete object or not.
func TestStripPodKeepsWhatIsRead(t *testing.T) {
	set := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{"name": "web", "namespace": "shop", "uid": "s"},
		"spec":     map[string]any{"replicas": int64(3), "selector": map[string]any{"matchLabels": map[string]any{"app": "web"}}},
	}}
	a := statefulset.New()
	rapid.Check(t, func(t *rapid.T) {
		whole := anyPod.Draw(t, "pod")
		before := whole.DeepCopy()
		object, err := stripPod(whole)
		if err != nil {
			t.Fatal(err)
		}
		stripped := object.(*corev1.Pod)
		want, err := a.Observe(set, adapters.Dependents{Pods: []*corev1.Pod{whole}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := a.Observe(set, adapters.Dependents{Pods: []*corev1.Pod{stripped}})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatal("whole -, stripped +\n", diff)
		}
		if a.Orphans(set, []corev1.Pod{*whole}) != a.Orphans(set, []corev1.Pod{*stripped}) {
			t.Fatal("another number of orphans")
		}
		if !reflect.DeepEqual(before, whole) {
			t.Fatal("the pod was changed")
		}
		if stripped.ManagedFields != nil || stripped.Annotations != nil || len(stripped.Spec.Containers) > 0 || stripped.Status.Message != "" {
			t.Fatalf("it keeps what nobody reads: %+v", stripped)
		}
		if again, err := stripPod(stripped); err != nil || !reflect.DeepEqual(again, object) {
			t.Fatalf("stripped twice it is %+v, %v", again, err)
		}
	})
}

// Pods in the cache also show who has changed the label with the revision of a pod.
func TestStripPodTellsWhoChangedTheRevisionLabel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pod := anyPod.Draw(t, "pod")
		pod.ManagedFields = append(pod.ManagedFields, metav1.ManagedFieldsEntry{Manager: "kubectl-label", FieldsV1: metav1.NewFieldsV1(
			`{"f:metadata":{"f:labels":{"f:controller-revision-hash":{}}}}`)})
		pod.ManagedFields[0].FieldsV1 = metav1.NewFieldsV1(`{"f:spec":{"f:restartPolicy":{}}}`)
		stripped, err := stripPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		again, err := stripPod(stripped)
		if err != nil {
			t.Fatal(err)
		}
		for _, object := range []any{stripped, again} {
			if got := object.(*corev1.Pod).Annotations[adapters.RevisionLabelChanged]; got != "kubectl-label" {
				t.Fatalf("%q", got)
			}
		}
	})
}

func TestStripPodPassesOthersOn(t *testing.T) {
	cr := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "x"}}
	if got, err := stripPod(cr); got != any(cr) || err != nil {
		t.Error(got, err)
	}
}

// TestStripChild: the template of a child is packed, and of the revisions only those are kept whole that may be ours.
func TestStripChild(t *testing.T) {
	child := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{}}}}}
	if got, err := stripChild(child); err != nil || !reflect.DeepEqual(child.Object, map[string]any{"spec": map[string]any{"template": `{"spec":{}}`}}) {
		t.Error(got, err)
	}
	for kind, whole := range map[string]bool{"StatefulSet": false, "UnitedDeployment": true, "": true} {
		cr := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}, Data: runtime.RawExtension{Raw: []byte(`{}`)}}
		if kind != "" {
			cr.OwnerReferences = []metav1.OwnerReference{{Kind: kind, Controller: ptr.To(true)}}
		}
		if got, err := stripChild(cr); got != any(cr) || err != nil || (cr.Data.Raw != nil) != whole {
			t.Errorf("%q: %v, %v", kind, got, err)
		}
	}
}

func TestCacheOptions(t *testing.T) {
	options, err := CacheOptions()
	if err != nil {
		t.Fatal(err)
	}
	parent := labels.Set{v1alpha1.LabelName: "web"}
	child := labels.Set{v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "a"}
	kinds := map[string]bool{}
	for object, by := range options.ByObject {
		kind := reflect.TypeOf(object).Elem().Name()
		if _, isParent := object.(*v1alpha1.UnitedDeployment); isParent {
			if by.Label == nil || !by.Label.Empty() || by.SyncPeriod == nil || *by.SyncPeriod != lookAgain {
				t.Error(kind, by.Label, by.SyncPeriod)
			}
			continue
		}
		kinds[kind] = true
		_, isRevision := object.(*appsv1.ControllerRevision)
		if by.Label.Matches(labels.Set{"app": "web"}) || !by.Label.Matches(parent) || by.Label.Matches(child) == isRevision {
			t.Error(kind, by.Label)
		}
		if _, isPod := object.(*corev1.Pod); isPod != (by.Transform != nil) {
			t.Error(kind, "is transformed:", by.Transform != nil)
		}
	}
	if len(kinds) != 2 || len(options.ByObject) != 3 {
		t.Error(kinds, len(options.ByObject))
	}
	// Children, of any kind.
	if by := options.DefaultLabelSelector; by.Matches(labels.Set{"app": "web"}) || !by.Matches(child) {
		t.Error(by)
	}
}

func TestParentByLabel(t *testing.T) {
	for _, tc := range []struct {
		object client.Object
		want   []reconcile.Request
	}{
		{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x"}}, nil},
		{&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "x", Labels: map[string]string{v1alpha1.LabelName: "web"}}},
			[]reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}}},
	} {
		if diff := cmp.Diff(tc.want, parentByLabel(t.Context(), tc.object)); diff != "" {
			t.Error(diff)
		}
	}
}

// A parent is retried soon, however long the API server was unavailable.
func TestRetriesAreBounded(t *testing.T) {
	limiter, of := retries(), reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}
	first := limiter.When(of)
	var last time.Duration
	for range 100 {
		last = limiter.When(of)
	}
	if first > time.Second || last != undone.MaxBackOff {
		t.Error(first, last)
	}
}
