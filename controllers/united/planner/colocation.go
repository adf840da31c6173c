// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

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
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// defaultGroupTimeout is the default of the CRD, in seconds.
const defaultGroupTimeout = int32(60)

// groupedGrowth is how far the groups of a parent have come.
type groupedGrowth struct {
	// groups is how many groups are created now, total how many there are in the end.
	groups, total int32
	// waitsFor is what the next group waits for.
	waitsFor string
}

// allocateGroups decides how many replicas each subset gets if some of them are members of groups. With order
// Sequential, the replicas of the next group are allotted when all pods of the previous one are ready.
func (in *Input) allocateGroups(p *Plan) {
	subsets, c := in.Parent.Spec.Topology.Subsets, in.Parent.Spec.Topology.Colocation
	p.Allocation = allocation.Grouped(spec.Replicas(in.Parent), subsets, c.Ratios)
	p.caps, p.reserved = make([]*v1alpha1.SubsetCap, len(subsets)), make([]int32, len(subsets))
	if c.Order == v1alpha1.ParallelGroups {
		return
	}
	wanted, ratios, has := p.Allocation.Replicas, allocation.RatiosOf(subsets, c.Ratios), make([]int32, len(subsets))
	for i := range subsets {
		has[i] = in.begun(subsets[i].Name)
	}
	waitsFor := ""
	limited, groups := allocation.Sequential(wanted, has, ratios, func(group int32) bool {
		waitsFor = in.groupWaitsFor(group, wanted, ratios)
		return waitsFor == ""
	})
	if total := allocation.Groups(wanted, ratios); groups < total {
		p.growth = &groupedGrowth{groups: groups, total: total, waitsFor: waitsFor}
	}
	p.Allocation.Replicas = limited
}

// begun returns how many replicas a subset has, or was given. Trap: a status that could not be written in time says less
// than the child has, and replicas that exist must not be removed because of that.
func (in *Input) begun(name string) int32 {
	begun := in.lastAllotted(name)
	if observed := in.observed(name); observed != nil {
		begun = max(begun, observed.Replicas)
	}
	return begun
}

// groupWaitsFor names a replica of a group that is not ready; "" if all are.
func (in *Input) groupWaitsFor(group int32, wanted, ratios []int32) string {
	for i, ratio := range ratios {
		name := in.Parent.Spec.Topology.Subsets[i].Name
		for position := int64(group) * int64(ratio); position < min(int64(group+1)*int64(ratio), int64(wanted[i])); position++ {
			if child := in.Unreadable[name]; child != nil {
				return name + " (" + child.Why + ")"
			}
			if why := whyNotReady(in.observed(name), adapters.ChildName(in.Parent.Name, name), int32(position)); why != "" {
				return why
			}
		}
	}
	return ""
}

// whyNotReady describes the replica at a position of the named child; "" if it is ready. Trap: one that the child is not
// asked for may still be ready, because the child has yet to delete it.
func whyNotReady(observed *adapters.Observed, child string, position int32) string {
	if observed != nil && position < observed.Replicas {
		for i := range observed.Pods {
			if r := &observed.Pods[i]; r.Position == position {
				if r.Ready && !r.Terminating {
					return ""
				}
				return r.Describe()
			}
		}
	}
	return observed.DescribeMissing(child, position)
}

// growthMessage returns what the next group waits for; "" if the subset has all its replicas. said is what the message
// of the subset has already, which is not repeated. Groups count from 0, so it does not say of how many.
func (p *Plan) growthMessage(s *SubsetPlan, said string) string {
	if p.growth == nil || s.Removed || !s.member {
		return ""
	}
	message := fmt.Sprintf("group %d is created when group %d is ready", p.growth.groups, p.growth.groups-1)
	if strings.Contains(said, p.growth.waitsFor) {
		return message
	}
	return message + ": waiting for " + p.growth.waitsFor
}

// ungrouped returns a message about pods that have no group, because the policy that gives them one was missing; "" if
// there are none.
func (in *Input) ungrouped() string {
	first, count := "", 0
	for _, r := range in.members() {
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
func (in *Input) groupTrouble() (reason, message string) {
	if said := in.ungrouped(); said != "" {
		return v1alpha1.ReasonUngrouped, said
	}
	if said, _ := in.unfittingGroups(); len(said) > 0 {
		return v1alpha1.ReasonGroupUnschedulable, shortenTo(said, "; ", "groups")
	}
	return "", ""
}

// members yields the replicas of all members that exist and can be read, each with the name of its subset, in list order.
func (in *Input) members() iter.Seq2[string, *adapters.Replica] {
	return func(yield func(string, *adapters.Replica) bool) {
		for i := range in.Parent.Spec.Topology.Subsets {
			name := in.Parent.Spec.Topology.Subsets[i].Name
			observed := in.observed(name)
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
func (in *Input) unfittingGroups() (said []string, at time.Time) {
	c := in.Parent.Spec.Topology.Colocation
	if c == nil {
		return nil, time.Time{}
	}
	timeout := time.Duration(ptr.Deref(c.TimeoutSeconds, defaultGroupTimeout)) * time.Second
	worst := map[int32]*adapters.Replica{} // by group
	for name, r := range in.members() {
		group := r.Position / int32(c.Ratios[name])
		if r.Unschedulable == "" || r.Colocation == "" || r.Terminating || r.Position < 0 || r.Position >= in.observed(name).Replicas {
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
		said = append(said, fmt.Sprintf("group %d %s: no node fits %s", group, in.whereGroupIs(group, worst[group].Colocation), worst[group].Describe()))
	}
	return said, at
}

// whereGroupIs returns the domain in which a replica of a group already runs. In mid-rollout, one of another colocation
// says nothing of it.
func (in *Input) whereGroupIs(group int32, colocation string) string {
	c := in.Parent.Spec.Topology.Colocation
	for name, r := range in.members() {
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
