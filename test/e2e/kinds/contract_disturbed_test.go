// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestContractDisturbed checks what United promises for every kind if something else happens in the
// middle of a coordinated rollout: time that has to pass, readiness that comes and goes, scaling, and
// foreign objects.
func TestContractDisturbed(t *testing.T) {
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		w := k.ContractOf(t, Replicas(6), Zones("", ""), Rolling(`{"maxUnavailable":1}`), MinReadySeconds(2))
		w.Step("comes up", func() { w.ComesTo("3 v1", "3 v1", "") })
		awaitsMinReady(w)
		flaps(w)
		growsProtected(w)
		keepsProportion(w)
		leavesStrangers(w)
	})
}

// awaitsMinReady checks that a ready replica counts as unavailable until it has been ready for
// minReadySeconds.
func awaitsMinReady(w *Contracted) {
	w.Step("minReadySeconds", func() {
		ledger := w.Ledger(6).MinReady(2 * time.Second)
		w.SetImages("v2")
		w.ComesTo("3 v2", "3 v2", "")
		ledger.Within(1)
	})
}

// flaps checks that a replica which was ready on the new revision and is no longer ready counts, so
// that nothing is released in the meantime, and that nobody deletes it.
func flaps(w *Contracted) {
	w.Step("readiness that flaps", func() {
		ledger := w.Ledger(6)
		w.SetImages("quiet-3")
		first := awaitStarting(w, "quiet-3")
		setGroupReady(w, first, corev1.ConditionTrue)
		second := awaitStarting(w, "quiet-3")
		for range 3 {
			setGroupReady(w, first, corev1.ConditionFalse)
			setGroupReady(w, first, corev1.ConditionTrue)
		}
		setGroupReady(w, first, corev1.ConditionFalse)
		w.Eventually(func() string { return w.Rollout().Message }).Should(ContainSubstring(first.Name))
		still := w.History.Forbid(AnyNewPod)
		setGroupReady(w, second, corev1.ConditionTrue)
		w.Consistently(func() int { return len(still.Broken()) }, 5*time.Second).Should(BeZero(), "nothing is released for the one that is ready again")
		setGroupReady(w, first, corev1.ConditionTrue)
		awaitStarting(w, "quiet-3")
		still.Fires()
		turnAll(w, "quiet-3", "3 quiet-3", "3 quiet-3")
		ledger.TakenWithin(1)
	})
}

// growsProtected checks that the new replicas of a scale-up start on the previous revision while
// maxUnavailable is used up. If a kind is released as a whole, its controller distributes the new
// replicas of a released child; a kind that works in order creates them later.
func growsProtected(w *Contracted) {
	w.Step("scaled in the middle", func() {
		w.SetImages("v4")
		w.ComesTo("3 v4", "3 v4", "")
		w.SetImages("quiet-5")
		released := awaitStarting(w, "quiet-5").Subset
		other := map[string]string{"zone-a": "zone-b", "zone-b": "zone-a"}[released]
		w.Scale(8)
		w.Eventually(func() string { return w.Mix()[other] }).WithTimeout(RolloutTimeout).Should(Equal("4 v4"))
		if !w.Whole {
			w.Eventually(func() string { return w.Mix()[released] }).WithTimeout(RolloutTimeout).Should(MatchRegexp(`^1 quiet-5\?, [23] v4$`))
		}
		turnAll(w, "quiet-5", "4 quiet-5", "4 quiet-5")
		w.Scale(6)
		w.ComesTo("3 quiet-5", "3 quiet-5", "")
	})
}

// keepsProportion checks that the shares of two subsets differ by at most maxSkew and one replica of
// the smaller subset.
func keepsProportion(w *Contracted) {
	if w.Whole {
		return // it is refused, see TestKindsAdmission
	}
	w.Step("maxSkew", func() {
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/0/replicas","value":4}]`)
		w.SetRolling(`{maxUnavailable: "100%", maxSkew: "20%"}`)
		turnAll(w, "quiet-5", "4 quiet-5", "2 quiet-5")
		ledger := w.Ledger(6)
		w.SetImages("v6")
		w.ComesTo("4 v6", "2 v6", "")
		w.Expect(ledger.Shares("v6", map[string]int{"zone-a": 4, "zone-b": 2})).To(And(BeNumerically("<=", 20+50+0.01), BeNumerically(">", 0)), "%s", ledger)
	})
}

// leavesStrangers checks that United does not change a foreign object with the name of a child, and
// that the other subsets continue.
func leavesStrangers(w *Contracted) {
	w.Step("a stranger has the name of a child", func() {
		stranger := strangerNamed(w, "web-zone-c", "zone-a")
		w.Expect(w.Client.Create(w.Ctx, stranger)).To(Succeed())
		before := w.LiveChild("zone-c").Object["spec"]
		w.SetRolling(`{maxUnavailable: 2, maxSkew: null}`) // it lacks a replica, and none of its replicas is ever updated
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-c","replicas":1}},{"op":"replace","path":"/spec/replicas","value":7}]`)
		w.SetImages("v7")
		w.Stalls("zone-c", v1alpha1.ReasonNameConflict, "web-zone-c exists and is not controlled by this UnitedDeployment")
		w.Eventually(func() []string { return tagsBut(w, "zone-c") }).WithTimeout(RolloutTimeout).Should(Equal([]string{"v7"}))
		w.Expect(w.LiveChild("zone-c").Object["spec"]).To(Equal(before))
		w.Expect(w.LiveChild("zone-c").GetOwnerReferences()).To(BeEmpty())
		w.Expect(w.Delete(w.Ctx, stranger)).To(Succeed())
		w.Disturbed()
		w.Eventually(func() string { return w.Mix()["zone-c"] }).WithTimeout(RolloutTimeout).Should(Equal("1 v7"), "the control: then it is made")
	})
}

// strangerNamed returns an object of the kind, as somebody else would create it, modeled on the child
// of a subset.
func strangerNamed(w *Contracted, name, like string) *unstructured.Unstructured {
	w.T.Helper()
	raw, err := json.Marshal(w.LiveChild(like).Object["spec"])
	w.Expect(err).NotTo(HaveOccurred())
	// Give it pods that belong to nobody else.
	var spec map[string]any
	w.Expect(json.Unmarshal([]byte(strings.ReplaceAll(string(raw), `"united.dev/`, `"example.com/`)), &spec)).To(Succeed())
	u := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	u.SetGroupVersionKind(w.Gvk)
	u.SetNamespace(w.Namespace)
	u.SetName(name)
	return u
}

// tagsBut returns the images that run in all subsets except one.
func tagsBut(w *Contracted, subset string) (tags []string) {
	w.T.Helper()
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
func awaitStarting(w *Contracted, tag string) (starting Pod) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		var waiting []Pod
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
	}).WithTimeout(RolloutTimeout).Should(Succeed())
	return starting
}

// setGroupReady sets, as the kubelet, whether a replica is ready, for all pods of a group.
func setGroupReady(w *Contracted, replica Pod, ready corev1.ConditionStatus) {
	w.T.Helper()
	for _, p := range w.Members() {
		if p.Name == replica.Name || p.Leader == replica.Name {
			w.MarkPod(p.Name, ready)
		}
	}
}

// turnAll reports, as the kubelet, everything that runs an image as ready, until the wanted images run
// and the workload has settled.
func turnAll(w *Contracted, tag, a, b string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		for _, p := range w.Members() {
			if p.Image == tag && p.Running && !p.Ready && !p.Terminating {
				w.MarkPod(p.Name, corev1.ConditionTrue)
			}
		}
		g.Expect(w.Mix()).To(Equal(map[string]string{"zone-a": a, "zone-b": b}))
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).WithTimeout(RolloutTimeout).Should(Succeed())
}

// TestContractForgotten checks a child whose controller forgets, in mid-canary, what its protected
// replicas run. That can happen after a restart of the API server (TestForgottenRevisions restarts it;
// here the test writes what the controller would write). A replica that comes up wrong while no manager
// runs comes back right. A replica that is deleted afterwards comes back right at once, because United
// has seeded the child again.
func TestContractForgotten(t *testing.T) {
	t.Parallel()
	p := NewPlaneOf(t)
	for _, k := range Kinds() {
		if k.Memory == nil {
			continue // it does not get the new version before it is released
		}
		t.Run(k.Title, func(t *testing.T) {
			w := k.ContractOn(p, t, Replicas(3), Zones("3"), Partitions(Parts{"zone-a": 2}))
			w.ComesTo("3 v1", "", "")
			w.SetImages("v2")
			w.ComesTo("2 v1, 1 v2", "", "")
			w.Disturbed()
			w.RestartManager(func() {
				w.Eventually(w.LosesOne).Should(Equal("1 v1, 2 v2"))
				w.Consistently(w.Mix, 3*time.Second).Should(Equal(map[string]string{"zone-a": "1 v1, 2 v2"}), "without a manager it stays")
			}, "--leader-election-lease-duration=60s", "--leader-election-renew-deadline=50s")
			w.ComesTo("2 v1, 1 v2", "", "")
			memory := w.Memory(w)
			w.Expect(StatusField(memory, "currentRevision")).NotTo(Equal(StatusField(memory, "updateRevision")), "it has been reminded")
			w.DeleteOne("v1")
			w.ComesTo("2 v1, 1 v2", "", "")
		})
	}
	p.NewEnv(t).RestartManager(func() {})
}
