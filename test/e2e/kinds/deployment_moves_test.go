// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// moveTo asks for other numbers of replicas in the first two zones.
func moveTo(w *Contracted, a, b int) {
	w.T.Helper()
	w.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets/0/replicas","value":%d},{"op":"replace","path":"/spec/topology/subsets/1/replicas","value":%d}]`, a, b)
}

// TestDeploymentMoves moves replicas between zones, and removes zones, while a Deployment is being updated, and checks with
// the pods that maxUnavailable holds. A Deployment that is scaled then distributes the change over its versions by
// itself, and may take available replicas although others are not ready.
func TestDeploymentMoves(t *testing.T) {
	t.Parallel()
	removeA := func(w *Contracted) { w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0"}]`) }
	for name, tc := range map[string]struct {
		replicas int32
		a, b     string
		begins   string
		does     func(w *Contracted)
		ends     [2]string
	}{
		"most of the replicas": {4, "3", "1", "slow-v2", func(w *Contracted) { moveTo(w, 1, 3) }, [2]string{"1 slow-v2", "3 slow-v2"}},
		"more replicas":        {10, "9", "1", "slow-v2", func(w *Contracted) { moveTo(w, 1, 9) }, [2]string{"1 slow-v2", "9 slow-v2"}},
		"there and back": {6, "4", "2", "slow-v2", func(w *Contracted) {
			moveTo(w, 2, 4)
			begins(w, "zone-b", "") // on either version: zone-b may have been the first one to be updated
			moveTo(w, 5, 1)
		}, [2]string{"5 slow-v2", "1 slow-v2"}},
		"while paused": {6, "4", "2", "slow-v2", func(w *Contracted) {
			w.Patch(`{"spec":{"paused":true}}`)
			awaitPaused(w, "zone-a", true)
			moveTo(w, 1, 5)
			w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
			w.Patch(`{"spec":{"paused":false}}`)
		}, [2]string{"1 slow-v2", "5 slow-v2"}},
		"a removed zone": {4, "", "", "slow-v2", removeA, [2]string{"", "4 slow-v2"}},
		"a removed zone, and the version is broken": {6, "", "", "broken-v2", func(w *Contracted) {
			removeA(w)
			w.Eventually(func() string { return w.Mix()["zone-a"] }).Should(BeEmpty())
			w.SetImages("slow-v3")
		}, [2]string{"", "6 slow-v3"}},
		"broken, grown, broken again, fixed and shrunk": {6, "", "", "broken-v2", func(w *Contracted) {
			w.Scale(8)
			w.Eventually(func() int { return w.Ready() }).Should(BeNumerically(">=", 6))
			w.SetImages("broken-v3")
			w.Eventually(func() string { return fmt.Sprint(w.Mix()) }).Should(ContainSubstring("broken-v3"))
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"/spec/replicas","value":6}]`, "/spec/template/deploymentTemplate/spec/template/spec/containers/0/image", Image("slow-v4"))
		}, [2]string{"3 slow-v4", "3 slow-v4"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.DeploymentsOf(Replicas(tc.replicas), Zones(tc.a, tc.b), FirstImage("slow-v1"), Rolling(`{maxUnavailable: 1}`))
			ledger := w.Ledger(int(tc.replicas))
			w.SetImages(tc.begins)
			begins(w, "zone-a", tc.begins)
			tc.does(w)
			w.ComesTo(tc.ends[0], tc.ends[1], "")
			ledger.TakenWithin(1)
		})
	}
}

// TestDeploymentMissedScaling checks that a Deployment is updated although its ReplicaSet says that it was scaled for another
// number of replicas. Its controller then takes every look at it for scaling, scales nothing because the size is right,
// and never begins.
func TestDeploymentMissedScaling(t *testing.T) {
	t.Parallel()
	for name, strategy := range map[string]Edit{"Manual": Partitions(Parts{"zone-a": 0, "zone-b": 0}), "RollingUpdate": Rolling(`{maxUnavailable: 1}`)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.DeploymentsOf(Replicas(4), Zones("", ""), strategy)
			sets := &appsv1.ReplicaSetList{}
			e.Expect(e.Client.List(e.Ctx, sets, client.InNamespace(e.Namespace))).To(Succeed())
			e.Expect(sets.Items).To(HaveLen(2))
			const annotation = "deployment.kubernetes.io/desired-replicas"
			for i := range sets.Items {
				set := &sets.Items[i]
				e.Expect(set.Annotations).To(HaveKeyWithValue(annotation, "2"))
				patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d"}}}`, annotation, 3+i)
				e.Expect(e.Client.Patch(e.Ctx, set, client.RawPatch("application/merge-patch+json", []byte(patch)))).To(Succeed())
			}
			w.SetImages("v2")
			w.ComesTo("2 v2", "2 v2", "")
		})
	}
}
