// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

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
	p := newPlaneOf(t)
	e, busy := p.newEnv(t), p.newEnv(t)
	began := map[*env]int64{e: e.AuditMark(), busy: busy.AuditMark()}
	var resting, all []*contracted
	for _, k := range builtIn() {
		create := func(e *env, name string, edits ...edit) *contracted {
			w := e.Create(draft(name+"-"+strings.ToLower(k.name[:1]), append(edits, replicas(4), k.draft, zones("", ""))...)).of(k)
			all = append(all, w)
			return w
		}
		resting = append(resting, create(e, "canary", hold()), create(e, "complete", hold()), create(e, "coordinated",
			rolling(`{steps: [{subsets: [zone-a], partition: "0%", pause: {}}]}`)))
		create(busy, "busy", rolling(`{maxUnavailable: 1}`))
	}
	for _, w := range all {
		w.comesTo("2 v1", "2 v1", "")
		w.setImage("v2")
	}
	for i, w := range resting {
		switch i % 3 {
		case 0:
			w.SetPartitions(parts{"zone-a": 0})
		case 1:
			w.SetPartitions(parts{"zone-a": 0, "zone-b": 0})
			w.comesTo("2 v2", "2 v2", "")
			continue
		}
		w.comesTo("2 v2", "2 v1", "")
	}
	still := e.History.Forbid(anyNewPod)
	for _, w := range []*contracted{all[3], all[7]} {
		w.comesTo("2 v2", "2 v2", "")
		w.setImage("slow-v3")
		w.Eventually(func() int32 { return w.Parent().Status.UpdatedReplicas }).Should(BeNumerically(">", 0))
	}
	for range 2 {
		var mark int64
		e.restartManager(func() {
			for _, w := range all {
				w.writeAsEarlier(began[w.env], "zone-a")
				w.writeAsEarlier(began[w.env], "zone-b")
			}
			mark = e.AuditMark()
		})
		for _, w := range resting {
			for _, zone := range []string{"zone-a", "zone-b"} {
				e.Eventually(func() string { return w.child(zone).GetAnnotations()[v1alpha1.AnnotationFingerprint] }).ShouldNot(Equal(earlierFingerprint))
			}
			e.Eventually(func(g Gomega) { g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty()) }).Should(Succeed())
		}
		e.Consistently(func(g Gomega) {
			g.Expect(e.Writes(mark, "statefulsets", "deployments")).To(HaveLen(2*len(resting)), "one for each child")
		}, 5*time.Second).Should(Succeed())
		still.Holds()
	}
	e.Step("what was under way goes on", func() {
		for _, w := range []*contracted{all[3], all[7]} {
			w.comesTo("2 slow-v3", "2 slow-v3", "")
		}
	})
	e.Step("and the others can", func() {
		resting[0].SetPartitions(parts{"zone-b": 0})
		resting[0].comesTo("2 v2", "2 v2", "")
		still.Fires()
	})
}

// writeAsEarlier writes a child as an earlier version did: as the manager wrote it last, since a mark of
// AuditMark, but without what that version did not write.
func (w *contracted) writeAsEarlier(since int64, subset string) {
	w.t.Helper()
	u := w.object(subset)
	for _, write := range slices.Backward(w.Writes(since, w.resource)) {
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
		return slices.Contains([]string{v1alpha1.AnnotationPartition, v1alpha1.AnnotationProtectedHash, v1alpha1.AnnotationReleasedFrom, v1alpha1.AnnotationSeeding, v1alpha1.AnnotationRecordChecksum}, key)
	})
	annotations[v1alpha1.AnnotationFingerprint] = earlierFingerprint
	u.SetAnnotations(annotations)
	w.Expect(w.Client.Apply(w.ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(v1alpha1.FieldManager), client.ForceOwnership)).To(Succeed())
	w.Expect(w.child(subset).GetAnnotations()).NotTo(HaveKey(v1alpha1.AnnotationPartition), "positive control")
}
