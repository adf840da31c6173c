// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
)

func TestStepsOf(t *testing.T) {
	g := NewWithT(t)
	reached := metav1.NewTime(time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC))
	parent := &v1alpha1.UnitedDeployment{}
	g.Expect(view.StepsOf(parent)).To(BeEmpty())
	parent.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Steps: []v1alpha1.RolloutStep{
		{Subsets: []string{"a"}, Partition: ptr.To(intstr.FromString("50%")), Pause: &v1alpha1.RolloutPause{}},
		{Subsets: []string{"a", "b"}, Partition: ptr.To(intstr.FromInt32(0)), Pause: &v1alpha1.RolloutPause{Duration: "10m"}},
		{Subsets: []string{"*"}, Partition: ptr.To(intstr.FromInt32(0))},
	}}
	parent.Status.CurrentRevision, parent.Status.UpdateRevision = "web-1", "web-2"
	parent.Status.Rollout = &v1alpha1.RolloutStatus{Step: 1, ReachedTime: &reached, SoakedSeconds: 240}
	g.Expect(view.StepsOf(parent)).To(Equal([]view.Step{
		{Subsets: []string{"a"}, Partition: "50%", Pause: "until approved", Done: true},
		{Subsets: []string{"a", "b"}, Partition: "0", Pause: "10m", Now: true, Ends: reached.Add(6 * time.Minute)},
		{Subsets: []string{"*"}, Partition: "0"},
	}))
	left := func(seconds int) string {
		in := &planner.Input{Update: &revision.Revision{Name: "web-2"}, World: world.World{Parent: parent, Spec: &spec.Spec{Adapter: statefulset.New()}, Now: reached.Add(6*time.Minute - time.Duration(seconds)*time.Second)}}
		return view.StatusOf(parent, in, "").Left
	}
	g.Expect([]string{left(300), left(8), left(0), left(-3)}).To(Equal([]string{"5m0s", "8s", "", ""}))
	g.Expect(view.StatusOf(parent, nil, "").Left).To(BeEmpty(), "no time is known")
	parent.Status.CurrentRevision = "web-2"
	g.Expect(left(8)).To(BeEmpty())
	g.Expect(view.StepsOf(parent)[1].Now).To(BeFalse(), "at rest no step runs")
}

// printed returns what status prints.
func printed(st *view.Status) string {
	text := &strings.Builder{}
	view.Style{ASCII: true}.Print(text, st, false)
	return text.String()
}

func TestStatusOfSteps(t *testing.T) {
	g := NewWithT(t)
	st := &view.Status{
		Name: "web", Kind: "StatefulSet", Observed: true, State: view.Waiting, Reason: v1alpha1.ReasonStepPaused, Message: "step 2 of 3 reached; continues at 13:47", Strategy: "RollingUpdate",
		Current: &view.Revision{Name: "web-1", Images: []string{"registry.example/web:v1"}}, Update: &view.Revision{Name: "web-2", Images: []string{"registry.example/web:v2"}},
		Rollout: &view.Rollout{Phase: "Paused", Step: 1, Steps: 3},
		Steps: []view.Step{
			{Subsets: []string{"a"}, Partition: "50%", Pause: "until approved", Done: true}, {Subsets: []string{"a", "b"}, Partition: "0", Pause: "10m", Now: true}, {Subsets: []string{"*"}, Partition: "0"},
		},
		Subsets: []view.Subset{{Name: "a", Desired: 3, Partition: "0%", Protected: 3, Bar: view.Bar{Protected: 3}}, {Name: "b", Desired: 3, Partition: "60%", Protected: 2, Bar: view.Bar{Protected: 2, Updated: 1}}},
	}
	text := printed(st)
	for _, want := range []string{
		"Current   web:v1  web-1\n", "Update    web:v2  web-2\n",
		"Step 1    a to partition 50%, then waits for approval: done\nStep 2    a, b to partition 0, then pauses 10m: now\nStep 3    all to partition 0\n",
		"Next  kubectl united status web --watch\n",
	} {
		g.Expect(text).To(ContainSubstring(want))
	}
	g.Expect(printed(&view.Status{Name: "web", Observed: true, State: view.Waiting, Reason: v1alpha1.ReasonStepPaused, Left: "8s"})).To(HaveSuffix("\nNext  wait, 8s left: kubectl united status web --watch\n"))
	g.Expect(text).To(And(MatchRegexp(`a +0/3 .* 3 *\n`), MatchRegexp(`b +0/3 .* 2 \(floor 60%\) *\n`)), "the floor is not what protects now")

	st.Subsets[0].Bar.Broken = 1
	st.Reason = v1alpha1.ReasonRollingOut
	g.Expect(st.Next()).To(Equal("why web"), "something is wrong")
	st.Subsets[0].Bar.Broken = 0
	g.Expect(st.Next()).To(Equal("status web --watch"))
	st.Strategy, st.Steps = "Manual", make([]view.Step, 20)
	st.Steps[9].Now = true
	text = printed(st)
	g.Expect(text).To(And(MatchRegexp(`a +0/3 .* 0% \(3\) *\n`), ContainSubstring("Step 8 "), ContainSubstring("Step 15 "), Not(ContainSubstring("Step 7 ")), Not(ContainSubstring("Step 16 "))))
}

// An approval releases the next step, or what no step has released.
func TestReleases(t *testing.T) {
	g := NewWithT(t)
	parent := &v1alpha1.UnitedDeployment{}
	g.Expect(view.Releases(parent)).To(BeEmpty())
	parent.Spec.UpdateStrategy.Type = v1alpha1.RollingUpdateStrategy
	parent.Spec.UpdateStrategy.RollingUpdate = &v1alpha1.RollingUpdate{Steps: []v1alpha1.RolloutStep{
		{Subsets: []string{"a"}, Partition: ptr.To(intstr.FromString("50%"))}, {Subsets: []string{"b"}, Partition: ptr.To(intstr.FromInt32(0)), Pause: &v1alpha1.RolloutPause{Duration: "5m"}},
	}}
	parent.Status.Rollout = &v1alpha1.RolloutStatus{}
	g.Expect(view.Releases(parent)).To(Equal("step 2 of 2 releases b to partition 0, then pauses 5m"))
	parent.Status.Rollout.Step = 1
	g.Expect(view.Releases(parent)).To(Equal("after the last step everything is released"))
	parent.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromInt32(1))
	g.Expect(view.Releases(parent)).To(Equal("after the last step everything is released down to rollingUpdate.partition, 1"))
}
