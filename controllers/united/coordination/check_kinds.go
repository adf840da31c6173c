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
	// ask says what to observe. record is as for canBeJudged.
	ask func(c *coordinator, check *v1alpha1.RolloutCheck, record *v1alpha1.CheckStatus) known.CheckAsk
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
	text := checkText(check)
	if text == nil {
		return ""
	}
	return known.Digest(text)
}

// HasKey reports whether a key on record, also one of an earlier version, is that of a check.
func HasKey(check *v1alpha1.RolloutCheck, key string) bool {
	return key == CheckKey(check) || key != "" && key == earlierCheckKey(check)
}

func earlierCheckKey(check *v1alpha1.RolloutCheck) string { return short(string(checkText(check))) }

func checkText(check *v1alpha1.RolloutCheck) []byte {
	raw, err := json.Marshal(check)
	if err != nil {
		return nil // only with a template that is no JSON, which the API server does not store
	}
	return raw
}

// round returns what the results of a check belong to. A condition is the same whatever the rollout does; all else is measured
// for a revision, a step and an attempt.
func (c *coordinator) round(check *v1alpha1.RolloutCheck) string {
	if check.ObjectCondition != nil {
		return CheckKey(check)
	}
	key, _ := c.keysOf(c.running())
	return known.Digest(c.roundText(key, CheckKey(check)))
}

// roundText is what a round depends on, given the keys of the running step and of the check.
func (c *coordinator) roundText(step, check string) []byte {
	attempt, start := "", int64(0)
	if retries := c.retries(); len(retries) > 0 {
		attempt = retries[len(retries)-1]
	}
	if c.state.StartTime != nil {
		start = c.state.StartTime.Unix()
	}
	return fmt.Appendf(nil, "%s\n%d\n%s\n%s\n%s", c.Update, start, cmp.Or(step, "last"), attempt, check)
}

func always(*coordinator, *v1alpha1.CheckStatus) bool { return true }

func askCondition(*coordinator, *v1alpha1.RolloutCheck, *v1alpha1.CheckStatus) known.CheckAsk {
	return known.CheckAsk{}
}

// conditionHasFailed: the rollout itself may disturb an object for a while.
func conditionHasFailed(c *coordinator, _ *measured, r *v1alpha1.CheckStatus) (bool, time.Time) {
	return false, c.afterDeadline(r)
}

// stepIsReached also reports whether a Job may start: nobody would wait for one under force.
func stepIsReached(c *coordinator, _ *v1alpha1.CheckStatus) bool {
	return c.reached() && !c.rules.forced
}

// askRun names the run of this step, revision and attempt. The name is always the same, so that there are never two. One that an
// earlier version has started keeps its name, which is shorter.
func askRun(c *coordinator, check *v1alpha1.RolloutCheck, record *v1alpha1.CheckStatus) known.CheckAsk {
	_, key := c.keysOf(c.running())
	earlier := nameOfRun(c, check, 52, short(string(c.roundText(key, earlierCheckKey(check)))))
	if record != nil && record.Run == earlier {
		return known.CheckAsk{Run: earlier}
	}
	// The names of the pods of a Job are its own, a hyphen and five letters, and fit into a label. What is cut off does not
	// distinguish two runs: the digest is of the whole.
	const most = 63 - len("-abcde") - 1 - known.DigestLength
	whole := fmt.Sprintf("%s\n%s\n%s", c.Object.Name, check.Name, c.round(check))
	return known.CheckAsk{Run: nameOfRun(c, check, most, known.Digest([]byte(whole)))}
}

// nameOfRun returns a name that begins as the check is called, with at most so many characters, and ends with a digest.
func nameOfRun(c *coordinator, check *v1alpha1.RolloutCheck, most int, digest string) string {
	resource, name := "job/", c.Object.Name+"-"+check.Name
	if check.Analysis != nil {
		resource = "analysisrun/"
	}
	return resource + strings.TrimRight(name[:min(len(name), most)], "-.") + "-" + digest
}

func runHasFailed(c *coordinator, m *measured, r *v1alpha1.CheckStatus) (bool, time.Time) {
	if m.seen.Failed {
		return true, time.Time{}
	}
	return false, c.afterDeadline(r)
}
