// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// nameClash checks a zone that should get replicas of other zones, but whose child cannot be created.
// The other zones keep their replicas until it can, unless the parent itself shrinks.
func nameClash(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		set := ForeignSet(e.Namespace, "web-zone-c")
		e.CreateForeign(set)
		w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("", ""), Hold()))
		w.Settle()
		losses, still := w.Losses(), e.History.Forbid(AnyNewPod)
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":%s}]`, AsJSON(Zone(2, "")))
		w.Stalls("zone-c", v1alpha1.ReasonNameConflict, "web-zone-c exists")
		ComesToRest(w, "zone-a", "zone-b")
		e.Expect(w.Asked("zone-a", "zone-b")).To(BeEquivalentTo(9))
		e.Expect(losses.Names()).To(BeEmpty())
		still.Holds()

		e.Step("the parent itself shrinks", func() {
			w.Scale(6)
			w.Eventually(func() int32 { return w.Asked("zone-a", "zone-b") }).Should(BeEquivalentTo(6))
			w.Stalls("zone-c", v1alpha1.ReasonNameConflict, "web-zone-c exists")
			ComesToRest(w, "zone-a", "zone-b")
			e.Expect(w.Asked("zone-a", "zone-b")).To(BeEquivalentTo(6))
			w.Eventually(func() int { return w.Count("zone-a") + w.Count("zone-b") }).Should(Equal(6))
			e.Expect(losses.Names()).To(HaveLen(3))
			still.Holds()
		})
		e.Step("the clash is gone", func() {
			e.Expect(e.Delete(e.Ctx, set)).To(Succeed())
			w.Disturbed()
			w.Settle()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1", "zone-c": "v1 v1"}))
			e.Expect(losses.Names()).To(HaveLen(5))
			still.Fires()
		})
	})
}

// heldBehind makes zone-b wait until it may start, while the first replica of zone-a is being updated.
// It returns a ban on everything that must not happen in zone-b. Nothing is released before both children are staged:
// otherwise the one whose controller is faster begins.
func heldBehind(e *Env, p appsv1.PodManagementPolicyType, strategy string) (w *Workload, zoneB *Ban) {
	withPartition := func(value string) string {
		return strings.Replace(strategy, "{", fmt.Sprintf("{partition: %q, ", value), 1)
	}
	w = e.Create(NewDraft("web", Replicas(8), Policy(p), Zones("4", "4"), Rolling(withPartition("100%"))))
	w.Settle()
	zoneB = e.History.Forbid(Protect("zone-b", Everything, "v1"))
	w.SetImage("quiet-v2")
	w.IsReady(v1alpha1.ReasonRolloutHeld)
	w.SetRolling(withPartition("0%"))
	w.AwaitWaiting("web-zone-a-3")
	w.Eventually(func() string { return w.Child("zone-b").Spec.Template.Spec.Containers[0].Image }).Should(Equal(Image("quiet-v2")))
	ComesToRest(w, "zone-a", "zone-b")
	return w, zoneB
}

// foreignPartition checks a held child whose partition somebody lowers. United raises it again at once.
// Replicas that the StatefulSet has updated in the meantime come back, or stay if the manager finds
// them updated; order and skew are kept.
func foreignPartition(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]string{"order": `{order: Sequential}`, "skew": `{maxSkew: "25%"}`} {
		t.Run(name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w, zoneB := heldBehind(e, p, strategy)
				mark, losses, whole := e.AuditMark(), w.Losses(), w.Ledger(8)
				out := e.Kubectl("patch", "statefulset", "web-zone-b", "--type=merge", "-p", `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`)
				e.Expect(out).NotTo(ContainSubstring("no change"))
				runs := isPutRight(w, mark, "v1 v1 v1 v1", "v1 v1 v1 quiet-v2")
				e.Expect(w.Partition("zone-b")).To(BeNumerically(">=", strings.Count(runs, " v1")+1))
				moved := len(zoneB.Broken())
				e.Expect(moved).To(BeNumerically("<=", 1), "%v", zoneB.Broken())
				e.Expect(losses.Names()).To(Or(BeEmpty(), HaveEach("web-zone-b-3")), "it, and as it came back")

				left := moved + strings.Count(runs, "v1")
				w.RemindKubeletsOf("zone-b")
				ledger := w.Ledger(8)
				w.Waves(1, func(wave []string) {
					if name == "order" && strings.HasPrefix(wave[0], "web-zone-a") {
						e.Expect(zoneB.Broken()).To(HaveLen(moved), "no turn is passed by")
					}
				})
				w.IsReady(v1alpha1.ReasonRolloutComplete)
				e.Expect(zoneB.Broken()).To(HaveLen(left))
				ledger.TakenWithin(1)
				if name == "skew" {
					apart := whole.Shares("quiet-v2", map[string]int{"zone-a": 4, "zone-b": 4})
					e.Expect(apart).To(And(BeNumerically(">", 0), BeNumerically("<=", 50)))
				}
			})
		})
	}
}

// isPutRight waits until the manager has repaired somebody's change of zone-b since a mark, nothing is
// left to do, and zone-b runs one of the given images, which it returns.
func isPutRight(w *Workload, mark int64, oneOf ...string) (runs string) {
	w.T.Helper()
	w.Disturbed()
	w.Eventually(func() []cluster.Event { return w.Writes(mark, Children) }).Should(ContainElement(HaveField("Name", "web-zone-b")))
	for range 2 {
		w.Eventually(func(g Gomega) {
			runs = w.Images()["zone-b"]
			g.Expect(oneOf).To(ContainElement(runs))
			waiting, why := w.Waiting()
			g.Expect(why).To(BeEmpty())
			g.Expect(waiting).To(HaveLen(1 + strings.Count(runs, "quiet-v2")))
		}).Should(Succeed())
		ComesToRest(w, "zone-a", "zone-b")
	}
	w.Expect(w.Images()).To(HaveKeyWithValue("zone-b", runs))
	return runs
}

// foreignReplicas checks a held child that somebody scales. United restores the replicas at once, and
// none of them comes up on a revision that was not released.
func foreignReplicas(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w, zoneB := heldBehind(e, p, `{order: Sequential}`)
		for _, count := range []int{6, 2, 0} {
			mark := e.AuditMark()
			out := e.Kubectl("patch", "statefulset", "web-zone-b", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"replicas":%d}}`, count))
			e.Expect(out).NotTo(ContainSubstring("no change"))
			isPutRight(w, mark, "v1 v1 v1 v1")
			e.Expect(w.Asked("zone-b")).To(BeEquivalentTo(4))
			zoneB.Holds()
		}
		w.Waves(1, func(wave []string) {
			if strings.HasPrefix(wave[0], "web-zone-a") {
				zoneB.Holds()
			}
		})
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		zoneB.Fires()
	})
}

// barred checks a protected replica that stays unready. From Kubernetes 1.37 on that keeps a
// StatefulSet from replacing released replicas. If the ledger has room, or the user has released them,
// they are replaced nevertheless, on every version.
func barred(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]Edit{
		"RollingUpdate": Rolling(`{maxUnavailable: 2, partition: 1}`), "Manual": Partitions(Parts{"one": 1}),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Plain("one", ""), strategy))
			w.Settle()
			w.Unreadies("one", 0)
			ledger, line := w.Ledger(4), e.History.Forbid(Protect("one", 1, "v1"))
			w.SetImage("v2")
			w.Eventually(w.Images).Should(HaveKeyWithValue("one", "v1 v2 v2 v2"))
			w.IsNotReady(v1alpha1.ReasonReplicasUnavailable)
			ComesToRest(w, "one")
			line.Holds()
			ledger.TakenWithin(2)
			w.CreatedAll("one", "v1", 0)
			w.CreatedAll("one", "v1 v2", 1, 2, 3)
			w.MarkReady("one", 0)
			w.IsReady(v1alpha1.ReasonRolloutHeld)
			w.DeletePod("one", 0)
			w.Settle()
			line.Holds()
		})
	}
}

// blockedAndForced checks that nothing moves if the ledger has no room for it, and that the status
// names the replica and the possible actions, one of which is force.
func blockedAndForced(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Policy(appsv1.ParallelPodManagement), Plain("one", ""), Rolling(`{maxUnavailable: 1, partition: 1}`)))
	w.Settle()
	w.Unreadies("one", 0)
	still, line := e.History.Forbid(AnyNewPod), e.History.Forbid(Protect("one", 1, "v1"))
	losses := w.Losses()
	w.SetImage("v2")
	update := func() string { return w.Parent().Status.UpdateRevision }
	blocked := w.AwaitPhase(v1alpha1.RolloutBlocked, "web-one-0", "repair it", "raise maxUnavailable", v1alpha1.AnnotationForceUpdate)
	e.Expect(blocked.Message).To(HaveSuffix(v1alpha1.AnnotationForceUpdate + "=" + update() + "/$(date +%s)"))
	w.IsNotReady(v1alpha1.ReasonBlocked)
	ComesToRest(w, "one")
	still.Holds()
	e.Expect(losses.Names()).To(BeEmpty())

	w.Force(update())
	w.Eventually(w.Images).Should(HaveKeyWithValue("one", "v1 v2 v2 v2"))
	w.IsNotReady(v1alpha1.ReasonReplicasUnavailable)
	still.Fires()
	line.Holds()
	w.MarkReady("one", 0)
	w.IsReady(v1alpha1.ReasonRolloutHeld)
	e.Expect(w.Images()).To(Equal(Images{"one": "v1 v2 v2 v2"}))
}

// noMoreRevisions checks a quota that keeps a new template from being recorded. Everything that does
// not need the revision continues.
func noMoreRevisions(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]Edit{"rolling": Rolling(`{}`), "manual": Partitions(Parts{"one": 0})} {
		t.Run(name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w := e.Create(NewDraft(name, Replicas(4), Policy(p), Plain("one", ""), strategy))
				w.Settle()
				w.AwaitObserved()
				lift := e.NoMoreRevisions()
				old := e.History.Forbid(beside("v1"))
				w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"/spec/replicas","value":6}]`, ImagePath, Image("v2"))
				w.Runs(Images{"one": "v1 v1 v1 v1 v1 v1"})
				w.DeletePod("one", 1)
				w.Runs(Images{"one": "v1 v1 v1 v1 v1 v1"})
				w.PatchChild("one", `{"spec":{"replicas":3}}`)
				w.Eventually(func() int32 { return w.Asked("one") }).Should(BeEquivalentTo(6))
				w.Runs(Images{"one": "v1 v1 v1 v1 v1 v1"})
				w.Scale(5)
				w.Eventually(w.Images).Should(Equal(Images{"one": "v1 v1 v1 v1 v1"}))
				w.Eventually(func() int32 { return w.Parent().Status.ReadyReplicas }).Should(BeEquivalentTo(5))
				w.StallsWhole(v1alpha1.ReasonApplyFailed, "controllerrevisions", "exceeded quota: revisions")
				e.Expect(Condition(w.Parent(), v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionFalse))
				old.Holds()
				lift()
				w.IsReady(v1alpha1.ReasonRolloutComplete)
				old.Fires()
				e.Expect(w.Images()).To(Equal(Images{"one": "v2 v2 v2 v2 v2"}))
			})
		})
	}
}
