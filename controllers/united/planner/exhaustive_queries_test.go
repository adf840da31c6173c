// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"maps"
	"slices"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// In a world with a query, checkNotMet says that the last measurement was not met, and checkUnread that there was none since the
// start of the controller. 0 is a measurement in the round that runs, and met.
const (
	// checkNoData: the last measurement gave no data.
	checkNoData smallCheck = 4 << iota
	// checkOld: the last measurement was for another revision or another step.
	checkOld
	// checkOnce and checkTwice: so many times in a row it was not met.
	checkOnce
	checkTwice
	// checkKind: from now on all is met.
	checkKind
)

// queried gives a strategy a query.
func queried(r *v1alpha1.RollingUpdate) {
	r.Checks = []v1alpha1.RolloutCheck{{Name: "c", Prometheus: &v1alpha1.PrometheusCheck{Server: "default", Query: "up", Max: "1", FailureLimit: 2}}}
}

func (c *smallConfig) hasQueries() bool {
	return slices.ContainsFunc(c.variants, func(s v1alpha1.UpdateStrategy) bool {
		return s.RollingUpdate != nil && slices.ContainsFunc(s.RollingUpdate.Checks, func(k v1alpha1.RolloutCheck) bool { return k.Prometheus != nil })
	})
}

// measured returns the last result. That of another round names a round that nobody asks for.
func (k smallCheck) measured() map[string]known.CheckResult {
	if k&checkUnread != 0 {
		return nil
	}
	r := known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Met: k&(checkNotMet|checkNoData) == 0, Unjudged: k&checkNoData != 0}
	if k&checkOld != 0 {
		r.Round = "old"
	}
	switch {
	case k&checkTwice != 0:
		r.Misses = 2
	case k&checkOnce != 0:
		r.Misses = 1
	}
	return map[string]known.CheckResult{"c": r}
}

// possibleQueries: there may be a measurement while a replica is updated, and a new controller at any time.
func (c *smallConfig) possibleQueries(s *smallState, try func(smallEvent)) {
	rollout := statuses.at(s.parent.status).Rollout
	if s.anyUpdated() && rollout != nil && versionOf(rollout.Revision) == s.parent.version {
		if s.parent.check != 0 {
			try(smallEvent{what: happensReading})
		}
		try(smallEvent{what: happensTurn, i: 1})
		try(smallEvent{what: happensTurn, i: 2})
	}
	if s.parent.check&checkUnread == 0 {
		try(smallEvent{what: happensRestart})
	}
	if rollout != nil {
		try(smallEvent{what: happensLoss})
	}
}

func versionOf(revision string) statefulset.Version {
	version, known := namesOfVersions.Load(revision)
	if !known {
		return 0
	}
	return version.(statefulset.Version)
}

// after returns what is known after a measurement, or after a restart.
func (k smallCheck) after(ev smallEvent) smallCheck {
	switch {
	case ev.what == happensRestart:
		return checkUnread
	case ev.what == happensReading:
		return 0
	case ev.i == 2: // no data: a row goes on after it
		return k&(checkOnce|checkTwice) | checkNoData
	case k&(checkOnce|checkTwice) != 0:
		return checkNotMet | checkTwice
	}
	return checkNotMet | checkOnce
}

// inAnotherRound returns what is left of it when another revision, or another step, is measured.
func (k smallCheck) inAnotherRound(c *smallConfig) smallCheck {
	if !c.hasQueries() || k&(checkKind|checkUnread) != 0 {
		return k
	}
	return k&^(checkOnce|checkTwice) | checkOld
}

// correctQuery: a user goes back when a query has failed.
func (c *smallConfig) correctQuery(s *smallState) {
	if !c.hasQueries() {
		return
	}
	s.parent.check = checkKind
	status := statuses.at(s.parent.status)
	if status.Rollout != nil && slices.ContainsFunc(status.Rollout.Checks, func(r v1alpha1.CheckStatus) bool { return r.State == v1alpha1.CheckHasFailed }) {
		s.parent.generation++
		s.parent.version = versionOf(status.CurrentRevision)
	}
}

// anyUpdated reports whether a replica that is to stay runs the update revision, and is ready.
func (s *smallState) anyUpdated() bool {
	allotted := s.parent.alloted()
	for k := range s.kids {
		set := &s.kids[k].set
		for i := range set.Pods[:min(set.Replicas, allotted[k], statefulset.MaxPods)] {
			if pod := &set.Pods[i]; pod.Exists() && !pod.Terminating && pod.Version == s.parent.version && pod.Phase == statefulset.Ready {
				return true
			}
		}
	}
	return false
}

// anyUpdated reports whether there was something to measure before the pass.
func (j *judged) anyUpdated() bool { return j.s.anyUpdated() }

// judgeFailure: no failure without failureLimit misses in a row.
func (j *judged) judgeFailure(was, is *v1alpha1.RolloutStatus) {
	failed := func(r *v1alpha1.RolloutStatus) bool {
		return r != nil && slices.ContainsFunc(r.Checks, func(c v1alpha1.CheckStatus) bool { return c.State == v1alpha1.CheckHasFailed })
	}
	if (failed(is) || is.Phase == v1alpha1.RolloutCheckFailed) && !failed(was) && (j.s.parent.check&checkTwice == 0 || j.s.parent.check&(checkNotMet) == 0) {
		j.complain("verdict", "the query is said to have failed, and was not missed twice in a row")
	}
}

func queryConfigs() []smallConfig {
	return slices.Concat(
		kinds("Queries, in steps", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(queried, step(canary, "", "a"))},
			edits:  templates(1, 2),
			budget: budget{budgetEdit: 2, budgetTurn: 3}.whole(),
		}),
		kinds("Queries, restarted", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(queried)},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetTurn: 2, budgetRestart: 1, budgetLoss: 1, budgetDie: 1}.whole(),
		}),
		withMore("Queries, scaled, forced", smallConfig{
			replicas: 3, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(queried, atMost(2))},
			edits:  edits(templates(2), these(scaleTo(2), scaleTo(0), forcing())),
			budget: budget{budgetEdit: 2, budgetTurn: 2}.whole(),
		}, budget{budgetEvict: 1, budgetStale: 1}),
	)
}

// queryMutants are controllers that do not wait for measurements, or take them for something else.
func queryMutants() []mutant {
	world := smallConfig{
		replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(queried, step(canary, "", "a"))},
		edits: templates(2, 3), budget: budget{budgetEdit: 2, budgetTurn: 2, budgetRestart: 1}.whole(),
	}
	taken := func(change func(*known.CheckResult)) func(*planner.Input, *planner.Plan) {
		return func(w *planner.Input, p *planner.Plan) {
			in := *w
			in.Checks = maps.Clone(w.Checks)
			if in.Checks == nil {
				in.Checks = map[string]known.CheckResult{}
			}
			r := in.Checks["c"]
			change(&r)
			in.Checks["c"] = r
			*p = *planner.Make(&in)
		}
	}
	return []mutant{
		{"does not wait for a measurement", "checks", world, taken(func(r *known.CheckResult) {
			*r = known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Met: true}
		})},
		{"takes a measurement of another round", "checks", world, taken(func(r *known.CheckResult) { r.Round = known.AnyRound })},
		{"takes no data for met", "checks", world, taken(func(r *known.CheckResult) { r.Met, r.Unjudged = r.Met || r.Unjudged, false })},
		{"takes an answer that did not come for a miss", "verdict", world, taken(func(r *known.CheckResult) {
			if r.Unjudged {
				r.Unjudged, r.Misses = false, r.Misses+1
			}
		})},
		{"fails after one miss", "verdict", world, taken(func(r *known.CheckResult) { r.Misses *= 2 })},
	}
}
