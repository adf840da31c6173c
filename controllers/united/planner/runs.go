// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/runs"
)

// StartedRuns returns the checks whose Job or AnalysisRun is to be created.
func (p *Plan) StartedRuns() []known.CheckAsk {
	if p.Rollout == nil {
		return nil
	}
	return p.Rollout.Start
}

// WantedRuns returns the runs, as in known.CheckAsk.Run, that the rollout waits for, or whose result holds it. All others of the
// parent were left.
func (p *Plan) WantedRuns() []string {
	if p.Rollout == nil || p.Rollout.State == nil || p.Rollout.State.Forced {
		return nil
	}
	var wanted []string
	for _, ask := range p.Rollout.Asks {
		if ask.Run != "" {
			wanted = append(wanted, ask.Run)
		}
	}
	for i := range p.Rollout.State.Checks {
		if run := p.Rollout.State.Checks[i].Run; run != "" {
			wanted = append(wanted, run)
		}
	}
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// KindsOfRuns returns the kinds of the runs that the parent may have.
func (in *Input) KindsOfRuns() []schema.GroupVersionKind {
	jobs, analyses := false, false
	if strategy := in.Parent.Spec.UpdateStrategy.RollingUpdate; strategy != nil {
		for i := range strategy.Checks {
			jobs, analyses = jobs || strategy.Checks[i].Job != nil, analyses || strategy.Checks[i].Analysis != nil
		}
	}
	if rollout := in.Parent.Status.Rollout; rollout != nil { // of a check that was removed
		for i := range rollout.Checks {
			if run := rollout.Checks[i].Run; run != "" {
				kind, _ := runs.Named(run)
				jobs, analyses = jobs || kind == runs.JobKind, analyses || kind == runs.AnalysisKind
			}
		}
	}
	var kinds []schema.GroupVersionKind
	if jobs {
		kinds = append(kinds, runs.JobKind)
	}
	if analyses {
		kinds = append(kinds, runs.AnalysisKind)
	}
	return kinds
}
