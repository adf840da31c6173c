// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package pass is one pass over a UnitedDeployment, from what was seen to what is said of it: it decides, carries out what it has
// decided, and finishes. What it does to the world it does with Hands: those of the manager write to the API server, those of a
// plan play what would happen. All else is pure.
package pass

import (
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// Hands do what a pass has decided. They decide nothing. Their methods are in the order in which a pass calls them.
type Hands interface {
	// Try keeps the revisions, unless that has failed before and it is too early to try again. It returns what became of it.
	Try(in *planner.Input, keep func() error) *planner.Result
	// Store stores the revision that the spec asks for beside those that are kept, and returns it as it is stored: under another
	// name if somebody has taken its own.
	Store(in *planner.Input, kept []*revision.Revision) (*revision.Revision, error)
	// Keep makes sure that a stored revision in use belongs to the parent, and changes it. It returns it as it is stored.
	Keep(in *planner.Input, r *revision.Revision, change revision.Change) (*revision.Revision, error)

	// Ask has the checks of the rollout observed from now on, and nothing else.
	Ask(asks []known.CheckAsk)
	// MayContinue reports whether there is time for another write; all others are left to another pass then.
	MayContinue() bool
	// Write carries out a write to a child. What fails is in the result, and keeps no other write from being tried.
	Write(in *planner.Input, w *planner.Write) *planner.Result
	// Start creates the Jobs and AnalysisRuns of checks, and returns after how long to try again what failed; 0 if nothing did.
	Start(in *planner.Input, asks []known.CheckAsk) (again time.Duration)

	// Record changes the record of a revision, before the status says what is recorded.
	Record(r *revision.Revision, change revision.Change) error
	// Publish publishes the status and the events, and returns after how long to do so again; 0 if that is done.
	Publish(p *Pass) (again time.Duration, err error)
	// Tidy removes what nobody needs any more after the pass.
	Tidy(p *Pass) error
}

// Pass is one pass: what it has decided, and what became of that so far.
type Pass struct {
	// In is what it decides on, with the revisions as they are stored.
	In      *planner.Input
	Plan    *planner.Plan
	Results planner.Results
	// Status is what it publishes.
	Status *v1alpha1.UnitedDeploymentStatus

	// again is when to try again what could not be started, and wake when time alone changes the status; 0 for never.
	again, wake time.Duration
	// unrecorded is why the record could not be written; nil if it was.
	unrecorded error
}

// Decide stores the revision of a plan, and lets those in use know the subsets, before anything is made from them. The plan is
// another one if that revision cannot be stored, or not under its name. The pass is nil if there is none now: because
// the cluster has changed meanwhile, or because there is no revision to go on with. The result says why.
func Decide(in *planner.Input, hands Hands) (*Pass, *planner.Result) {
	plan, out := planner.Make(in), in
	result := hands.Try(in, func() error {
		kept, err := keep(in, hands)
		if err == nil {
			out = kept
		}
		return err
	})
	switch {
	case result.Stale:
		return nil, result
	case result.Failure != nil:
		if out = in.WithoutUpdate(result.Failure); out == nil {
			return nil, result
		}
		plan = planner.Make(out)
	case out.Update.Name != in.Update.Name:
		plan = planner.Make(out)
	}
	return &Pass{In: out, Plan: plan}, result
}

// Carry carries out the plan.
func (p *Pass) Carry(hands Hands) {
	hands.Ask(p.Plan.Asks())
	p.Results = Writes(p.Plan, hands.MayContinue, func(w *planner.Write) *planner.Result { return hands.Write(p.In, w) })
	p.again = hands.Start(p.In, p.Plan.StartedRuns())
}

// Writes carries out the writes of a plan one after the other, and returns their results. What is left to another pass, because
// the plan says so or because this one may not continue (nil: it always may), is not written.
func Writes(plan *planner.Plan, mayContinue func() bool, write func(*planner.Write) *planner.Result) planner.Results {
	results := planner.Results{}
	for w := plan.Next(results); w != nil; w = plan.Next(results) {
		w.Yielded = w.Yielded || mayContinue != nil && !mayContinue()
		if results[w.Name] = w.LeftOut(); results[w.Name] == nil {
			results[w.Name] = write(w)
		}
	}
	return results
}

// Finish records and publishes what became of the pass, and removes what nobody needs any more. It returns after how long to
// run another pass (0: when something changes), and an error, which does not make that pointless.
func (p *Pass) Finish(hands Hands) (again time.Duration, err error) {
	p.Describe(nil)
	if r, change := p.record(); r != nil {
		if p.unrecorded = hands.Record(r, change); p.unrecorded != nil {
			p.Describe(nil)
		}
	}
	if again, err = hands.Publish(p); err != nil {
		return 0, err
	}
	again = Sooner(again, Sooner(p.again, p.wake))
	if p.unrecorded != nil {
		return again, p.unrecorded
	}
	return again, hands.Tidy(p)
}

// Describe makes the status, and returns it. overridden is set while somebody changes the status itself back.
func (p *Pass) Describe(overridden *undone.OverriddenError) *v1alpha1.UnitedDeploymentStatus {
	p.Status, p.wake = report.Status(p.In, p.Plan, p.Results, report.Undone{Status: overridden, Record: p.unrecorded})
	return p.Status
}

// Sooner returns the shorter of two delays; 0 means that there is none.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}
