// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// earlierFingerprint is the fingerprint of all children that writeAsEarlier wrote.
const earlierFingerprint = "0123456789abcdef"

// TestUpgrade checks what happens to the children that an earlier version wrote: without the fields that
// only later versions write although the template does not have them, without the newer annotations of
// the record, and with another fingerprint. Each of them is written once, no pod is restarted, and then
// nothing is written. A rollout that was under way goes on. It happens twice, as after a rollback to the
// earlier version. (TestUpgradeUnderWay in test/chart has a real earlier version, but only one.)
func TestUpgrade(t *testing.T) {
	t.Parallel()
	p := NewPlaneOf(t)
	e, busy := p.NewEnv(t), p.NewEnv(t)
	began := map[*Env]int64{e: e.AuditMark(), busy: busy.AuditMark()}
	var resting, all []*Contracted
	for _, k := range BuiltIn() {
		create := func(e *Env, name string, edits ...Edit) *Contracted {
			w := e.Create(NewDraft(name+"-"+strings.ToLower(k.Title[:1]), append(edits, Replicas(4), k.Draft, Zones("", ""))...)).Of(k)
			all = append(all, w)
			return w
		}
		resting = append(resting, create(e, "canary", Hold()), create(e, "complete", Hold()), create(e, "coordinated",
			Rolling(`{steps: [{subsets: [zone-a], partition: "0%", pause: {}}]}`)))
		create(busy, "busy", Rolling(`{maxUnavailable: 1}`))
	}
	for _, w := range all {
		w.ComesTo("2 v1", "2 v1", "")
		w.SetImages("v2")
	}
	for i, w := range resting {
		switch i % 3 {
		case 0:
			w.SetPartitions(Parts{"zone-a": 0})
		case 1:
			w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0})
			w.ComesTo("2 v2", "2 v2", "")
			continue
		}
		w.ComesTo("2 v2", "2 v1", "")
	}
	still := e.History.Forbid(AnyNewPod)
	for _, w := range []*Contracted{all[3], all[7]} {
		w.ComesTo("2 v2", "2 v2", "")
		w.SetImages("slow-v3")
		w.Eventually(func() int32 { return w.Parent().Status.UpdatedReplicas }).Should(BeNumerically(">", 0))
	}
	for range 2 {
		var mark int64
		e.RestartManager(func() {
			for _, w := range all {
				writeAsEarlier(w, began[w.Env], "zone-a")
				writeAsEarlier(w, began[w.Env], "zone-b")
			}
			mark = e.AuditMark()
		})
		for _, w := range resting {
			for _, zone := range []string{"zone-a", "zone-b"} {
				e.Eventually(func() string { return w.LiveChild(zone).GetAnnotations()[v1alpha1.AnnotationFingerprint] }).ShouldNot(Equal(earlierFingerprint))
			}
			e.Eventually(func(g Gomega) { g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty()) }).Should(Succeed())
		}
		e.Consistently(func(g Gomega) {
			g.Expect(e.WithoutConflicts(mark, "statefulsets", "deployments")).To(HaveLen(2*len(resting)), "one for each child")
		}, 5*time.Second).Should(Succeed())
		still.Holds()
	}
	e.Step("what was under way goes on", func() {
		for _, w := range []*Contracted{all[3], all[7]} {
			w.ComesTo("2 slow-v3", "2 slow-v3", "")
		}
	})
	e.Step("and the others can", func() {
		resting[0].SetPartitions(Parts{"zone-b": 0})
		resting[0].ComesTo("2 v2", "2 v2", "")
		still.Fires()
	})
}

// writeAsEarlier writes a child as an earlier version did: as the manager wrote it last, since a mark of
// AuditMark, but without what that version did not write.
func writeAsEarlier(w *Contracted, since int64, subset string) {
	w.T.Helper()
	u := w.Object(subset)
	for _, write := range slices.Backward(w.Writes(since, w.Resource)) {
		if write.Name == u.GetName() && write.Code < 300 && write.Verb == "patch" {
			w.Expect(json.Unmarshal(write.Request, u)).To(Succeed())
			break
		}
	}
	w.Expect(u.Object).To(HaveKey("spec"), "it was written")
	for _, field := range [][]string{{"minReadySeconds"}, {"ordinals"}, {"strategy"}, {"updateStrategy", "rollingUpdate", "maxUnavailable"}} {
		unstructured.RemoveNestedField(u.Object, append([]string{"spec"}, field...)...)
	}
	u.SetResourceVersion("")
	u.SetUID("")
	annotations := u.GetAnnotations()
	maps.DeleteFunc(annotations, func(key, _ string) bool {
		return slices.Contains([]string{v1alpha1.AnnotationPartition, v1alpha1.AnnotationProtectedHash, v1alpha1.AnnotationReleasedFrom, v1alpha1.AnnotationSeeding, v1alpha1.AnnotationAsked, v1alpha1.AnnotationRecordChecksum}, key)
	})
	annotations[v1alpha1.AnnotationFingerprint] = earlierFingerprint
	u.SetAnnotations(annotations)
	w.Expect(w.Client.Apply(w.Ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)).To(Succeed())
	w.Expect(w.LiveChild(subset).GetAnnotations()).NotTo(HaveKey(v1alpha1.AnnotationPartition), "positive control")
}
