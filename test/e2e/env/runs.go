// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"slices"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Smoke returns a check with a Job that makes one pod, with the tag of its image, as YAML: with fail... it fails, with quiet... it does
// not end by itself.
func Smoke(tag string) string {
	return fmt.Sprintf(`{name: smoke, job: {template: {spec: {backoffLimit: 0, template: {spec: {restartPolicy: Never, containers: [{name: smoke, image: "registry.example/smoke:%s"}]}}}}}}`, tag)
}

// Jobs returns the Jobs of the checks of a workload, the oldest first.
func (w *Workload) Jobs() []batchv1.Job {
	w.T.Helper()
	list := &batchv1.JobList{}
	w.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
	slices.SortFunc(list.Items, func(a, b batchv1.Job) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items
}

// Succeed lets the pods of a Job end well, and waits until its controller has seen that.
func (e *Env) Succeed(job *batchv1.Job) {
	e.T.Helper()
	list := &corev1.PodList{}
	e.Expect(e.Client.List(e.Ctx, list, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.JobNameLabel: job.Name})).To(Succeed())
	e.Expect(list.Items).NotTo(BeEmpty())
	for i := range list.Items {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Succeeded"}}`))
		e.Expect(e.Client.Status().Patch(e.Ctx, &list.Items[i], patch)).To(Succeed())
	}
	e.Eventually(func(g Gomega) {
		g.Expect(e.Client.Get(e.Ctx, client.ObjectKeyFromObject(job), job)).To(Succeed())
		g.Expect(job.Status.Succeeded).To(BeEquivalentTo(len(list.Items)))
	}).Should(Succeed())
}

// Rollouts serves the analyses of Argo Rollouts, by its real controller.
func (e *Env) Rollouts() {
	e.T.Helper()
	e.Expect(e.Plane.startRollouts()).To(Succeed())
}

// AnalysisRuns returns those of a workload, the oldest first.
func (w *Workload) AnalysisRuns() []unstructured.Unstructured {
	w.T.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("argoproj.io/v1alpha1")
	list.SetKind("AnalysisRunList")
	w.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
	slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int {
		x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return x.Compare(y.Time)
	})
	return list.Items
}

// IsOwned checks that an object is controlled by the workload.
func (w *Workload) IsOwned(o metav1.Object) {
	w.T.Helper()
	w.Expect(metav1.IsControlledBy(o, w.Parent())).To(BeTrue(), o.GetName())
}
