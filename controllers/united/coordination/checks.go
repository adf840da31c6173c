// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
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
	// seen is what was seen in this pass, record the result on record; nil if there is none.
	seen   known.CheckResult
	record *v1alpha1.CheckStatus
	ask    known.CheckAsk
	kind   checkKind
}

// decided reports whether nothing more is to be observed: what is on record is final.
func (m *measured) decided() bool {
	return m.record != nil && (m.record.State == v1alpha1.CheckHasFailed && m.kind.failsForGood || m.record.State == v1alpha1.CheckIsMet && m.kind.endOnly)
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
		var record *v1alpha1.CheckStatus
		if measures {
			record = c.measureOne(check)
		}
		if j := c.indexOf(check.Name); record == nil && j >= 0 {
			record = &c.state.Checks[j]
		}
		if record != nil && !c.abandons(record, measures) {
			results = append(results, *record)
		}
	}
	c.state.Checks = results
}

// abandons reports whether nobody waits any more for a Job or an AnalysisRun that is on record as running.
func (c *coordinator) abandons(r *v1alpha1.CheckStatus, measures bool) bool {
	return r.State == v1alpha1.CheckRuns && c.Paused == "" && (!measures || c.rules.forced)
}

// measureOne brings the result of a check up to date, and says what is to be observed next. It returns nil if there is nothing
// to record.
func (c *coordinator) measureOne(check *v1alpha1.RolloutCheck) *v1alpha1.CheckStatus {
	m := measured{ask: known.CheckAsk{Check: check}, kind: kindOf(check), record: c.recordOf(check)}
	switch {
	case m.decided():
		c.checks = append(c.checks, m)
		return m.record
	case !m.kind.canBeJudged(c, m.record):
		return m.record
	}
	m.ask = m.kind.ask(c, check, m.record)
	m.ask.Check, m.ask.Round = check, c.round(check)
	m.seen = c.seen(&m.ask)
	if m.seen.Seen {
		m.record = c.result(&m)
	}
	c.checks = append(c.checks, m)
	return m.record
}

// seen returns what was seen of what is asked now; nothing if that was measured for something else.
func (c *coordinator) seen(ask *known.CheckAsk) known.CheckResult {
	seen := c.Seen[ask.Check.Name]
	if seen.Round != ask.Round && seen.Round != known.AnyRound || ask.Reached && !seen.Reached {
		return known.CheckResult{}
	}
	return seen
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
	if i < 0 || c.state.Checks[i].Step != c.statusStep(c.running()) || !HasKey(check, c.state.Checks[i].Key) {
		return nil
	}
	return c.state.Checks[i].DeepCopy()
}

// result brings the result of a check up to date. It changes only when the state does, or why the check is not met.
func (c *coordinator) result(m *measured) *v1alpha1.CheckStatus {
	now := *c.nowInSeconds()
	r := m.record
	if r == nil {
		r = &v1alpha1.CheckStatus{Name: m.ask.Check.Name, Step: c.statusStep(c.running()), Key: CheckKey(m.ask.Check)}
	}
	r.Run = m.ask.Run
	turn := func(to v1alpha1.CheckState, message string) {
		r.Message = message
		if r.State != to {
			r.State, r.SinceTime = to, now
		}
	}
	switch {
	case m.seen.Met:
		turn(v1alpha1.CheckIsMet, m.seen.Message)
		r.FailingTime = nil
	case r.State == v1alpha1.CheckHasFailed:
		r.Message = m.seen.Message
	case m.seen.Running, m.seen.Absent && m.ask.Run != "" && !m.seen.Refused:
		turn(v1alpha1.CheckRuns, m.seen.Message)
		c.fails(m, r, turn)
	case m.seen.Unjudged, m.seen.Refused && m.ask.Run != "":
		turn(v1alpha1.CheckIsNotMet, m.seen.Message)
		r.FailingTime = nil
	default:
		turn(v1alpha1.CheckIsNotMet, m.seen.Message)
		c.fails(m, r, turn)
	}
	return r
}

// fails turns a check that is not met into a failed one when it has failed.
func (c *coordinator) fails(m *measured, r *v1alpha1.CheckStatus, turn func(v1alpha1.CheckState, string)) {
	if !c.hasReleased() || c.rules.forced {
		r.FailingTime = nil // the rollout cannot be the cause, or does not care
		return
	}
	r.FailingTime = ptr.To(ptr.Deref(r.FailingTime, *c.nowInSeconds()))
	switch failed, at := m.kind.hasFailed(c, m, r); {
	case failed:
		if m.kind.endOnly {
			r.FailingTime = nil // it has failed now, and not since it began
		}
		turn(v1alpha1.CheckHasFailed, m.seen.Message)
	case !at.IsZero() && c.Now.Before(at):
		c.requeueAt(at)
	case !at.IsZero():
		message := m.seen.Message
		if m.kind.endOnly {
			message += " (within progressDeadlineSeconds)"
		}
		turn(v1alpha1.CheckHasFailed, message)
	}
}

// afterDeadline returns when a check that is not met has failed. The time while the rollout was paused does not count.
func (c *coordinator) afterDeadline(r *v1alpha1.CheckStatus) time.Time {
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
	values := append(c.retries(), RetryKey(c.Retry))
	c.state.Retried = strings.Join(values[max(0, len(values)-most):], ",")
	c.state.Checks = nil
}

func (c *coordinator) retries() []string {
	return strings.FieldsFunc(c.state.Retried, func(r rune) bool { return r == ',' })
}

// NamesRevision reports whether a value of an annotation is for a revision: its name, or that with a slash and any text.
func NamesRevision(value, revision string) bool {
	name, _, _ := strings.Cut(value, "/")
	return name != "" && name == revision
}

// RetryKey identifies a value of the annotation united.dev/retry in records.
func RetryKey(value string) string { return short(value) }

// notMet returns the first check of a kind that is not met, one that has failed first; nil if there is none. The result on
// record counts until there is another one.
func (c *coordinator) notMet(endOnly bool) *measured {
	var first *measured
	for i := range c.checks {
		m := &c.checks[i]
		switch {
		case m.record == nil || m.record.State == v1alpha1.CheckIsMet:
		case m.record.State == v1alpha1.CheckHasFailed:
			return m
		case m.kind.endOnly != endOnly:
		case first == nil || m.seen.Refused && !first.seen.Refused:
			first = m
		}
	}
	return first
}

// heldByCheck reports whether a check that is not met holds the rollout.
func (c *coordinator) heldByCheck() bool { return !c.rules.forced && c.notMet(false) != nil }

// mayComplete reports whether a rollout of which all replicas are updated has passed its checks, which it has only when all
// of them are available, too.
func (c *coordinator) mayComplete() bool {
	if !c.checksBind() || c.rules.forced {
		return true
	}
	missed := slices.ContainsFunc(c.checks, func(m measured) bool { return !m.decided() && !m.seen.Seen || m.record.State != v1alpha1.CheckIsMet })
	return c.reached() && !missed && (len(c.checks) > 0 || !c.releasesAnything())
}

// WaitingForCheck begins the reason why a subset waits for a check that is not met.
const WaitingForCheck = "waiting for check "

// checkNotMet is closed while a check that holds releases is not met, or any has failed. It is a stall if one has failed, or if
// United may not read what it is about.
func checkNotMet(c *coordinator, _ *release) verdict { return c.notMetVerdict(c.notMet(false)) }

// runNotMet is closed while a check that only the end of a step needs is not met.
func runNotMet(c *coordinator, _ *release) verdict {
	if v := c.notMetVerdict(c.notMet(true)); v.closed {
		return v
	}
	return c.firstResult(true)
}

// unmeasured is closed while it is not known whether a check that holds releases is met.
func unmeasured(c *coordinator, _ *release) verdict { return c.firstResult(false) }

func (c *coordinator) notMetVerdict(m *measured) verdict {
	switch {
	case m == nil:
		return verdict{}
	case m.record.State == v1alpha1.CheckHasFailed:
		repair := "repair what it is about, or go back"
		if m.kind.failsForGood {
			repair = "go back, or release another version"
		}
		message := fmt.Sprintf("check %s failed: %s, since %s; no more replicas are released: %s; to measure it anew, run: %s",
			m.record.Name, m.record.Message, clock(ptr.Deref(m.record.FailingTime, m.record.SinceTime)), repair, c.annotateAnew(v1alpha1.AnnotationRetry))
		return verdict{closed: true, stall: true, phase: v1alpha1.RolloutCheckFailed, reason: "no more replicas are released while check " + m.record.Name + " has failed", message: message}
	}
	reason := fmt.Sprintf(WaitingForCheck+"%s: %s, since %s", m.record.Name, m.record.Message, clock(m.record.SinceTime))
	if m.seen.Refused {
		return verdict{closed: true, stall: true, reason: reason}
	}
	return verdict{closed: true, phase: v1alpha1.RolloutProgressing, reason: reason}
}

func (c *coordinator) firstResult(endOnly bool) verdict {
	for i := range c.checks {
		if m := &c.checks[i]; m.kind.endOnly == endOnly && !m.seen.Seen && !m.decided() {
			return verdict{closed: true, reason: "waiting for the next result of check " + m.ask.Check.Name}
		}
	}
	return verdict{}
}

// releasesAnything reports whether the steps up to the running one release any replica. If they do not, there is nothing to
// judge.
func (c *coordinator) releasesAnything() bool {
	return slices.ContainsFunc(c.states, func(v *subsetState) bool { return !v.Removed && v.toRelease() > 0 })
}

// observed sets in a plan what is to be observed and made from now on.
func (c *coordinator) observed(p *Plan) {
	for i := range c.checks {
		m := &c.checks[i]
		if m.ask.Round != "" {
			p.Asks = append(p.Asks, m.ask)
		}
		if m.seen.Absent && !m.decided() { // also one that could not be created
			p.Start = append(p.Start, m.ask)
		}
	}
}

func clock(t metav1.Time) string { return t.UTC().Format(time.RFC3339) }
