// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRelabelledReplicas checks a protected replica on which somebody changed or removed the label that
// shows what it runs. United then does not know what it runs: it leaves the replica alone, and reports
// that, who changed the label, and how to end it.
func TestRelabelledReplicas(t *testing.T) {
	t.Parallel()
	for name, coordinated := range map[string]bool{"Manual": false, "RollingUpdate": true} {
		t.Run(name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w := midCanary(e, p, coordinated)
				child := w.Child("zone-a")
				protected, update := child.Status.CurrentRevision, child.Status.UpdateRevision
				w.Disturbed()
				still := e.History.Forbid(AnyNewPod)
				for tag, value := range map[string]string{"removed": "null", "something": `"something"`, "the update revision": fmt.Sprintf("%q", update)} {
					e.Step(tag, func() {
						relabel(w, "zone-a", 0, value)
						w.Stalls("zone-a", v1alpha1.ReasonRevisionLost, "controller-revision-hash of web-zone-a-0", "--overwrite controller-revision-hash="+protected)
						relabel(w, "zone-a", 0, fmt.Sprintf("%q", protected))
						w.Settle()
					})
				}
				e.Step("again and again", func() {
					for range 20 {
						relabel(w, "zone-a", 0, `"something"`)
						relabel(w, "zone-a", 0, fmt.Sprintf("%q", update))
					}
					w.Stalls("zone-a", v1alpha1.ReasonRevisionLost, "relabeller")
				})
				still.Holds()

				// The other solution is to delete the replica.
				w.DeletePod("zone-a", 0)
				still.Fires()
				w.Runs(Images{"zone-a": "v1 v1 v2", "zone-b": "v1 v1 v1"})
				w.Settle()
			})
		})
	}
}

// relabel sets the label that shows what a replica runs; null removes it.
func relabel(w *Workload, subset string, ordinal int, value string) {
	w.T.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: fmt.Sprintf("%s-%s-%d", w.Name, subset, ordinal)}}
	patch := fmt.Sprintf(`{"metadata":{"labels":{%q:%s}}}`, appsv1.ControllerRevisionHashLabelKey, value)
	w.Expect(w.Client.Patch(w.Ctx, pod, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("relabeller"))).To(Succeed())
}
