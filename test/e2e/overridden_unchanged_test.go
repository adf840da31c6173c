// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
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
			e := newEnv(t)
			w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", ""), hold()))
			w.Settle()
			w.SetImage("v2")
			w.Settle()
			still := e.History.Forbid(protect("zone-a", 2, "v1"), protect("zone-b", 2, "v1"))
			lift := e.Override(children, "", tc.patches, w.childComesOut(func(child *appsv1.StatefulSet) bool {
				return *child.Spec.Replicas == 2 || child.Annotations[v1alpha1.AnnotationRevision] == "web-forged"
			}))
			mark := e.AuditMark()
			w.SetPartitions(parts{"zone-a": 4})
			e.Eventually(func() string { return w.Status("zone-a").Message }).Should(ContainSubstring(tc.says))
			w.IsNotReady(v1alpha1.ReasonOverridden)
			lift()
			w.Disturbed()
			w.Settle()
			e.Expect(*w.Child("zone-a").Spec.Replicas).To(BeEquivalentTo(3))
			e.Expect(w.Child("zone-a").Annotations[v1alpha1.AnnotationRevision]).To(Equal(w.Parent().Status.UpdateRevision))
			e.Expect(len(e.Writes(mark, children))).To(BeNumerically("<=", spaced))
			still.Holds()
		})
	}
}

// TestOverriddenPartitionOnRecord checks a policy that overrides the partition in the record, and
// counts. Before, United wrote it 40 times a second.
func TestOverriddenPartitionOnRecord(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", ""), hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	mark := e.AuditMark()
	lift := e.Override(children, "", `[
		JSONPatch{op: "add", path: "/metadata/annotations/united.dev~1partition", value: "0"},
		JSONPatch{op: "add", path: "/metadata/labels/example.com~1written", value: oldObject.metadata.resourceVersion}]`, w.childComesOut(func(child *appsv1.StatefulSet) bool { return child.Annotations[v1alpha1.AnnotationPartition] == "0" }))
	w.SetPartitions(parts{"zone-a": 4})
	w.Stalls("zone-a", v1alpha1.ReasonOverridden, `metadata.annotations["united.dev/partition"] was changed by admission`)
	e.Expect(len(e.Writes(mark, children))).To(And(BeNumerically(">", 5), BeNumerically("<=", spaced)))
	lift()
	w.SetPartitions(parts{"zone-a": 3})
	w.Disturbed()
	w.Settle()
}

// TestOverriddenStatusToWhatItWas checks the same for the status.
func TestOverriddenStatusToWhatItWas(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.Create(draft("web", replicas(4), policy(appsv1.ParallelPodManagement), zones("", ""), hold()))
	w.Settle()
	lift := e.Override("uniteddeployments", "status", `[JSONPatch{op: "replace", path: "/status/selector", value: "app=x"}]`, w.selectorComesOut("app=x"))
	mark := e.AuditMark()
	w.SetImage("v2")
	w.IsNotReady(v1alpha1.ReasonOverridden)
	e.Expect(len(e.Writes(mark, statuses))).To(BeNumerically("<=", spaced))
	lift()
	w.Disturbed()
	w.Settle()
	e.Eventually(func() string { return w.Parent().Status.Selector }).ShouldNot(Equal("app=x"))
}
