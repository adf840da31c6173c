// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestOverriddenToWhatItWas checks a policy that turns each write into the state that the child already
// has. So nothing changes, and no watch reports the write, but United still has to repeat it. United
// reports that, and repairs the child when the policy is gone.
func TestOverriddenToWhatItWas(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ patches, says string }{
		"replicas": {`[JSONPatch{op: "replace", path: "/spec/replicas", value: 2}]`, "spec.replicas was changed by admission"},
		"revision": {
			`[JSONPatch{op: "add", path: "/metadata/annotations/united.dev~1revision", value: "web-forged"}]`,
			`metadata.annotations["united.dev/revision"] was changed by admission`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
			w.Settle()
			w.SetImage("v2")
			w.Settle()
			still := e.History.Forbid(Protect("zone-a", 2, "v1"), Protect("zone-b", 2, "v1"))
			lift := e.Override(Children, "", tc.patches, w.ChildComesOut(func(child *appsv1.StatefulSet) bool {
				return *child.Spec.Replicas == 2 || child.Annotations[v1alpha1.AnnotationRevision] == "web-forged"
			}))
			mark := e.AuditMark()
			w.SetPartitions(Parts{"zone-a": 4})
			e.Eventually(func() string { return w.Status("zone-a").Message }).Should(ContainSubstring(tc.says))
			w.IsNotReady(v1alpha1.ReasonOverridden)
			lift()
			w.Disturbed()
			w.Settle()
			e.Expect(*w.Child("zone-a").Spec.Replicas).To(BeEquivalentTo(3))
			e.Expect(w.Child("zone-a").Annotations[v1alpha1.AnnotationRevision]).To(Equal(w.Parent().Status.UpdateRevision))
			e.Expect(len(e.WithoutConflicts(mark, Children))).To(BeNumerically("<=", Spaced))
			still.Holds()
		})
	}
}

// TestOverriddenPartitionOnRecord checks a policy that overrides the partition in the record, and
// counts. Before, United wrote it 40 times a second.
func TestOverriddenPartitionOnRecord(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	mark := e.AuditMark()
	lift := e.Override(Children, "", `[
		JSONPatch{op: "add", path: "/metadata/annotations/united.dev~1partition", value: "0"},
		JSONPatch{op: "add", path: "/metadata/labels/example.com~1written", value: oldObject.metadata.resourceVersion}]`, w.ChildComesOut(func(child *appsv1.StatefulSet) bool { return child.Annotations[v1alpha1.AnnotationPartition] == "0" }))
	w.SetPartitions(Parts{"zone-a": 4})
	w.Stalls("zone-a", v1alpha1.ReasonOverridden, `metadata.annotations["united.dev/partition"] was changed by admission`)
	e.Expect(len(e.WithoutConflicts(mark, Children))).To(And(BeNumerically(">", 5), BeNumerically("<=", Spaced)))
	lift()
	w.SetPartitions(Parts{"zone-a": 3})
	w.Disturbed()
	w.Settle()
}

// TestOverriddenStatusToWhatItWas checks the same for the status.
func TestOverriddenStatusToWhatItWas(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	w.Settle()
	lift := e.Override("uniteddeployments", "status", `[JSONPatch{op: "replace", path: "/status/selector", value: "app=x"}]`, selectorComesOut(w, "app=x"))
	mark := e.AuditMark()
	w.SetImage("v2")
	w.IsNotReady(v1alpha1.ReasonOverridden)
	e.Expect(len(e.Writes(mark, Statuses))).To(BeNumerically("<=", Spaced))
	lift()
	w.Disturbed()
	w.Settle()
	e.Eventually(func() string { return w.Parent().Status.Selector }).ShouldNot(Equal("app=x"))
}
