// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestContractInPart checks a subset of which a part is released, for every kind that can be released in
// part: two of its replicas stay on v1, the others run v2. Whatever happens to it, it comes back like
// that: no protected replica runs v2 in between, and no released one starts on v1.
func TestContractInPart(t *testing.T) {
	t.Parallel()
	byHand, coordinated := partitions(parts{"zone-a": 2}), rolling(`{"partition":2}`)
	run := func(name string, k kind, first []int, edits ...edit) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &inPart{contracted: k.contractOf(t, append(edits, replicas(3), zones(""))...), first: first}
			w.coordinated = w.Parent().Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy
			w.isMadeAgain()
		})
	}
	inOrder := []int{0, 1, 2, 3, 4}
	for _, k := range kinds() {
		if !k.whole {
			run(k.name, k, inOrder, byHand)
		}
	}
	advanced := kindNamed("AdvancedStatefulSet")
	reserved := templateField([]any{int64(1)}, "spec", "reserveOrdinals")
	run("AdvancedStatefulSet, coordinated", advanced, inOrder, coordinated)
	run("AdvancedStatefulSet, ordinal 1 is reserved", advanced, []int{0, 2, 3, 4, 5}, byHand, reserved)
	run("AdvancedStatefulSet, coordinated, ordinal 1 is reserved", advanced, []int{0, 2, 3, 4, 5}, coordinated, reserved)
}

// inPart is a UnitedDeployment with one subset, of which two replicas are protected.
type inPart struct {
	*contracted
	// first are the ordinals of the first replicas.
	first []int
	// coordinated: its strategy is RollingUpdate.
	coordinated bool
}

func (w *inPart) isMadeAgain() {
	var line *Ban
	w.Step("released in part", func() {
		early := w.History.Forbid(w.startsOnEarlier)
		w.comesTo("3 v1", "", "")
		if w.startsReleased() {
			early.Fires() // the control
		}
		line = w.History.Forbid(w.protected, w.startsOnEarlier)
		w.setImage("v2")
		w.is(3)
		line.Holds()
	})
	// step runs a step, and checks what ran in between. most is the largest number of replicas in it.
	step := func(name string, most, replicas int, run func()) {
		w.Step(name, func() {
			from := len(w.History.Events(w.Name))
			run()
			w.is(replicas)
			line.Holds()
			if w.counts {
				events := w.History.Events(w.Name)
				_, v2 := extremes(events, from, "v2")
				w.Expect(v2["zone-a"]).To(Equal(most-2), "nothing protected comes up on v2")
				_, v1 := extremes(events, from, "v1")
				w.Expect(v1["zone-a"]).To(Equal(2), "and nothing released on v1")
			}
		})
	}
	step("a protected replica that is deleted", 3, 3, func() { w.deleteOne("v1") })
	step("all that are deleted", 3, 3, func() { w.deletePods("zone-a") })
	step("a child that is deleted", 3, 3, func() {
		if w.counts { // otherwise old pods may still run beside the new ones
			w.remake("zone-a", metav1.DeletePropagationForeground)
			return
		}
		w.remake("zone-a", metav1.DeletePropagationBackground)
	})
	w.Step("a child that is orphaned", func() {
		before := w.uids()
		w.remake("zone-a", metav1.DeletePropagationOrphan)
		if w.leavesOrphans {
			w.comesTo("4 v1, 2 v2", "", "")
			w.deleteOrphans("zone-a")
			w.is(3)
			return
		}
		w.is(3)
		w.Expect(w.uids()).To(Equal(before), "its pods are adopted")
		line.Holds()
	})
	step("to zero and back", 3, 3, func() {
		w.Scale(0)
		w.comesTo("", "", "")
		w.Scale(3)
	})
	step("scaled up", 5, 5, func() { w.Scale(5) })
	step("scaled down into what is protected", 5, 1, func() { w.Scale(1) })
	step("and up again", 3, 3, func() { w.Scale(3) })
	w.Step("the control: all released", func() {
		from := len(w.History.Events(w.Name))
		if w.coordinated {
			w.SetRolling(`{"partition":0}`)
		} else {
			w.SetPartitions(parts{"zone-a": 0})
		}
		w.comesTo("3 v2", "", "")
		_, most := extremes(w.History.Events(w.Name), from, "v2")
		w.Expect(most["zone-a"]).To(Equal(3))
		if !w.counts {
			line.Fires()
		}
	})
}

// protected forbids v2 on a protected ordinal.
func (w *inPart) protected(i incarnation) string {
	if w.counts {
		return "" // it has no ordinals
	}
	return protect("zone-a", w.first[2], "v1")(i)
}

// startsReleased reports whether released replicas start on v2. In a coordinated rollout, they start on
// v1 while maxUnavailable is used up.
func (w *inPart) startsReleased() bool { return !w.counts && !w.growsOnEarlier && !w.coordinated }

// startsOnEarlier forbids v1 on a released ordinal.
func (w *inPart) startsOnEarlier(i incarnation) string {
	if i.Ordinal >= w.first[2] && i.Image == "v1" && w.startsReleased() {
		return "it is released, and starts on v1"
	}
	return ""
}

// is waits until so many replicas are there, the first two of them on v1.
func (w *inPart) is(replicas int) {
	w.t.Helper()
	if replicas <= 2 {
		w.comesTo(fmt.Sprintf("%d v1", replicas), "", "")
	} else {
		w.comesTo(fmt.Sprintf("2 v1, %d v2", replicas-2), "", "")
	}
	if w.counts {
		return
	}
	want := map[int]string{}
	for i, ordinal := range w.first[:replicas] {
		want[ordinal] = "v1"
		if i >= 2 {
			want[ordinal] = "v2"
		}
	}
	w.Expect(w.ordinals("zone-a")).To(Equal(want))
}
