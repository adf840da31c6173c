// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// defaultGroupTimeout is the default of the CRD, in seconds.
const defaultGroupTimeout = int32(60)

// growthMessage returns what the next group waits for; "" if the subset has all its replicas. said is what the message
// of the subset has already, which is not repeated. Groups count from 0, so it does not say of how many.
func growthMessage(p *planner.Plan, s *planner.SubsetPlan, said string) string {
	if p.Growth == nil || s.Removed || !s.Member {
		return ""
	}
	message := fmt.Sprintf("group %d is created when group %d is ready", p.Growth.Groups, p.Growth.Groups-1)
	if strings.Contains(said, p.Growth.WaitsFor) {
		return message
	}
	return message + ": waiting for " + p.Growth.WaitsFor
}

// ungrouped returns a message about pods that have no group, because the policy that gives them one was missing; "" if
// there are none.
func ungrouped(in *planner.Input) string {
	first, count := "", 0
	for _, r := range groupMembers(in) {
		if r.Gated && !r.Terminating {
			first, count = cmp.Or(first, r.Name), count+1
		}
	}
	if count == 0 {
		return ""
	}
	if count > 1 {
		first = fmt.Sprintf("%s and %d more replicas", first, count-1)
	}
	return fmt.Sprintf("%s cannot be scheduled: without the MutatingAdmissionPolicy united-colocation, pods have no group, and keep the scheduling gate %s; "+
		"install the policy, and then run: kubectl delete pod -n %s -l '%s=%s,%s,!%s'",
		first, v1alpha1.GateColocation, in.Parent.Namespace, v1alpha1.LabelName, in.Parent.Name, v1alpha1.LabelColocationRatio, v1alpha1.LabelColocationGroup)
}

// groupTrouble returns the reason and the message if pods cannot become members of their group, or a group does not fit
// into its domain. Both stay until somebody intervenes, or makes room.
func groupTrouble(in *planner.Input) (reason, message string) {
	if said := ungrouped(in); said != "" {
		return v1alpha1.ReasonUngrouped, said
	}
	if said, _ := unfittingGroups(in); len(said) > 0 {
		return v1alpha1.ReasonGroupUnschedulable, shortenTo(said, "; ", "groups")
	}
	return "", ""
}

// groupMembers yields the replicas of all members that exist and can be read, each with the name of its subset, in list order.
func groupMembers(in *planner.Input) iter.Seq2[string, *adapters.Replica] {
	return func(yield func(string, *adapters.Replica) bool) {
		for i := range in.Parent.Spec.Topology.Subsets {
			name := in.Parent.Spec.Topology.Subsets[i].Name
			observed := in.Observed(name)
			if observed == nil || !spec.IsMember(in.Parent.Spec.Topology.Colocation, name) {
				continue
			}
			for j := range observed.Pods {
				if !yield(name, &observed.Pods[j]) {
					return
				}
			}
		}
	}
}

// unfittingGroups returns, for each group with a replica for which the scheduler has found no node for timeoutSeconds,
// which group that is, where the rest of it is, and the message of the scheduler. at is when time alone adds another
// one; zero if never.
func unfittingGroups(in *planner.Input) (said []string, at time.Time) {
	c := in.Parent.Spec.Topology.Colocation
	if c == nil {
		return nil, time.Time{}
	}
	timeout := time.Duration(ptr.Deref(c.TimeoutSeconds, defaultGroupTimeout)) * time.Second
	worst := map[int32]*adapters.Replica{} // by group
	for name, r := range groupMembers(in) {
		group := r.Position / int32(c.Ratios[name])
		if r.Unschedulable == "" || r.Colocation == "" || r.Terminating || r.Position < 0 || r.Position >= in.Observed(name).Replicas {
			continue
		}
		if due := r.UnschedulableSince.Add(timeout); due.After(in.Now) {
			if at.IsZero() || due.Before(at) {
				at = due
			}
			continue
		}
		if was := worst[group]; was == nil || r.UnschedulableSince.Before(was.UnschedulableSince) {
			worst[group] = r
		}
	}
	for _, group := range slices.Sorted(maps.Keys(worst)) {
		said = append(said, fmt.Sprintf("group %d %s: no node fits %s", group, whereGroupIs(in, group, worst[group].Colocation), worst[group].Describe()))
	}
	return said, at
}

// whereGroupIs returns the domain in which a replica of a group already runs. In mid-rollout, one of another colocation
// says nothing of it.
func whereGroupIs(in *planner.Input, group int32, colocation string) string {
	c := in.Parent.Spec.Topology.Colocation
	for name, r := range groupMembers(in) {
		if r.Node == "" || r.Colocation != colocation || r.Terminating || r.Position < 0 || r.Position/int32(c.Ratios[name]) != group {
			continue
		}
		switch {
		case c.TopologyKey == corev1.LabelHostname:
			return "does not fit on node " + r.Node + ", where " + r.Name + " is"
		case c.TopologyKey == corev1.LabelTopologyZone && r.Zone != "":
			return "does not fit in zone " + r.Zone + ", where " + r.Name + " is"
		}
		return fmt.Sprintf("does not fit in the %s of node %s, where %s is", c.TopologyKey, r.Node, r.Name)
	}
	return "fits in no " + c.TopologyKey
}
