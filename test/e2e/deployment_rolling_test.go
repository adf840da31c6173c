// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// begins waits until a subset has an unready replica of an image.
func (w *contracted) begins(subset, tag string) {
	w.t.Helper()
	w.Eventually(func() string { return w.mix()[subset] }).Should(ContainSubstring(tag + "?"))
}

// TestDeploymentRollingDisturbed checks that a coordinated rollout of Deployments ends, whatever
// happens to a Deployment in the meantime, and that it stays within maxUnavailable unless the
// disturbance itself removed replicas.
func TestDeploymentRollingDisturbed(t *testing.T) {
	t.Parallel()
	toManual := `{"spec":{"updateStrategy":{"type":"Manual","rollingUpdate":null,"manualUpdate":{}}}}`
	toRolling := `{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{"maxUnavailable":1}}}}`
	for name, tc := range map[string]struct {
		does func(w *contracted)
		// lossy: the disturbance itself removes replicas. ends are the images in the end.
		lossy bool
		ends  string
	}{
		"nothing, the control":    {func(*contracted) {}, false, "slow2"},
		"it is deleted":           {func(w *contracted) { w.remake("zone-a", metav1.DeletePropagationBackground) }, true, "slow2"},
		"it is orphaned":          {func(w *contracted) { w.remake("zone-a", metav1.DeletePropagationOrphan) }, false, "slow2"},
		"its new ReplicaSet goes": {func(w *contracted) { w.deleteReplicaSet("zone-a", "slow2") }, true, "slow2"},
		"its old ReplicaSet goes": {func(w *contracted) { w.deleteReplicaSet("zone-a", "v1") }, true, "slow2"},
		"another version":         {func(w *contracted) { w.setImage("v3") }, false, "v3"},
		"back":                    {func(w *contracted) { w.setImage("v1") }, false, "v1"},
		"its strategy is Recreate": {func(w *contracted) {
			w.patchChild("zone-b", `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`)
		}, false, "slow2"},
		"an autoscaler is at work": {func(w *contracted) {
			for _, n := range []int32{9, 4, 7, 0, 6} {
				w.Scale(n)
				w.Eventually(func() int32 { return w.Parent().Status.Replicas }).Should(Equal(n))
			}
		}, true, "slow2"},
		"it is held by hand for a while": {func(w *contracted) {
			w.Patch(`%s`, toManual)
			w.awaitPaused("zone-a", true)
			w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
			w.Patch(`%s`, toRolling)
		}, false, "slow2"},
		"it is paused for a while, and gets another version": {func(w *contracted) {
			w.Patch(`{"spec":{"paused":true}}`)
			w.awaitPaused("zone-a", true)
			w.setImage("v3")
			w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
			w.Patch(`{"spec":{"paused":false}}`)
		}, false, "v3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w := e.deploymentsOf(replicas(6), zones("", ""), rolling(`{maxUnavailable: 1}`))
			w.comesTo("3 v1", "3 v1", "")
			ledger := w.Ledger(6)
			w.setImage("slow2")
			w.begins("zone-a", "slow2")
			tc.does(w)
			w.comesTo("3 "+tc.ends, "3 "+tc.ends, "")
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
		field   edit
		surplus bool // no replica has to be down at any time
	}{
		"no history":                {templateField(int64(0), "spec", "revisionHistoryLimit"), false},
		"ready for a while":         {templateField(int64(2), "spec", "minReadySeconds"), false},
		"a surplus replica":         {templateField(int64(1), "spec", "strategy", "rollingUpdate", "maxSurge"), true},
		"twice as many for a while": {templateField("100%", "spec", "strategy", "rollingUpdate", "maxSurge"), true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w := e.deploymentsOf(replicas(4), zones("", ""), rolling(`{maxUnavailable: 1}`), tc.field)
			ledger := w.Ledger(4)
			for _, tag := range []string{"v2", "v1", "v3"} {
				w.setImage(tag)
				w.comesTo("2 "+tag, "2 "+tag, "")
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
			e := newEnv(t)
			w := e.deploymentsOf(replicas(4), zones("", ""), rolling(tc.strategy))
			w.comesTo("2 v1", "2 v1", "")
			w.Scale(0)
			w.comesTo("", "", "")
			w.setImage("v2")
			w.comesTo("", "", "")
			w.Scale(4)
			w.comesTo(tc.a, tc.b, "")
		})
	}
}

// TestPausedIsReady checks that a paused coordinated rollout is Ready, because the user stopped it
// deliberately, also after another version was staged, and without replicas. A resumed rollout ends.
// That holds for every built-in kind.
func TestPausedIsReady(t *testing.T) {
	t.Parallel()
	for _, k := range builtIn() {
		for name, tc := range map[string]struct{ template, zero, begun bool }{
			"with the version":                 {template: true},
			"with the version, and at zero":    {template: true, zero: true},
			"on its way":                       {begun: true},
			"on its way, and at zero":          {begun: true, zero: true},
			"on its way, with another version": {begun: true, template: true},
		} {
			t.Run(k.name+" "+name, func(t *testing.T) {
				t.Parallel()
				w := k.contractOf(t, replicas(4), zones("", ""), rolling(`{maxUnavailable: 1}`))
				w.comesTo("2 v1", "2 v1", "")
				ends := "2 slow2"
				if tc.begun {
					w.setImage("slow2")
					w.Eventually(func() string { return w.mix()["zone-a"] + w.mix()["zone-b"] }).Should(ContainSubstring("slow2?"))
				}
				edits := `{"op":"add","path":"/spec/paused","value":true}`
				if tc.template {
					tag := "slow2"
					if tc.begun {
						tag, ends = "v3", "2 v3"
					}
					edits += fmt.Sprintf(`,{"op":"replace","path":"/spec/template/%s/spec/template/spec/containers/0/image","value":%q}`, k.member, image(tag))
				}
				if tc.zero {
					edits += `,{"op":"replace","path":"/spec/replicas","value":0}`
				}
				w.JSONPatch(`[%s]`, edits)
				w.Eventually(func(g Gomega) {
					g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
					g.Expect(condition(w.Parent(), v1alpha1.ConditionReady).Reason).To(Equal(v1alpha1.ReasonPaused))
				}).Should(Succeed())
				w.JSONPatch(`[{"op":"replace","path":"/spec/paused","value":false},{"op":"replace","path":"/spec/replicas","value":4}]`)
				w.comesTo(ends, ends, "")
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
		run      func(w *contracted)
		ends     string
	}{
		"another version": {`{maxUnavailable: 2}`, func(w *contracted) {
			w.setImage("pull2")
			w.Eventually(func() string { return condition(w.Parent(), v1alpha1.ConditionStalled).Reason }).Should(Equal(v1alpha1.ReasonReplicaFailed))
			w.setImage("v3")
		}, "3 v3"},
		"an old replica crashes: it is replaced, and no other is down meanwhile": {`{maxUnavailable: 1}`, func(w *contracted) {
			w.crashOne("zone-b")
			w.Eventually(func() int32 { return w.Status("zone-b").ReadyReplicas }).Should(Equal(int32(2)))
			ledger := w.Ledger(6)
			w.setImage("v2")
			w.comesTo("3 v2", "3 v2", "")
			ledger.Within(1)
		}, "3 v2"},
		"two old replicas crash: maxUnavailable is raised": {`{maxUnavailable: 1}`, func(w *contracted) {
			w.crashOne("zone-a")
			w.crashOne("zone-b")
			w.Eventually(func() int32 { return w.Parent().Status.ReadyReplicas }).Should(Equal(int32(4)))
			w.setImage("v2")
			w.AwaitPhase(v1alpha1.RolloutBlocked, "raise maxUnavailable")
			w.SetRolling(`{"maxUnavailable":3}`)
		}, "3 v2"},
		"a later zone's replica crashes while one is on its way: force keeps the order": {`{maxUnavailable: 1, order: Sequential}`, func(w *contracted) {
			mark := w.History.Mark()
			w.setImage("slow2")
			w.begins("zone-a", "slow2")
			w.crashOne("zone-b")
			w.awaitPaused("zone-a", true)
			w.AwaitPhase(v1alpha1.RolloutBlocked, "force-update")
			w.Force(w.Parent().Status.UpdateRevision)
			w.comesTo("3 slow2", "3 slow2", "")
			var order []string
			for _, i := range w.History.Since(mark) {
				order = append(order, i.Subset)
			}
			w.Expect(order).To(Equal([]string{"zone-a", "zone-a", "zone-a", "zone-b", "zone-b", "zone-b"}))
		}, "3 slow2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			w := e.deploymentsOf(replicas(6), zones("", ""), rolling(tc.strategy))
			w.comesTo("3 v1", "3 v1", "")
			tc.run(w)
			w.comesTo(tc.ends, tc.ends, "")
		})
	}
}

// TestDeploymentPatches checks that only the subset whose patch changes the pods moves.
func TestDeploymentPatches(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.deploymentsOf(replicas(4), rolling(`{maxUnavailable: 1}`),
		patched("zone-a", `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":2}}}}`), patched("zone-b", `{"metadata":{"labels":{"x":"y"}}}`))
	w.comesTo("2 v1", "2 v1", "")
	mark, before := e.History.Mark(), w.uids("zone-b")
	w.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets/0/patch","value":{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":3}}}}}]`)
	w.Eventually(func() int { return len(e.History.Since(mark)) }).Should(Equal(2))
	w.comesTo("2 v1", "2 v1", "")
	w.Expect(w.uids("zone-b")).To(Equal(before))
	before = w.uids()
	w.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets/1/patch","value":{"metadata":{"labels":{"x":"z"}},"spec":{"strategy":{"rollingUpdate":{"maxSurge":1}}}}}]`)
	w.Eventually(func() string { return w.child("zone-b").GetLabels()["x"] }).Should(Equal("z"))
	w.comesTo("2 v1", "2 v1", "")
	w.Expect(w.uids()).To(Equal(before))
}
