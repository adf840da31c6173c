// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// begins waits until a subset has an unready replica of an image.
func begins(w *Contracted, subset, tag string) {
	w.T.Helper()
	w.Eventually(func() string { return w.Mix()[subset] }).Should(ContainSubstring(tag + "?"))
}

// TestDeploymentRollingDisturbed checks that a coordinated rollout of Deployments ends, whatever
// happens to a Deployment in the meantime, and that it stays within maxUnavailable unless the
// disturbance itself removed replicas.
func TestDeploymentRollingDisturbed(t *testing.T) {
	t.Parallel()
	toManual := `{"spec":{"updateStrategy":{"type":"Manual","rollingUpdate":null,"manualUpdate":{}}}}`
	toRolling := `{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{"maxUnavailable":1}}}}`
	for name, tc := range map[string]struct {
		does func(w *Contracted)
		// lossy: the disturbance itself removes replicas. ends are the images in the end.
		lossy bool
		ends  string
	}{
		"nothing, the control":    {func(*Contracted) {}, false, "slow2"},
		"it is deleted":           {func(w *Contracted) { w.Remake("zone-a", metav1.DeletePropagationBackground) }, true, "slow2"},
		"it is orphaned":          {func(w *Contracted) { w.Remake("zone-a", metav1.DeletePropagationOrphan) }, false, "slow2"},
		"its new ReplicaSet goes": {func(w *Contracted) { deleteReplicaSet(w, "zone-a", "slow2") }, true, "slow2"},
		"its old ReplicaSet goes": {func(w *Contracted) { deleteReplicaSet(w, "zone-a", "v1") }, true, "slow2"},
		"another version":         {func(w *Contracted) { w.SetImages("v3") }, false, "v3"},
		"back":                    {func(w *Contracted) { w.SetImages("v1") }, false, "v1"},
		"its strategy is Recreate": {func(w *Contracted) {
			patchChild(w, "zone-b", `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`)
		}, false, "slow2"},
		"an autoscaler is at work": {func(w *Contracted) {
			for _, n := range []int32{9, 4, 7, 0, 6} {
				w.Scale(n)
				w.Eventually(func() int32 { return w.Parent().Status.Replicas }).Should(Equal(n))
			}
		}, true, "slow2"},
		"it is held by hand for a while": {func(w *Contracted) {
			w.Patch(`%s`, toManual)
			awaitPaused(w, "zone-a", true)
			w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
			w.Patch(`%s`, toRolling)
		}, false, "slow2"},
		"it is paused for a while, and gets another version": {func(w *Contracted) {
			w.Patch(`{"spec":{"paused":true}}`)
			awaitPaused(w, "zone-a", true)
			w.SetImages("v3")
			w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
			w.Patch(`{"spec":{"paused":false}}`)
		}, false, "v3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.DeploymentsOf(Replicas(6), Zones("", ""), Rolling(`{maxUnavailable: 1}`))
			w.ComesTo("3 v1", "3 v1", "")
			ledger := w.Ledger(6)
			w.SetImages("slow2")
			begins(w, "zone-a", "slow2")
			tc.does(w)
			w.ComesTo("3 "+tc.ends, "3 "+tc.ends, "")
			if !tc.lossy {
				ledger.Within(1)
			}
		})
	}
}

// TestDeploymentRollingTemplates checks that a coordinated rollout goes forward, back, and forward
// again within maxUnavailable, whatever a template sets for surplus, history and readiness.
func TestDeploymentRollingTemplates(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		field   Edit
		surplus bool // no replica has to be down at any time
	}{
		"no history":                {TemplateField(int64(0), "spec", "revisionHistoryLimit"), false},
		"ready for a while":         {TemplateField(int64(2), "spec", "minReadySeconds"), false},
		"a surplus replica":         {TemplateField(int64(1), "spec", "strategy", "rollingUpdate", "maxSurge"), true},
		"twice as many for a while": {TemplateField("100%", "spec", "strategy", "rollingUpdate", "maxSurge"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.DeploymentsOf(Replicas(4), Zones("", ""), Rolling(`{maxUnavailable: 1}`), tc.field)
			ledger := w.Ledger(4)
			for _, tag := range []string{"v2", "v1", "v3"} {
				w.SetImages(tag)
				w.ComesTo("2 "+tag, "2 "+tag, "")
			}
			if tc.surplus {
				e.Expect(ledger.Most()).To(BeNumerically("<=", 1), "%s", ledger)
				e.Expect(ledger.Least()).To(BeNumerically("<", 0), "positive control: %s", ledger)
				return
			}
			ledger.Within(1)
		})
	}
}

// TestDeploymentRollingFromZero checks that nothing counts as finished without replicas. Held replicas
// come up as they were, the others on the new version.
func TestDeploymentRollingFromZero(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ strategy, a, b string }{
		"plain":  {`{maxUnavailable: 1}`, "2 v2", "2 v2"},
		"a step": {`{maxUnavailable: 1, steps: [{subsets: [zone-a], partition: "0%", pause: {}}]}`, "2 v2", "2 v1"},
		"held":   {`{maxUnavailable: 1, partition: "100%"}`, "2 v1", "2 v1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.DeploymentsOf(Replicas(4), Zones("", ""), Rolling(tc.strategy))
			w.ComesTo("2 v1", "2 v1", "")
			w.Scale(0)
			w.ComesTo("", "", "")
			w.SetImages("v2")
			w.ComesTo("", "", "")
			w.Scale(4)
			w.ComesTo(tc.a, tc.b, "")
		})
	}
}

// TestPausedIsReady checks that a paused coordinated rollout is Ready, because the user stopped it
// deliberately, also after another version was staged, and without replicas. A resumed rollout ends.
// That holds for every built-in kind.
func TestPausedIsReady(t *testing.T) {
	t.Parallel()
	for _, k := range BuiltIn() {
		for name, tc := range map[string]struct{ template, zero, begun bool }{
			"with the version":                 {template: true},
			"with the version, and at zero":    {template: true, zero: true},
			"on its way":                       {begun: true},
			"on its way, and at zero":          {begun: true, zero: true},
			"on its way, with another version": {begun: true, template: true},
		} {
			t.Run(k.Title+" "+name, func(t *testing.T) {
				t.Parallel()
				w := k.ContractOf(t, Replicas(4), Zones("", ""), Rolling(`{maxUnavailable: 1}`))
				w.ComesTo("2 v1", "2 v1", "")
				ends := "2 slow2"
				if tc.begun {
					w.SetImages("slow2")
					w.Eventually(func() string { return w.Mix()["zone-a"] + w.Mix()["zone-b"] }).Should(ContainSubstring("slow2?"))
				}
				edits := `{"op":"add","path":"/spec/paused","value":true}`
				if tc.template {
					tag := "slow2"
					if tc.begun {
						tag, ends = "v3", "2 v3"
					}
					edits += fmt.Sprintf(`,{"op":"replace","path":"/spec/template/%s/spec/template/spec/containers/0/image","value":%q}`, k.Member, Image(tag))
				}
				if tc.zero {
					edits += `,{"op":"replace","path":"/spec/replicas","value":0}`
				}
				w.JSONPatch(`[%s]`, edits)
				w.Eventually(func(g Gomega) {
					g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
					g.Expect(Condition(w.Parent(), v1alpha1.ConditionReady).Reason).To(Equal(v1alpha1.ReasonPaused))
				}).Should(Succeed())
				w.JSONPatch(`[{"op":"replace","path":"/spec/paused","value":false},{"op":"replace","path":"/spec/replicas","value":4}]`)
				w.ComesTo(ends, ends, "")
			})
		}
	}
}

// TestDeploymentRollingFailures checks that a failure stops the rollout, that unavailable replicas
// count, and that each action that the status suggests ends it.
func TestDeploymentRollingFailures(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		strategy string
		run      func(w *Contracted)
		ends     string
	}{
		"another version": {`{maxUnavailable: 2}`, func(w *Contracted) {
			w.SetImages("pull2")
			w.Eventually(func() string { return Condition(w.Parent(), v1alpha1.ConditionStalled).Reason }).Should(Equal(v1alpha1.ReasonReplicaFailed))
			w.SetImages("v3")
		}, "3 v3"},
		"an old replica crashes: it is replaced, and no other is down meanwhile": {`{maxUnavailable: 1}`, func(w *Contracted) {
			crashOne(w, "zone-b")
			w.Eventually(func() int32 { return w.Status("zone-b").ReadyReplicas }).Should(Equal(int32(2)))
			ledger := w.Ledger(6)
			w.SetImages("v2")
			w.ComesTo("3 v2", "3 v2", "")
			ledger.Within(1)
		}, "3 v2"},
		"two old replicas crash: maxUnavailable is raised": {`{maxUnavailable: 1}`, func(w *Contracted) {
			crashOne(w, "zone-a")
			crashOne(w, "zone-b")
			w.Eventually(func() int32 { return w.Parent().Status.ReadyReplicas }).Should(Equal(int32(4)))
			w.SetImages("v2")
			w.AwaitPhase(v1alpha1.RolloutBlocked, "raise maxUnavailable")
			w.SetRolling(`{"maxUnavailable":3}`)
		}, "3 v2"},
		"a later zone's replica crashes while one is on its way: force keeps the order": {`{maxUnavailable: 1, order: Sequential}`, func(w *Contracted) {
			mark := w.History.Mark()
			w.SetImages("slow2")
			begins(w, "zone-a", "slow2")
			crashOne(w, "zone-b")
			awaitPaused(w, "zone-a", true)
			w.AwaitPhase(v1alpha1.RolloutBlocked, "force-update")
			w.Force(w.Parent().Status.UpdateRevision)
			w.ComesTo("3 slow2", "3 slow2", "")
			var order []string
			for _, i := range w.History.Since(mark) {
				order = append(order, i.Subset)
			}
			w.Expect(order).To(Equal([]string{"zone-a", "zone-a", "zone-a", "zone-b", "zone-b", "zone-b"}))
		}, "3 slow2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.DeploymentsOf(Replicas(6), Zones("", ""), Rolling(tc.strategy))
			w.ComesTo("3 v1", "3 v1", "")
			tc.run(w)
			w.ComesTo(tc.ends, tc.ends, "")
		})
	}
}

// TestDeploymentPatches checks that only the subset whose patch changes the pods moves.
func TestDeploymentPatches(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.DeploymentsOf(Replicas(4), Rolling(`{maxUnavailable: 1}`),
		Patched("zone-a", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":2}}}}`), Patched("zone-b", `{"metadata":{"labels":{"x":"y"}}}`))
	w.ComesTo("2 v1", "2 v1", "")
	mark, before := e.History.Mark(), w.Uids("zone-b")
	w.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets/0/patch","value":{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":3}}}}}]`)
	w.Eventually(func() int { return len(e.History.Since(mark)) }).Should(Equal(2))
	w.ComesTo("2 v1", "2 v1", "")
	w.Expect(w.Uids("zone-b")).To(Equal(before))
	before = w.Uids()
	w.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets/1/patch","value":{"metadata":{"labels":{"x":"z"}},"spec":{"strategy":{"rollingUpdate":{"maxSurge":1}}}}}]`)
	w.Eventually(func() string { return w.LiveChild("zone-b").GetLabels()["x"] }).Should(Equal("z"))
	w.ComesTo("2 v1", "2 v1", "")
	w.Expect(w.Uids()).To(Equal(before))
}
