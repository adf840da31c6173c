// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"slices"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// RecordedChecks returns results of checks for somebody who cannot see what they are about: those on record of a rollout that
// is under way. All others are taken for met.
func RecordedChecks(parent *v1alpha1.UnitedDeployment) map[string]known.CheckResult {
	strategy, rollout := parent.Spec.UpdateStrategy.RollingUpdate, parent.Status.Rollout
	if strategy == nil {
		return nil
	}
	results := map[string]known.CheckResult{}
	for i := range strategy.Checks {
		check := &strategy.Checks[i]
		results[check.Name] = known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Met: true}
		if rollout == nil || rollout.Phase == v1alpha1.RolloutDone {
			continue
		}
		j := slices.IndexFunc(rollout.Checks, func(c v1alpha1.CheckStatus) bool {
			return c.Name == check.Name && coordination.HasKey(check, c.Key)
		})
		if j >= 0 && rollout.Checks[j].State != v1alpha1.CheckIsMet {
			was := &rollout.Checks[j]
			results[check.Name] = known.CheckResult{
				Round: known.AnyRound, Reached: true, Seen: true, Message: was.Message, Running: was.State == v1alpha1.CheckRuns,
			}
		}
	}
	return results
}

// Asks returns what is to be observed of the checks from now on.
func (p *Plan) Asks() []known.CheckAsk {
	if p.Rollout == nil {
		return nil
	}
	asks := slices.Clone(p.Rollout.Asks)
	for i := range asks {
		asks[i].Owner = p.in.Parent.UID
	}
	return asks
}
