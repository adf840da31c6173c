// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// sets returns an expression of a policy that sets an annotation of a child to the result of another
// expression.
func sets(annotation, value string) string {
	return fmt.Sprintf(`JSONPatch{op: "add", path: "/metadata/annotations/%s", value: %s}`, strings.ReplaceAll(annotation, "/", "~1"), value)
}

// TestForgedRecord checks a policy that forges the record on each child whenever the child is written.
// Protected replicas do not move, United still does what the spec asks for, and reports the forgery.
func TestForgedRecord(t *testing.T) {
	t.Parallel()
	updates := fmt.Sprintf("object.metadata.annotations[%q]", v1alpha1.AnnotationRevision)
	forgeries := map[string]struct{ annotation, patches string }{
		"protected-revision is the update revision": {v1alpha1.AnnotationProtectedRevision, sets(v1alpha1.AnnotationProtectedRevision, updates)},
		"protected-revision is removed": {
			v1alpha1.AnnotationProtectedRevision,
			sets(v1alpha1.AnnotationProtectedRevision, `""`) + `, JSONPatch{op: "remove", path: "/metadata/annotations/united.dev~1protected-revision"}`,
		},
		"parent-generation":               {v1alpha1.AnnotationParentGeneration, sets(v1alpha1.AnnotationParentGeneration, `"99999"`)},
		"protected-hash is the update's":  {v1alpha1.AnnotationProtectedHash, sets(v1alpha1.AnnotationProtectedHash, `"web-zone-a-0"`)},
		"released-from says all is":       {v1alpha1.AnnotationReleasedFrom, sets(v1alpha1.AnnotationReleasedFrom, `"0"`)},
		"all that makes it look finished": {v1alpha1.AnnotationPartition, sets(v1alpha1.AnnotationProtectedRevision, updates) + ", " + sets(v1alpha1.AnnotationReleasedFrom, `"0"`) + ", " + sets(v1alpha1.AnnotationPartition, `"0"`) + ", " + sets(v1alpha1.AnnotationProtectedHash, `""`)},
	}
	for name, tc := range forgeries {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", ""), Partitions(Parts{"zone-a": 2})))
			w.Settle()
			w.SetImage("v2")
			w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"})
			w.Disturbed()
			w.Settle()
			protected := w.Child("zone-a").Annotations[v1alpha1.AnnotationProtectedRevision]
			still := e.History.Forbid(Protect("zone-a", 2, "v1"), Protect("zone-b", 4, "v1"))
			before := w.Child("zone-a").Annotations[tc.annotation]
			mark, count := e.AuditMark(), e.History.Mark()
			lift := e.Override(Children, "", "["+tc.patches+"]", w.ChildComesOut(func(child *appsv1.StatefulSet) bool {
				return child.Annotations[tc.annotation] != before || child.Annotations[v1alpha1.AnnotationReleasedFrom] == "0"
			}))
			w.Scale(8)
			w.Runs(Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v1 v1"})
			w.StallsWhole(v1alpha1.ReasonOverridden, fmt.Sprintf("All subsets: StatefulSet web-*: metadata.annotations[%q]", tc.annotation))
			e.Expect(len(e.WithoutConflicts(mark, Children))).To(BeNumerically("<=", 2*Spaced))
			e.Expect(len(e.Writes(mark, Statuses))).To(BeNumerically("<=", 2*Spaced))
			e.Expect(e.History.Since(count)).To(HaveLen(2), "one new pod a subset")
			status := w.Status("zone-a")
			e.Expect(status.CurrentRevision).To(Equal(protected))
			e.Expect(status.ChildRecord.Annotations).To(HaveKeyWithValue(v1alpha1.AnnotationProtectedRevision, protected))

			e.Step("what is deleted comes back as it was", func() {
				w.DeletePod("zone-a", 0)
				w.Runs(Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v1 v1"})
				w.DeleteChild("zone-a", metav1.DeletePropagationForeground)
				w.Runs(Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v1 v1"})
			})
			e.Step("partitions work", func() {
				w.SetPartitions(Parts{"zone-a": 3})
				e.Eventually(func() int32 { return w.Partition("zone-a") }).Should(BeEquivalentTo(3))
				still.Holds()
			})
			lift()
			w.SetPartitions(Parts{"zone-a": 1})
			w.Scale(9) // otherwise it takes up to five minutes
			w.Runs(Images{"zone-a": "v1 v2 v2 v2 v2", "zone-b": "v1 v1 v1 v1"})
			w.Disturbed()
			w.Settle()
			e.Expect(w.Child("zone-a").Annotations[v1alpha1.AnnotationProtectedRevision]).To(Equal(protected))
		})
	}
}

// TestForgedCurrent checks a status, forged by somebody or by a policy, in which the update revision is
// the one that all replicas ran last, while a step waits for approval. That would be a rollback, which
// skips steps.
func TestForgedCurrent(t *testing.T) {
	t.Parallel()
	for name, forge := range map[string]func(e *Env, w *Workload) (lift func()){
		"once": func(e *Env, w *Workload) func() {
			patchStatus(e.Ctx, w, "somebody", fmt.Sprintf(`{"status":{"currentRevision":%q}}`, w.Parent().Status.UpdateRevision))
			return func() {}
		},
		"by a policy": func(e *Env, w *Workload) func() {
			return e.Override("uniteddeployments", "status",
				`[JSONPatch{op: "add", path: "/status/currentRevision", value: object.status.updateRevision}]`, func() bool {
					status := statusAsWritten(w)
					return status.CurrentRevision == status.UpdateRevision
				})
		},
	} {
		t.Run(name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("", ""), Rolling(`{maxUnavailable: 1, steps: [{subsets: [zone-a], partition: 2, pause: {}}]}`)))
				w.Settle()
				w.SetImage("v2")
				key := w.AwaitApproval(0)
				w.Settle()
				current := w.Parent().Status.CurrentRevision
				still := e.History.Forbid(Protect("zone-a", 2, "v1"), Protect("zone-b", 9, "v1"))
				lift := forge(e, w)
				w.Patch(`{"spec":{"revisionHistoryLimit":11}}`)
				w.Disturbed()
				w.DeletePod("zone-b", 0) // when the pod is back, the controller has seen the whole change
				w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"})
				w.AwaitApproval(0)
				still.Holds()
				lift()
				w.Patch(`{"spec":{"revisionHistoryLimit":12}}`)
				e.Eventually(func() string { return w.Parent().Status.CurrentRevision }).Should(Equal(current))
				w.Approve(key)
				w.Runs(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2"})
				e.Expect(still.Broken()).NotTo(BeEmpty(), "the control: it sees what moves")
			})
		})
	}
}

// TestStatusLoop checks that United reports which field of the status somebody changes again each time,
// and who does it.
func TestStatusLoop(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	ctx, cancel := context.WithCancel(e.Ctx)
	var fighter sync.WaitGroup
	fighter.Go(func() {
		for every := time.NewTicker(100 * time.Millisecond); ctx.Err() == nil; <-every.C {
			parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
			_ = e.Client.Status().Patch(ctx, parent, client.RawPatch(types.MergePatchType, []byte(`{"status":{"selector":"app=other"}}`)), client.FieldOwner("status-fighter"))
		}
	})
	w.StallsWhole(v1alpha1.ReasonOverridden, `status: status.selector was changed by "status-fighter" right after it was written`)
	cancel()
	fighter.Wait()
	w.Scale(4) // otherwise it takes up to five minutes
	w.IsReady(v1alpha1.ReasonRolloutComplete)
}

// TestForgedStatus checks a policy that forges the revisions which the status reports as protected by a
// subset. The child's own record counts, and after the child is gone its copy.
func TestForgedStatus(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", ""), Partitions(Parts{"zone-a": 2})))
	w.Settle()
	w.SetImage("v2")
	w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"})
	w.Disturbed()
	w.Settle()
	protected := w.Child("zone-a").Annotations[v1alpha1.AnnotationProtectedRevision]
	still := e.History.Forbid(Protect("zone-a", 2, "v1"), Protect("zone-b", 4, "v1"))
	count := e.History.Mark()
	lift := e.Override("uniteddeployments", "status", `[
		JSONPatch{op: "replace", path: "/status/subsets/0/currentRevision", value: object.status.updateRevision},
		JSONPatch{op: "replace", path: "/status/subsets/1/currentRevision", value: object.status.updateRevision}]`, func() bool {
		status := statusAsWritten(w)
		return status.Subsets[0].CurrentRevision == status.UpdateRevision
	})
	w.Scale(8)
	w.Runs(Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v1 v1"})
	w.StallsWhole(v1alpha1.ReasonOverridden, `status: status.subsets[name="zone-a"].currentRevision was changed by admission`)
	e.Expect(e.History.Since(count)).To(HaveLen(2), "one new pod a subset")
	for _, subset := range []string{"zone-a", "zone-b"} {
		e.Expect(w.Child(subset).Annotations[v1alpha1.AnnotationProtectedRevision]).To(Equal(protected))
		w.DeleteChild(subset, metav1.DeletePropagationForeground)
		w.Runs(Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v1 v1"})
	}
	still.Holds()
	lift()
	w.SetPartitions(Parts{"zone-a": 0})
	w.Disturbed()
	w.Settle()
	still.Fires()
}

// TestOverriddenStrategy checks a policy that changes the update strategy to one without a partition.
func TestOverriddenStrategy(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Zones("", ""), Partitions(Parts{"zone-a": 0})))
	w.Settle()
	mark := e.AuditMark()
	isForged := func(child *appsv1.StatefulSet) bool {
		return child.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
	}
	lift := e.Override(Children, "", `[JSONPatch{op: "replace", path: "/spec/updateStrategy", value: Object.spec.updateStrategy{type: "OnDelete"}}]`, w.ChildComesOut(isForged))
	w.SetImage("v2")
	w.StallsWhole(v1alpha1.ReasonOverridden, "spec.updateStrategy.type was changed by admission")
	e.Expect(len(e.WithoutConflicts(mark, Children))).To(BeNumerically("<=", 2*Spaced))
	lift()
	e.Eventually(w.ChildComesOut(isForged)).Should(BeFalse())
	w.Scale(6)
	w.Runs(Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v1"})
	w.Disturbed()
	w.Settle()
}

// TestOverriddenTemplate checks a policy that changes the pod template on each write. United reports
// that, and does not write again by itself, because another result may restart pods. It is no failure,
// because a policy that redirects images to a mirror does it deliberately. Fields that a policy adds
// are left to the cluster.
func TestOverriddenTemplate(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Zones("", ""), Partitions(Parts{"zone-a": 0})))
	w.Settle()
	lift := e.Override(Children, "", `[
		JSONPatch{op: "add", path: "/spec/template/metadata/annotations", value: {"example.com/injected": "x"}},
		JSONPatch{op: "add", path: "/spec/template/spec/priorityClassName", value: "system-node-critical"}]`,
		w.ChildComesOut(func(child *appsv1.StatefulSet) bool { return len(child.Spec.Template.Annotations) > 0 }))
	w.SetImage("v2")
	w.Runs(Images{"zone-a": "v2 v2", "zone-b": "v1 v1"})
	w.Disturbed()
	w.Settle()
	e.Expect(w.Child("zone-a").Spec.Template.Annotations).To(HaveKey("example.com/injected"))
	lift()

	isForged := func(child *appsv1.StatefulSet) bool {
		return child.Spec.Template.Spec.Containers[0].Image == Image("v9")
	}
	lift = e.Override(Children, "", `[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "registry.example/web:v9"}]`, w.ChildComesOut(isForged))
	w.SetImage("v3")
	w.Runs(Images{"zone-a": "v9 v9", "zone-b": "v1 v1"})
	isSaid := func() {
		w.Settle()
		for _, subset := range []string{"zone-a", "zone-b"} {
			e.Expect(w.Status(subset).Message).To(ContainSubstring("StatefulSet web-%s: spec.template.spec.containers[0].image was changed by admission", subset))
		}
	}
	isSaid()
	mark := e.AuditMark()
	w.PatchChild("zone-a", `{"metadata":{"labels":{"example.com/touched":"x"}}}`)
	w.AwaitObserved()
	isSaid()
	e.Expect(e.Writes(mark, Children)).To(BeEmpty())
	lift()
	e.Eventually(func() string {
		child := w.Child("zone-a")
		patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"x"}]`))
		e.Expect(e.Client.Patch(e.Ctx, child, patch, client.DryRunAll)).To(Succeed())
		return child.Spec.Template.Spec.Containers[0].Image
	}).Should(Equal("x"))
	w.PatchChild("zone-a", `{"metadata":{%s}}`, removes(v1alpha1.AnnotationFingerprint))
	w.PatchChild("zone-b", `{"metadata":{%s}}`, removes(v1alpha1.AnnotationFingerprint))
	w.Runs(Images{"zone-a": "v3 v3", "zone-b": "v1 v1"})
	w.Disturbed()
	w.Settle()
}

// TestOverriddenLabels checks a policy that overrides the labels that identify a child. Before, United
// relabelled the child 35 times a second.
func TestOverriddenLabels(t *testing.T) {
	t.Parallel()
	for name, label := range map[string]string{"subset": v1alpha1.LabelSubset, "name": v1alpha1.LabelName} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			control := NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
			control.Settle()
			e := NewEnv(t)
			w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
			w.Settle()
			w.SetImage("v2")
			w.Settle()
			still := e.History.Forbid(AnyNewPod)
			mark := e.AuditMark()
			lift := e.Override(Children, "", fmt.Sprintf(`[
				JSONPatch{op: "add", path: "/metadata/labels/%s", value: "x" + oldObject.metadata.resourceVersion}]`, strings.ReplaceAll(label, "/", "~1")),
				w.ChildComesOut(func(child *appsv1.StatefulSet) bool { return strings.HasPrefix(child.Labels[label], "x") }))
			w.PatchChild("zone-a", `{"metadata":{"annotations":{"example.com/touched":"x"}}}`)
			w.Stalls("zone-a", v1alpha1.ReasonOverridden, fmt.Sprintf("StatefulSet web-zone-a: metadata.labels[%q] was changed by admission", label))
			e.Expect(len(e.WithoutConflicts(mark, Children))).To(And(BeNumerically(">", 5), BeNumerically("<=", Spaced)))
			e.Expect(len(e.Writes(mark, Statuses))).To(BeNumerically("<=", Spaced))
			control.Reacts()
			still.Holds()
			lift()
			w.PatchChild("zone-a", `{"metadata":{"labels":{%q:%q}}}`, label, map[string]string{v1alpha1.LabelSubset: "zone-a", v1alpha1.LabelName: "web"}[label])
			w.Disturbed()
			w.Settle()
			still.Holds()
		})
	}
}

// TestOverriddenRemoved checks a policy that overrides the replicas of the child of a subset that is
// being removed.
func TestOverriddenRemoved(t *testing.T) {
	t.Parallel()
	for name, counter := range map[string]string{
		"and changes nothing": "",
		"and counts":          `, JSONPatch{op: "add", path: "/metadata/labels/example.com~1written", value: oldObject.metadata.resourceVersion}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("2", "2", ""), Rolling(`{}`)))
			w.Settle()
			lift := e.Override(Children, "", `[JSONPatch{op: "replace", path: "/spec/replicas", value: 2}`+counter+`]`,
				func() bool {
					child := w.Child("zone-c")
					patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":1}}`))
					e.Expect(e.Client.Patch(e.Ctx, child, patch, client.DryRunAll)).To(Succeed())
					return *child.Spec.Replicas == 2
				})
			mark := e.AuditMark()
			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/2"},{"op":"replace","path":"/spec/replicas","value":4}]`)
			e.Eventually(func(g Gomega) {
				parent := w.Parent()
				ready := Condition(parent, v1alpha1.ConditionReady)
				g.Expect(ready.Reason).To(Equal(v1alpha1.ReasonOverridden), ready.Message)
				g.Expect(ready.Message).To(ContainSubstring("StatefulSet web-zone-c: spec.replicas was changed by admission"))
			}).Should(Succeed())
			e.Expect(len(e.WithoutConflicts(mark, Children))).To(BeNumerically("<=", Spaced))
			lift()
			w.Disturbed()
			w.JSONPatch(`[{"op":"replace","path":"/spec/replicas","value":5}]`)
			w.Settle()
		})
	}
}

// TestPinnedTemplate checks a policy that keeps the template of each child as it was. All replicas then
// look updated, but none has been released, and protected replicas stay protected when the policy is
// gone.
func TestPinnedTemplate(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]Edit{"Manual": Hold(), "RollingUpdate": Rolling(`{partition: "50%"}`)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.Create(NewDraft("web", Replicas(8), Policy(appsv1.ParallelPodManagement), Zones("", ""), strategy))
			w.Settle()
			current := w.Parent().Status.CurrentRevision
			still := e.History.Forbid(Protect("zone-a", 2, "v1"), Protect("zone-b", 2, "v1"))
			comesOut := func(want string) func() bool {
				return func() bool {
					child := w.Child("zone-a")
					patch := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":"x"}]`))
					e.Expect(e.Client.Patch(e.Ctx, child, patch, client.DryRunAll)).To(Succeed())
					return child.Spec.Template.Spec.Containers[0].Image == want
				}
			}
			lift := e.Override(Children, "", `[JSONPatch{op: "replace", path: "/spec/template/spec/containers/0/image", value: "registry.example/web:v1"}]`, comesOut(Image("v1")))
			w.SetImage("v2")
			w.StallsWhole(v1alpha1.ReasonOverridden, "All subsets: StatefulSet web-*: spec.template.spec.containers[0].image was changed by admission")
			e.Expect(w.Parent().Status.CurrentRevision).To(Equal(current))
			for _, subset := range []string{"zone-a", "zone-b"} {
				e.Expect(w.Status(subset).CurrentRevision).To(Equal(current))
			}
			lift()
			e.Eventually(comesOut("x")).Should(BeTrue())
			w.DeleteChild("zone-a", metav1.DeletePropagationForeground)
			w.PatchChild("zone-b", `{"metadata":{%s}}`, removes(v1alpha1.AnnotationFingerprint))
			if name == "Manual" {
				w.Runs(Images{"zone-a": "v1 v1 v1 v1", "zone-b": "v1 v1 v1 v1"})
			} else {
				w.Runs(Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v2 v2"})
			}
			w.Disturbed()
			w.Settle()
			still.Holds()
		})
	}
}

// patchStatus patches the status once, as a field manager.
func patchStatus(ctx context.Context, w *Workload, manager, patch string) {
	w.T.Helper()
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	w.Expect(w.Client.Status().Patch(ctx, parent, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager))).To(Succeed())
}

// statusAsWritten returns the status as admission changes it on a write.
func statusAsWritten(w *Workload) *v1alpha1.UnitedDeploymentStatus {
	w.T.Helper()
	parent := w.Parent()
	// The API server needs a moment until a new policy knows the CRD, and returns 503 until then.
	w.Eventually(func() error {
		return w.Client.Status().Patch(w.Ctx, parent, client.RawPatch(types.MergePatchType, []byte(`{"status":{"replicas":7}}`)),
			&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{DryRun: []string{metav1.DryRunAll}}})
	}).Should(Succeed())
	return &parent.Status
}
