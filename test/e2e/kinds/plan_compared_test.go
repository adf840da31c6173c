// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"maps"
	"strings"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// counted reports whether replicas have random names.
func (p *proposer) counted() bool { return p.Counts || p.Whole }

// comparesReplicas compares what became of each replica, if they have stable names.
func (p *proposer) comparesReplicas(plan *foresee.Plan, before, after []Pod) {
	p.T.Helper()
	if p.counted() {
		return
	}
	was, is := map[string]types.UID{}, map[string]types.UID{}
	for _, pod := range before {
		was[pod.Name] = pod.UID
	}
	for _, pod := range after {
		is[pod.Name] = pod.UID
	}
	happened, foretold := map[string]string{}, map[string]string{}
	for name := range was {
		happened[name] = became(true, is[name] != "", was[name] != is[name])
	}
	for name := range is {
		happened[name] = became(was[name] != "", true, was[name] != is[name])
	}
	for _, w := range plan.Waves {
		for _, c := range w.Changes {
			p.Expect(c.Names).To(HaveLen(int(c.Count)), "%s", p.story(plan))
			for _, name := range c.Names {
				foretold[name] = became(was[name] != "", c.Action != foresee.Removed, true)
			}
		}
	}
	nothing := func(_, what string) bool { return what == "" }
	maps.DeleteFunc(happened, nothing)
	maps.DeleteFunc(foretold, nothing)
	p.Expect(happened).To(Equal(foretold), "%s", p.story(plan))
}

// comparesCounts compares how many replicas came and went in each subset, those included that did not stay.
func (p *proposer) comparesCounts(plan *foresee.Plan, before, after []Pod, came []Incarnation) {
	p.T.Helper()
	want, got := map[string]int{}, map[string]int{}
	for _, pod := range before {
		got[pod.Subset+" went"]++
	}
	for _, pod := range after {
		got[pod.Subset+" went"]--
	}
	for _, i := range came {
		got[i.Subset+" came"]++
		got[i.Subset+" went"]++
	}
	for _, w := range plan.Waves {
		for _, c := range w.Changes {
			if c.Action != foresee.Removed {
				want[c.Subset+" came"] += int(c.Count)
			}
			if c.Action != foresee.Created {
				want[c.Subset+" went"] += int(c.Count)
			}
		}
	}
	nothing := func(_ string, n int) bool { return n == 0 }
	maps.DeleteFunc(want, nothing)
	maps.DeleteFunc(got, nothing)
	p.Expect(got).To(Equal(want), "%s", p.story(plan))
}

// became says what became of a name.
func became(was, is, changed bool) string {
	switch {
	case !changed, !was && !is:
		return ""
	case !is:
		return foresee.Removed
	case !was:
		return foresee.Created
	}
	return foresee.Restarted
}

// comparesOrder compares the order of the replicas that came, wherever they come one at a time: in a subset, and in all of them.
func (p *proposer) comparesOrder(plan *foresee.Plan, came []Incarnation, events []PodEvent) {
	p.T.Helper()
	scopes := []string{""}
	for i := range plan.Subsets {
		scopes = append(scopes, plan.Subsets[i].Name)
	}
	for _, scope := range scopes {
		want, alone := p.sequence(plan, scope)
		if !alone {
			continue
		}
		var got []string
		for _, i := range came {
			if scope == "" || i.Subset == scope {
				got = append(got, p.label(i.Subset, i.Name))
			}
		}
		p.Expect(got).To(Equal(want), "the order in %q\n%s", scope, p.story(plan))
		p.Expect(together(events, scope, came)).To(BeEmpty(), "in %q\n%s", scope, p.story(plan))
	}
}

func (p *proposer) label(subset, name string) string {
	if p.counted() {
		return subset
	}
	return name
}

// sequence returns which replicas come according to a plan, and whether they do so one after the other.
func (p *proposer) sequence(plan *foresee.Plan, scope string) (names []string, alone bool) {
	for _, w := range plan.Waves {
		n := int32(0)
		for _, c := range w.Changes {
			if c.Action == foresee.Removed || scope != "" && c.Subset != scope {
				continue
			}
			n += c.Count
			names = append(names, p.label(c.Subset, strings.Join(c.Names, " ")))
		}
		if n > 1 {
			return nil, false
		}
	}
	return names, true
}

// together returns a replica that came before the last one was ready, or on its way out: what is released while it starts does not
// become ready first.
func together(events []PodEvent, scope string, came []Incarnation) string {
	settled := map[types.UID]bool{}
	seen := map[types.UID]string{}
	isNew := map[types.UID]bool{}
	for _, i := range came {
		isNew[i.UID] = true
	}
	for _, event := range events {
		if !isNew[event.UID] || scope != "" && event.Subset != scope {
			continue
		}
		if seen[event.UID] == "" {
			for uid, name := range seen {
				if !settled[uid] {
					return fmt.Sprintf("%s came before %s was ready", event.Name, name)
				}
			}
			seen[event.UID] = event.Name
		}
		settled[event.UID] = settled[event.UID] || event.Ready || event.Terminating || event.Gone
	}
	return ""
}

// ended is what a plan says of the end, and the status.
type ended struct {
	State, Reason string
	Subsets       []foresee.Subset
}

// comparesEnd compares the end with the status.
func (p *proposer) comparesEnd(plan *foresee.Plan) {
	p.T.Helper()
	want := ended{State: plan.End.State, Reason: plan.End.Reason}
	for _, s := range plan.Subsets {
		if !s.Gone {
			want.Subsets = append(want.Subsets, foresee.Subset{Name: s.Name, Then: s.Then, Updated: s.Updated, Partition: s.Partition, Phase: s.Phase})
		}
	}
	p.Eventually(func(g Gomega) {
		parent := p.Parent()
		status := &parent.Status
		got := ended{Reason: Condition(parent, v1alpha1.ConditionReady).Reason, State: foresee.Waiting}
		held := false
		for i := range status.Subsets {
			s := &status.Subsets[i]
			held = held || s.Phase == v1alpha1.PhaseHeld
			got.Subsets = append(got.Subsets, foresee.Subset{
				Name: s.Name, Then: s.DesiredReplicas, Updated: s.UpdatedReplicas, Partition: min(s.Partition, s.DesiredReplicas), Phase: string(s.Phase),
			})
		}
		switch {
		case parent.Spec.Paused:
			got.State = foresee.Paused
		case status.Rollout != nil && status.Rollout.Phase == v1alpha1.RolloutAwaitingApproval:
			got.State = foresee.AwaitingApproval
		case Condition(parent, v1alpha1.ConditionComplete).Status == "True":
			got.State = foresee.Complete
		case held, got.Reason == v1alpha1.ReasonRolloutHeld:
			got.State = foresee.Held
		case len(p.Pods()) == 0:
			got.State = foresee.Complete
		}
		g.Expect(got).To(Equal(want), "%s", p.story(plan))
	}).Should(Succeed())
}
