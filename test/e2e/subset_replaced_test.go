// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestSubsetReplaced removes a subset and immediately adds one with the same name, in another zone and
// with another patch.
func TestSubsetReplaced(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		partition any
	}{{"released", 0}, {"held", "100%"}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", "", ""),
				partitions(parts{"zone-a": c.partition, "zone-b": c.partition, "zone-c": c.partition})))
			w.Settle()
			others := e.History.Forbid(outside("zone-b"))
			const at, line = "/spec/topology/subsets/1", "/spec/updateStrategy/manualUpdate/partitions/zone-b"
			for round, zone := range []string{"zone-c", "zone-a", "zone-b"} {
				tag := fmt.Sprintf("b%d", round)
				before := w.Child("zone-b")
				w.JSONPatch(`[{"op":"remove","path":%q},{"op":"remove","path":%q},{"op":"replace","path":"/spec/replicas","value":4}]`, at, line)
				e.Eventually(func() bool {
					now := &appsv1.StatefulSet{}
					err := e.Get(e.ctx, client.ObjectKeyFromObject(before), now)
					return apierrors.IsNotFound(err) || err == nil && now.UID != before.UID
				}).Should(BeTrue(), "seen by the manager; its pods are still there")
				w.JSONPatch(`[{"op":"add","path":%q,"value":{"name":"zone-b","nodeSelector":%s,
					"patch":{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}}},
					{"op":"add","path":%q,"value":%s},{"op":"replace","path":"/spec/replicas","value":6}]`,
					at, asJSON(inZone(zone)), image(tag), line, asJSON(c.partition))
				w.Settle()
				others.Holds()
				e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": tag + " " + tag, "zone-c": "v1 v1"}))
				for _, p := range w.Pods() {
					if p.Subset == "zone-b" {
						e.Expect(p.Zone).To(Equal(zone), p.Name)
					}
				}
			}
			e.Expect(e.History.Since(0)).To(HaveLen(6+3*2), "each pod was made once: the control of what is counted")
		})
	}
}

// TestSubsetReplacedUnseen removes a subset and adds it again on other nodes while no manager runs. A
// manager that comes back cannot know that, and does not delete anything on a guess: held replicas stay
// where they are, released ones move.
func TestSubsetReplacedUnseen(t *testing.T) {
	t.Parallel()
	e := newPlaneOf(t).newEnv(t)
	w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", "", ""), hold()))
	w.Settle()
	others, none := e.History.Forbid(outside("zone-b")), e.History.Forbid(anyNewPod)
	e.restartManager(func() {
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1"}]`)
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1","value":{"name":"zone-b","nodeSelector":%s}}]`, asJSON(inZone("zone-c")))
	})
	w.Disturbed()
	w.Settle()
	none.Holds()
	w.SetPartitions(parts{"zone-b": 0})
	w.Settle()
	none.Fires()
	others.Holds()
	for _, p := range w.Pods() {
		if p.Subset == "zone-b" {
			e.Expect(p.Zone).To(Equal("zone-c"), p.Name)
		}
	}
}
