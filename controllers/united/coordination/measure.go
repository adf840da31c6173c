// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// measured is a check with what was seen of it in this pass, and its result on record.
type measured struct {
	known.CheckResult
	*v1alpha1.CheckStatus
}

// checksBind reports whether the rollout has checks that it must pass. The way back is proven without them.
func (c *coordinator) checksBind() bool {
	return c.Strategy != nil && len(c.Strategy.Checks) > 0 && !c.goingBack
}

// measure compares what was seen of the checks with the results on record. A result belongs to a revision, a step and the
// content of a check: if any of these has changed, it is measured anew. While the rollout is paused, nothing is measured.
func (c *coordinator) measure() {
	if !c.onRecord() || c.Strategy == nil {
		return
	}
	measures := c.checksBind() && c.Paused == "" && !c.hasEnded() && c.releasesAnything()
	if measures {
		c.retry()
	}
	var results []v1alpha1.CheckStatus
	for i := range c.Strategy.Checks {
		check := &c.Strategy.Checks[i]
		seen, record := c.Seen[check.Name], c.recordOf(check)
		switch j := c.indexOf(check.Name); {
		case measures && seen.Seen:
			record = c.result(check, seen, record)
			results = append(results, *record)
		case j >= 0:
			results = append(results, c.state.Checks[j])
		}
		if measures {
			c.checks = append(c.checks, measured{seen, record})
		}
	}
	c.state.Checks = results
}

// hasEnded reports whether the rollout has nothing more to release, and had passed its checks.
func (c *coordinator) hasEnded() bool {
	return c.state.Phase == v1alpha1.RolloutDone && c.running() == len(c.rules.steps) && c.reached()
}

func (c *coordinator) indexOf(check string) int {
	return slices.IndexFunc(c.state.Checks, func(s v1alpha1.CheckStatus) bool { return s.Name == check })
}

// recordOf returns the result on record of a check; nil if there is none, or if it belongs to something else.
func (c *coordinator) recordOf(check *v1alpha1.RolloutCheck) *v1alpha1.CheckStatus {
	i := c.indexOf(check.Name)
	if i < 0 || c.state.Checks[i].Step != c.statusStep(c.running()) || c.state.Checks[i].Key != CheckKey(check) {
		return nil
	}
	return c.state.Checks[i].DeepCopy()
}

// CheckKey identifies the content of a check.
func CheckKey(check *v1alpha1.RolloutCheck) string {
	raw, err := json.Marshal(check)
	if err != nil {
		return "" // cannot happen: it has only strings
	}
	return short(string(raw))
}

// result brings the result of a check up to date. It changes only when the state does, or why the check is not met.
func (c *coordinator) result(check *v1alpha1.RolloutCheck, seen known.CheckResult, was *v1alpha1.CheckStatus) *v1alpha1.CheckStatus {
	now := *c.nowInSeconds()
	r := was
	if r == nil {
		r = &v1alpha1.CheckStatus{Name: check.Name, Step: c.statusStep(c.running()), Key: CheckKey(check)}
	}
	turn := func(to v1alpha1.CheckState) {
		if r.State != to {
			r.State, r.SinceTime = to, now
		}
	}
	r.Message = seen.Message
	switch {
	case seen.Met:
		r.Message, r.FailingTime = "", nil
		turn(v1alpha1.CheckIsMet)
	case r.State == v1alpha1.CheckHasFailed:
	default:
		turn(v1alpha1.CheckIsNotMet)
		if !c.hasReleased() || c.rules.forced {
			r.FailingTime = nil // the rollout cannot be the cause, or does not care
			break
		}
		r.FailingTime = ptr.To(ptr.Deref(r.FailingTime, now))
		if at := c.failsAt(r); c.Now.Before(at) {
			c.requeueAt(at)
		} else {
			turn(v1alpha1.CheckHasFailed)
		}
	}
	return r
}

// failsAt returns when a check that is not met has failed. The time while the rollout was paused does not count.
func (c *coordinator) failsAt(r *v1alpha1.CheckStatus) time.Time {
	since := r.FailingTime.Time
	if c.Resumed.After(since) {
		since = c.Resumed
	}
	return since.Add(c.ProgressDeadline)
}

// hasReleased reports whether a replica is released to the update revision.
func (c *coordinator) hasReleased() bool {
	return slices.ContainsFunc(c.states, func(v *subsetState) bool {
		if v.Removed || v.Observed == nil || v.revision != c.Update {
			return false
		}
		return v.partition < min(v.currentReplicas, v.Desired) ||
			slices.ContainsFunc(v.replicaStates, func(m replicaState) bool { return m.updated && !m.Terminating })
	})
}

// retry measures all checks anew if the annotation says so for the first time.
func (c *coordinator) retry() {
	if !NamesRevision(c.Retry, c.Update) || slices.Contains(strings.Split(c.state.Retried, ","), RetryKey(c.Retry)) {
		return
	}
	const most = 20 // values are remembered
	values := append(strings.FieldsFunc(c.state.Retried, func(r rune) bool { return r == ',' }), RetryKey(c.Retry))
	c.state.Retried = strings.Join(values[max(0, len(values)-most):], ",")
	c.state.Checks = nil
}

// NamesRevision reports whether a value of the annotation united.dev/retry is for a revision.
func NamesRevision(value, revision string) bool {
	name, _, _ := strings.Cut(value, "/")
	return name != "" && name == revision
}

// RetryKey identifies a value of that annotation in records.
func RetryKey(value string) string { return short(value) }

// notMet returns the first check that is not met, one that has failed first; nil if there is none. The result on record
// counts until there is another one.
func (c *coordinator) notMet() *measured {
	var first *measured
	for i := range c.checks {
		m := &c.checks[i]
		switch {
		case m.CheckStatus == nil || m.State == v1alpha1.CheckIsMet:
		case m.State == v1alpha1.CheckHasFailed:
			return m
		case first == nil || m.Refused && !first.Refused:
			first = m
		}
	}
	return first
}

// heldByCheck reports whether a check that is not met holds the rollout.
func (c *coordinator) heldByCheck() bool { return !c.rules.forced && c.notMet() != nil }

// mayComplete reports whether a rollout of which all replicas are updated has passed its checks, which it has only when all
// of them are available, too.
func (c *coordinator) mayComplete() bool {
	if !c.checksBind() || c.rules.forced {
		return true
	}
	missed := slices.ContainsFunc(c.checks, func(m measured) bool { return !m.Seen || m.State != v1alpha1.CheckIsMet })
	return c.reached() && !missed && (len(c.checks) > 0 || !c.releasesAnything())
}

// WaitingForCheck begins the reason why a subset waits for a check that is not met.
const WaitingForCheck = "waiting for check "

// checkNotMet is closed while a check is not met. It is a stall if the check has failed, or if United may not read what it
// is about.
func checkNotMet(c *coordinator, _ *release) verdict {
	m := c.notMet()
	switch {
	case m == nil:
		return verdict{}
	case m.State == v1alpha1.CheckHasFailed:
		message := fmt.Sprintf("check %s failed: %s since %s; no more replicas are released: repair what it is about, or go back; to measure it anew, run: %s",
			m.Name, m.CheckStatus.Message, clock(ptr.Deref(m.FailingTime, m.SinceTime)), c.annotate(v1alpha1.AnnotationRetry, c.Update+"/$(date +%s)"))
		return verdict{closed: true, stall: true, phase: v1alpha1.RolloutCheckFailed, reason: "no more replicas are released while check " + m.Name + " has failed", message: message}
	}
	reason := fmt.Sprintf(WaitingForCheck+"%s: %s since %s", m.Name, m.CheckStatus.Message, clock(m.SinceTime))
	if m.Refused {
		return verdict{closed: true, stall: true, reason: reason}
	}
	return verdict{closed: true, phase: v1alpha1.RolloutProgressing, reason: reason}
}

// unmeasured is closed while it is not known whether a check is met.
func unmeasured(c *coordinator, _ *release) verdict {
	for i, m := range c.checks {
		if !m.Seen {
			return verdict{closed: true, reason: "waiting for the first result of check " + c.Strategy.Checks[i].Name}
		}
	}
	return verdict{}
}

// releasesAnything reports whether the steps up to the running one release any replica. If they do not, there is nothing to
// judge.
func (c *coordinator) releasesAnything() bool {
	return slices.ContainsFunc(c.states, func(v *subsetState) bool { return !v.Removed && v.toRelease() > 0 })
}

func clock(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
