// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
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
			control := newEnv(t).Create(draft("control", replicas(4), zones("", ""), hold()))
			control.Settle()
			e := newEnv(t)
			w := midCanary(e, appsv1.ParallelPodManagement, false)
			still, mark := e.History.Forbid(anyNewPod), e.AuditMark()
			var over func()
			if tc.loop != "" {
				over = w.stripRevisions(tc.loop)
			} else {
				over = e.Override("controllerrevisions", "", tc.policy, w.revisionComesOut)
				for _, cr := range w.parentRevisions() { // each is changed once
					e.Expect(w.Client.Patch(w.ctx, &cr, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/touched":"x"}}}`)))).To(Succeed())
				}
			}
			w.StallsWhole(v1alpha1.ReasonOverridden, "evision web-", tc.says)
			w.Disturbed()
			e.Expect(len(e.Writes(mark, "controllerrevisions"))).To(And(BeNumerically(">", 1), BeNumerically("<=", 2*2*spaced)), "two writes for each of two revisions")
			e.Expect(len(e.Writes(mark, statuses))).To(BeNumerically("<=", spaced))
			control.reacts()
			still.Holds()
			w.Scale(8)
			w.Eventually(func() int32 { return w.Asked("zone-a", "zone-b") }).Should(Equal(int32(8)), "it scales")
			over()
			w.Patch(`{"metadata":{"annotations":{"example.com/over":"x"}}}`)
			w.Eventually(func() string { return condition(w.Parent(), v1alpha1.ConditionStalled).Reason }).WithTimeout(3 * waitTimeout).ShouldNot(Equal(v1alpha1.ReasonOverridden))
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
func (w *Workload) stripRevisions(patch string) (stop func()) {
	update := w.Parent().Status.UpdateRevision
	return w.repeatedly(300*time.Millisecond, func(ctx context.Context) error {
		if patch == deletes {
			return w.Client.Delete(ctx, &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: update}})
		}
		for _, cr := range w.parentRevisions() {
			_ = w.Client.Patch(ctx, &cr, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("looper"))
		}
		return nil
	}).stop
}

// revisionComesOut reports whether the policy already changes writes of a revision of the parent.
func (w *Workload) revisionComesOut() bool {
	w.t.Helper()
	cr := &appsv1.ControllerRevision{}
	w.Expect(w.Get(w.ctx, w.key(w.Parent().Status.UpdateRevision), cr)).To(Succeed())
	labels, annotations := cr.Labels[v1alpha1.LabelName], cr.Annotations[v1alpha1.AnnotationSubsets]
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/probe":"x"}}}`))
	w.Expect(w.Client.Patch(w.ctx, cr, patch, client.DryRunAll)).To(Succeed())
	return cr.Labels[v1alpha1.LabelName] != labels || cr.Annotations[v1alpha1.AnnotationSubsets] != annotations
}

// parentRevisions returns the revisions of the parent, regardless of their labels.
func (w *Workload) parentRevisions() (found []appsv1.ControllerRevision) {
	list := &appsv1.ControllerRevisionList{}
	_ = w.List(w.ctx, list, client.InNamespace(w.Namespace)) // finds none once the test is over
	for i := range list.Items {
		if !strings.Contains(list.Items[i].Name, "-zone-") {
			found = append(found, list.Items[i])
		}
	}
	return found
}
