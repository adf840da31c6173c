// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
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

// git is a manifest that tools apply.
type git map[string]any

func (e *env) gitOf(edits ...string) git {
	e.t.Helper()
	manifest := git{}
	text := inGit
	for i := 0; i < len(edits); i += 2 {
		e.Expect(text).To(ContainSubstring(edits[i]))
		text = strings.ReplaceAll(text, edits[i], edits[i+1])
	}
	e.Expect(yaml.Unmarshal([]byte(text), &manifest)).To(Succeed())
	return manifest
}

// apply runs kubectl apply with a manifest.
func (e *env) apply(manifest git, args ...string) {
	e.t.Helper()
	raw, err := json.Marshal(manifest)
	e.Expect(err).NotTo(HaveOccurred())
	file := filepath.Join(e.t.TempDir(), "manifest.json")
	e.Expect(os.WriteFile(file, raw, 0o600)).To(Succeed())
	e.Kubectl(append([]string{"apply", "-f", file}, args...)...)
}

// argoSync applies as Argo CD does, by default with a three-way merge on the client.
func argoSync(e *env, manifest git) { e.apply(manifest, "--field-manager=argocd-controller") }

// argoServerSide applies as Argo CD does with ServerSideApply=true.
func argoServerSide(e *env, manifest git) {
	e.apply(manifest, "--server-side", "--force-conflicts", "--field-manager=argocd-controller")
}

// fluxReconcile applies as the kustomize-controller of Flux does: it first makes itself the owner of
// all fields that kubectl owns, so that its server-side apply removes those that Git does not have.
func fluxReconcile(e *env, manifest git) {
	e.t.Helper()
	const flux = "kustomize-controller"
	list := &v1alpha1.UnitedDeploymentList{}
	e.Expect(e.List(e.ctx, list, client.InNamespace(e.Namespace))).To(Succeed())
	if len(list.Items) == 1 && list.Items[0].Annotations["kustomize.toolkit.fluxcd.io/ssa"] != "Merge" {
		e.ownAllOfKubectl(&list.Items[0], flux)
	}
	e.apply(manifest, "--server-side", "--force-conflicts", "--field-manager="+flux)
}

// ownAllOfKubectl merges what kubectl owns into what a field manager has applied.
func (e *env) ownAllOfKubectl(live client.Object, flux string) {
	e.t.Helper()
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
	e.Expect(e.Client.Patch(e.ctx, live, client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
}

// keeping returns the manifest with the live values of the fields that JSON pointers name, as Argo CD applies it with
// RespectIgnoreDifferences=true.
func (m git) keeping(live *unstructured.Unstructured, pointers ...string) git {
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
func (w *Workload) byHand(args ...string) {
	w.t.Helper()
	manager := append([]string{"patch", "united", "web", "--type=merge"}, args...)
	w.Kubectl(append(manager, "-p", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":0}}},
		"template":{"statefulSetTemplate":{"spec":{"template":{"metadata":{"annotations":{"`+restartedAt+`":"by-hand"}}}}}}}}`)...)
	w.Kubectl(append([]string{"annotate", "--overwrite", "united", "web", v1alpha1.AnnotationApproved + "=by-hand"}, args...)...)
	w.Kubectl("scale", "united", "web", "--replicas=4")
}

// partitionsNow returns what the cluster has.
func (w *Workload) partitionsNow() map[string]string {
	w.t.Helper()
	now := map[string]string{}
	if manual := w.Parent().Spec.UpdateStrategy.ManualUpdate; manual != nil {
		for name, value := range manual.Partitions {
			now[name] = value.String()
		}
	}
	return now
}

// annotated reports whether the annotations of byHand are there: all of them, or none.
func (w *Workload) annotated() bool {
	w.t.Helper()
	template, _, err := unstructured.NestedString(w.object().Object, "spec", "template", "statefulSetTemplate", "spec", "template", "metadata", "annotations", restartedAt)
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
		sync  func(*env, git)
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
			e := newEnv(t)
			c.sync(e, e.gitOf(c.git...))
			w := e.Workload("web")
			w.Scale(2)
			w.Settle()
			w.byHand(c.args...)
			w.Settle()
			e.Expect(w.partitionsNow()).To(HaveKeyWithValue("zone-a", "0"))
			e.Expect(w.annotated()).To(BeTrue())

			next := e.gitOf(append([]string{"web:v1", "web:v2"}, c.git...)...)
			c.sync(e, next.keeping(w.object(), c.keeps...))
			w.Settle()
			e.Expect(w.partitionsNow()).To(Equal(c.after))
			e.Expect(w.annotated()).To(Equal(c.noted), "the annotations")
			e.Expect(*w.Parent().Spec.Replicas).To(BeEquivalentTo(4), "the scale subresource belongs to nobody else")
			want := images{"zone-a": "v1 v1", "zone-b": "v1 v1"}
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
