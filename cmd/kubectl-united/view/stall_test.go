// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
)

// Going back takes back what is in the pods, wherever they were accepted, and never a field that cannot be changed: it is refused only
// where that is all, and otherwise says what stays.
func TestStall(t *testing.T) {
	const fixed, ofPods, accepted = `spec.serviceName: Invalid value: "x": field is immutable`, "spec.template.spec.nodeSelectors: field not declared in schema", ""
	for name, tc := range map[string]struct {
		rollout bool
		updated int32
		refused []string // of a, b and so on
		keeps   bool
		stays   string
	}{
		"at rest":                          {false, 0, []string{fixed, fixed}, true, "a: " + fixed},
		"at rest, in one subset":           {false, 0, []string{accepted, fixed}, true, "b: " + fixed},
		"in a rollout":                     {true, 0, []string{fixed, fixed}, true, "a: " + fixed},
		"in a rollout that has moved":      {true, 1, []string{fixed, fixed}, false, "a: " + fixed},
		"one subset of a rollout":          {true, 0, []string{accepted, fixed}, false, "b: " + fixed},
		"pods in one and a field in other": {true, 0, []string{ofPods, fixed}, false, "b: " + fixed},
		"pods":                             {true, 0, []string{ofPods, ofPods}, false, ""},
		"pods and a field in one":          {true, 0, []string{ofPods + ", " + fixed, accepted}, false, "a: " + ofPods + ", " + fixed},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			parent := &v1alpha1.UnitedDeployment{}
			status := &parent.Status
			status.CurrentRevision, status.UpdateRevision, status.UpdatedReplicas = "web-1", "web-1", tc.updated
			if tc.rollout {
				status.UpdateRevision = "web-2"
			}
			for i, refusal := range tc.refused {
				s := v1alpha1.SubsetStatus{Name: string(rune('a' + i)), Phase: v1alpha1.PhaseHeld, Message: "partition 2 of 2 replicas protects 2"}
				if refusal != accepted {
					s.Phase, s.Message = v1alpha1.PhaseStalled, refusal
				}
				status.Subsets = append(status.Subsets, s)
			}
			g.Expect(StallOf(parent, nil)).To(Equal(Stall{}), "nothing stalls")
			status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: "True", Reason: v1alpha1.ReasonApplyRefused, Message: "all"}}
			stall := StallOf(parent, nil)
			g.Expect(stall.KeepsFrom(parent)).To(Equal(tc.keeps))
			g.Expect(stall.Lasts()).To(Equal(tc.stays != ""))
			if tc.stays != "" {
				g.Expect(stall.String()).To(Equal("correct what the API server refuses: " + tc.stays))
			}
			g.Expect(stall.Setback()).To(BeEmpty(), "the children are not seen")
		})
	}
	g := NewWithT(t)
	seen := Stall{said: "a: x", fixed: "b: " + fixed, setbacks: []foresee.Setback{{Field: "spec.template.x", Value: "web"}, {Field: "spec.template.y", Value: "(none)"}}}
	g.Expect(seen.String()).To(And(Equal(seen.Setback()), Equal("set spec.template.x back to web, and remove spec.template.y")))
}

// What a hand must set back is on the screen, where undo is, or in its place.
func TestBackNamesTheField(t *testing.T) {
	st := &Status{
		Name: "web", Observed: true, State: Failed, Reason: v1alpha1.ReasonApplyRefused, Current: &Revision{Name: "web-1"}, Update: &Revision{Name: "web-2"},
		Setback: "set spec.template.x back to web",
	}
	for stuck, want := range map[bool]string{
		false: "\nNext  kubectl united why web\nBack  kubectl united undo web\nAlso  set spec.template.x back to web\n",
		true:  "\nNext  kubectl united why web\nBack  set spec.template.x back to web\n",
	} {
		st.stuck = stuck
		text := &strings.Builder{}
		Style{ASCII: true}.Print(text, st, false)
		NewWithT(t).Expect(text.String()).To(HaveSuffix(want))
	}
}
