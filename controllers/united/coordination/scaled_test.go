// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// scaledSubset is one subset with type Manual: what is on record of it, and what its replicas run.
type scaledSubset struct {
	record  *known.Asked
	manual  v1alpha1.ManualUpdate
	update  string
	pods    []string
	message string
}

// asks makes one pass: value is the partition in the spec, replicas those of the subset.
func (s *scaledSubset) asks(value string, replicas int32) int32 {
	s.manual.Partitions = map[string]intstr.IntOrString{"a": intstr.Parse(value)}
	asked, err := coordination.Manual(&s.manual, "a", replicas, s.update)
	if err != nil {
		panic(err)
	}
	asked = asked.Scaled(s.record, s.record != nil && s.record.Update == s.update, replicas, func(position int32) bool {
		return position < int32(len(s.pods)) && s.pods[position] == s.update
	})
	s.record = &known.Asked{Value: asked.ValueText(), Update: s.update, Partition: asked.Partition, Replicas: replicas}
	s.message = asked.Reason
	for int32(len(s.pods)) < replicas {
		s.pods = append(s.pods, map[bool]string{true: "old", false: s.update}[int32(len(s.pods)) < asked.Partition])
	}
	s.pods = s.pods[:replicas]
	for i := asked.Partition; i < replicas; i++ {
		s.pods[i] = s.update
	}
	return asked.Partition
}

// TestScaledHistories has the examples of the design.
func TestScaledHistories(t *testing.T) {
	type ask struct {
		value    string
		replicas int32
		want     int32
	}
	for name, asks := range map[string][]ask{
		"scaled in, then written":      {{"50%", 3, 2}, {"50%", 2, 2}, {"50%", 2, 2}, {"1", 2, 1}},
		"in and out":                   {{"50%", 10, 5}, {"50%", 4, 4}, {"50%", 5, 4}, {"3", 5, 3}},
		"raised, and lowered again":    {{"50%", 20, 10}, {"50%", 10, 10}, {"75%", 10, 10}, {"50%", 10, 5}},
		"what is updated is not kept":  {{"50%", 4, 2}, {"50%", 10, 5}, {"50%", 4, 2}},
		"a hold scales":                {{"100%", 3, 3}, {"100%", 8, 8}, {"100%", 2, 2}, {"0%", 2, 0}, {"0%", 9, 0}},
		"numbers are as written":       {{"2", 5, 2}, {"2", 1, 2}, {"7", 5, 7}, {"0", 5, 0}},
		"from a number to a share":     {{"5", 5, 5}, {"50%", 4, 2}},
		"released anew from the whole": {{"50%", 10, 5}, {"50%", 4, 4}, {"40%", 4, 2}},
		"to nothing and back":          {{"50%", 4, 2}, {"50%", 0, 0}, {"50%", 4, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scaledSubset{update: "new", pods: slices.Repeat([]string{"old"}, int(asks[0].replicas))}
			for i, a := range asks {
				if got := s.asks(a.value, a.replicas); got != a.want {
					t.Fatalf("%d: %s of %d is %d, want %d (%s)", i, a.value, a.replicas, got, a.want, s.message)
				}
			}
		})
	}
	s := &scaledSubset{update: "new", pods: slices.Repeat([]string{"old"}, 3)}
	s.asks("50%", 3)
	s.asks("50%", 2)
	if want := `partition "50%" of 2 replicas protects 1, but scaling releases nothing, so 2 stay protected: to release, write 1`; s.message != want {
		t.Errorf("%s", s.message)
	}
}

// Coming from a coordinated rollout is a new value; and a value that repeats what is asked already releases nothing.
func TestScaledFromAnotherStrategy(t *testing.T) {
	s := &scaledSubset{update: "new", pods: slices.Repeat([]string{"old"}, 4), record: &known.Asked{Value: known.Coordinated, Update: "new"}}
	if got := s.asks("50%", 4); got != 2 {
		t.Error(got)
	}
	s.manual.Revision = "another"
	if got := s.asks("50%", 4); got != 4 || s.message != "partitions are for another, so new is held" {
		t.Error(got, s.message)
	}
	s.manual.Revision = "new"
	if got := s.asks("50%", 4); got != 2 {
		t.Error("it takes effect:", got)
	}
	s.asks("50%", 2)
	s.manual.Revision = ""
	if got := s.asks("50%", 2); got != 2 {
		t.Error("without a revision it is the same:", got)
	}
}

// Over random histories of scaling, writing values, new templates and lost records, no replica that exists and is protected
// is updated, unless the template or the value has changed since the last pass, and no value that rose releases anything.
func TestScalingReleasesNothing(t *testing.T) {
	values := rapid.SampledFrom([]string{"0%", "1%", "25%", "50%", "75%", "99%", "100%", "0", "1", "3", "9"})
	rapid.Check(t, func(t *rapid.T) {
		s := &scaledSubset{update: "v1", pods: slices.Repeat([]string{"old"}, 6)}
		value, replicas := "100%", int32(6)
		s.asks(value, replicas)
		for range rapid.IntRange(1, 12).Draw(t, "events") {
			allowed := false
			switch rapid.IntRange(0, 4).Draw(t, "event") {
			case 0, 1:
				replicas = rapid.Int32Range(0, 12).Draw(t, "replicas")
			case 2:
				next := values.Draw(t, "value")
				allowed = next != value && !rose(value, next) // a number may release anything
				value = next
			case 3:
				s.update, allowed = fmt.Sprint("v", rapid.IntRange(1, 3).Draw(t, "template")), true
			default:
				s.record = known.ReadAsked(s.record.String()) // it is lost and restored
			}
			before := slices.Clone(s.pods)
			s.asks(value, replicas)
			for i := range min(len(before), len(s.pods)) {
				if before[i] == s.pods[i] {
					continue
				}
				if number := value[len(value)-1] != '%'; !allowed && !number {
					t.Fatalf("%d is released: %v to %v, %s of %d", i, before, s.pods, value, replicas)
				}
			}
		}
	})
}

// TestScaleReleasesNothing is why the scale of a parent needs no right to release: with type Manual and percentages, and whatever
// the subsets ask for, scaling updates no replica that exists, and nothing is updated in a subset that is held. And while a parent
// grows, no replica moves to another subset, where SECURITY.md says so.
func TestScaleReleasesNothing(t *testing.T) {
	number := rapid.Map(rapid.Int32Range(0, 9), func(n int32) *intstr.IntOrString { return new(intstr.FromInt32(n)) })
	percentage := rapid.Map(rapid.IntRange(0, 60), func(p int) *intstr.IntOrString { return new(intstr.FromString(fmt.Sprint(p, "%"))) })
	absent := rapid.Just((*intstr.IntOrString)(nil))
	grown := 0
	rapid.Check(t, func(t *rapid.T) {
		kind := rapid.SampledFrom([]string{"numbers", "percentages", "mixed", "bounds", "bounds in percent"}).Draw(t, "kind")
		wish := map[string]*rapid.Generator[*intstr.IntOrString]{
			"numbers": rapid.OneOf(number, absent), "percentages": rapid.OneOf(percentage, absent), "mixed": rapid.OneOf(number, percentage, absent),
			"bounds": rapid.OneOf(number, absent), "bounds in percent": rapid.OneOf(percentage, absent),
		}[kind]
		list := make([]v1alpha1.Subset, rapid.IntRange(1, 5).Draw(t, "subsets"))
		partitions, worlds := make([]string, len(list)), make([]scaledSubset, len(list))
		for i := range list {
			if strings.HasPrefix(kind, "bounds") {
				list[i].MinReplicas = wish.Draw(t, "min")
				if i > 0 { // the first one takes the rest
					list[i].MaxReplicas = wish.Draw(t, "max")
				}
			} else {
				list[i].Replicas = wish.Draw(t, "replicas")
			}
			partitions[i] = rapid.SampledFrom([]string{"0%", "34%", "50%", "99%", "100%"}).Draw(t, "partition")
		}
		total := rapid.Int32Range(0, 40).Draw(t, "total")
		split := allocation.Split(total, list).Replicas
		for i := range worlds {
			worlds[i] = scaledSubset{update: "v2", pods: slices.Repeat([]string{"old"}, int(split[i]))}
			worlds[i].asks("100%", split[i]) // held, and then released
			worlds[i].asks(partitions[i], split[i])
		}
		for range rapid.IntRange(1, 8).Draw(t, "events") {
			next := rapid.OneOf(rapid.Int32Range(0, 40), rapid.Just(total+1)).Draw(t, "total")
			after := allocation.Split(next, list).Replicas
			for i := range worlds {
				before := slices.Clone(worlds[i].pods)
				worlds[i].asks(partitions[i], after[i])
				pods := worlds[i].pods
				for j := range min(len(before), len(pods)) {
					if before[j] != pods[j] {
						t.Fatalf("%s: %d of subset %d is released: %v to %v", partitions[i], j, i, before, pods)
					}
				}
				if partitions[i] == "100%" && slices.Contains(pods, "v2") {
					t.Fatalf("subset %d is held: %v", i, pods)
				}
				if next == total+1 {
					grown++
					// TestMixedWishesCanShift of package allocation has one of the others.
					if after[i] < int32(len(before)) && kind != "mixed" && kind != "bounds in percent" {
						t.Fatalf("%s: from %d to %d, subset %d loses a replica: %v", kind, total, next, i, after)
					}
				}
			}
			total = next
		}
	})
	if grown == 0 {
		t.Error("the control: no parent has grown by one")
	}
}

// TestScalingStepByStep is what scaling can do all the same, and SECURITY.md tells: new replicas are protected by the share at the
// moment at which they are created. Scaled in, and out one by one, more of a subset run the update revision than its percentage
// says; those that were kept stay.
func TestScalingStepByStep(t *testing.T) {
	s := &scaledSubset{update: "v2", pods: slices.Repeat([]string{"old"}, 10)}
	s.asks("100%", 10)
	s.asks("50%", 10)
	updated := func() int {
		return len(s.pods) - len(slices.DeleteFunc(slices.Clone(s.pods), func(pod string) bool { return pod == "v2" }))
	}
	s.asks("50%", 4)
	if s.asks("50%", 10); updated() != 5 {
		t.Error("in and out at once:", s.pods)
	}
	s.asks("50%", 4)
	for replicas := range int32(7) {
		s.asks("50%", 4+replicas)
	}
	if updated() != 6 {
		t.Error("out one by one:", s.pods)
	}
}

// rose reports whether a percentage rose.
func rose(before, after string) bool {
	var a, b int
	_, errA := fmt.Sscanf(before, "%d%%", &a)
	_, errB := fmt.Sscanf(after, "%d%%", &b)
	return errA == nil && errB == nil && before[len(before)-1] == '%' && after[len(after)-1] == '%' && a < b
}

func TestReadAsked(t *testing.T) {
	for _, a := range []known.Asked{{Value: "50%", Update: "web-1", Partition: 2, Replicas: 3}, {Value: "7", Update: "web-2", Partition: 7}, {Value: known.Coordinated}} {
		if got := known.ReadAsked(a.String()); got == nil || *got != a {
			t.Errorf("%s: %+v", a, got)
		}
	}
	for _, text := range []string{"", "50%", "50% of 3 is 2 for", "50% of -3 is 2 for x", "50% of 3 is 99999999999 for x", "50% of 3 is 2 for x y", "RollingUpdate x"} {
		if got := known.ReadAsked(text); got != nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
