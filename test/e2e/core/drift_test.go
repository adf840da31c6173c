// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestDrift checks that United restores its own fields, and leaves other fields alone.
func TestDrift(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("", "", ""), Partitions(Parts{"zone-b": 1})))
		w.Settle()
		w.SetImage("v2")
		w.Settle()
		canary := Images{"zone-a": "v1 v1 v1", "zone-b": "v1 v2 v2", "zone-c": "v1 v1 v1"}
		e.Expect(w.Images()).To(Equal(canary))
		rightAgain := func(subset string, drifted func(*appsv1.StatefulSet) bool) {
			e.T.Helper()
			e.Eventually(func() bool { return drifted(w.Child(subset)) }).Should(BeFalse())
			w.Disturbed()
			w.Settle()
			e.Expect(w.Images()).To(Equal(canary))
		}
		held := e.History.Forbid(Protect("zone-a", 3, "v1"), Protect("zone-b", 1, "v1"))

		e.Step("replicas", func() {
			w.PatchChild("zone-b", `{"spec":{"replicas":5}}`)
			rightAgain("zone-b", func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas != 3 })
			w.PatchChild("zone-b", `{"spec":{"replicas":2}}`)
			rightAgain("zone-b", func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas != 3 })
		})
		e.Step("a raised partition", func() {
			w.PatchChild("zone-b", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":3}}}}`)
			rightAgain("zone-b", func(s *appsv1.StatefulSet) bool { return *s.Spec.UpdateStrategy.RollingUpdate.Partition != 1 })
		})
		e.Step("the strategy, removed", func() {
			w.PatchChild("zone-c", `{"spec":{"updateStrategy":{"type":"OnDelete","rollingUpdate":null}}}`)
			rightAgain("zone-c", func(s *appsv1.StatefulSet) bool {
				return s.Spec.UpdateStrategy.RollingUpdate == nil || *s.Spec.UpdateStrategy.RollingUpdate.Partition != 3
			})
		})
		e.Step("the template of a held child", func() {
			w.PatchChild("zone-a", `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"registry.example/web:hacked"}]}}}}`)
			rightAgain("zone-a", func(s *appsv1.StatefulSet) bool { return s.Spec.Template.Spec.Containers[0].Image != Image("v2") })
		})
		e.Step("our annotations", func() {
			w.PatchChild("zone-a", `{"metadata":{"annotations":{"united.dev/revision":"x","united.dev/fingerprint":null}}}`)
			rightAgain("zone-a", func(s *appsv1.StatefulSet) bool {
				return s.Annotations[v1alpha1.AnnotationRevision] != w.Parent().Status.UpdateRevision || s.Annotations[v1alpha1.AnnotationFingerprint] == ""
			})
		})
		for _, label := range []string{`"united.dev/name":null`, `"united.dev/subset":null`, `"united.dev/subset":"zone-c"`, `"united.dev/name":"other"`} {
			e.Step("label "+label, func() {
				none := e.History.Forbid(AnyNewPod)
				w.PatchChild("zone-b", `{"metadata":{"labels":{%s}}}`, label)
				rightAgain("zone-b", func(s *appsv1.StatefulSet) bool {
					return s.Labels[v1alpha1.LabelName] != "web" || s.Labels[v1alpha1.LabelSubset] != "zone-b"
				})
				none.Holds()
			})
		}
		held.Holds()

		e.Step("what others add stays", func() {
			none := e.History.Forbid(AnyNewPod)
			e.Kubectl("rollout", "restart", "statefulset/web-zone-a")
			e.Kubectl("annotate", "statefulset/web-zone-a", "example.com/mine=x")
			e.Kubectl("label", "statefulset/web-zone-a", "mine=x")
			w.Disturbed()
			w.Settle()
			w.Scale(10)
			w.Settle()
			w.Scale(9)
			w.SetImage("v3")
			w.Settle()
			child := w.Child("zone-a")
			e.Expect(child.Spec.Template.Annotations).To(HaveKey("kubectl.kubernetes.io/restartedAt"))
			e.Expect(child.Annotations).To(HaveKeyWithValue("example.com/mine", "x"))
			e.Expect(child.Labels).To(HaveKeyWithValue("mine", "x"))
			held.Holds()
			w.SetPartitions(Parts{"zone-a": 0})
			w.Settle()
			none.Fires()
			held.Fires()
			for _, p := range w.PodsOf("zone-a") {
				e.Expect(p.Annotations).To(HaveKey("kubectl.kubernetes.io/restartedAt"))
			}
			again := e.History.Forbid(AnyNewPod)
			e.Kubectl("rollout", "restart", "statefulset/web-zone-a")
			e.Eventually(func() bool { return len(again.Broken()) >= 3 }).Should(BeTrue(), "a released child restarts as its owner asks")
			w.Disturbed()
			w.Settle()
			e.Expect(again.Broken()).To(HaveLen(3))
		})
	})
}
