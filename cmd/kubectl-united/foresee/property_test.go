// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee_test

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/test/simulation"
)

var zones = []string{"a", "b", "c"}

func amount(text string) *intstr.IntOrString { return ptr.To(intstr.Parse(text)) }

// edit is something that a user does.
type edit struct {
	what string
	do   func(*v1alpha1.UnitedDeploymentSpec)
}

func pick[T any](t *rapid.T, label string, from ...T) T {
	return rapid.SampledFrom(from).Draw(t, label)
}

func drawEdit(t *rapid.T, policy string) edit {
	switch rapid.IntRange(0, 8).Draw(t, "edit") {
	case 0, 1:
		image := pick(t, "image", "v1", "v2", "v3")
		return edit{"image " + image, func(s *v1alpha1.UnitedDeploymentSpec) { s.Template = simulation.TemplateOf(image, policy) }}
	case 2, 3:
		zone, to := pick(t, "zone", append(zones, "")...), *amount(pick(t, "partition", "0", "1", "2", "50%", "100%", "9"))
		return edit{"partition " + zone + "=" + to.String(), func(s *v1alpha1.UnitedDeploymentSpec) {
			s.UpdateStrategy.Type = v1alpha1.ManualUpdateStrategy
			simulation.SetPartition(s, zone, to)
		}}
	case 4:
		n := pick[int32](t, "replicas", 0, 3, 4, 5, 6, 7, 8, 9) // no zone alone is empty: the oracle of the simulation does not know that
		return edit{fmt.Sprint("replicas ", n), func(s *v1alpha1.UnitedDeploymentSpec) { s.Replicas = &n }}
	case 5:
		zone := pick(t, "zone", zones...)
		return edit{"come or go " + zone, func(s *v1alpha1.UnitedDeploymentSpec) {
			if len(s.Topology.Subsets) > 1 || s.Topology.Subsets[0].Name != zone {
				simulation.ComeOrGo(s, zone)
			}
		}}
	case 6:
		zone, word := pick(t, "zone", zones...), pick(t, "patch", "", "x", "y")
		return edit{"patch " + zone + " " + word, func(s *v1alpha1.UnitedDeploymentSpec) {
			for i := range s.Topology.Subsets {
				if s.Topology.Subsets[i].Name == zone {
					s.Topology.Subsets[i].Patch = simulation.PatchOf(word)
				}
			}
		}}
	case 7:
		return edit{"pause or resume", func(s *v1alpha1.UnitedDeploymentSpec) { s.Paused = !s.Paused }}
	}
	rolling := &v1alpha1.RollingUpdate{
		MaxUnavailable: pick(t, "maxUnavailable", nil, amount("2"), amount("3"), amount("100%")),
		Partition:      pick(t, "floor", nil, nil, amount("1"), amount("50%")),
		Order:          pick(t, "order", v1alpha1.ParallelOrder, v1alpha1.SequentialOrder),
	}
	if rapid.Bool().Draw(t, "step") {
		rolling.Steps = []v1alpha1.RolloutStep{{
			Subsets: []string{v1alpha1.AllSubsets}, Partition: amount(pick(t, "to", "50%", "90%", "1")),
			Pause: pick(t, "pause", nil, &v1alpha1.RolloutPause{}, &v1alpha1.RolloutPause{Duration: "90s"}),
		}}
	}
	return edit{fmt.Sprintf("rolling %+v", *rolling), func(s *v1alpha1.UnitedDeploymentSpec) {
		s.UpdateStrategy.Type, s.UpdateStrategy.RollingUpdate = v1alpha1.RollingUpdateStrategy, rolling.DeepCopy()
	}}
}

// firstSeed makes the same code get the same result, unless -rapid.seed is set.
const firstSeed = "20261127"

func seed(t *testing.T) {
	t.Helper()
	set := false
	flag.Visit(func(f *flag.Flag) { set = set || f.Name == "rapid.seed" && f.Value.String() != firstSeed })
	if !set {
		if err := flag.Set("rapid.seed", firstSeed); err != nil {
			t.Fatal(err)
		}
	}
}

// What a plan foresees happens: the same replicas are restarted, removed and created, in the same order.
func TestForeseesWhatHappens(t *testing.T) {
	seed(t)
	for _, version := range simulation.Versions() {
		for _, policy := range []string{"Parallel", "OrderedReady"} {
			t.Run(fmt.Sprintf("%s/%s", version, policy), func(t *testing.T) {
				moved := 0
				rapid.Check(t, func(t *rapid.T) { moved += foreseen(t, version, policy) })
				t.Logf("%d replicas moved", moved)
			})
		}
	}
}

func foreseen(t *rapid.T, version simulation.Version, policy string) (moved int) {
	s := simulation.New(t, policy, zones[:rapid.IntRange(1, 3).Draw(t, "zones")]...)
	s.Sets.Version = version
	s.Parent().Spec.MinReadySeconds = pick(t, "minReadySeconds", int32(0), 0, 5)
	s.Parent().Spec.RevisionHistoryLimit = ptr.To[int32](10)
	s.Restart()
	s.Rest()
	moving := false
	for range rapid.IntRange(1, 6).Draw(t, "edits") {
		e := drawEdit(t, policy)
		after := s.Parent().DeepCopy()
		e.do(&after.Spec)
		after.Generation++
		in, err := look.New(s.API.Reader()).World(t.Context(), after, s.Clock.Now())
		if err != nil {
			t.Skip(err) // rapid draws another one: the spec is refused, so there is nothing to foresee
		}
		plan, err := foresee.Of(in, foresee.Options{CountsUnavailable: version == simulation.Kubernetes137})
		if err != nil {
			s.Fail("plan %s: %v", e.what, err)
		}
		if plan.End.State == foresee.Unfinished {
			s.Fail("%s: the plan has no end: %+v", e.what, plan.Waves[max(0, len(plan.Waves)-3):])
		}
		mid := rapid.IntRange(0, 2).Draw(t, "mid") == 0
		before := maps.Clone(s.API.Live.Pods)
		s.Edit(e.what, e.do)
		if mid {
			for range rapid.IntRange(1, 4).Draw(t, "rounds") {
				s.Everybody()
			}
			moving = true
			continue
		}
		s.Rest()
		moved += compare(s, e.what, plan, before)
		if !moving { // otherwise it depends on who acts first
			compareOrder(s, e.what, plan, before)
		}
		moving = false
	}
	return moved
}

func compare(s *simulation.World, what string, plan *foresee.Plan, before map[string]*corev1.Pod) (moved int) {
	want, got := effects(before, s.API.Live.Pods), foretold(plan, before)
	if len(plan.Refused) > 0 {
		s.Fail("%s: refused: %v", what, plan.Refused)
	}
	if !maps.Equal(want, got) {
		s.Fail("%s: it was %v\n, and not %v\n%s", what, want, got, text(plan))
	}
	for _, was := range s.Parent().Status.Subsets {
		for _, sub := range plan.Subsets {
			if sub.Name == was.Name && !sub.Gone && (sub.Updated != was.UpdatedReplicas || sub.Then != was.DesiredReplicas || sub.Phase != string(was.Phase)) {
				s.Fail("%s: %s is %+v, and not %+v\n%s", what, sub.Name, was, sub, text(plan))
			}
		}
	}
	return len(want)
}

func compareOrder(s *simulation.World, what string, plan *foresee.Plan, before map[string]*corev1.Pod) {
	for _, sub := range plan.Subsets {
		order := func(names []string) string { return strings.Join(names, " ") }
		if one := oneByOne(plan, sub.Name); one != nil && order(one) != order(came(s, sub.Workload, before)) {
			s.Fail("%s: in %s the order was %v, and not %v", what, sub.Name, came(s, sub.Workload, before), one)
		}
	}
}

func text(plan *foresee.Plan) string { return fmt.Sprintf("%+v", plan.Waves) }

// effects returns what became of each replica.
func effects(before, after map[string]*corev1.Pod) map[string]string {
	all := map[string]string{}
	uid := func(p *corev1.Pod) types.UID {
		if p == nil {
			return ""
		}
		return p.UID
	}
	for name := range merged(before, after) {
		switch was, is := uid(before[name]), uid(after[name]); {
		case was == is:
		case is == "":
			all[name] = foresee.Removed
		case was == "":
			all[name] = foresee.Created
		default:
			all[name] = foresee.Restarted
		}
	}
	return all
}

func merged(a, b map[string]*corev1.Pod) map[string]*corev1.Pod {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// foretold returns what becomes of each replica according to a plan.
func foretold(plan *foresee.Plan, before map[string]*corev1.Pod) map[string]string {
	all := map[string]string{}
	for _, w := range plan.Waves {
		for _, c := range w.Changes {
			for _, name := range c.Names {
				switch was := before[name] != nil; {
				case c.Action == foresee.Removed && was:
					all[name] = foresee.Removed
				case c.Action == foresee.Removed:
					delete(all, name)
				case was:
					all[name] = foresee.Restarted
				default:
					all[name] = foresee.Created
				}
			}
		}
	}
	return all
}

// oneByOne returns the order in which replicas of a subset come, by their last coming; nil if several come at once.
func oneByOne(plan *foresee.Plan, subset string) []string {
	names := []string{}
	for _, w := range plan.Waves {
		n := 0
		for _, c := range w.Changes {
			if c.Subset == subset && c.Action != foresee.Removed {
				names = slices.DeleteFunc(names, func(o string) bool { return slices.Contains(c.Names, o) })
				names = append(names, c.Names...)
				n += len(c.Names)
			}
		}
		if n > 1 {
			return nil
		}
	}
	return names
}

// came returns the replicas that came since, in the order in which they did.
func came(s *simulation.World, set string, before map[string]*corev1.Pod) (names []string) {
	var pods []*corev1.Pod
	for _, p := range s.PodsOf(set) {
		if was := before[p.Name]; was == nil || was.UID != p.UID {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(len(a.UID), len(b.UID)), cmp.Compare(a.UID, b.UID))
	})
	for _, p := range pods {
		names = append(names, p.Name)
	}
	return names
}
