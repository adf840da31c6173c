// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// checkKind is what distinguishes the kinds of checks.
type checkKind struct {
	// endOnly: it holds the end of a step, but no releases.
	endOnly bool
	// failsForGood: a failure does not end by itself.
	failsForGood bool
	// canBeJudged reports whether there is something to observe now. record is the result on record; nil if there is none.
	canBeJudged func(c *coordinator, record *v1alpha1.CheckStatus) bool
	// ask says what to observe.
	ask func(c *coordinator, check *v1alpha1.RolloutCheck) known.CheckAsk
	// hasFailed reports whether a check that is not met has failed, or when it will have; zero if only with another result.
	hasFailed func(c *coordinator, m *measured, r *v1alpha1.CheckStatus) (bool, time.Time)
}

func kindOf(check *v1alpha1.RolloutCheck) checkKind {
	switch {
	case check.Job != nil, check.Analysis != nil:
		return checkKind{endOnly: true, failsForGood: true, canBeJudged: stepIsReached, ask: askRun, hasFailed: runHasFailed}
	case check.Prometheus != nil:
		return checkKind{failsForGood: true, canBeJudged: queryCanBeJudged, ask: askQuery, hasFailed: queryHasFailed}
	}
	return checkKind{canBeJudged: always, ask: askCondition, hasFailed: conditionHasFailed}
}

// CheckKey identifies the content of a check.
func CheckKey(check *v1alpha1.RolloutCheck) string {
	raw, err := json.Marshal(check)
	if err != nil {
		return "" // only with a template that is no JSON, which the API server does not store
	}
	return short(string(raw))
}

// round returns what the results of a check belong to. A condition is the same whatever the rollout does; all else is measured
// for a revision, a step and an attempt.
func (c *coordinator) round(check *v1alpha1.RolloutCheck) string {
	if check.ObjectCondition != nil {
		return CheckKey(check)
	}
	step, attempt := cmp.Or(c.approvalKey(c.running()), "last"), ""
	if retries := c.retries(); len(retries) > 0 {
		attempt = retries[len(retries)-1]
	}
	start := int64(0)
	if c.state.StartTime != nil {
		start = c.state.StartTime.Unix()
	}
	return short(fmt.Sprintf("%s\n%d\n%s\n%s\n%s", c.Update, start, step, attempt, CheckKey(check)))
}

func always(*coordinator, *v1alpha1.CheckStatus) bool { return true }

func askCondition(*coordinator, *v1alpha1.RolloutCheck) known.CheckAsk { return known.CheckAsk{} }

// conditionHasFailed: the rollout itself may disturb an object for a while.
func conditionHasFailed(c *coordinator, _ *measured, r *v1alpha1.CheckStatus) (bool, time.Time) {
	return false, c.afterDeadline(r)
}

// stepIsReached also reports whether a Job may start: nobody would wait for one under force.
func stepIsReached(c *coordinator, _ *v1alpha1.CheckStatus) bool {
	return c.reached() && !c.rules.forced
}

// askRun names the run of this step, revision and attempt. The name is always the same, so that there are never two.
func askRun(c *coordinator, check *v1alpha1.RolloutCheck) known.CheckAsk {
	const most = 52 // a Job makes names for its pods from its own
	resource, name := "job/", c.Object.Name+"-"+check.Name
	if check.Analysis != nil {
		resource = "analysisrun/"
	}
	return known.CheckAsk{Run: resource + strings.TrimRight(name[:min(len(name), most)], "-.") + "-" + c.round(check)}
}

func runHasFailed(c *coordinator, m *measured, r *v1alpha1.CheckStatus) (bool, time.Time) {
	if m.seen.Failed {
		return true, time.Time{}
	}
	return false, c.afterDeadline(r)
}
