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
)

// TestContractInPart checks a subset of which a part is released, for every kind that can be released in
// part: two of its replicas stay on v1, the others run v2. Whatever happens to it, it comes back like
// that: no protected replica runs v2 in between, and no released one starts on v1.
func TestContractInPart(t *testing.T) {
	t.Parallel()
	byHand, coordinated := Partitions(Parts{"zone-a": 2}), Rolling(`{"partition":2}`)
	run := func(name string, k Kind, first []int, edits ...Edit) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := &inPart{Contracted: k.ContractOf(t, append(edits, Replicas(3), Zones(""))...), first: first}
			w.coordinated = w.Parent().Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy
			w.isMadeAgain()
		})
	}
	inOrder := []int{0, 1, 2, 3, 4}
	for _, k := range Kinds() {
		if !k.Whole {
			run(k.Title, k, inOrder, byHand)
		}
	}
	advanced := KindNamed("AdvancedStatefulSet")
	reserved := TemplateField([]any{int64(1)}, "spec", "reserveOrdinals")
	run("AdvancedStatefulSet, coordinated", advanced, inOrder, coordinated)
	run("AdvancedStatefulSet, ordinal 1 is reserved", advanced, []int{0, 2, 3, 4, 5}, byHand, reserved)
	run("AdvancedStatefulSet, coordinated, ordinal 1 is reserved", advanced, []int{0, 2, 3, 4, 5}, coordinated, reserved)
}

// inPart is a UnitedDeployment with one subset, of which two replicas are protected.
type inPart struct {
	*Contracted
	// first are the ordinals of the first replicas.
	first []int
	// coordinated: its strategy is RollingUpdate.
	coordinated bool
}

func (w *inPart) isMadeAgain() {
	var line *Ban
	w.Step("released in part", func() {
		early := w.History.Forbid(w.startsOnEarlier)
		w.ComesTo("3 v1", "", "")
		if w.startsReleased() {
			early.Fires() // the control
		}
		line = w.History.Forbid(w.protected, w.startsOnEarlier)
		w.SetImages("v2")
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
			if w.Counts {
				events := w.History.Events(w.Name)
				_, v2 := Extremes(events, from, "v2")
				w.Expect(v2["zone-a"]).To(Equal(most-2), "nothing protected comes up on v2")
				_, v1 := Extremes(events, from, "v1")
				w.Expect(v1["zone-a"]).To(Equal(2), "and nothing released on v1")
			}
		})
	}
	step("a protected replica that is deleted", 3, 3, func() { w.DeleteOne("v1") })
	step("all that are deleted", 3, 3, func() { w.DeletePods("zone-a") })
	step("a child that is deleted", 3, 3, func() {
		if w.Counts { // otherwise old pods may still run beside the new ones
			w.Remake("zone-a", metav1.DeletePropagationForeground)
			return
		}
		w.Remake("zone-a", metav1.DeletePropagationBackground)
	})
	w.Step("a child that is orphaned", func() {
		before := w.Uids()
		w.Remake("zone-a", metav1.DeletePropagationOrphan)
		if w.LeavesOrphans {
			w.ComesTo("4 v1, 2 v2", "", "")
			w.DeleteOrphans("zone-a")
			w.is(3)
			return
		}
		w.is(3)
		w.Expect(w.Uids()).To(Equal(before), "its pods are adopted")
		line.Holds()
	})
	step("to zero and back", 3, 3, func() {
		w.Scale(0)
		w.ComesTo("", "", "")
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
			w.SetPartitions(Parts{"zone-a": 0})
		}
		w.ComesTo("3 v2", "", "")
		_, most := Extremes(w.History.Events(w.Name), from, "v2")
		w.Expect(most["zone-a"]).To(Equal(3))
		if !w.Counts {
			line.Fires()
		}
	})
}

// protected forbids v2 on a protected ordinal.
func (w *inPart) protected(i Incarnation) string {
	if w.Counts {
		return "" // it has no ordinals
	}
	return Protect("zone-a", w.first[2], "v1")(i)
}

// startsReleased reports whether released replicas start on v2. In a coordinated rollout, they start on
// v1 while maxUnavailable is used up.
func (w *inPart) startsReleased() bool { return !w.Counts && !w.GrowsOnEarlier && !w.coordinated }

// startsOnEarlier forbids v1 on a released ordinal.
func (w *inPart) startsOnEarlier(i Incarnation) string {
	if i.Ordinal >= w.first[2] && i.Image == "v1" && w.startsReleased() {
		return "it is released, and starts on v1"
	}
	return ""
}

// is waits until so many replicas are there, the first two of them on v1.
func (w *inPart) is(replicas int) {
	w.T.Helper()
	if replicas <= 2 {
		w.ComesTo(fmt.Sprintf("%d v1", replicas), "", "")
	} else {
		w.ComesTo(fmt.Sprintf("2 v1, %d v2", replicas-2), "", "")
	}
	if w.Counts {
		return
	}
	want := map[int]string{}
	for i, ordinal := range w.first[:replicas] {
		want[ordinal] = "v1"
		if i >= 2 {
			want[ordinal] = "v2"
		}
	}
	w.Expect(ordinals(w.Contracted, "zone-a")).To(Equal(want))
}
