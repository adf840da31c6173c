// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// smallRun is the run of the check of a small world that has one: the last one that was created.
type smallRun struct {
	// name is what a plan calls it, and asked is what the controller observes, and for which round; interned, 0 for nothing.
	name, asked uint32
	exists      bool
	state       runState
	// at is for which step of which rollout it was created, interned. There, one has succeeded or failed. Only observers know
	// that.
	at                uint32
	succeeded, failed bool
}

type runState uint8

const (
	runRuns runState = iota
	runSucceeded
	runFailed
	runUndecided
	runVanishes // only as an event
)

// ran gives a strategy a check with a Job.
func ran(r *v1alpha1.RollingUpdate) {
	r.Checks = []v1alpha1.RolloutCheck{{Name: "c", Job: &v1alpha1.JobCheck{Template: &runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}}}}
}

func (c *smallConfig) hasRuns() bool {
	return slices.ContainsFunc(c.variants, func(s v1alpha1.UpdateStrategy) bool {
		return s.RollingUpdate != nil && slices.ContainsFunc(s.RollingUpdate.Checks, func(check v1alpha1.RolloutCheck) bool { return check.Job != nil })
	})
}

// seen returns what the runner sees of what the last pass asked.
func (r *smallRun) seen() map[string]known.CheckResult {
	if r.asked == 0 {
		return nil
	}
	name, round, _ := strings.Cut(texts.at(r.asked), "\n")
	result := known.CheckResult{Seen: true, Round: round, Reached: true, Absent: true, Message: "absent"}
	if r.exists && texts.at(r.name) == name {
		result.Absent, result.Message = false, fmt.Sprint("state ", r.state)
		result.Running, result.Met, result.Failed, result.Unjudged = r.state == runRuns, r.state == runSucceeded, r.state == runFailed, r.state == runUndecided
	}
	return map[string]known.CheckResult{"c": result}
}

// stepOf identifies the step of a rollout.
func stepOf(status *v1alpha1.UnitedDeploymentStatus) string {
	if status.Rollout == nil || status.Rollout.StartTime == nil {
		return ""
	}
	return fmt.Sprintf("%s %d %d", status.Rollout.Revision, status.Rollout.StartTime.Unix(), status.Rollout.Step)
}

// carryRuns creates the runs of a pass. One that exists is not created again.
func (e *seam) carryRuns(pass *smallPass, s *smallState) {
	if !e.config.hasRuns() {
		return
	}
	r := &s.parent.run
	r.asked = 0
	for _, ask := range pass.p.Asks() {
		r.asked = textID(ask.Run + "\n" + ask.Round)
	}
	for _, ask := range pass.p.StartedRuns() {
		name, at := textID(ask.Run), textID(stepOf(&pass.w.Parent.Status))
		if r.exists && r.name == name {
			continue
		}
		if r.at != at {
			r.succeeded, r.failed = false, false
		}
		r.name, r.at, r.exists, r.state = name, at, true, runRuns
	}
}

// possibleRuns calls try for what can happen to a run.
func (c *smallConfig) possibleRuns(s *smallState, try func(smallEvent)) {
	if s.parent.run.exists {
		for state := runSucceeded; state <= runVanishes; state++ {
			if s.parent.run.state == runRuns || state == runVanishes {
				try(smallEvent{what: happensRun, i: uint8(state)})
			}
		}
	}
	if s.parent.run.asked != 0 {
		try(smallEvent{what: happensRestart})
	}
}

// happenToRun lets it happen.
func (s *smallState) happenToRun(state runState) {
	r := &s.parent.run
	if state == runVanishes {
		r.exists, r.state = false, runRuns
		return
	}
	r.state = state
	r.succeeded, r.failed = r.succeeded || state == runSucceeded, r.failed || state == runFailed
}

// runs lets a run end well.
func (n *kindness) runs(c *smallConfig, _ *seam, s *smallState) string {
	if !s.parent.run.exists || s.parent.run.state != runRuns {
		return ""
	}
	ev := smallEvent{what: happensRun, i: uint8(runSucceeded)}
	c.happen(s, ev)
	return ev.in(c)
}

// judgeStart: a run starts only when its step is reached, not while the rollout is paused, nor under force or on the way back; and
// there is one for each step.
func (j *judged) judgeStart(pass *smallPass) {
	for _, ask := range pass.p.StartedRuns() {
		r := &j.s.parent.run
		switch {
		case !j.bound(), j.s.parent.paused:
			j.complain("runs", "one starts though nobody waits for it")
		case r.at == textID(stepOf(&pass.w.Parent.Status)) && r.name != textID(ask.Run):
			j.complain("runs", "there are two for one step: %s and %s", texts.at(r.name), ask.Run)
		}
		for k := range j.allotted {
			for i := int(j.target[k]); i < int(j.allotted[k]); i++ {
				if !j.done(k, i) {
					j.complain("runs", "one starts before %s-%d is updated and available", subsetName(k), i)
				}
			}
		}
	}
}

// judgeRunVerdict: no step ends, neither the last one, and no other revision becomes the current one, before a run of it has
// succeeded. The check fails only if one has failed, or took too long.
func (j *judged) judgeRunVerdict(was, is *v1alpha1.UnitedDeploymentStatus) {
	before, r := was.Rollout, &j.s.parent.run
	if before == nil || before.Revision != is.Rollout.Revision {
		return
	}
	here := r.at == textID(stepOf(was))
	releases := false
	for k := range j.allotted {
		releases = releases || j.target[k] < j.allotted[k]
	}
	if releases && before.Phase != v1alpha1.RolloutDone && (!here || !r.succeeded) {
		switch {
		case is.Rollout.Step > before.Step && !j.positionLost():
			j.complain("runs", "step %d is left though none has succeeded", before.Step)
		case is.Rollout.Phase == v1alpha1.RolloutDone:
			j.complain("runs", "the rollout ends though none has succeeded")
		case is.CurrentRevision != was.CurrentRevision && j.e.versions[is.CurrentRevision] == j.version:
			j.complain("runs", "v%d becomes the current revision though none has succeeded", j.version)
		}
	}
	late := slices.ContainsFunc(before.Checks, func(c v1alpha1.CheckStatus) bool {
		return c.FailingTime != nil && clockAt(j.s.parent.now).Sub(c.FailingTime.Time) >= longTime
	})
	if is.Rollout.Phase == v1alpha1.RolloutCheckFailed && before.Phase != v1alpha1.RolloutCheckFailed && (!here || !r.failed) && !late {
		j.complain("verdict", "the check is said to have failed, and none has, and it is not late")
	}
}

// failedByRun reports whether the end of a world is that a run has failed: then it waits for a user.
func (c *smallConfig) failedByRun(status *v1alpha1.UnitedDeploymentStatus) bool {
	return c.hasRuns() && status != nil && status.Rollout != nil && status.Rollout.Phase == v1alpha1.RolloutCheckFailed
}

func runConfigs() []smallConfig {
	return slices.Concat(
		kinds("Runs, in steps", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(ran, step(canary, ""))},
			edits:  templates(1, 2),
			budget: budget{budgetEdit: 2, budgetTurn: 2, budgetTick: 1}.whole(),
		}),
		kinds("Runs, restarted", smallConfig{
			replicas: 2, subsets: both, variants: []v1alpha1.UpdateStrategy{rolling(ran)},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetTurn: 2, budgetRestart: 2, budgetDie: 1, budgetUnready: 1}.whole(),
		}),
		kinds("Runs, stale", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(ran, step(canary, ""))},
			edits:  templates(2),
			budget: budget{budgetEdit: 1, budgetTurn: 2, budgetStale: 2, budgetEvict: 1}.whole(),
		}),
		withMore("Runs, forced, paused, and back", smallConfig{
			replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(ran, step(canary, ""))},
			edits:  edits(templates(1, 2), these(forcing(), pausing())),
			budget: budget{budgetEdit: 2, budgetTurn: 1}.whole(),
		}, budget{budgetEdit: 1}),
	)
}

// runMutants are controllers that do not wait for runs.
func runMutants() []mutant {
	world := smallConfig{
		replicas: 2, subsets: one, variants: []v1alpha1.UpdateStrategy{rolling(ran, step(canary, ""))},
		edits: templates(2), budget: budget{budgetEdit: 1, budgetTurn: 1, budgetRestart: 1}.whole(),
	}
	with := func(result known.CheckResult) func(*planner.Input, *planner.Plan) {
		return func(w *planner.Input, p *planner.Plan) {
			in := *w
			result.Round, result.Reached, result.Seen = known.AnyRound, true, true
			in.Checks = map[string]known.CheckResult{"c": result}
			*p = *planner.Make(&in)
		}
	}
	starts := func(change func(*known.CheckAsk)) func(*planner.Input, *planner.Plan) {
		return func(_ *planner.Input, p *planner.Plan) {
			if p.Rollout == nil {
				return
			}
			for i := range p.Rollout.Start {
				change(&p.Rollout.Start[i])
			}
		}
	}
	return []mutant{
		{"takes a run for successful", "runs", world, with(known.CheckResult{Met: true})},
		{"takes a run for failed", "verdict", world, with(known.CheckResult{Failed: true})},
		{"starts another run after each restart", "runs", world, func() func(*planner.Input, *planner.Plan) {
			return func(w *planner.Input, p *planner.Plan) {
				if w.Parent.Status.Rollout != nil && len(w.Parent.Status.Rollout.Checks) > 0 {
					starts(func(ask *known.CheckAsk) { ask.Run += "-again" })(w, p)
				}
			}
		}()},
		{"starts a run before its step is reached", "runs", world, func(w *planner.Input, p *planner.Plan) {
			if p.Rollout != nil && p.Rollout.State != nil && p.Rollout.State.Phase == v1alpha1.RolloutProgressing && len(p.Rollout.Asks) == 0 {
				p.Rollout.Start = []known.CheckAsk{{Check: &w.Parent.Spec.UpdateStrategy.RollingUpdate.Checks[0], Run: "job/early"}}
			}
		}},
	}
}
