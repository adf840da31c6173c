// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package change

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func of(replicas int32) *v1alpha1.UnitedDeployment {
	return &v1alpha1.UnitedDeployment{Status: v1alpha1.UnitedDeploymentStatus{UpdateRevision: "web-2", Subsets: []v1alpha1.SubsetStatus{{Name: "a", DesiredReplicas: replicas}}}}
}

func TestRelease(t *testing.T) {
	for _, c := range []struct {
		replicas int32
		value    string
		canary   bool
		want     string // the partition and what it says, or the error
	}{
		{3, "", false, "0: partition 0 releases 3 of 3 replicas of a"},
		{10, "30%", false, `70%: partition "70%" releases 3 of 10 replicas of a`},
		{3, "30%", false, `70%: partition "70%" releases 0 of 3 replicas of a`},
		{10, "4", false, `60%: partition "60%" releases 4 of 10 replicas of a`},
		{10, "0", false, `100%: partition "100%" releases 0 of 10 replicas of a`},
		{3, "3", false, `0%: partition "0%" releases 3 of 3 replicas of a`},
		{200, "3", false, "197: partition 197 releases 3 of 200 replicas of a (a number, because no percentage releases 3 of so many: when the subset grows, it releases more)"},
		{3, "4", false, "a=4: it must be at most 3, the replicas of the subset"},
		{3, "half", false, "a=half: it must be a whole number from 0, or a percentage from 0% to 100%"},
		{3, "-1", false, "a=-1: it must be a whole number from 0, or a percentage from 0% to 100%"},
		{3, "101%", false, "a=101%: it must be a whole number from 0, or a percentage from 0% to 100%"},
		{1, "", true, `0%: partition "0%" releases 1 of 1 replicas of a`},
		{3, "", true, `66%: partition "66%" releases 1 of 3 replicas of a`},
		{10, "", true, `90%: partition "90%" releases 1 of 10 replicas of a`},
		{100, "", true, `99%: partition "99%" releases 1 of 100 replicas of a`},
		{200, "", true, "199: partition 199 releases 1 of 200 replicas of a (a number, because no percentage releases 1 of so many: when the subset grows, it releases more)"},
		{0, "", true, "a has no replicas, so there is nothing to release"},
		{3, "1", true, "a=1: --canary releases one replica of each subset, so it takes no value"},
	} {
		p, err := Release(of(c.replicas), "a", c.value, c.canary)
		got := p.Value.String() + ": " + p.Text
		if err != nil {
			got = err.Error()
		}
		if hint := "the least that releases one is a=34%"; (p.Hint == hint) != (c.replicas == 3 && c.value == "30%") {
			t.Errorf("%d, %q: hint %q", c.replicas, c.value, p.Hint)
		}
		if got != c.want {
			t.Errorf("%d, %q, canary %t: %s, want %s", c.replicas, c.value, c.canary, got, c.want)
		}
	}
}

func TestBound(t *testing.T) {
	half, zero := intstr.FromString("50%"), intstr.FromInt32(0)
	for name, c := range map[string]struct {
		was  *v1alpha1.ManualUpdate
		want map[string]intstr.IntOrString
	}{
		"nothing":                {nil, map[string]intstr.IntOrString{"a": zero}},
		"of this revision":       {&v1alpha1.ManualUpdate{Revision: "web-2", Partitions: map[string]intstr.IntOrString{"b": half}}, map[string]intstr.IntOrString{"a": zero, "b": half}},
		"of any revision":        {&v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{"b": half}}, map[string]intstr.IntOrString{"a": zero, "b": half}},
		"of the revision before": {&v1alpha1.ManualUpdate{Revision: "web-1", DefaultPartition: &zero, Partitions: map[string]intstr.IntOrString{"b": zero}}, map[string]intstr.IntOrString{"a": zero}},
	} {
		parent := of(3)
		parent.Spec.UpdateStrategy.ManualUpdate = c.was
		before := c.was.DeepCopy()
		got := Bound(parent, []Partition{{Subset: "a", Value: zero}})
		if got.Revision != "web-2" || !cmp.Equal(got.Partitions, c.want) || strings.HasSuffix(name, "before") && got.DefaultPartition != nil {
			t.Errorf("%s: %+v", name, got)
		}
		if !cmp.Equal(c.was, before) {
			t.Errorf("%s: the spec was changed", name)
		}
	}
}

func TestHold(t *testing.T) {
	zero := intstr.FromInt32(0)
	parent := of(3)
	parent.Spec.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{Revision: "web-1", DefaultPartition: &zero, Partitions: map[string]intstr.IntOrString{"a": zero, "b": zero}}
	all := Hold(parent, nil)
	if all.Revision != "web-1" || all.Partitions != nil || all.DefaultPartition.String() != "100%" {
		t.Errorf("all: %+v", all)
	}
	one := Hold(parent, []string{"b"})
	if one.Revision != "web-1" || one.DefaultPartition.IntVal != 0 || !cmp.Equal(one.Partitions, map[string]intstr.IntOrString{"a": zero, "b": intstr.FromString("100%")}) {
		t.Errorf("one: %+v", one)
	}
}
