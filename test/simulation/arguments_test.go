// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"testing"

	"k8s.io/utils/dump"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
)

// TestDecisionsChangeNoArguments: planner.Make, Plan.Next, report.Status and report.Events change neither what was seen nor what
// was decided, in moments of random histories.
func TestDecisionsChangeNoArguments(t *testing.T) {
	judged, moving := 0, 0
	worldsFrom(t, 900)
	rapid.Check(t, func(t *rapid.T) {
		d := &drive{World: New(t, "Parallel", "a", "b"), t: t, policy: "Parallel"}
		steps := 0
		d.each = func() {
			if steps++; steps%4 != 0 {
				return
			}
			in, err := look.New(d.API.Reader()).World(t.Context(), d.Parent().DeepCopy(), d.Clock.Now())
			if err != nil {
				return // the spec is not valid at the moment
			}
			judged++
			if d.decides(in) {
				moving++
			}
		}
		play(t, d)
	})
	if t.Logf("judged %d times, %d of them in a rollout", judged, moving); moving == 0 {
		t.Error("nothing was judged")
	}
}

// decides makes all decisions of a pass, and reports whether a coordinated rollout is one of them.
func (d *drive) decides(in *planner.Input) bool {
	seen := dump.ForHash(in)
	p := planner.Make(in)
	decided := dump.ForHash(p)
	results := planner.Results{}
	for w := p.Next(results); w != nil; w = p.Next(results) {
		results[w.Name] = &planner.Result{WaitReason: w.Why}
	}
	had := dump.ForHash(results)
	status, _ := report.Status(in, p, results, report.Undone{})
	said := dump.ForHash(status)
	report.Events(&in.Parent.Status, status, p, results)
	for what, changed := range map[string]bool{
		"input": dump.ForHash(in) != seen, "plan": dump.ForHash(p) != decided, "results": dump.ForHash(results) != had, "status": dump.ForHash(status) != said,
	} {
		if changed {
			d.Fail("a decision has changed its argument: the %s", what)
		}
	}
	if p.Rollout == nil || p.Rollout.State == nil {
		return false
	}
	p.Rollout.State.Message += "." // as by a report that writes into the plan
	if dump.ForHash(p) == decided {
		d.Fail("a change of the plan is not seen")
	}
	return true
}
