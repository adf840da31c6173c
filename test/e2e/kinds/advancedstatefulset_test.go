// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestAdvancedStatefulSetSample applies config/samples/advancedstatefulset.yaml, which reserves the
// ordinal 1, and releases zone-a replica by replica: a partition counts replicas, not ordinals. A
// protected replica comes back as it was.
func TestAdvancedStatefulSetSample(t *testing.T) {
	t.Parallel()
	k := KindNamed("AdvancedStatefulSet")
	k.Manager(Shared, t)
	e := NewEnv(t)
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	_, err = e.Cluster.Kubectl(e.Ctx, "-n", e.Namespace, "apply", "-f", filepath.Join(root, "config", "samples", "advancedstatefulset.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	w := e.Workload("advanced").Of(k)
	w.ComesTo("2 v1", "2 v1", "2 v1")
	w.Expect(ordinals(w, "zone-a")).To(Equal(map[int]string{0: "v1", 2: "v1"}))
	w.SetImages("v2")
	w.SetPartitions(Parts{"zone-a": 1})
	w.ComesTo("1 v1, 1 v2", "2 v1", "2 v1")
	w.Expect(ordinals(w, "zone-a")).To(Equal(map[int]string{0: "v1", 2: "v2"}))
	w.DeletePods("zone-a")
	w.ComesTo("1 v1, 1 v2", "2 v1", "2 v1")
	w.Expect(ordinals(w, "zone-a")).To(Equal(map[int]string{0: "v1", 2: "v2"}))
	before := w.Uids()
	w.Scale(9)
	w.ComesTo("1 v1, 2 v2", "3 v1", "3 v1")
	for uid := range before {
		w.Expect(w.Uids()).To(HaveKey(uid), "a scale-up restarts nothing")
	}
	w.Expect(ordinals(w, "zone-a")).To(Equal(map[int]string{0: "v1", 2: "v2", 3: "v2"}))
	const reserve = `[{"op":"replace","path":"/spec/template/advancedStatefulSetTemplate/spec/reserveOrdinals","value":[%s]}]`
	stay, none := w.Uids(), w.History.Forbid(AnyNewPod)
	toRolling := `[{"op":"remove","path":"/spec/template/advancedStatefulSetTemplate/spec/updateStrategy/rollingUpdate/maxUnavailable"},
		{"op":"replace","path":"/spec/updateStrategy","value":{"type":"RollingUpdate","rollingUpdate":{"partition":"100%"}}}]`
	for _, strategy := range []string{`[]`, toRolling} {
		w.JSONPatch("%s", strategy)
		w.JSONPatch(reserve, `"2-3"`)
		w.StallsWhole(v1alpha1.ReasonApplyRefused, "spec.reserveOrdinals: Forbidden: cannot be changed from [1] while there are replicas", "advanced-*-2 would become advanced-*-1", "scale the subset to 0 first")
		w.JSONPatch(reserve, `1, 7`)
		w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty(), "one above all replicas changes none")
		w.JSONPatch(reserve, `1`)
		w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
	}
	none.Holds()
	w.Expect(w.Uids()).To(Equal(stay), "its controller would have deleted those with the ordinals 2 and 3 of all subsets at once")
	w.Scale(0)
	w.ComesTo("", "", "")
	w.JSONPatch(reserve, `"2-3"`)
	w.Scale(9)
	w.Eventually(func() []int { return slices.Sorted(maps.Keys(ordinals(w, "zone-a"))) }).Should(Equal([]int{0, 1, 4}))
	none.Fires()
}

// TestAdvancedStatefulSetInPlace checks an update in place, see updatesInPlace. OpenKruise requires a
// readiness gate in the pod template for that, and the status quotes its refusal of a template without.
func TestAdvancedStatefulSetInPlace(t *testing.T) {
	t.Parallel()
	k := KindNamed("AdvancedStatefulSet")
	inPlace := TemplateField("InPlaceIfPossible", "spec", "updateStrategy", "rollingUpdate", "podUpdatePolicy")
	gate := TemplateField([]any{map[string]any{"conditionType": "InPlaceUpdateReady"}}, "spec", "template", "spec", "readinessGates")
	t.Run("with the gate", func(t *testing.T) {
		t.Parallel()
		updatesInPlace(k, t, inPlace, gate)
	})
	t.Run("without", func(t *testing.T) {
		t.Parallel()
		w := k.ContractOf(t, Replicas(1), Zones(""), inPlace)
		w.Stalls("zone-a", v1alpha1.ReasonApplyRefused, "readinessGates", "must contains InPlaceUpdateReady when podUpdatePolicy is InPlaceIfPossible")
		w.Expect(w.Pods()).To(BeEmpty())
	})
}

// TestAdvancedStatefulSetPace checks that the template sets maxUnavailable under manualUpdate, where an
// unready protected replica keeps the child from updating released ones. In a coordinated rollout the
// ledger decides.
func TestAdvancedStatefulSetPace(t *testing.T) {
	t.Parallel()
	w := KindNamed("AdvancedStatefulSet").ContractOf(t, Replicas(4), Zones(""), Hold())
	w.ComesTo("4 v1", "", "")
	w.Step("by hand", func() {
		w.MarkPod("web-zone-a-0", corev1.ConditionFalse)
		w.SetImages("v2")
		w.SetPartitions(Parts{"zone-a": 2})
		w.Eventually(func(g Gomega) {
			g.Expect(w.Status("zone-a").Partition).To(Equal(int32(2)))
			g.Expect(w.Status("zone-a").ReadyReplicas).To(Equal(int32(3)))
			g.Expect(observed(w, "zone-a")).To(BeTrue())
		}).Should(Succeed())
		w.Expect(w.Mix()).To(Equal(map[string]string{"zone-a": "3 v1, 1 v1?"}))
	})
	w.Step("in a coordinated rollout", func() {
		w.Patch(`{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{"maxUnavailable":2,"partition":2}}}}`)
		w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 v1, 1 v1?, 2 v2"}))
		w.MarkPod("web-zone-a-0", corev1.ConditionTrue)
		w.ComesTo("2 v1, 2 v2", "", "")
	})
}

// ordinals returns the images that a subset runs, by ordinal.
func ordinals(w *Contracted, subset string) map[int]string {
	w.T.Helper()
	running := map[int]string{}
	for _, p := range w.Pods() {
		if p.Subset == subset {
			running[p.Ordinal] = p.Image
		}
	}
	return running
}

// observed reports whether a child's controller has observed its spec.
func observed(w *Contracted, subset string) bool {
	w.T.Helper()
	child := w.LiveChild(subset)
	status, _ := child.Object["status"].(map[string]any)
	return status["observedGeneration"] == child.GetGeneration()
}

// TestAdvancedStatefulSetInOrder checks that replicas move one by one with OrderedReady, even in a
// coordinated rollout that would allow more, and that the next version replaces a replica that is
// stuck.
func TestAdvancedStatefulSetInOrder(t *testing.T) {
	t.Parallel()
	k := KindNamed("AdvancedStatefulSet")
	k.Draft = func(d *Draft) {
		AdvancedStatefulSets(d)
		Policy(appsv1.OrderedReadyPodManagement)(d)
	}
	w := k.ContractOf(t, Replicas(4), Zones("", ""), Rolling(`{"maxUnavailable":2}`))
	w.ComesTo("2 v1", "2 v1", "")
	ledger := w.Ledger(4)
	w.SetImages("quiet-v2")
	w.Eventually(func() map[string]int { return running(w, "quiet-v2") }).Should(Equal(map[string]int{"zone-a": 1, "zone-b": 1}))
	becomesReady(w, map[string]string{"zone-a": "2 quiet-v2", "zone-b": "2 quiet-v2"})
	ledger.Within(2)
	w.SetImages("broken")
	w.Eventually(func(g Gomega) {
		g.Expect(Condition(w.Parent(), v1alpha1.ConditionStalled).Reason).To(Equal(v1alpha1.ReasonReplicaFailed))
	}).Should(Succeed())
	w.SetImages("v3")
	w.ComesTo("2 v3", "2 v3", "")
}

// TestAdvancedStatefulSetMinReadySeconds checks that a value above 300, the limit of OpenKruise, is
// refused, and that the status quotes OpenKruise.
func TestAdvancedStatefulSetMinReadySeconds(t *testing.T) {
	t.Parallel()
	w := KindNamed("AdvancedStatefulSet").ContractOf(t, Replicas(1), Zones(""), MinReadySeconds(301))
	w.Stalls("zone-a", v1alpha1.ReasonApplyRefused, "minReadySeconds", "300")
	w.Patch(`{"spec":{"minReadySeconds":0}}`)
	w.ComesTo("1 v1", "", "")
}
