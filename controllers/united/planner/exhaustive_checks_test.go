// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// smallCheck is the check of a small world that has one: whether it is met, and whether the controller has read that since it
// was started.
type smallCheck uint8

const (
	checkNotMet smallCheck = 1 << iota
	checkUnread
)

// checked gives a strategy a check.
func checked(r *v1alpha1.RollingUpdate) {
	r.Checks = []v1alpha1.RolloutCheck{{Name: "c", ObjectCondition: &v1alpha1.ObjectCondition{APIVersion: "v1", Kind: "Kind", Name: "c", Type: "Ready"}}}
}

func (c *smallConfig) hasChecks() bool {
	return slices.ContainsFunc(c.variants, func(s v1alpha1.UpdateStrategy) bool {
		return s.RollingUpdate != nil && len(s.RollingUpdate.Checks) > 0
	})
}

// seen returns what the runner has seen.
func (k smallCheck) seen(c *smallConfig) map[string]known.CheckResult {
	if c.hasQueries() {
		return k.measured()
	}
	if k&checkUnread != 0 {
		return nil
	}
	return map[string]known.CheckResult{"c": {Round: known.AnyRound, Reached: true, Seen: true, Met: k&checkNotMet == 0}}
}

// possibleChecks calls try for what can happen around a check.
func (c *smallConfig) possibleChecks(s *smallState, try func(smallEvent)) {
	switch {
	case c.hasRuns():
		c.possibleRuns(s, try)
		return
	case c.hasQueries():
		c.possibleQueries(s, try)
		return
	case !c.hasChecks():
		c.possibleLoss(s, try)
		return
	}
	try(smallEvent{what: happensTurn})
	if s.parent.check&checkUnread != 0 {
		try(smallEvent{what: happensReading})
	} else {
		try(smallEvent{what: happensRestart})
	}
	c.possibleLoss(s, try)
}

func (c *smallConfig) possibleLoss(s *smallState, try func(smallEvent)) {
	if statuses.at(s.parent.status).Rollout != nil {
		try(smallEvent{what: happensLoss})
	}
}

// happenToCheck lets it happen.
func (s *smallState) happenToCheck(c *smallConfig, ev smallEvent) {
	if c.hasQueries() && ev.what != happensLoss {
		s.parent.check = s.parent.check.after(ev)
		return
	}
	switch p := &s.parent; ev.what {
	case happensTurn:
		p.check ^= checkNotMet
	case happensRestart:
		p.run.asked = 0
		p.check |= checkUnread
	case happensReading:
		p.check &^= checkUnread
	default: // the results are lost, and so is the position
		status := statuses.at(p.status).DeepCopy()
		status.Rollout = nil
		p.status, p.soaked, p.told = internStatus(status, false), false, 0
		p.check = p.check.inAnotherRound(c)
	}
}

// bound reports whether the rollout must pass the check.
func (j *judged) bound() bool {
	return j.rolling != nil && len(j.rolling.Checks) > 0 && !j.forced && !j.back
}

// judgeCheck: nothing is released, in any subset, while a check is not met or not known to be.
func (j *judged) judgeCheck(k, i int) {
	if rollout := j.rollout(); j.bound() && j.c.hasRuns() && rollout != nil && rollout.Phase == v1alpha1.RolloutCheckFailed {
		j.complain("verdict", "%s-%d is released though the check has failed", subsetName(k), i)
	}
	if j.bound() && !j.c.hasRuns() && j.s.parent.check != 0 && (!j.c.hasQueries() || j.anyUpdated()) {
		j.complain("checks", "%s-%d is released though the check is not met", subsetName(k), i)
	}
}

// judgeVerdict: no step ends meanwhile, neither the last one, and no other revision becomes the current one. Nothing fails that
// is met, or without a released replica.
func (j *judged) judgeVerdict(was, is *v1alpha1.UnitedDeploymentStatus) {
	if !j.bound() || is.Rollout == nil || j.total == 0 {
		return
	}
	if j.c.hasRuns() {
		j.judgeRunVerdict(was, is)
		return
	}
	before := j.rollout()
	ended := before != nil && before.Phase == v1alpha1.RolloutDone
	met, releases := j.s.parent.check == 0, false
	for k := range j.allotted {
		releases = releases || j.target[k] < j.allotted[k]
	}
	if j.c.hasQueries() {
		j.judgeFailure(before, is.Rollout)
		met = met || !j.anyUpdated()
	}
	if !met && releases && !ended {
		switch {
		case before != nil && is.Rollout.Step > before.Step && !j.positionLost():
			j.complain("checks", "step %d is left though the check is not met", before.Step)
		case is.Rollout.Phase == v1alpha1.RolloutDone:
			j.complain("checks", "the rollout ends though the check is not met")
		case is.CurrentRevision != was.CurrentRevision && j.e.versions[is.CurrentRevision] == j.version:
			j.complain("checks", "v%d becomes the current revision though the check is not met", j.version)
		}
	}
	if is.Rollout.Phase == v1alpha1.RolloutCheckFailed && !j.c.hasQueries() {
		updated := false
		for k := range j.s.kids {
			for i := range j.s.kids[k].set.Pods {
				updated = updated || j.updated(k, i) || j.releases(&j.before[k], i)
			}
		}
		failed := before != nil && before.Phase == v1alpha1.RolloutCheckFailed
		if met || !updated && !failed {
			j.complain("verdict", "the check is said to have failed, and is met, or nothing is released")
		}
	}
}

// forgetSoak: a failed check sets the time of a pause back.
func (s *smallState) forgetSoak(told *v1alpha1.UnitedDeploymentStatus) {
	if told != nil && told.Rollout != nil && told.Rollout.Phase == v1alpha1.RolloutCheckFailed {
		s.parent.soaked = false
	}
}

func checkConfigs() []smallConfig {
	return slices.Concat(
		kinds("Checks, in steps", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(checked, step(canary, "10m"))},
			edits:  templates(1, 2),
			budget: budget{budgetEdit: 2, budgetTurn: 3, budgetTick: 3}.whole(),
		}),
		kinds("Checks, restarted", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(checked)},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetTurn: 3, budgetRestart: 1, budgetLoss: 1, budgetDie: 1, budgetTick: 1}.whole(),
		}),
		withMore("Checks, forced, and back", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(checked, step(canary, ""))},
			edits:  edits(templates(1, 2), these(forcing())),
			budget: budget{budgetEdit: 2, budgetTurn: 2, budgetTick: 1}.whole(),
		}, budget{budgetEdit: 1}),
		withMore("Checks, scaled", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(checked, atMost(2))},
			edits:  edits(templates(2), these(scaleTo(4), scaleTo(0))),
			budget: budget{budgetEdit: 2, budgetTurn: 2}.whole(),
		}, budget{budgetEvict: 1, budgetStale: 1}),
	)
}

// checkMutants are controllers that do not wait for checks.
func checkMutants() []mutant {
	world := smallConfig{
		replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(checked, step(canary, ""))},
		edits: templates(2), budget: budget{budgetEdit: 1, budgetTurn: 2, budgetRestart: 1}.whole(),
	}
	// taken lets the plan take the check for met, if that is so.
	taken := func(when func(*planner.Input) bool) func(*planner.Input, *planner.Plan) {
		return func(w *planner.Input, p *planner.Plan) {
			in := *w
			if in.Checks = smallCheck(0).seen(&world); when(w) {
				*p = *planner.Make(&in)
			}
		}
	}
	released := func(w *planner.Input) bool {
		o := observed(w, subsetName(0))
		return o != nil && o.SpecObserved && o.Partition == 0
	}
	return []mutant{
		{"does not wait for a check", "checks", world, taken(func(*planner.Input) bool { return true })},
		{"takes a check that it has not read for met", "checks", world, taken(func(w *planner.Input) bool { return w.Checks == nil })},
		{"ends though a check is not met", "checks", world, taken(released)},
		{"fails a check that is met", "verdict", world, func(_ *planner.Input, p *planner.Plan) {
			if p.Rollout != nil && p.Rollout.State != nil && p.Rollout.State.Phase == v1alpha1.RolloutProgressing {
				p.Rollout.State.Phase = v1alpha1.RolloutCheckFailed
			}
		}},
	}
}
