// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters/leaderworkerset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
)

// leaders returns the StatefulSet to which a LeaderWorkerSet with the name of a child delegates its replicas. It has
// only the revision h2.
func leaders(owner string, labels map[string]string) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web-zone-a", UID: "l-1", Generation: 7, Labels: labels,
			Annotations: map[string]string{"leaderworkerset.sigs.k8s.io/replicas": "3"},
		},
		Spec: appsv1.StatefulSetSpec{
			Replicas:       ptr.To[int32](3),
			UpdateStrategy: appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)}},
		},
		Status: appsv1.StatefulSetStatus{ObservedGeneration: 7, CurrentRevision: "h2", UpdateRevision: "h2"},
	}
	s.Spec.Template.Labels = map[string]string{v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "zone-a"}
	if owner != "" {
		s.OwnerReferences = []metav1.OwnerReference{{APIVersion: "leaderworkerset.x-k8s.io/v1", Kind: "LeaderWorkerSet", Name: "web-zone-a", Controller: ptr.To(true)}}
		s.OwnerReferences[0].UID = "s-1"
		if owner != "s-1" {
			s.OwnerReferences[0].UID = "s-0"
		}
	}
	return s
}

func ofLWS(more ...string) map[string]string {
	labels := map[string]string{"leaderworkerset.sigs.k8s.io/name": "web-zone-a"}
	for _, key := range more {
		labels["leaderworkerset.sigs.k8s.io/template-revision-hash"] = key
	}
	return labels
}

// The workload that manages the replicas of a new child is adopted if it was orphaned, awaited if it will be garbage
// collected, and left alone if it is foreign.
func TestDelegateLeft(t *testing.T) {
	for name, tc := range map[string]struct {
		there []client.Object
		want  bool
		says  string
		is    error
	}{
		"nothing":              {nil, false, "", nil},
		"orphaned":             {[]client.Object{leaders("", ofLWS()), ownRevision("web-zone-a-h2", "l-1")}, true, "", nil},
		"to be collected":      {[]client.Object{leaders("s-0", ofLWS())}, false, "the garbage collector has yet to delete", subset.ErrStale},
		"a stranger's":         {[]client.Object{leaders("", nil)}, false, "would take it over", subset.ErrNameConflict},
		"of another name's":    {[]client.Object{leaders("", map[string]string{"leaderworkerset.sigs.k8s.io/name": "x"})}, false, "would take it over", subset.ErrNameConflict},
		"controlled by others": {[]client.Object{leaders("s-0", nil)}, false, "would take it over", subset.ErrNameConflict},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.there...)
			b.Adapter = leaderworkerset.New()
			c := childSpec()
			left, err := b.delegateLeft(t.Context(), &c)
			if left != tc.want || tc.says == "" != (err == nil) || tc.says != "" && (!strings.Contains(err.Error(), tc.says) || !errors.Is(err, tc.is)) {
				t.Error(left, err)
			}
			if err := b.checkRevisionsCollected(t.Context(), &c); tc.says == "" != (err == nil) {
				t.Error(err)
			}
		})
	}
	b := newBench(t, leaders("", nil))
	c := childSpec()
	if left, err := b.delegateLeft(t.Context(), &c); left || err != nil {
		t.Error("a StatefulSet leaves its replicas to nobody:", left, err)
	}
}

// A child that delegates its replicas to another workload is reminded there.
func TestRemindsTheDelegate(t *testing.T) {
	template := map[string]any{"workerTemplate": map[string]any{"metadata": map[string]any{"labels": map[string]any{v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "zone-a"}}}}
	current := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": "LeaderWorkerSet",
		"metadata": map[string]any{
			"namespace": "shop", "name": "web-zone-a", "uid": "s-1", "generation": int64(3),
			"labels": map[string]any{v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "zone-a"},
			"annotations": map[string]any{
				v1alpha1.AnnotationRevision: "web-2", v1alpha1.AnnotationProtectedRevision: "web-1", v1alpha1.AnnotationProtectedHash: "h1",
				v1alpha1.AnnotationReleasedFrom: "2", v1alpha1.AnnotationPartition: "2",
			},
		},
		"spec": map[string]any{
			"replicas": int64(3), "leaderWorkerTemplate": template,
			"rolloutStrategy": map[string]any{"rollingUpdateConfiguration": map[string]any{"partition": int64(2)}},
		},
		"status": map[string]any{"observedGeneration": int64(3)},
	}}
	keeps := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-zone-a-k2-2", Labels: ofLWS("k2"),
		OwnerReferences: []metav1.OwnerReference{{Kind: "LeaderWorkerSet", Name: "web-zone-a", UID: "s-1", Controller: ptr.To(true)}},
	}}
	keeps.Data.Raw = []byte(`{"spec":{"leaderWorkerTemplate":{"$patch":"replace","workerTemplate":{"metadata":{"labels":{"united.dev/name":"web","united.dev/subset":"zone-a"}}}}}}`)
	h1 := ownRevision("h1", "l")
	h1.GetOwnerReferences()[0].UID = "l-1"

	b := newBench(t, leaders("s-1", ofLWS("k2")), keeps, h1)
	b.Adapter = leaderworkerset.New()
	after, wrote, err := b.remind(current)
	if err != nil || !wrote || after != current {
		t.Fatal(after, wrote, err)
	}
	want := `status web-zone-a [{"op":"test","path":"/metadata/uid","value":"l-1"},{"op":"test","path":"/metadata/generation","value":7},` +
		`{"op":"test","path":"/status/currentRevision","value":"h2"},{"op":"test","path":"/status/updateRevision","value":"h2"},` +
		`{"op":"replace","path":"/status/currentRevision","value":"h1"}]`
	if diff := cmp.Diff([]string{want}, b.reminded); diff != "" {
		t.Error(diff)
	}

	for name, there := range map[string][]client.Object{
		"it is gone":               {keeps, h1},
		"it is an earlier child's": {leaders("s-0", ofLWS("k2")), keeps, h1},
		"it is not of the spec":    {leaders("s-1", ofLWS("k1")), keeps, h1},
	} {
		b := newBench(t, there...)
		b.Adapter = leaderworkerset.New()
		if _, wrote, err := b.remind(current); wrote || !errors.Is(err, subset.ErrStale) {
			t.Error(name, wrote, err)
		}
	}
}
