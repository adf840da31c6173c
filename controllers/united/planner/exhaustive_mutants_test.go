// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// mutant is a wrong controller: the real one with a corrupted plan.
type mutant struct {
	name string
	// rule is what it is convicted of: the beginning of a complaint.
	rule  string
	world smallConfig
	spoil func(*planner.Input, *planner.Plan)
}

// lowers calls f for each child whose partition is about to go down.
func lowers(w *planner.Input, p *planner.Plan, f func(s *planner.SubsetPlan, now *adapters.Observed)) {
	for _, s := range p.Subsets {
		now := observed(w, s.Name)
		if now != nil && s.Step.Action == subset.ActionApply && s.Step.Child.Partition < now.Partition {
			f(s, now)
		}
	}
}

// lowersShare lowers every partition to its share of the replicas.
func lowersShare(w *planner.Input, p *planner.Plan, percent int32) {
	for _, s := range p.Subsets {
		if observed(w, s.Name) != nil && s.Step.Action == subset.ActionApply {
			s.Step.Child.Partition = min(s.Step.Child.Partition, (percent*s.Decision.Replicas+99)/100)
		}
	}
}

// firstOf returns the revision of v1.
func firstOf(w *planner.Input) *revision.Revision { return w.Revisions[0] }

func mutants() []mutant {
	quiet := smallConfig{replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling()}, edits: templates(2), budget: budget{budgetEdit: 1}.whole()}
	each := quiet
	each.replicas, each.variants = 4, []v1alpha1.UpdateStrategy{rolling(atMost(4), eachAtMost(*intOf(1)))}
	eachUnready := each
	eachUnready.budget = budget{budgetEdit: 1, budgetUnready: 1}.whole()
	eachScaled := each
	eachScaled.replicas, eachScaled.subsets = 3, one
	eachScaled.edits, eachScaled.budget = these(scaleTo(2)), budget{budgetEdit: 1, budgetUnready: 2}.whole()
	// unbounded ignores the bound of a subset.
	unbounded := func(w *planner.Input, p *planner.Plan) {
		parent := w.Parent.DeepCopy()
		parent.Spec.UpdateStrategy.RollingUpdate.MaxUnavailablePerSubset = nil
		in := *w
		in.Parent = parent
		*p = *planner.Make(&in)
	}
	unready := quiet
	unready.budget = budget{budgetEdit: 1, budgetUnready: 1}.whole()
	forces := unready
	forces.edits, forces.budget = edits(templates(2), these(forcing())), budget{budgetEdit: 2, budgetUnready: 1}.whole()
	bad := quiet
	bad.bad = bit(2)
	pauses := quiet
	pauses.edits, pauses.budget = edits(templates(2), these(pausing())), budget{budgetEdit: 2}.whole()
	meddled := quiet
	meddled.budget = budget{budgetMeddle: 1}.whole()
	stripped := quiet
	stripped.budget = budget{budgetEdit: 1, budgetStrip: 1}.whole()
	waits := quiet
	waits.variants = []v1alpha1.UpdateStrategy{rolling(step(canary, "approval"))}
	soaks := quiet
	soaks.variants, soaks.budget = []v1alpha1.UpdateStrategy{rolling(step(canary, "10m"))}, budget{budgetEdit: 1, budgetTick: 1}.whole()
	comes := quiet
	comes.variants = []v1alpha1.UpdateStrategy{manual(all, all)}
	comes.edits, comes.budget = edits(templates(2), these(subsetsTo(one, "b goes"), subsetsTo(both, "b comes"))), budget{budgetEdit: 3}.whole()
	held := quiet
	held.variants = []v1alpha1.UpdateStrategy{manual(*intOf(1), *intOf(1)), manual(all, all)}
	held.edits, held.budget = edits(templates(1, 2), these(variant(1, "hold"))), budget{budgetEdit: 3}.whole()
	scaledHalf := quiet
	scaledHalf.subsets, scaledHalf.variants = one, []v1alpha1.UpdateStrategy{manual(*percentOf(50)), manual(*percentOf(25))}
	scaledHalf.edits, scaledHalf.budget = edits(templates(2), these(scaleTo(2), variant(1, "25%"))), budget{budgetEdit: 3}.whole()
	bound := quiet
	bound.replicas, bound.subsets, bound.variants = 2, one, []v1alpha1.UpdateStrategy{boundManual(2, none)}
	bound.edits, bound.budget = templates(2, 3), budget{budgetEdit: 2}.whole()
	undone := quiet
	undone.subsets, undone.variants = one, []v1alpha1.UpdateStrategy{manual(none), manual(all)}
	undone.edits, undone.budget = edits(templates(1, 2), these(variant(1, "hold"))), budget{budgetEdit: 3}.whole()
	left := quiet
	left.replicas, left.subsets, left.variants, left.records = 2, one, []v1alpha1.UpdateStrategy{rolling(step(canary, "approval"))}, true
	left.edits, left.budget = templates(1, 2), budget{budgetEdit: 3}.whole()
	return append(slices.Concat(checkMutants(), rejectMutants(), runMutants(), queryMutants()), []mutant{
		{"releases one replica too many", "I2", quiet, func(w *planner.Input, p *planner.Plan) {
			lowers(w, p, func(s *planner.SubsetPlan, _ *adapters.Observed) {
				s.Step.Child.Partition = max(0, s.Step.Child.Partition-1)
			})
		}},
		{"releases one replica of a subset too many", "I2", each, unbounded},
		{"does not count what is down in a subset", "I2", eachUnready, unbounded},
		{"takes surplus replicas though those of the subset are down", "I2", eachScaled, unbounded},
		{"heeds a force that was there before", "I2", forces, func(w *planner.Input, p *planner.Plan) {
			if w.Parent.Status.Rollout == nil {
				return
			}
			in := *w
			in.Parent = w.Parent.DeepCopy()
			in.Parent.Status.Rollout.Spent = ""
			*p = *planner.Make(&in)
		}},
		{"goes past the step", "I1", waits, func(w *planner.Input, p *planner.Plan) {
			lowers(w, p, func(s *planner.SubsetPlan, _ *adapters.Observed) { s.Step.Child.Partition = 0 })
		}},
		{"deletes what is unready", "I2", unready, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				if now := observed(w, s.Name); now != nil {
					for _, r := range now.Pods {
						if !r.Ready {
							s.Deletes = append(s.Deletes, planner.Deletion{Replica: r})
						}
					}
				}
			}
		}},
		{"never goes on", "I6", quiet, func(w *planner.Input, p *planner.Plan) {
			lowers(w, p, func(s *planner.SubsetPlan, now *adapters.Observed) { s.Step.Child.Partition = now.Partition })
		}},
		{"does not stop at a failure", "failed", bad, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				if now := observed(w, s.Name); now != nil && p.Rollout != nil && p.Rollout.State.Phase == v1alpha1.RolloutFailed {
					s.Step.Child.Partition = 0
				}
			}
		}},
		{"does not stop at a pause", "paused", pauses, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				if w.Parent.Spec.Paused {
					s.Step.Child.Partition = 0
				}
			}
		}},
		{"leaves what somebody else did", "I6", meddled, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				if now := observed(w, s.Name); now != nil {
					s.Step.Child.Partition, s.Step.Child.Replicas = now.Partition, now.Replicas
				}
			}
		}},
		{"takes what was removed for what was never there", "protected", stripped, func(w *planner.Input, p *planner.Plan) {
			for _, c := range w.Children {
				annotations := maps.Clone(c.Object.GetAnnotations())
				if _, there := annotations[v1alpha1.AnnotationProtectedRevision]; !there {
					annotations[v1alpha1.AnnotationProtectedRevision] = ""
					c.Observed.Meta.Annotations = annotations
				}
			}
			*p = *planner.Make(w)
		}},
		{"takes a revision for run too early", "current", quiet, func(w *planner.Input, p *planner.Plan) { p.CurrentRevision = w.Update.Name }},
		{"does not wait for an approval", "approval", waits, func(_ *planner.Input, p *planner.Plan) {
			if p.Rollout.State.Phase == v1alpha1.RolloutAwaitingApproval {
				p.Rollout.State.Step++
			}
		}},
		{"leaves a step before it is reached", "position", waits, func(_ *planner.Input, p *planner.Plan) {
			if p.Rollout.State.Phase == v1alpha1.RolloutProgressing {
				p.Rollout.State.Step = 1
			}
		}},
		{"does not wait for a pause to pass", "soak", soaks, func(_ *planner.Input, p *planner.Plan) {
			if p.Rollout.State.Phase == v1alpha1.RolloutPaused {
				p.Rollout.State.Step++
			}
		}},
		{"waits before it holds", "I1", held, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				if now := observed(w, s.Name); now != nil && !now.SpecObserved && s.Step.Child.Revision == subset.RevisionOf(now) {
					s.Step = subset.Step{Action: subset.ActionWait}
				}
			}
		}},
		{"releases by scaling", "scaling", scaledHalf, func(w *planner.Input, p *planner.Plan) {
			lowersShare(w, p, 50)
		}},
		{"protects new replicas only by number", "scaling", scaledHalf, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				if now := observed(w, s.Name); now != nil && s.Decision.Replicas < now.Replicas && s.Step.Action == subset.ActionApply {
					s.Step.Child.Partition = min(s.Step.Child.Partition, 1)
				}
			}
		}},
		{"forgets that the value has changed", "I6", scaledHalf, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				if now := observed(w, s.Name); now != nil && s.Step.Action == subset.ActionApply {
					s.Step.Child.Partition = max(s.Step.Child.Partition, min(now.Partition, s.Decision.Replicas))
				}
			}
		}},
		{"ignores what the partitions are bound to", "bound", bound, func(w *planner.Input, p *planner.Plan) {
			parent := w.Parent.DeepCopy()
			parent.Spec.UpdateStrategy.ManualUpdate.Revision = ""
			in := *w
			in.Parent = parent
			*p = *planner.Make(&in)
		}},
		{"never undoes", "I6: undo", undone, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				if now := observed(w, s.Name); now != nil && w.Update == firstOf(w) {
					s.Deletes, s.Step.Child.Partition = nil, now.Partition
				}
			}
		}},
		{"undoes all at once", "undo", undone, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				now := observed(w, s.Name)
				if now == nil || w.Update != firstOf(w) {
					continue
				}
				s.Deletes = nil
				for _, r := range now.Pods {
					if strings.HasSuffix(r.Hash, "-2") {
						s.Deletes = append(s.Deletes, planner.Deletion{Replica: r})
					}
				}
			}
		}},
		{"forgets what it has left", "left: position", left, func(w *planner.Input, p *planner.Plan) {
			in := *w
			in.Revisions = nil
			for _, r := range w.Revisions {
				object := r.Object.DeepCopy()
				delete(object.Annotations, v1alpha1.AnnotationLeft)
				if again, err := revision.Parse(object); err == nil {
					in.Revisions = append(in.Revisions, again)
				}
			}
			in.Update = revision.ByName(in.Revisions, w.Update.Name)
			*p = *planner.Make(&in)
		}},
		{"takes what was never current for proven", "approval", left, func(w *planner.Input, p *planner.Plan) {
			if w.Parent.Status.CurrentRevision != w.Update.Name && p.Rollout != nil && p.Rollout.State.Phase == v1alpha1.RolloutAwaitingApproval {
				p.Rollout.State.Step++
			}
		}},
		{"waits on the way back", "back", left, func(_ *planner.Input, p *planner.Plan) {
			if p.GoesBack && p.Rollout != nil && p.Rollout.State.Phase == v1alpha1.RolloutProgressing {
				p.Rollout.State.Phase = v1alpha1.RolloutAwaitingApproval
			}
		}},
		{"makes children without a seed", "I1", comes, func(w *planner.Input, p *planner.Plan) {
			for _, s := range p.Subsets {
				if observed(w, s.Name) == nil {
					s.Step.Child.RevisionTemplate, s.Step.Child.Revision = w.Update.Template(), w.Update.Name
					s.Step.Child.Replicas = s.Decision.Replicas
				}
			}
		}},
	}...)
}

// The positive controls: every kind of rule convicts a controller that breaks it, and not the real one in the same
// world.
func TestExhaustiveConvicts(t *testing.T) {
	for _, m := range mutants() {
		t.Run(m.name, func(t *testing.T) {
			breaks := func() bool {
				return slices.ContainsFunc(m.world.walk(20000, time.Time{}).found, func(f *found) bool { return strings.HasPrefix(f.rule, m.rule+":") })
			}
			if breaks() {
				t.Errorf("the real controller is convicted of %s", m.rule)
			}
			if m.world.mutant = m.spoil; !breaks() {
				t.Errorf("it is not convicted of %s", m.rule)
			}
		})
	}
}

// No pass decides by the parts of a status that the small worlds drop: with the complete status it writes the
// same.
func TestStatusForgetsNothing(t *testing.T) {
	for _, c := range []smallConfig{
		{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(step(canary, "10m"))},
			edits:  edits(templates(1, 2, 3), these(scaleTo(0), scaleTo(3), pausing())),
			budget: budget{budgetEdit: 2, budgetUnready: 1, budgetCrash: 1, budgetTick: 1}.whole(),
		},
		{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{manual(all, all), manual(none, all)},
			edits:  edits(templates(1, 2), these(variant(1, "release a"), scaleTo(0), scaleTo(2))),
			budget: budget{budgetEdit: 3, budgetForget: 1}.whole(),
		},
	} {
		c.compareStatuses(t, 6000)
	}
}

// remembered is a state with the complete status with which it was reached.
type remembered struct {
	state  smallState
	status *v1alpha1.UnitedDeploymentStatus
}

func (c *smallConfig) compareStatuses(t *testing.T, most int) {
	first := c.first()
	e := newSeam(c)
	queue := []remembered{{first, e.world(&first).Parent.Status.DeepCopy()}}
	seen := map[smallHash]bool{}
	for len(queue) > 0 && len(seen) < most {
		at := queue[0]
		queue = queue[1:]
		less := e.decide(&at.state)
		w := e.world(&at.state)
		w.Parent.Status = *at.status.DeepCopy()
		whole := e.decideIn(&at.state, w)
		if !slices.Equal(less.writes, whole.writes) {
			t.Fatalf("a pass decides by what is dropped from the status: %+v\nwith it: %+v\nin %s", less.writes, whole.writes, at.state.String())
		}
		after, other := at.state, at.state
		e.carry(less, &at.state, &other, less.everything(), [maxKids + 1]bool{})
		status := e.carry(whole, &at.state, &after, whole.everything(), [maxKids + 1]bool{})
		if after != other {
			t.Fatalf("a status is made of what is dropped from it: in %s\n%+v\n%+v", at.state.String(), statuses.at(after.parent.status), statuses.at(other.parent.status))
		}
		reach := func(s smallState, status *v1alpha1.UnitedDeploymentStatus) {
			if h := hashOf(&s, 0); !seen[h] {
				seen[h] = true
				queue = append(queue, remembered{s, status})
			}
		}
		reach(after, status)
		c.possible(&at.state, func(ev smallEvent) {
			next := at.state
			c.happen(&next, ev)
			reach(next, at.status)
		})
	}
}
