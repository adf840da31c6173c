// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// The guarantees that a LeaderWorkerSet cannot keep, according to docs/workloads.md and docs/design.md, except for those
// in lws_test.go. Each test shows an exception with the real manager: if a test fails because the
// exception is gone, remove the exception from the document.

// TestLeaderWorkerSetPace checks that under manualUpdate a protected group that is not ready uses up
// maxUnavailable, so that no released group is updated.
func TestLeaderWorkerSetPace(t *testing.T) {
	t.Parallel()
	w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(3), Zones(""), Hold())
	w.ComesTo("3 v1", "", "")
	w.SetImages("v2")
	w.ComesTo("3 v1", "", "")
	protected := w.Pods()[0]
	setGroupReady(w, protected, corev1.ConditionFalse)
	w.Eventually(func() int32 { return w.Status("zone-a").ReadyReplicas }).Should(Equal(int32(2)))
	w.SetPartitions(Parts{"zone-a": 1})
	w.Eventually(func() int32 { return w.Status("zone-a").Partition }).Should(Equal(int32(1)))
	w.Consistently(w.Mix, 5*time.Second).Should(Equal(map[string]string{"zone-a": "2 v1, 1 v1?"}))
	setGroupReady(w, protected, corev1.ConditionTrue)
	w.ComesTo("1 v1, 2 v2", "", "")
}

// TestLeaderWorkerSetGrowsReleased checks that a group which a scale-up adds and releases in one step
// ends on the update revision. It may start on the previous version: its StatefulSet gets the replicas
// before the lower partition, and which of two controllers is first is a matter of chance.
func TestLeaderWorkerSetGrowsReleased(t *testing.T) {
	t.Parallel()
	w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(4), Zones(""), Hold())
	w.ComesTo("4 v1", "", "")
	w.SetImages("v2")
	w.ComesTo("4 v1", "", "")
	w.Patch(`{"spec":{"replicas":6,"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":2}}}}}`)
	w.ComesTo("2 v1, 4 v2", "", "")
	for _, name := range []string{"web-zone-a-4", "web-zone-a-5"} {
		w.Expect(w.History.CreatedOn(name)).To(BeElementOf("v1 v2", "v2"))
	}
}

// TestLeaderWorkerSetRestartPolicy checks that with restartPolicy None a crash loop stays visible, and
// stops the rollout. With the default, groups are recreated over and over, and never more than
// maxUnavailable of them are down.
func TestLeaderWorkerSetRestartPolicy(t *testing.T) {
	t.Parallel()
	for _, policy := range []string{"None", "RecreateGroupOnPodRestart"} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(4), Zones("", ""), Rolling(`{"maxUnavailable":1}`),
				func(d *Draft) { LeaderWorkerTemplate(d)["restartPolicy"] = policy })
			w.ComesTo("2 v1", "2 v1", "")
			ledger := w.Ledger(4)
			w.SetImages("broken")
			w.Eventually(func() string { return Condition(w.Parent(), v1alpha1.ConditionStalled).Reason }).Should(Equal(v1alpha1.ReasonReplicaFailed))
			before := w.Uids()
			w.Consistently(func() int { return ledger.Most() }, 5*time.Second).Should(Equal(1))
			if policy == "None" {
				w.Expect(w.Uids()).To(Equal(before))
				w.Expect(Condition(w.Parent(), v1alpha1.ConditionStalled).Reason).To(Equal(v1alpha1.ReasonReplicaFailed))
			} else {
				w.Expect(w.Uids()).NotTo(Equal(before), "the exception: it is made again over and over")
			}
			w.SetImages("v2")
			w.ComesTo("2 v2", "2 v2", "")
		})
	}
}

// TestLeaderWorkerSetExclusiveTopology checks that the annotations for exclusive placement are in no
// revision but still reach the leaders: groups that are not held are recreated.
func TestLeaderWorkerSetExclusiveTopology(t *testing.T) {
	t.Parallel()
	w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(2), Zones(""), Partitions(Parts{"zone-a": 1}))
	w.ComesTo("2 v1", "", "")
	before, held := w.Parent().Status.UpdateRevision, w.Pods()[0]
	w.JSONPatch(`[{"op":"add","path":"/spec/template/leaderWorkerSetTemplate/metadata","value":{"annotations":{"leaderworkerset.sigs.k8s.io/exclusive-topology":"kubernetes.io/hostname"}}}]`)
	w.Eventually(func(g Gomega) {
		placed := map[int]bool{}
		for _, p := range w.PodsOf("zone-a") {
			if p.Labels[WorkerIndexLabel] == "0" && p.DeletionTimestamp == nil {
				read := ReadPod(&p, w.Zones)
				placed[read.Ordinal] = p.Annotations["leaderworkerset.sigs.k8s.io/exclusive-topology"] != ""
			}
		}
		g.Expect(placed).To(Equal(map[int]bool{0: false, 1: true}))
	}).Should(Succeed())
	w.Expect(w.Parent().Status.UpdateRevision).To(Equal(before))
	w.Expect(w.Uids()).To(HaveKey(held.UID))
}

// TestLeaderWorkerSetVolumeClaims checks a change of volumeClaimTemplates, which the LeaderWorkerSet
// controller cannot make because a StatefulSet does not allow it. Nothing moves, the status says where
// to find the cause, and after a revert everything continues.
func TestLeaderWorkerSetVolumeClaims(t *testing.T) {
	t.Parallel()
	w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(4), Zones("", ""), Partitions(Parts{"zone-a": 0}))
	w.ComesTo("2 v1", "2 v1", "")
	before := w.Uids()
	const at = "/spec/template/leaderWorkerSetTemplate/spec/leaderWorkerTemplate/volumeClaimTemplates"
	w.JSONPatch(`[{"op":"add","path":%q,"value":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]}]`, at)
	w.Eventually(func() string { return w.Status("zone-a").Message }).Should(MatchRegexp(`kubectl describe leaderworkerset\S* -n \S+ web-zone-a$`))
	w.Expect(w.Uids()).To(Equal(before))
	w.JSONPatch(`[{"op":"remove","path":%q}]`, at)
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
	w.SetImages("v2")
	w.ComesTo("2 v2", "2 v1", "")
}
