// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/render"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/world"
	"github.com/unitedworkloads/united/test/fixtures"
)

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// groupedInput has children in which each letter is a replica: ready (r), unready (u), terminating (t), without a
// node (n), or gated (g); a dot is a missing one.
func groupedInput(parent *v1alpha1.UnitedDeployment, prefill, decode string) *planner.Input {
	in := &planner.Input{World: world.World{Parent: parent, Now: noon.Add(time.Minute), Children: map[string]*world.Child{}}}
	for name, letters := range map[string]string{"prefill": prefill, "decode": decode} {
		if letters == "" {
			continue
		}
		o := &adapters.Observed{Replicas: int32(len(letters)), SpecObserved: true}
		for i, letter := range letters {
			r := adapters.Replica{Name: "web-" + name + "-" + string(rune('0'+i)), Position: int32(i), Since: noon, Node: "node-1", Zone: "zone-a", Colocation: "groups"}
			switch letter {
			case '.':
				continue
			case 'n', 'g':
				r.Node, r.Zone = "", ""
				if r.Gated = letter == 'g'; !r.Gated {
					r.Unschedulable, r.UnschedulableSince = "0/2 nodes are available", noon.Add(time.Duration(i)*time.Second)
				}
			}
			r.Ready, r.Terminating = letter == 'r' || letter == 't', letter == 't'
			o.Pods = append(o.Pods, r)
		}
		if missing := o.Missing(); missing >= 0 {
			o.MissingName = "web-" + name + "-" + string(rune('0'+missing))
		}
		in.Children[name] = &world.Child{Observed: o}
	}
	return in
}

func TestGroupsGrowOneByOne(t *testing.T) {
	for name, tc := range map[string]struct {
		prefill, decode string
		want            []int32
		message         string // of the plan
	}{
		"nothing yet":        {"", "", []int32{2, 1}, "group 1 is created when group 0 is ready: waiting for replica 0 of web-prefill (missing)"},
		"one is not ready":   {"ru", "r", []int32{2, 1}, "group 1 is created when group 0 is ready: waiting for web-prefill-1 (not ready since 2026-11-23T12:00:00Z)"},
		"one is terminating": {"rr", "t", []int32{2, 1}, "waiting for web-decode-0 (terminating since 2026-11-23T12:00:00Z)"},
		"one is missing":     {"rr", ".", []int32{2, 1}, "waiting for web-decode-0 (missing)"},
		"one has no node":    {"rr", "n", []int32{2, 1}, "waiting for web-decode-0 (unschedulable since 2026-11-23T12:00:00Z: 0/2 nodes are available)"},
		"all are ready":      {"rr", "r", []int32{4, 2}, "group 2 is created when group 1 is ready: waiting for replica 2 of web-prefill (missing)"},
		"the first is down":  {"uurr", "rr", []int32{6, 3}, ""},
		"half a group":       {"rrr", "r", []int32{4, 2}, "waiting for replica 3 of web-prefill (missing)"},
		"all":                {"rrrrrr", "rrr", []int32{6, 3}, ""},
		"too many":           {"rrrrrrrr", "rrrr", []int32{6, 3}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			in, p := groupedInput(fixtures.GroupedParent(), tc.prefill, tc.decode), &planner.Plan{}
			planner.Allocate(in, p)
			if !slices.Equal(p.Allocation.Replicas, tc.want) {
				t.Error(p.Allocation.Replicas)
			}
			member := &planner.SubsetPlan{Subset: nthSubset(in, 0), Member: true}
			if got := growthMessage(p, member, ""); !strings.Contains(got, tc.message) || (got == "") != (tc.message == "") {
				t.Error(got)
			}
			if p.Growth != nil {
				if got := growthMessage(p, member, "waiting for "+p.Growth.WaitsFor+"; failed"); strings.Contains(got, "waiting for") {
					t.Error("it is said twice: ", got)
				}
			}
			if got := growthMessage(p, &planner.SubsetPlan{Subset: nthSubset(in, 0)}, ""); got != "" {
				t.Error("a subset that is no member waits: ", got)
			}
		})
	}
	parallel := fixtures.GroupedParent()
	parallel.Spec.Topology.Colocation.Order = v1alpha1.ParallelGroups
	p := &planner.Plan{}
	if planner.Allocate(groupedInput(parallel, "", ""), p); !slices.Equal(p.Allocation.Replicas, []int32{6, 3}) || p.Growth != nil {
		t.Error(p.Allocation.Replicas)
	}
	// A scale-down that its child has yet to carry out leaves replicas that are ready, and are not there anymore.
	given := fixtures.GroupedParent()
	in := groupedInput(given, "rrrr", "rr")
	in.Children["prefill"].Observed.Replicas, in.Children["decode"].Observed.Replicas = 2, 1
	if planner.Allocate(in, p); !slices.Equal(p.Allocation.Replicas, []int32{4, 2}) || p.Growth == nil {
		t.Error(p.Allocation.Replicas, p.Growth)
	}
	// What the status says was given counts, also while a child is gone or cannot be read.
	given.Status.Subsets = []v1alpha1.SubsetStatus{{Name: "prefill", DesiredReplicas: 4, UpdateRevision: "r"}}
	in = groupedInput(given, "", "rr")
	in.Unreadable = map[string]*world.Unreadable{"prefill": {Why: "it is too deep"}}
	if planner.Allocate(in, p); !slices.Equal(p.Allocation.Replicas, []int32{4, 2}) || p.Growth.WaitsFor != "prefill (it is too deep)" {
		t.Error(p.Allocation.Replicas, p.Growth)
	}
}

func nthSubset(in *planner.Input, i int) spec.Subset {
	return spec.Subset{Subset: &in.Parent.Spec.Topology.Subsets[i]}
}

func TestGroupTrouble(t *testing.T) {
	const none = ""
	for name, tc := range map[string]struct {
		prefill, decode string
		key             string
		reason          string
		says            []string
	}{
		"all is well":       {"rr", "r", corev1.LabelHostname, none, nil},
		"no policy":         {"gg", "g", corev1.LabelHostname, v1alpha1.ReasonUngrouped, []string{"web-prefill-0 and 2 more replicas", "kubectl delete pod -n shop -l 'united.dev/name=web,united.dev/colocation-ratio,!united.dev/colocation-group'"}},
		"one without":       {"rg", "r", corev1.LabelHostname, v1alpha1.ReasonUngrouped, []string{"web-prefill-1 cannot be scheduled"}},
		"too little room":   {"rr", "n", corev1.LabelHostname, v1alpha1.ReasonGroupUnschedulable, []string{"group 0 does not fit on node node-1, where web-prefill-0 is: no node fits web-decode-0 (unschedulable since 2026-11-23T12:00:00Z: 0/2 nodes are available)"}},
		"in a zone":         {"rr", "n", corev1.LabelTopologyZone, v1alpha1.ReasonGroupUnschedulable, []string{"group 0 does not fit in zone zone-a, where web-prefill-0 is: "}},
		"in another domain": {"rr", "n", "rack", v1alpha1.ReasonGroupUnschedulable, []string{"group 0 does not fit in the rack of node node-1, where web-prefill-0 is: "}},
		"nowhere":           {"nn", "n", corev1.LabelHostname, v1alpha1.ReasonGroupUnschedulable, []string{"group 0 fits in no kubernetes.io/hostname: no node fits web-prefill-0 "}},
		"not for long":      {"rrrn", "rr", corev1.LabelHostname, none, nil}, // it has waited for 57 seconds
	} {
		t.Run(name, func(t *testing.T) {
			parent := fixtures.GroupedParent()
			parent.Spec.Topology.Colocation.TopologyKey = tc.key
			in := groupedInput(parent, tc.prefill, tc.decode)
			if name == "not for long" {
				if _, at := unfittingGroups(in); !at.Equal(noon.Add(63 * time.Second)) {
					t.Error(at)
				}
			}
			if name == "nowhere" {
				in.Now = in.Now.Add(time.Minute)
			}
			reason, message := groupTrouble(in)
			if reason != tc.reason {
				t.Error(reason, message)
			}
			for _, words := range tc.says {
				if !strings.Contains(message, words) {
					t.Errorf("%q is not in %q", words, message)
				}
			}
		})
	}
	if reason, _ := groupTrouble(groupedInput(fixtures.Parent("prefill", "decode"), "nn", "n")); reason != "" {
		t.Error("without groups: ", reason)
	}
}

// In mid-rollout, a replica of another colocation, or of none, is not in the group of its position.
func TestGroupTroubleInMidRollout(t *testing.T) {
	in := groupedInput(fixtures.GroupedParent(), "rr", "n")
	in.Children["prefill"].Observed.Pods[0].Colocation = "others"
	in.Children["prefill"].Observed.Pods[0].Node = "node-2"
	if _, message := groupTrouble(in); !strings.Contains(message, "does not fit on node node-1, where web-prefill-1 is") {
		t.Error(message)
	}
	in.Children["decode"].Observed.Pods[0].Colocation = ""
	if reason, message := groupTrouble(in); reason != "" {
		t.Error("it has no group: ", message)
	}
}

func TestColocationContent(t *testing.T) {
	parent := fixtures.GroupedParent()
	parent.Spec.Template.StatefulSetTemplate.Raw = []byte(`{"spec": {"ordinals": {"start": 3}, "template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}}}`)
	parent.Spec.Topology.Subsets = append(parent.Spec.Topology.Subsets, v1alpha1.Subset{Name: "router", Replicas: ptr.To(intstr.FromInt32(1))})
	read := func() *spec.Spec {
		t.Helper()
		s, err := spec.Read(parent, adapters.Registry{statefulset.New()})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	c := read().Content().Colocation
	if c == nil || c.ID != revision.ColocationID(c) || len(c.Members) != 2 || c.Members["prefill"].Ratio != 2 || c.Members["decode"].Start != 3 || c.TopologyKey != corev1.LabelHostname {
		t.Errorf("%+v", c)
	}
	for patch, want := range map[string]int32{`{"spec": {"ordinals": {"start": 7}}}`: 7, `{"spec": {"ordinals": null}}`: 0, `{"spec": {"ordinals": {"start": null}}}`: 0, `{"spec": {"serviceName": "x"}}`: 3} {
		parent.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(patch)}
		if got := read().Content().Colocation.Members["prefill"].Start; got != want {
			t.Error(patch, got)
		}
	}
	parent.Spec.Topology.Subsets[0].Patch = nil
	in, err := (&planner.Input{World: world.World{Parent: parent, Spec: read()}}).WithUpdateRevision()
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []*render.Colocation{{TopologyKey: corev1.LabelHostname, Ratio: 2, Start: 3}, {TopologyKey: corev1.LabelHostname, Ratio: 1, Start: 3}, nil} {
		if want != nil {
			want.ID = c.ID
		}
		if got := in.Spec.Subsets[i].Version(in.Update).Colocation; (got == nil) != (want == nil) || got != nil && *got != *want {
			t.Errorf("%d: %+v", i, got)
		}
	}
}
