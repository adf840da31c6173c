// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestContractDisturbed checks what United promises for every kind if something else happens in the
// middle of a coordinated rollout: time that has to pass, readiness that comes and goes, scaling, and
// foreign objects.
func TestContractDisturbed(t *testing.T) {
	eachKind(t, kinds(), func(t *testing.T, k kind) {
		w := k.contractOf(t, replicas(6), zones("", ""), rolling(`{"maxUnavailable":1}`), minReadySeconds(2))
		w.Step("comes up", func() { w.comesTo("3 v1", "3 v1", "") })
		w.awaitsMinReady()
		w.flaps()
		w.growsProtected()
		w.keepsProportion()
		w.leavesStrangers()
	})
}

// awaitsMinReady checks that a ready replica counts as unavailable until it has been ready for
// minReadySeconds.
func (w *contracted) awaitsMinReady() {
	w.Step("minReadySeconds", func() {
		ledger := w.Ledger(6).MinReady(2 * time.Second)
		w.setImage("v2")
		w.comesTo("3 v2", "3 v2", "")
		ledger.Within(1)
	})
}

// flaps checks that a replica which was ready on the new revision and is no longer ready counts, so
// that nothing is released in the meantime, and that nobody deletes it.
func (w *contracted) flaps() {
	w.Step("readiness that flaps", func() {
		ledger := w.Ledger(6)
		w.setImage("quiet-3")
		first := w.awaitStarting("quiet-3")
		w.setGroupReady(first, corev1.ConditionTrue)
		second := w.awaitStarting("quiet-3")
		for range 3 {
			w.setGroupReady(first, corev1.ConditionFalse)
			w.setGroupReady(first, corev1.ConditionTrue)
		}
		w.setGroupReady(first, corev1.ConditionFalse)
		w.Eventually(func() string { return w.Rollout().Message }).Should(ContainSubstring(first.Name))
		still := w.History.Forbid(anyNewPod)
		w.setGroupReady(second, corev1.ConditionTrue)
		w.Consistently(func() int { return len(still.Broken()) }, 5*time.Second).Should(BeZero(), "nothing is released for the one that is ready again")
		w.setGroupReady(first, corev1.ConditionTrue)
		w.awaitStarting("quiet-3")
		still.Fires()
		w.turnAll("quiet-3", "3 quiet-3", "3 quiet-3")
		ledger.TakenWithin(1)
	})
}

// growsProtected checks that the new replicas of a scale-up start on the previous revision while
// maxUnavailable is used up. If a kind is released as a whole, its controller distributes the new
// replicas of a released child; a kind that works in order creates them later.
func (w *contracted) growsProtected() {
	w.Step("scaled in the middle", func() {
		w.setImage("v4")
		w.comesTo("3 v4", "3 v4", "")
		w.setImage("quiet-5")
		released := w.awaitStarting("quiet-5").Subset
		other := map[string]string{"zone-a": "zone-b", "zone-b": "zone-a"}[released]
		w.Scale(8)
		w.Eventually(func() string { return w.mix()[other] }).WithTimeout(rolloutTimeout).Should(Equal("4 v4"))
		if !w.whole {
			w.Expect(w.mix()[released]).To(MatchRegexp(`^1 quiet-5\?, [23] v4$`))
		}
		w.turnAll("quiet-5", "4 quiet-5", "4 quiet-5")
		w.Scale(6)
		w.comesTo("3 quiet-5", "3 quiet-5", "")
	})
}

// keepsProportion checks that the shares of two subsets differ by at most maxSkew and one replica of
// the smaller subset.
func (w *contracted) keepsProportion() {
	if w.whole {
		return // it is refused, see TestKindsAdmission
	}
	w.Step("maxSkew", func() {
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/0/replicas","value":4}]`)
		w.SetRolling(`{maxUnavailable: "100%", maxSkew: "20%"}`)
		w.turnAll("quiet-5", "4 quiet-5", "2 quiet-5")
		ledger := w.Ledger(6)
		w.setImage("v6")
		w.comesTo("4 v6", "2 v6", "")
		w.Expect(ledger.Shares("v6", map[string]int{"zone-a": 4, "zone-b": 2})).To(And(BeNumerically("<=", 20+50+0.01), BeNumerically(">", 0)), "%s", ledger)
	})
}

// leavesStrangers checks that United does not change a foreign object with the name of a child, and
// that the other subsets continue.
func (w *contracted) leavesStrangers() {
	w.Step("a stranger has the name of a child", func() {
		stranger := w.strangerNamed("web-zone-c", "zone-a")
		w.Expect(w.Client.Create(w.ctx, stranger)).To(Succeed())
		before := w.child("zone-c").Object["spec"]
		w.SetRolling(`{maxUnavailable: 2, maxSkew: null}`) // it lacks a replica, and none of its replicas is ever updated
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-c","replicas":1}},{"op":"replace","path":"/spec/replicas","value":7}]`)
		w.setImage("v7")
		w.Stalls("zone-c", v1alpha1.ReasonNameConflict, "web-zone-c exists and is not controlled by this UnitedDeployment")
		w.Eventually(func() []string { return w.tagsBut("zone-c") }).WithTimeout(rolloutTimeout).Should(Equal([]string{"v7"}))
		w.Expect(w.child("zone-c").Object["spec"]).To(Equal(before))
		w.Expect(w.child("zone-c").GetOwnerReferences()).To(BeEmpty())
		w.Expect(w.Delete(w.ctx, stranger)).To(Succeed())
		w.Disturbed()
		w.Eventually(func() string { return w.mix()["zone-c"] }).WithTimeout(rolloutTimeout).Should(Equal("1 v7"), "the control: then it is made")
	})
}

// strangerNamed returns an object of the kind, as somebody else would create it, modeled on the child
// of a subset.
func (w *contracted) strangerNamed(name, like string) *unstructured.Unstructured {
	w.t.Helper()
	raw, err := json.Marshal(w.child(like).Object["spec"])
	w.Expect(err).NotTo(HaveOccurred())
	// Give it pods that belong to nobody else.
	var spec map[string]any
	w.Expect(json.Unmarshal([]byte(strings.ReplaceAll(string(raw), `"united.dev/`, `"example.com/`)), &spec)).To(Succeed())
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(w.gvk)
	u.SetNamespace(w.Namespace)
	u.SetName(name)
	return u
}

// tagsBut returns the images that run in all subsets except one.
func (w *contracted) tagsBut(subset string) (tags []string) {
	w.t.Helper()
	seen := map[string]bool{}
	for _, p := range w.Pods() {
		if p.Subset != subset && !seen[p.Image] {
			seen[p.Image] = true
			tags = append(tags, p.Image)
		}
	}
	return tags
}

// awaitStarting waits until exactly one replica runs an image and is not ready, and all of its pods
// exist.
func (w *contracted) awaitStarting(tag string) (starting pod) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		var waiting []pod
		for _, p := range w.Pods() {
			g.Expect(p.Terminating).To(BeFalse(), p.Name)
			if !p.Ready {
				waiting = append(waiting, p)
			}
		}
		g.Expect(waiting).To(HaveLen(1))
		g.Expect(waiting[0].Image).To(Equal(tag))
		g.Expect(waiting[0].Running).To(BeTrue())
		starting = waiting[0]
	}).WithTimeout(rolloutTimeout).Should(Succeed())
	return starting
}

// setGroupReady sets, as the kubelet, whether a replica is ready, for all pods of a group.
func (w *contracted) setGroupReady(replica pod, ready corev1.ConditionStatus) {
	w.t.Helper()
	for _, p := range w.members() {
		if p.Name == replica.Name || p.Leader == replica.Name {
			w.markPod(p.Name, ready)
		}
	}
}

// turnAll reports, as the kubelet, everything that runs an image as ready, until the wanted images run
// and the workload has settled.
func (w *contracted) turnAll(tag, a, b string) {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		for _, p := range w.members() {
			if p.Image == tag && p.Running && !p.Ready && !p.Terminating {
				w.markPod(p.Name, corev1.ConditionTrue)
			}
		}
		g.Expect(w.mix()).To(Equal(map[string]string{"zone-a": a, "zone-b": b}))
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).WithTimeout(rolloutTimeout).Should(Succeed())
}

// TestContractForgotten checks a child whose controller forgets, in mid-canary, what its protected
// replicas run. That can happen after a restart of the API server (TestForgottenRevisions restarts it;
// here the test writes what the controller would write). A replica that comes up wrong while no manager
// runs comes back right. A replica that is deleted afterwards comes back right at once, because United
// has seeded the child again.
func TestContractForgotten(t *testing.T) {
	t.Parallel()
	p := newPlaneOf(t)
	for _, k := range kinds() {
		if k.memory == nil {
			continue // it does not get the new version before it is released
		}
		t.Run(k.name, func(t *testing.T) {
			w := k.contractOn(p, t, replicas(3), zones("3"), partitions(parts{"zone-a": 2}))
			w.comesTo("3 v1", "", "")
			w.setImage("v2")
			w.comesTo("2 v1, 1 v2", "", "")
			w.Disturbed()
			w.restartManager(func() {
				w.Eventually(w.losesOne).Should(Equal("1 v1, 2 v2"))
				w.Consistently(w.mix, 3*time.Second).Should(Equal(map[string]string{"zone-a": "1 v1, 2 v2"}), "without a manager it stays")
			}, "--leader-election-lease-duration=60s", "--leader-election-renew-deadline=50s")
			w.comesTo("2 v1, 1 v2", "", "")
			memory := w.memory(w)
			w.Expect(statusField(memory, "currentRevision")).NotTo(Equal(statusField(memory, "updateRevision")), "it has been reminded")
			w.deleteOne("v1")
			w.comesTo("2 v1, 1 v2", "", "")
		})
	}
	p.newEnv(t).restartManager(func() {})
}

// losesOne makes the child forget, deletes a protected replica, and returns what runs then. A
// controller that has not seen the change yet writes what it knew again.
func (w *contracted) losesOne() string {
	w.t.Helper()
	memory := w.memory(w)
	forgotten := fmt.Appendf(nil, `{"status":{"currentRevision":%q}}`, statusField(memory, "updateRevision"))
	w.Expect(w.Client.Status().Patch(w.ctx, memory, client.RawPatch(types.MergePatchType, forgotten))).To(Succeed())
	w.deleteOne("v1")
	var mix string
	w.Eventually(func() string { mix = w.mix()["zone-a"]; return mix }).Should(BeElementOf("1 v1, 2 v2", "2 v1, 1 v2"))
	return mix
}

// itself returns the child: a child remembers in its own status what its replicas ran. For leadersOf,
// the StatefulSet of the leaders does.
func itself(w *contracted) *unstructured.Unstructured { return w.child("zone-a") }

func leadersOf(w *contracted) *unstructured.Unstructured {
	w.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
	w.Expect(w.Get(w.ctx, w.key(w.Name+"-zone-a"), u)).To(Succeed())
	return u
}

func statusField(u *unstructured.Unstructured, field string) string {
	value, _, _ := unstructured.NestedString(u.Object, "status", field)
	return value
}

// deleteOne deletes one replica that runs an image, and waits until it is gone.
func (w *contracted) deleteOne(tag string) {
	w.t.Helper()
	w.Disturbed()
	for _, p := range w.Pods() {
		if p.Image != tag {
			continue
		}
		old := &corev1.Pod{}
		w.Expect(w.Get(w.ctx, w.key(p.Name), old)).To(Succeed())
		w.Expect(w.Delete(w.ctx, old)).To(Succeed())
		w.Eventually(func() map[types.UID]bool { return w.uids() }).ShouldNot(HaveKey(old.UID))
		return
	}
	w.t.Fatalf("nothing runs %s: %v", tag, w.mix())
}
