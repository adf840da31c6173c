// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestPatchesAtOnce: many hands on one object.
func TestPatchesAtOnce(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", "", ""), hold()))
	w.Settle()
	held := e.History.Forbid(outside("zone-b"))
	var hands sync.WaitGroup
	errs := make(chan error, 100)
	for i := range 10 {
		hands.Go(func() {
			errs <- w.TryPatch(types.MergePatchType, fmt.Sprintf(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":%d}}}}}`, i%3))
		})
		hands.Go(func() {
			errs <- w.TryPatch(types.JSONPatchType, fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q}]`, imagePath, image(fmt.Sprintf("v%d", i+2))))
		})
	}
	hands.Wait()
	close(errs)
	for err := range errs {
		e.Expect(err).NotTo(HaveOccurred())
	}
	w.Settle()
	held.Holds()
	w.SetImage("v20")
	w.SetPartitions(parts{"zone-b": 1})
	w.Settle()
	held.Holds()
	e.Expect(w.Images()).To(And(HaveKeyWithValue("zone-a", "v1 v1"), HaveKeyWithValue("zone-b", HaveSuffix(" v20")), HaveKeyWithValue("zone-c", "v1 v1")))
	w.SetPartitions(parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
	w.Settle()
	held.Fires()
	e.Expect(w.Images()).To(Equal(images{"zone-a": "v20 v20", "zone-b": "v20 v20", "zone-c": "v20 v20"}))
}

// TestRecreatedParent deletes a parent and at once creates another of its name.
func TestRecreatedParent(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	v1 := draft("web", replicas(6), zones("", "", ""), hold())
	w := e.Create(v1)
	w.Settle()
	w.SetImage("v2")
	w.SetPartitions(parts{"zone-a": 0})
	w.Settle()

	again := e.History.Forbid(remade(w.Pods()))
	mark := e.AuditMark()
	e.Expect(e.Delete(e.ctx, w.Parent())).To(Succeed())
	w = e.Create(v1)
	w.Disturbed() // the old children go by and by
	w.Settle()
	e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
	e.Expect(again.Broken()).To(HaveLen(6), "nothing of the old one is left, nothing was made twice")
	for _, write := range e.Writes(mark, statuses) {
		e.Expect(string(write.Request)).NotTo(ContainSubstring(`"phase":"Stalled"`), "that the old children are not gone yet is no stall: Helm would give up")
	}
}

// TestOrphans deletes a parent and leaves its children alone, and then another
// does the same to the children.
func TestOrphans(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	w := e.Create(draft("web", replicas(6), zones("", "", ""), hold()))
	w.Settle()
	none := e.History.Forbid(anyNewPod)
	e.Expect(e.Delete(e.ctx, w.Parent(), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
	e.Eventually(func() bool {
		return apierrors.IsNotFound(e.Get(e.ctx, w.key("web"), &v1alpha1.UnitedDeployment{}))
	}).Should(BeTrue(), "the garbage collector lets go of children and revisions")
	e.Expect(w.Child("zone-a").OwnerReferences).To(BeEmpty())
	before := e.Raw(children, "web-zone-a")

	w = e.Create(draft("web", replicas(6), zones("", "", ""), hold()))
	w.StallsWhole(v1alpha1.ReasonNameConflict, "web-zone-a exists", "web-zone-b exists", "web-zone-c exists")
	e.Expect(e.Raw(children, "web-zone-a")).To(Equal(before), "orphans are not adopted by their labels")
	none.Holds()

	e.Kubectl("delete", "statefulsets", "--all", "--cascade=orphan")
	w.Disturbed()
	w.Settle()
	none.Holds()
	e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
	w.SetImage("v2")
	w.Settle()
	none.Holds()
	w.SetPartitions(parts{"zone-c": 1})
	w.Settle()
	none.Fires()
	e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v2"}))
}

// TestDrift: what is ours is put right, what is not stays.
func TestDrift(t *testing.T) {
	eachPolicy(t, func(e *env, p appsv1.PodManagementPolicyType) {
		w := e.Create(draft("web", replicas(9), policy(p), zones("", "", ""), partitions(parts{"zone-b": 1})))
		w.Settle()
		w.SetImage("v2")
		w.Settle()
		canary := images{"zone-a": "v1 v1 v1", "zone-b": "v1 v2 v2", "zone-c": "v1 v1 v1"}
		e.Expect(w.Images()).To(Equal(canary))
		rightAgain := func(subset string, drifted func(*appsv1.StatefulSet) bool) {
			e.t.Helper()
			e.Eventually(func() bool { return drifted(w.Child(subset)) }).Should(BeFalse())
			w.Disturbed()
			w.Settle()
			e.Expect(w.Images()).To(Equal(canary))
		}
		held := e.History.Forbid(protect("zone-a", 3, "v1"), protect("zone-b", 1, "v1"))

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
			rightAgain("zone-a", func(s *appsv1.StatefulSet) bool { return s.Spec.Template.Spec.Containers[0].Image != image("v2") })
		})
		e.Step("our annotations", func() {
			w.PatchChild("zone-a", `{"metadata":{"annotations":{"united.dev/revision":"x","united.dev/fingerprint":null}}}`)
			rightAgain("zone-a", func(s *appsv1.StatefulSet) bool {
				return s.Annotations[v1alpha1.AnnotationRevision] != w.Parent().Status.UpdateRevision || s.Annotations[v1alpha1.AnnotationFingerprint] == ""
			})
		})
		for _, label := range []string{`"united.dev/name":null`, `"united.dev/subset":null`, `"united.dev/subset":"zone-c"`, `"united.dev/name":"other"`} {
			e.Step("label "+label, func() {
				none := e.History.Forbid(anyNewPod)
				w.PatchChild("zone-b", `{"metadata":{"labels":{%s}}}`, label)
				rightAgain("zone-b", func(s *appsv1.StatefulSet) bool {
					return s.Labels[v1alpha1.LabelName] != "web" || s.Labels[v1alpha1.LabelSubset] != "zone-b"
				})
				none.Holds()
			})
		}
		held.Holds()

		e.Step("what others add stays", func() {
			none := e.History.Forbid(anyNewPod)
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
			w.SetPartitions(parts{"zone-a": 0})
			w.Settle()
			none.Fires()
			held.Fires()
			for _, p := range w.podsOf("zone-a") {
				e.Expect(p.Annotations).To(HaveKey("kubectl.kubernetes.io/restartedAt"))
			}
			again := e.History.Forbid(anyNewPod)
			e.Kubectl("rollout", "restart", "statefulset/web-zone-a")
			e.Eventually(func() bool { return len(again.Broken()) >= 3 }).Should(BeTrue(), "a released child restarts as its owner asks")
			w.Disturbed()
			w.Settle()
			e.Expect(again.Broken()).To(HaveLen(3))
		})
	})
}

// TestSubsetReplaced removes a subset and at once adds one of its name, in
// another zone and with another patch.
func TestSubsetReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		partition any
	}{{"released", 0}, {"held", "100%"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", "", ""),
				partitions(parts{"zone-a": c.partition, "zone-b": c.partition, "zone-c": c.partition})))
			w.Settle()
			others := e.History.Forbid(outside("zone-b"))
			const at, line = "/spec/topology/subsets/1", "/spec/updateStrategy/manualUpdate/partitions/zone-b"
			for round, zone := range []string{"zone-c", "zone-a", "zone-b"} {
				tag := fmt.Sprintf("b%d", round)
				before := w.Child("zone-b")
				w.JSONPatch(`[{"op":"remove","path":%q},{"op":"remove","path":%q},{"op":"replace","path":"/spec/replicas","value":4}]`, at, line)
				e.Eventually(func() bool {
					now := &appsv1.StatefulSet{}
					err := e.Get(e.ctx, client.ObjectKeyFromObject(before), now)
					return apierrors.IsNotFound(err) || err == nil && now.UID != before.UID
				}).Should(BeTrue(), "seen by the manager; its pods are still there")
				w.JSONPatch(`[{"op":"add","path":%q,"value":{"name":"zone-b","nodeSelector":%s,
					"patch":{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}}},
					{"op":"add","path":%q,"value":%s},{"op":"replace","path":"/spec/replicas","value":6}]`,
					at, asJSON(inZone(zone)), image(tag), line, asJSON(c.partition))
				w.Settle()
				others.Holds()
				e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": tag + " " + tag, "zone-c": "v1 v1"}))
				for _, p := range w.Pods() {
					if p.Subset == "zone-b" {
						e.Expect(p.Zone).To(Equal(zone), p.Name)
					}
				}
			}
			e.Expect(e.History.Since(0)).To(HaveLen(6+3*2), "each pod was made once: the control of what is counted")
		})
	}
}

// TestSubsetReplacedUnseen: the subset was removed and added again on other nodes
// while no manager looked. A manager that comes back cannot know, and deletes
// nothing on a guess: what is held stays where it is, what is released moves. The
// test does not run beside others: they share the manager.
func TestSubsetReplacedUnseen(t *testing.T) {
	e := newEnv(t)
	w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", "", ""), hold()))
	w.Settle()
	others, none := e.History.Forbid(outside("zone-b")), e.History.Forbid(anyNewPod)
	e.restartManager(func() {
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1"}]`)
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1","value":{"name":"zone-b","nodeSelector":%s}}]`, asJSON(inZone("zone-c")))
	})
	w.Disturbed()
	w.Settle()
	none.Holds()
	w.SetPartitions(parts{"zone-b": 0})
	w.Settle()
	none.Fires()
	others.Holds()
	for _, p := range w.Pods() {
		if p.Subset == "zone-b" {
			e.Expect(p.Zone).To(Equal("zone-c"), p.Name)
		}
	}
}

// TestMinReadySeconds: ready is not available; time alone makes it so, and the
// status comes along.
func TestMinReadySeconds(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	w := e.Create(draft("web", replicas(2), policy(appsv1.ParallelPodManagement), zones("", ""), func(d *Draft) { d.Spec.MinReadySeconds = 5 }))
	seen := false
	e.Eventually(func(g Gomega) {
		parent := w.Parent()
		seen = seen || parent.Status.ReadyReplicas == 2 && parent.Status.AvailableReplicas < 2 &&
			condition(parent, v1alpha1.ConditionReady).Status == metav1.ConditionFalse
		g.Expect(condition(parent, v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionTrue))
	}).Should(Succeed())
	e.Expect(seen).To(BeTrue(), "ready replicas that are not available yet were told of, and Ready was False")
	parent := w.Parent()
	e.Expect(parent.Status.AvailableReplicas).To(BeEquivalentTo(2))
	e.Expect(condition(parent, v1alpha1.ConditionAvailable).Status).To(Equal(metav1.ConditionTrue))
	for _, p := range w.podsOf("zone-a") {
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				turned := condition(parent, v1alpha1.ConditionAvailable).LastTransitionTime
				e.Expect(turned.Sub(c.LastTransitionTime.Time).Seconds()).To(BeNumerically(">=", 4), "to the second that the API keeps")
			}
		}
	}
}
