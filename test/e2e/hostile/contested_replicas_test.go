// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestContestedReplicas checks what happens when somebody scales a child in mid-canary to 0 again and
// again, as `kubectl scale` does. United restores its replicas less and less often and reports that. It
// writes the status, which differs each time, no more often. It writes what the spec asks for at once,
// and other children do not wait. When the interference ends, everything is as before.
func TestContestedReplicas(t *testing.T) {
	t.Parallel()
	control := NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
	control.Settle()
	e := NewEnv(t)
	w := inMidCanary(e, appsv1.ParallelPodManagement, Partitions(Parts{"zone-a": 2}))
	still := e.History.Forbid(Protect("zone-b", 2, "v1"))
	mark := e.AuditMark()
	contest := w.Repeatedly(700*time.Millisecond, func(ctx context.Context) error {
		child := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web-zone-a"}}
		return w.Client.SubResource("scale").Patch(ctx, child, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":0}}`)),
			&client.SubResourcePatchOptions{PatchOptions: client.PatchOptions{FieldManager: "kubectl-fighter"}, SubResourceBody: &autoscalingv1.Scale{}})
	})
	w.Eventually(func() string { return w.Status("zone-a").Message }).WithTimeout(3 * WaitTimeout).Should(
		HavePrefix("StatefulSet web-zone-a: spec.replicas was changed by somebody (managedFields do not say who) right after it was written, repeatedly"))
	rounds := contest.Rounds()
	e.Eventually(contest.Rounds).WithTimeout(3 * WaitTimeout).Should(BeNumerically(">", rounds+60))
	e.Expect(len(childWrites(w, mark))).To(And(BeNumerically(">", 5), BeNumerically("<=", Spaced)), "in %d rounds", contest.Rounds())
	e.Expect(len(e.Writes(mark, Statuses))).To(BeNumerically("<=", 2*Spaced), "in %d rounds", contest.Rounds())
	control.Reacts()
	e.Step("what the spec asks for is written at once", func() {
		w.Scale(7)
		e.Eventually(func() int32 { return w.Asked("zone-b") }, Promptly).Should(Equal(int32(3)))
		w.Scale(5)
		e.Eventually(func() int32 { return w.Asked("zone-b") }, Promptly).Should(Equal(int32(2)))
	})
	contest.Stop()
	w.Disturbed()
	w.Eventually(func() int32 { return w.Asked("zone-a") }).WithTimeout(6 * WaitTimeout).Should(Equal(int32(3)))
	w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1"})
	w.Settle()
	still.Holds()
}
