// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestRoles applies config/samples/roles-leaderworkerset.yaml: prefill and decode as two subsets of one
// parent. It checks that both move in proportion, also when the parent is scaled, reverted, or given a
// third template in the middle.
func TestRoles(t *testing.T) {
	t.Parallel()
	w := &roles{ApplySampleOf(t, "LeaderWorkerSet", "roles-leaderworkerset.yaml", "inference")}
	w.Step("comes up", func() {
		w.come("40 v1", "20 v1")
		members := map[string]int{}
		for _, p := range w.Members() {
			members[p.Subset]++
		}
		w.Expect(members).To(Equal(map[string]int{Prefill: 40, Decode: 40}), "a decoder has a worker")
		for role := range members {
			for _, p := range w.PodsOf(role) {
				w.Expect(p.Spec.Containers[0].Env).To(ContainElement(corev1.EnvVar{Name: "ROLE", Value: role}), p.Name)
			}
		}
		w.Scale(30)
		w.come("20 v1", "10 v1")
	})
	floor := w.History.Forbid(belowTheFloor)
	w.Step("scaled in the middle", func() {
		from, ledger := len(w.History.Events(w.Name)), w.Ledger(30)
		w.setImage("quiet-2")
		w.waves(3, "quiet-2", 10, 5)
		w.inProportion(from, "quiet-2", 10, 5)
		w.Expect(ledger.Taken()).To(And(BeNumerically(">", 0), BeNumerically("<=", 6)), "%s", ledger)
		w.Scale(60)
		scaled := len(w.History.Events(w.Name))
		w.rollOn("quiet-2")
		w.inProportion(from, "quiet-2", 20, 10)
		w.keepsTheLedger(scaled, map[string]int{Prefill: 20, Decode: 10})
	})
	w.Step("taken back in the middle", func() {
		from := len(w.History.Events(w.Name))
		w.setImage("quiet-3")
		w.waves(3, "quiet-3", 20, 10)
		w.inProportion(from, "quiet-3", 20, 10)
		w.setImage("v1")
		w.rollOn("v1")
		w.keepsTheLedger(from, nil)
		w.Expect(w.Parent().Status.CurrentRevision).To(Equal(w.Parent().Status.UpdateRevision))
	})
	w.Step("a third template in the middle", func() {
		from := len(w.History.Events(w.Name))
		w.setImage("quiet-4")
		w.waves(3, "quiet-4", 20, 10)
		w.setImage("quiet-5")
		w.rollOn("quiet-5")
		w.inProportion(from, "quiet-4", 20, 10)
		w.inProportion(from, "quiet-5", 20, 10)
		w.keepsTheLedger(from, nil)
	})
	w.Step("the floor", func() {
		floor.Holds()
		w.SetRolling(`{"partition":"40%"}`) // the control
		w.Eventually(floor.Broken).ShouldNot(BeEmpty())
	})
}

// belowTheFloor forbids a new version for the lower half of a role: of 10 prefills and 5 decodes before
// the scale-up, which only the first new version saw, and of 20 and 10 after it.
func belowTheFloor(i Incarnation) string {
	half := map[string]int{Prefill: 20, Decode: 10}[i.Subset]
	switch {
	case i.Image == "v1", i.Ordinal >= half, i.Image == "quiet-2" && i.Ordinal >= half/2:
		return ""
	}
	return "it is below the floor"
}

// roles is the UnitedDeployment of the sample.
type roles struct{ *Contracted }

// setImage stages another tag of the image of the sample.
func (w *roles) setImage(tag string) {
	w.T.Helper()
	w.JSONPatch(`[{"op":"replace","path":"/spec/template/leaderWorkerSetTemplate/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image","value":%q}]`,
		"registry.example/inference:"+tag)
}

// come waits until the wanted images run, and the workload has settled.
func (w *roles) come(prefills, decodes string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		g.Expect(w.Mix()).To(Equal(map[string]string{Prefill: prefills, Decode: decodes}))
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).Should(Succeed())
}

// waves marks the waiting replicas ready the given number of times, waits until both roles have
// replicas of the tag, and checks that neither has reached its final number.
func (w *roles) waves(times int, tag string, prefills, decodes int) {
	w.T.Helper()
	for range times {
		w.Eventually(func(g Gomega) {
			waiting, why := w.Waiting()
			g.Expect(why).To(BeEmpty())
			g.Expect(waiting).NotTo(BeEmpty())
		}).Should(Succeed())
		w.RemindKubeletsOf("")
	}
	updated := map[string]int{}
	w.Eventually(func(g Gomega) {
		clear(updated)
		for _, p := range w.Pods() {
			if p.Image == tag {
				updated[p.Subset]++
			}
		}
		g.Expect(updated).To(And(HaveKey(Prefill), HaveKey(Decode)))
	}).Should(Succeed())
	w.Expect(updated[Prefill]).To(BeNumerically("<", prefills), "it is the middle")
	w.Expect(updated[Decode]).To(BeNumerically("<", decodes), "it is the middle")
}

// rollOn marks waiting replicas ready until the upper half of each role runs the tag. The lower half
// stays; some of it runs the first new version, namely the replicas that were in the upper half before
// the scale-up.
func (w *roles) rollOn(tag string) {
	w.T.Helper()
	half := map[string]int{Prefill: 20, Decode: 10}
	w.Eventually(func(g Gomega) {
		w.RemindKubeletsOf("")
		pods := w.Pods()
		g.Expect(pods).To(HaveLen(60))
		for _, p := range pods {
			if p.Ordinal >= half[p.Subset] {
				g.Expect(p.Image).To(Equal(tag), p.Name)
			} else {
				g.Expect(p.Image).To(BeElementOf("v1", "quiet-2"), p.Name)
			}
		}
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).WithTimeout(RolloutTimeout).Should(Succeed())
}

// inProportion fails the test if one role was ever ahead by more than maxSkew and one replica of the
// smaller role, counting only replicas that may run the tag; or if the roles were never apart, because
// the test then saw nothing.
func (w *roles) inProportion(from int, tag string, prefills, decodes int) {
	w.T.Helper()
	apart := Widest(w.History.Events(w.Name)[from:], tag, map[string]int{Prefill: prefills, Decode: decodes})
	if most := 10 + 100/float64(decodes); apart > most+0.01 || apart == 0 {
		w.T.Fatalf("%s: the roles were %.1f%% apart, want at most %.1f%%", tag, apart, most)
	}
}

// keepsTheLedger fails the test if the deletion of an available replica, of the 60, left more than 6
// down. Replicas from an ordinal on are new, and may be deleted once more before all were up. A
// deletion before the first of those came up does not count, because it was released for the smaller
// number of replicas.
func (w *roles) keepsTheLedger(from int, grown map[string]int) {
	w.T.Helper()
	taken := 0
	begun, up := grown == nil, grown == nil
	var story strings.Builder
	for _, m := range Replay(w.History.Events(w.Name), 60, 0)[from:] {
		fmt.Fprintln(&story, m)
		begun = begun || m.Event.Ordinal >= grown[m.Event.Subset]
		up = up || m.Down == 0
		if !m.Taken || !begun {
			continue
		}
		taken++
		if m.Down > 6 && (up || m.Event.Ordinal < grown[m.Event.Subset]) {
			w.T.Fatalf("an available replica was deleted: %s\n%s", m, story.String())
		}
	}
	if taken == 0 {
		w.T.Fatal("nothing was deleted")
	}
}
