// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// TestReplicasOfStatus: the replicas that a status shows one by one agree with the numbers of the controller.
func TestReplicasOfStatus(t *testing.T) {
	const (
		before = `{template: {spec: {containers: [{name: web, image: web:v1}]}}, subsets: {zone-a: {}, zone-b: {}}}`
		other  = `{template: {spec: {containers: [{name: web, image: web:v1}]}}, subsets: {zone-a: {}, zone-b: {patch: {spec: {template: {spec: {hostNetwork: true}}}}}}}`
	)
	ready := adapters.Replica{Name: "web-zone-a-x", UID: "x", Hash: "h1", Ready: true, ReadySince: epoch}
	never := adapters.Replica{Name: "web-zone-a-y", UID: "y", Hash: "h0", NeverReady: true, Since: epoch.Add(59 * time.Minute)}
	for _, tc := range []struct {
		name        string
		subset      string
		replica     adapters.Replica
		state, runs string
		images      []string
	}{
		// A Deployment gets a revision only when it is released, but its pods are already what that makes.
		{"the same pods under another name", "zone-a", ready, view.Updated, "web-1", []string{"web:v1"}},
		{"other pods", "zone-b", ready, view.Protected, "web-1", []string{"web:v1"}},
		// The controller replaces it at once.
		{"never ready on what nobody asks for", "zone-b", never, view.Broken, "", []string{"web:v0"}},
		{"a subset that is being removed", "zone-x", ready, view.Protected, "web-1", []string{"web:v1"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			g := NewWithT(t)
			parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "web"}}
			parent.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
			parent.Spec.Template.DeploymentTemplate = &runtime.RawExtension{Raw: []byte(
				`{"metadata":{"labels":{"app":"web"}},"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"web:v1"}]}}}}`)}
			for _, name := range []string{"zone-a", "zone-b"} {
				parent.Spec.Topology.Subsets = append(parent.Spec.Topology.Subsets, v1alpha1.Subset{Name: name})
			}
			parent.Status.CurrentRevision, parent.Status.UpdateRevision = "web-1", "web-2"
			parent.Status.Subsets = []v1alpha1.SubsetStatus{{Name: tc.subset, DesiredReplicas: 1, Partition: 1, CurrentRevision: "web-1"}}
			parent.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue}}
			read, err := spec.Read(parent, all.Registry())
			g.Expect(err).NotTo(HaveOccurred())
			meta := metav1.ObjectMeta{Name: "web-" + tc.subset, Namespace: "shop", Annotations: map[string]string{
				v1alpha1.AnnotationRevision: "web-1", v1alpha1.AnnotationProtectedRevision: "web-1", v1alpha1.AnnotationProtectedHash: "h1", v1alpha1.AnnotationPartition: "1",
			}}
			revisions := []*revision.Revision{stored(t, "web-1", 1, before, nil), stored(t, "web-2", 2, other, nil)}
			in := &planner.Input{Update: revisions[1], World: world.World{
				Parent: parent, Spec: read, Now: epoch.Add(time.Hour), Revisions: revisions,
				Pods: map[string][]*corev1.Pod{tc.subset: {{ObjectMeta: metav1.ObjectMeta{Name: tc.replica.Name}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "web:v0"}}}}}},
				Children: map[string]*world.Child{tc.subset: {Object: &unstructured.Unstructured{Object: map[string]any{}}, Observed: &adapters.Observed{
					Meta: meta, Replicas: 1, Partition: 1, SpecObserved: true, CurrentHash: "h1", UpdateHash: "h1", Traits: read.Adapter.Traits(),
					Pods: []adapters.Replica{tc.replica},
				}}},
			}}
			of := view.StatusOf(parent, in, "").Subsets[0]
			shown := of.Replicas
			g.Expect(shown).To(HaveLen(1))
			g.Expect(shown[0].State).To(Equal(tc.state))
			g.Expect(shown[0].Revision).To(Equal(tc.runs))
			g.Expect(of.Runs).To(HaveLen(1))
			g.Expect(of.Runs[0].Images).To(Equal(tc.images), "the images of the pod, if the revision is not known")
		})
	}
}
