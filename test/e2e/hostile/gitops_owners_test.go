// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// inGit is what Git has about a workload: an image, and only if a test says so, partitions or
// annotations.
const inGit = `
apiVersion: apps.united.dev/v1alpha1
kind: UnitedDeployment
metadata: {name: web, annotations: {about: git}}
spec:
  selector: {matchLabels: {app: web}}
  template:
    statefulSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        serviceName: web
        podManagementPolicy: Parallel
        template:
          metadata: {labels: {app: web}}
          spec:
            terminationGracePeriodSeconds: 1
            containers: [{name: web, image: "registry.example/web:v1"}]
  topology: {subsets: [{name: zone-a}, {name: zone-b}]}
  updateStrategy: {type: Manual, manualUpdate: {}}
`

func gitOf(e *Env, edits ...string) Git {
	e.T.Helper()
	manifest := Git{}
	text := inGit
	for i := 0; i < len(edits); i += 2 {
		e.Expect(text).To(ContainSubstring(edits[i]))
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	e.Expect(yaml.Unmarshal([]byte(text), &manifest)).To(Succeed())
	return manifest
}

// argoSync applies as Argo CD does, by default with a three-way merge on the client.
func argoSync(e *Env, manifest Git) { e.Apply(manifest, "--field-manager=argocd-controller") }

// argoServerSide applies as Argo CD does with ServerSideApply=true.
func argoServerSide(e *Env, manifest Git) {
	e.Apply(manifest, "--server-side", "--force-conflicts", "--field-manager=argocd-controller")
}

// fluxReconcile applies as the kustomize-controller of Flux does: it first makes itself the owner of
// all fields that kubectl owns, so that its server-side apply removes those that Git does not have.
func fluxReconcile(e *Env, manifest Git) {
	e.T.Helper()
	const flux = "kustomize-controller"
	list := &v1alpha1.UnitedDeploymentList{}
	e.Expect(e.List(e.Ctx, list, client.InNamespace(e.Namespace))).To(Succeed())
	if len(list.Items) == 1 && list.Items[0].Annotations["kustomize.toolkit.fluxcd.io/ssa"] != "Merge" {
		ownAllOfKubectl(e, &list.Items[0], flux)
	}
	e.Apply(manifest, "--server-side", "--force-conflicts", "--field-manager="+flux)
}

// ownAllOfKubectl merges what kubectl owns into what a field manager has applied.
func ownAllOfKubectl(e *Env, live client.Object, flux string) {
	e.T.Helper()
	owned, entries, kubectl := fieldpath.NewSet(), []metav1.ManagedFieldsEntry{}, false
	var own metav1.ManagedFieldsEntry
	for _, entry := range live.GetManagedFields() {
		mine, theirs := entry.Manager == flux, strings.HasPrefix(entry.Manager, "kubectl") && entry.Subresource == ""
		if !mine && !theirs {
			entries = append(entries, entry)
			continue
		}
		fields := fieldpath.NewSet()
		e.Expect(fields.FromJSON(bytes.NewReader(entry.FieldsV1.GetRawBytes()))).To(Succeed())
		owned = owned.Union(fields)
		kubectl = kubectl || theirs
		if mine {
			own = entry
		}
	}
	if !kubectl {
		return
	}
	raw, err := owned.ToJSON()
	e.Expect(err).NotTo(HaveOccurred())
	own.FieldsV1 = metav1.NewFieldsV1(string(raw))
	patch, err := json.Marshal([]map[string]any{{"op": "replace", "path": "/metadata/managedFields", "value": append(entries, own)}})
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(e.Client.Patch(e.Ctx, live, client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
}

// keeping returns the manifest with the live values of the fields that JSON pointers name, as Argo CD applies it with
// RespectIgnoreDifferences=true.
func keeping(m Git, live *unstructured.Unstructured, pointers ...string) Git {
	kept := (&unstructured.Unstructured{Object: m}).DeepCopy().Object
	for _, pointer := range pointers {
		path := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
		for i := range path {
			path[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(path[i])
		}
		if value, found, _ := unstructured.NestedFieldCopy(live.Object, path...); found {
			_ = unstructured.SetNestedField(kept, value, path...)
		} else {
			unstructured.RemoveNestedField(kept, path...)
		}
	}
	return kept
}

const restartedAt = "kubectl.kubernetes.io/restartedAt"

// byHand is what people and autoscalers change in the cluster.
func byHand(w *Workload, args ...string) {
	w.T.Helper()
	manager := append([]string{"patch", "united", "web", "--type=merge"}, args...)
	w.Kubectl(append(manager, "-p", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":0}}},
		"template":{"statefulSetTemplate":{"spec":{"template":{"metadata":{"annotations":{"`+restartedAt+`":"by-hand"}}}}}}}}`)...)
	w.Kubectl(append([]string{"annotate", "--overwrite", "united", "web", v1alpha1.AnnotationApproved + "=by-hand"}, args...)...)
	w.Kubectl("scale", "united", "web", "--replicas=4")
}

// partitionsNow returns what the cluster has.
func partitionsNow(w *Workload) map[string]string {
	w.T.Helper()
	now := map[string]string{}
	if manual := w.Parent().Spec.UpdateStrategy.ManualUpdate; manual != nil {
		for name, value := range manual.Partitions {
			now[name] = value.String()
		}
	}
	return now
}

// annotated reports whether the annotations of byHand are there: all of them, or none.
func annotated(w *Workload) bool {
	w.T.Helper()
	template, _, err := unstructured.NestedString(w.Object().Object, "spec", "template", "statefulSetTemplate", "spec", "template", "metadata", "annotations", restartedAt)
	w.Expect(err).NotTo(HaveOccurred())
	approved := w.Parent().Annotations[v1alpha1.AnnotationApproved]
	w.Expect(template).To(Equal(approved), "the annotation of the pod template, and that of the object")
	return approved == "by-hand"
}

// TestGitOpsOwners checks which changes in the cluster survive the next sync of Argo CD and of Flux, as
// docs/gitops.md says.
func TestGitOpsOwners(t *testing.T) {
	t.Parallel()
	released := map[string]string{"zone-a": "0"}
	for name, c := range map[string]struct {
		sync  func(*Env, Git)
		git   []string
		args  []string
		after map[string]string
		noted bool
		keeps []string
	}{
		"Argo CD: what Git does not have stays":                    {sync: argoSync, after: released, noted: true},
		"Argo CD server-side: what Git does not have stays":        {sync: argoServerSide, after: released, noted: true},
		"Argo CD: what Git has is reset":                           {sync: argoSync, git: heldInGit(), after: map[string]string{"zone-a": "100%"}, noted: true},
		"Argo CD server-side: what Git has is reset":               {sync: argoServerSide, git: heldInGit(), after: map[string]string{"zone-a": "100%"}, noted: true},
		"Argo CD with RespectIgnoreDifferences":                    {sync: argoServerSide, git: heldInGit(), after: released, noted: true, keeps: []string{"/spec/updateStrategy/manualUpdate/partitions"}},
		"Flux: what kubectl changed is undone":                     {sync: fluxReconcile, after: map[string]string{}},
		"Flux: what kubectl changed under another name stays":      {sync: fluxReconcile, args: []string{"--field-manager=flux-client-side-apply"}, after: released, noted: true},
		"Flux with the policy Merge: what Git does not have stays": {sync: fluxReconcile, git: []string{"about: git", "kustomize.toolkit.fluxcd.io/ssa: Merge"}, after: released, noted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			c.sync(e, gitOf(e, c.git...))
			w := e.Workload("web")
			w.Scale(2)
			w.Settle()
			byHand(w, c.args...)
			w.Settle()
			e.Expect(partitionsNow(w)).To(HaveKeyWithValue("zone-a", "0"))
			e.Expect(annotated(w)).To(BeTrue())

			next := gitOf(e, append([]string{"web:v1", "web:v2"}, c.git...)...)
			c.sync(e, keeping(next, w.Object(), c.keeps...))
			w.Settle()
			e.Expect(partitionsNow(w)).To(Equal(c.after))
			e.Expect(annotated(w)).To(Equal(c.noted), "the annotations")
			e.Expect(*w.Parent().Spec.Replicas).To(BeEquivalentTo(4), "the scale subresource belongs to nobody else")
			want := Images{"zone-a": "v1 v1", "zone-b": "v1 v1"}
			if c.after["zone-a"] == "0" {
				want["zone-a"] = "v2 v2"
			}
			e.Expect(w.Images()).To(Equal(want))
		})
	}
}

// heldInGit are the edits of a manifest that has partitions.
func heldInGit() []string {
	return []string{"manualUpdate: {}", `manualUpdate: {partitions: {zone-a: "100%"}}`}
}
