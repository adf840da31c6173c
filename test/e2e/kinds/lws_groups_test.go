// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestLeaderWorkerSetReadinessGate checks that a group is unavailable, and that a rollout waits for it,
// while a readiness gate of one of its workers is false, although all containers are ready.
func TestLeaderWorkerSetReadinessGate(t *testing.T) {
	t.Parallel()
	const gate = "example.com/serving"
	k := KindNamed("LeaderWorkerSet")
	k.Draft = func(d *Draft) {
		LeaderWorkerSets(d)
		worker := LeaderWorkerTemplate(d)["workerTemplate"].(map[string]any)["spec"].(map[string]any)
		worker["readinessGates"] = []any{map[string]any{"conditionType": gate}}
	}
	w := k.ContractOf(t, Replicas(3), Zones(""), Rolling(`{"maxUnavailable":1}`))
	w.ComesTo("3 v1", "", "")
	set := func(status corev1.ConditionStatus) {
		t.Helper()
		now := time.Now().UTC().Format(time.RFC3339)
		patch := fmt.Appendf(nil, `{"status":{"conditions":[
			{"type":%q,"status":%q,"lastTransitionTime":%q},
			{"type":"Ready","status":%q,"reason":"ReadinessGatesNotReady","lastTransitionTime":%q}]}}`, gate, status, now, status, now)
		worker := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web-zone-a-0-1"}}
		w.Disturbed()
		w.Expect(w.Client.Status().Patch(w.Ctx, worker, client.RawPatch(types.StrategicMergePatchType, patch))).To(Succeed())
		w.Expect(worker.Status.Conditions).To(ContainElement(And(HaveField("Type", corev1.ContainersReady), HaveField("Status", corev1.ConditionTrue))))
	}
	set(corev1.ConditionFalse)
	w.Eventually(func() int32 { return w.Status("zone-a").AvailableReplicas }).Should(Equal(int32(2)))
	still := w.History.Forbid(AnyNewPod)
	w.SetImages("v2")
	w.Eventually(func() string { return w.Rollout().Message }).Should(ContainSubstring("web-zone-a-0"))
	w.Consistently(still.Broken, 3*time.Second).Should(BeEmpty())
	set(corev1.ConditionTrue)
	w.ComesTo("3 v2", "", "")
	still.Fires()
}

// TestLeaderWorkerSetSubdomainPolicy checks that another subdomainPolicy in networkConfig is a new
// revision: a held group keeps the policy that it has, and a released one gets the other. The exception:
// the workers of a held group that is created again get the other policy too, because the
// LeaderWorkerSet controller takes it from the spec, not from the revision; their leader keeps its own.
func TestLeaderWorkerSetSubdomainPolicy(t *testing.T) {
	t.Parallel()
	w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(2), Zones(""), Hold())
	w.ComesTo("2 v1", "", "")
	before, revision := w.Uids(), w.Parent().Status.UpdateRevision
	w.JSONPatch(`[{"op":"add","path":"/spec/template/leaderWorkerSetTemplate/spec/networkConfig","value":{"subdomainPolicy":"UniquePerReplica"}}]`)
	w.ComesTo("2 v1", "", "")
	w.Expect(w.Parent().Status.UpdateRevision).NotTo(Equal(revision))
	w.Expect(w.Uids()).To(Equal(before), "what is held does not move")
	w.Expect(subdomains(w)).To(Equal(map[int][]string{0: {"web-zone-a", "web-zone-a"}, 1: {"web-zone-a", "web-zone-a"}}))

	held := w.Pods()[0].UID
	w.SetPartitions(Parts{"zone-a": 1})
	released := map[int][]string{0: {"web-zone-a", "web-zone-a"}, 1: {"web-zone-a-1", "web-zone-a-1"}}
	w.ComesTo("2 v1", "", "")
	w.Expect(subdomains(w)).To(Equal(released))
	w.Expect(w.Uids()).To(HaveKey(held))

	w.DeletePods("zone-a")
	w.ComesTo("2 v1", "", "")
	w.Expect(subdomains(w)).To(Equal(map[int][]string{0: {"web-zone-a", "web-zone-a-0"}, 1: {"web-zone-a-1", "web-zone-a-1"}}), "the exception")
	w.SetPartitions(Parts{"zone-a": 0})
	w.ComesTo("2 v1", "", "")
	w.Expect(subdomains(w)).To(Equal(map[int][]string{0: {"web-zone-a-0", "web-zone-a-0"}, 1: {"web-zone-a-1", "web-zone-a-1"}}), "the control")
}

// subdomains returns the subdomains of the pods of zone-a, by group: that of its leader and those of its
// workers.
func subdomains(w *Contracted) map[int][]string {
	w.T.Helper()
	groups := map[int][]string{}
	for _, p := range w.PodsOf("zone-a") {
		ordinal := ReadPod(&p, w.Zones).Ordinal
		groups[ordinal] = append(groups[ordinal], p.Spec.Subdomain)
	}
	return groups
}

// TestLeaderWorkerSetPatchReachesGroups checks that what a subset adds to both pod templates, and its
// tolerations, reaches its leaders and workers, and nobody else's.
func TestLeaderWorkerSetPatchReachesGroups(t *testing.T) {
	t.Parallel()
	const pods = `{"spec":{"containers":[{"name":"web","env":[{"name":"WHERE","value":"a"}]}]}}`
	patched := Zone(0, "")
	patched.Patch = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec":{"leaderWorkerTemplate":{"leaderTemplate":%s,"workerTemplate":%s}}}`, pods, pods)}
	patched.Tolerations = []corev1.Toleration{{Key: "spot", Operator: corev1.TolerationOpExists}}
	w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(4), Subset(patched), Subset(Zone(1, "")))
	w.ComesTo("2 v1", "2 v1", "")
	where := corev1.EnvVar{Name: "WHERE", Value: "a"}
	for zone, want := range map[string]bool{"zone-a": true, "zone-b": false} {
		roles := map[string]int{}
		for _, p := range w.PodsOf(zone) {
			roles[p.Labels[WorkerIndexLabel]]++
			w.Expect(slices.Contains(p.Spec.Containers[0].Env, where)).To(Equal(want), p.Name)
			w.Expect(slices.Contains(p.Spec.Tolerations, patched.Tolerations[0])).To(Equal(want), p.Name)
		}
		w.Expect(roles).To(Equal(map[string]int{"0": 2, "1": 2}), "leaders and workers")
	}
}
