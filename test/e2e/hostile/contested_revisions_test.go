// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestContestedRevisions checks what happens when a policy, or somebody, changes the
// ControllerRevisions of the parent again after each write. United reports that and writes less and
// less often. Others do not wait, replicas scale, and protected replicas do not move. When the
// interference ends, everything continues.
func TestContestedRevisions(t *testing.T) {
	t.Parallel()
	count := `, JSONPatch{op: "add", path: "/metadata/labels/example.com~1count", value: oldObject.metadata.resourceVersion}]`
	for name, tc := range map[string]struct{ policy, loop, says string }{
		"a policy changes what they know": {
			policy: `[JSONPatch{op: "add", path: "/metadata/annotations", value: {"united.dev/subsets": "garbage"}}` + count,
			says:   "metadata.annotations.united.dev/subsets was changed by admission",
		},
		"a policy changes their label": {
			policy: `[JSONPatch{op: "add", path: "/metadata/labels/united.dev~1name", value: "x" + oldObject.metadata.resourceVersion}]`,
			says:   "united.dev/name was changed by admission",
		},
		"somebody strips them": {
			loop: `{"metadata":{"annotations":null,"labels":null,"ownerReferences":null}}`,
			says: "was removed right after it was written",
		},
		"somebody deletes the one that the spec asks for": {
			loop: deletes,
			says: "the whole object was removed right after it was written",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			control := NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
			control.Settle()
			e := NewEnv(t)
			w := midCanary(e, appsv1.ParallelPodManagement, false)
			still, mark := e.History.Forbid(AnyNewPod), e.AuditMark()
			var over func()
			if tc.loop != "" {
				over = stripRevisions(w, tc.loop)
			} else {
				over = e.Override("controllerrevisions", "", tc.policy, w.RevisionComesOut)
				for _, cr := range w.ParentRevisions() { // each is changed once
					e.Expect(w.Client.Patch(w.Ctx, &cr, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/touched":"x"}}}`)))).To(Succeed())
				}
			}
			w.StallsWhole(v1alpha1.ReasonOverridden, "evision web-", tc.says)
			w.Disturbed()
			e.Expect(len(e.Writes(mark, "controllerrevisions"))).To(And(BeNumerically(">", 1), BeNumerically("<=", 2*2*Spaced)), "two writes for each of two revisions")
			e.Expect(len(e.Writes(mark, Statuses))).To(BeNumerically("<=", Spaced))
			control.Reacts()
			still.Holds()
			w.Scale(8)
			w.Eventually(func() int32 { return w.Asked("zone-a", "zone-b") }).Should(Equal(int32(8)), "it scales")
			over()
			w.Patch(`{"metadata":{"annotations":{"example.com/over":"x"}}}`)
			w.Eventually(func() string { return Condition(w.Parent(), v1alpha1.ConditionStalled).Reason }).WithTimeout(3 * WaitTimeout).ShouldNot(Equal(v1alpha1.ReasonOverridden))
			w.Disturbed()
			w.Settle()
			still.Fires() // the new replicas
			e.Expect(w.Images()["zone-a"]).To(HavePrefix("v1 v1 v2"))
			e.Expect(w.Images()["zone-b"]).To(Equal("v1 v1 v1 v1"))
		})
	}
}

// deletes is an argument of stripRevisions.
const deletes = "delete"

// stripRevisions changes the revisions of the parent every 300 ms, as another client, until stop is
// called; or deletes the update revision.
func stripRevisions(w *Workload, patch string) (stop func()) {
	update := w.Parent().Status.UpdateRevision
	return w.Repeatedly(300*time.Millisecond, func(ctx context.Context) error {
		if patch == deletes {
			return w.Client.Delete(ctx, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: update}})
		}
		for _, cr := range w.ParentRevisions() {
			_ = w.Client.Patch(ctx, &cr, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("looper"))
		}
		return nil
	}).Stop
}
