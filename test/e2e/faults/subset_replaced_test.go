// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
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
			e := SoundEnv(t)
			w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", "", ""),
				Partitions(Parts{"zone-a": c.partition, "zone-b": c.partition, "zone-c": c.partition})))
			w.Settle()
			others := e.History.Forbid(Outside("zone-b"))
			const at, line = "/spec/topology/subsets/1", "/spec/updateStrategy/manualUpdate/partitions/zone-b"
			for round, zone := range []string{"zone-c", "zone-a", "zone-b"} {
				tag := fmt.Sprintf("b%d", round)
				before := w.Child("zone-b")
				w.JSONPatch(`[{"op":"remove","path":%q},{"op":"remove","path":%q},{"op":"replace","path":"/spec/replicas","value":4}]`, at, line)
				e.Eventually(func() bool {
					now := &appsv1.StatefulSet{}
					err := e.Get(e.Ctx, client.ObjectKeyFromObject(before), now)
					return apierrors.IsNotFound(err) || err == nil && now.UID != before.UID
				}).Should(BeTrue(), "seen by the manager; its pods are still there")
				w.JSONPatch(`[{"op":"add","path":%q,"value":{"name":"zone-b","nodeSelector":%s,
					"patch":{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}}},
					{"op":"add","path":%q,"value":%s},{"op":"replace","path":"/spec/replicas","value":6}]`,
					at, AsJSON(inZone(zone)), Image(tag), line, AsJSON(c.partition))
				w.Settle()
				others.Holds()
				e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": tag + " " + tag, "zone-c": "v1 v1"}))
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
// manager that comes back treats that as a removal and an addition: the others take the replicas of the
// subset, and it comes up on its new nodes, on the version that it protects. Nothing else moves.
func TestSubsetReplacedUnseen(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", "", ""), Hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	held := e.History.Forbid(Protect("zone-a", Everything, "v1"), Protect("zone-b", Everything, "v1"), Protect("zone-c", Everything, "v1"))
	before := map[types.UID]bool{}
	for _, zone := range []string{"zone-a", "zone-c"} {
		for _, p := range w.PodsOf(zone) {
			before[p.UID] = true
		}
	}
	e.RestartManager(func() {
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1"}]`)
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1","value":{"name":"zone-b","nodeSelector":%s}}]`, AsJSON(inZone("zone-c")))
	})
	w.Disturbed()
	e.Eventually(func(g Gomega) {
		pods := w.PodsOf("zone-b")
		g.Expect(pods).To(HaveLen(2))
		g.Expect(pods).To(HaveEach(HaveField("Spec.NodeName", HavePrefix("zone-c"))))
	}).Should(Succeed())
	w.Settle()
	held.Holds()
	for _, p := range w.Pods() {
		e.Expect(before[p.UID]).To(Equal(p.Subset != "zone-b"), "%s: what was there and is not in zone-b stays", p.Name)
	}
	w.SetPartitions(Parts{"zone-b": 0})
	w.Settle()
	held.Fires()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v2 v2", "zone-c": "v1 v1"}))
}
