// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// Each test is a sentence of docs/checks.md.

const tooMany = "0.034, at most 0.01"

// queried is a world with a query, and what the last measurement gave.
type queried struct {
	*world
	result known.CheckResult
	// late: nothing is measured any more, so that the last result is for what was asked then.
	late bool
	last map[string]known.CheckResult
}

func query() v1alpha1.RolloutCheck {
	return v1alpha1.RolloutCheck{Name: "errors", Prometheus: &v1alpha1.PrometheusCheck{Server: "default", Query: `errors{pod=~"${pods}"}`, Max: "0.01", FailureLimit: 2}}
}

// newQueried returns a world with a query that is met.
func newQueried(change func(*v1alpha1.RollingUpdate), sizes ...int32) *queried {
	q := &queried{world: newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Checks, s.MaxUnavailable = []v1alpha1.RolloutCheck{query()}, amount("1")
		if change != nil {
			change(s)
		}
	}), sizes...)}
	q.met()
	q.measure = func() {
		if q.late {
			q.seen = q.last
			return
		}
		q.seen = map[string]known.CheckResult{}
		for _, ask := range q.asks() {
			r := q.result
			r.Seen, r.Round, r.Reached = true, ask.Round, ask.Reached
			q.seen[ask.Check.Name] = r
		}
		q.last = q.seen
	}
	return q
}

func (q *queried) asks() []known.CheckAsk { return q.world.last.Asks }

func (q *queried) met() *queried {
	q.result = known.CheckResult{Met: true, Message: "0.002"}
	return q
}

func (q *queried) missed(times int32) *queried {
	q.result = known.CheckResult{Message: tooMany, Misses: times}
	return q
}

func (q *queried) unjudged(message string) *queried {
	q.result = known.CheckResult{Unjudged: true, Message: message, Misses: 1}
	return q
}

// asked returns the replicas that are asked about.
func (q *queried) asked() string {
	if len(q.asks()) == 0 {
		return ""
	}
	names := func(pods []known.CheckedPod) string {
		var names []string
		for _, p := range pods {
			names = append(names, p.Subset+":"+p.Name)
		}
		return strings.Join(names, " ")
	}
	return names(q.asks()[0].Updated) + " / " + names(q.asks()[0].Others)
}

func TestAQueryIsJudgedOnceTheRevisionHasAnAvailableReplica(t *testing.T) {
	q := newQueried(nil, 2, 1)
	q.missed(1).roll("v2")
	for q.running("v2") == 0 {
		if len(q.asks()) > 0 || len(q.state.Checks) > 0 && q.state.Revision == "v2" {
			t.Fatal("it is asked for before:", q.asked())
		}
		q.round()
	}
	q.settle()
	if q.running("v2") != 1 || q.check().State != v1alpha1.CheckIsNotMet {
		t.Fatal(q.picture())
	}
	q.expect(t, v1alpha1.RolloutProgressing, "waiting for check errors: "+tooMany+", since 2026-01-01T00:00:")
	if got := q.asked(); got != "a:web-a-1 / a:web-a-0 b:web-b-0" {
		t.Error(got)
	}
	q.met().settle()
	if q.expect(t, v1alpha1.RolloutDone, ""); q.current != "v2" || q.check().Message != "0.002" || len(q.asks()) != 0 {
		t.Error(q.picture(), q.check(), q.asked())
	}
}

// TestEachFurtherReleaseNeedsAMeasurement that began since the revision has an available replica.
func TestEachFurtherReleaseNeedsAMeasurement(t *testing.T) {
	for name, last := range map[string]map[string]known.CheckResult{
		"none": nil, "of another round": {"errors": {Round: "other", Reached: true, Seen: true, Met: true}},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueried(nil, 4)
			q.late, q.last = true, last
			q.roll("v2").settle()
			if q.running("v2") != 1 || len(q.state.Checks) != 0 {
				t.Fatal(q.picture())
			}
			q.expect(t, v1alpha1.RolloutProgressing, "waiting for the next result of check errors")
			q.late = false
			q.settle()
			q.expect(t, v1alpha1.RolloutDone, "")
		})
	}
}

func TestFailureLimitMissesInARowAreAFailure(t *testing.T) {
	q := newQueried(inSteps(&v1alpha1.RolloutPause{Duration: "1h"}, "1"), 3)
	q.roll("v2").settle()
	q.after(30 * time.Minute)
	q.missed(1).after(time.Second)
	q.expect(t, v1alpha1.RolloutProgressing, "waiting for check errors: "+tooMany)
	if q.after(24*time.Hour).last.Stalled || q.check().State != v1alpha1.CheckIsNotMet {
		t.Fatal("it fails by time:", q.picture())
	}
	q.missed(2).after(time.Second)
	q.expect(t, v1alpha1.RolloutCheckFailed, "check errors failed: "+tooMany+", since ")
	if !q.world.last.Stalled || q.check().State != v1alpha1.CheckHasFailed || q.state.SoakedSeconds != 0 {
		t.Fatalf("%+v", q.state)
	}
	// The verdict is final, and nothing is measured any more.
	q.met().after(time.Second).after(time.Hour)
	if q.expect(t, v1alpha1.RolloutCheckFailed, tooMany); len(q.asks()) != 0 || q.running("v2") != 2 {
		t.Fatal(q.picture(), q.asked())
	}
	for name, anew := range map[string]func(*queried){
		"retry":   func(q *queried) { q.retry = "v2/again" },
		"an edit": func(q *queried) { q.strategy.Checks[0].Prometheus.Max = "0.05" },
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueried(inSteps(&v1alpha1.RolloutPause{}, "1"), 3)
			q.roll("v2").settle()
			q.missed(2).after(time.Second)
			q.expect(t, v1alpha1.RolloutCheckFailed, "")
			round := q.last["errors"].Round
			q.late = true
			anew(q)
			q.after(time.Second)
			q.approved = q.state.ApprovalKey
			q.after(time.Second)
			if q.expect(t, v1alpha1.RolloutProgressing, "waiting for the next result of check errors"); len(q.asks()) != 1 || q.asks()[0].Round == round {
				t.Fatal(q.asks())
			}
			q.late = false
			q.met().settle()
			q.expect(t, v1alpha1.RolloutDone, "")
		})
	}
}

// TestNoDataAndErrorsHold: they are neither met nor failed, however long they last.
func TestNoDataAndErrorsHold(t *testing.T) {
	for _, message := range []string{"no data for the updated replicas", "no answer within 10s"} {
		q := newQueried(nil, 3)
		q.unjudged(message).roll("v2").settle()
		q.after(24 * time.Hour)
		if q.expect(t, v1alpha1.RolloutProgressing, "waiting for check errors: "+message); q.running("v2") != 1 || q.check().FailingTime != nil {
			t.Error(q.picture(), q.check())
		}
		q.missed(1).after(time.Second)
		q.expect(t, v1alpha1.RolloutProgressing, "waiting for check errors: "+tooMany)
		q.met().settle()
		q.expect(t, v1alpha1.RolloutDone, "")
	}
}

func TestAQueryThatIsRefusedIsAStall(t *testing.T) {
	q := newQueried(nil, 3)
	q.unjudged("server default is not open to namespace shop").result.Refused = true
	q.roll("v2").settle()
	q.after(24 * time.Hour)
	if q.expect(t, v1alpha1.RolloutBlocked, "waiting for check errors: server default is not open"); !q.world.last.Stalled || q.running("v2") != 1 {
		t.Error(q.picture())
	}
}

// TestAStepEndsWithAMeasurementSinceItWasReached: an earlier one does not count, and neither do those of the step before.
func TestAStepEndsWithAMeasurementSinceItWasReached(t *testing.T) {
	q := newQueried(inSteps(nil, "2", "0"), 4)
	q.roll("v2")
	for !slices.ContainsFunc(q.asks(), func(a known.CheckAsk) bool { return a.Reached }) {
		q.round()
	}
	q.late = true
	if q.settle(); q.state.Step != 0 || q.running("v2") != 2 {
		t.Fatal(q.picture())
	}
	q.expect(t, v1alpha1.RolloutProgressing, "waiting for the next result of check errors")
	first := q.asks()[0].Round
	q.late = false
	for q.state.Step == 0 {
		q.round()
	}
	q.late = true
	if q.settle(); q.running("v2") != 2 || q.asks()[0].Round == first || q.asks()[0].Reached {
		t.Fatal(q.picture(), q.asks())
	}
	q.late = false
	q.settle()
	q.expect(t, v1alpha1.RolloutDone, "")
}

// TestTheLastWaveIsJudged: only then does the update revision become the current one. Nobody is left to compare with.
func TestTheLastWaveIsJudged(t *testing.T) {
	q := newQueried(nil, 2)
	q.roll("v2")
	for q.running("v2") < 2 {
		q.round()
	}
	q.missed(1).settle()
	if got := q.asked(); q.current != "v1" || !q.world.last.Unfinished || got != "a:web-a-0 a:web-a-1 / " {
		t.Fatal(q.current, q.picture(), got)
	}
	q.missed(2).after(time.Second)
	q.expect(t, v1alpha1.RolloutCheckFailed, "")
	q.roll("v1").settle()
	if q.expect(t, v1alpha1.RolloutDone, ""); q.running("v2") != 0 {
		t.Error("the last wave does not go back:", q.picture())
	}
}

func TestAQueryOfWhatCannotBeJudgedCountsAsMet(t *testing.T) {
	q := newQueried(inSteps(nil, "100%", "1"), 2)
	q.missed(1).roll("v2").settle()
	if q.state.Step != 1 || q.running("v2") != 1 { // the first step has no replicas
		t.Error(q.picture())
	}
	q = newQueried(inSteps(&v1alpha1.RolloutPause{}, "1"), 2, 2)
	q.missed(1).roll("v2").settle()
	for _, c := range q.subsets { // all replicas that were updated go
		c.desired = 0
	}
	q.settle()
	q.subsets[0].desired = 2
	q.met().settle()
	if q.expect(t, v1alpha1.RolloutAwaitingApproval, ""); q.running("v2") != 1 {
		t.Error(q.picture())
	}
}

// TestAReplicaThatBecomesUnavailableIsNoWayOut: what it was measured for still holds.
func TestAReplicaThatBecomesUnavailableIsNoWayOut(t *testing.T) {
	q := newQueried(func(s *v1alpha1.RollingUpdate) {
		s.MaxUnavailable = amount("3")
		inSteps(nil, "5", "4")(s)
	}, 6)
	q.roll("v2")
	for q.state.Step == 0 {
		q.round()
	}
	q.missed(1).settle()
	updated := q.running("v2")
	q.flap(0, 5)
	for range 5 {
		q.decide()
	}
	if q.expect(t, v1alpha1.RolloutProgressing, "check errors: "+tooMany); q.running("v2") != updated || q.asked() == "" {
		t.Error(q.picture(), q.asked())
	}
}

func TestForceTheWayBackAndPausedDoNotAsk(t *testing.T) {
	q := newQueried(nil, 2, 2)
	q.missed(2).roll("v2")
	q.forced = "v2"
	q.settle()
	if q.expect(t, v1alpha1.RolloutDone, ""); q.running("v2") != 4 {
		t.Error(q.picture())
	}
	q = newQueried(inSteps(&v1alpha1.RolloutPause{}, "1"), 2)
	q.missed(2).roll("v2").settle()
	q.expect(t, v1alpha1.RolloutCheckFailed, "")
	q.roll("v1").settle()
	if q.expect(t, v1alpha1.RolloutDone, ""); q.running("v2") != 0 || len(q.asks()) != 0 {
		t.Error(q.picture())
	}
	q = newQueried(inSteps(&v1alpha1.RolloutPause{}, "1"), 2)
	q.roll("v2").settle()
	q.paused = true
	if q.after(time.Second); len(q.asks()) != 0 || q.check().State != v1alpha1.CheckIsMet {
		t.Error(q.asked(), q.check())
	}
	q.paused = false
	if q.after(time.Second); len(q.asks()) != 1 {
		t.Error("the control")
	}
}

func TestQueriesThatAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*v1alpha1.PrometheusCheck)
		want   string
	}{
		"sound":                        {func(*v1alpha1.PrometheusCheck) {}, ""},
		"a placeholder alone":          {func(c *v1alpha1.PrometheusCheck) { c.Query = "sum(${pods})" }, `rollingUpdate.checks[0].prometheus.query: Invalid value: ${pods} is not inside of a string: write it as in {pod=~"${pods}"}`},
		"an equation":                  {func(c *v1alpha1.PrometheusCheck) { c.Query = `a{pod="${pods}"}` }, "use =~ or !~"},
		"nothing to compare":           {func(c *v1alpha1.PrometheusCheck) { c.Query, c.MaxRatio = `a{name="${name}"}`, "1" }, "prometheus.maxRatio: Invalid value: \"1\": compares the updated replicas"},
		"compared in a comment":        {func(c *v1alpha1.PrometheusCheck) { c.Query, c.MaxRatio = `a # "${pods}"`, "1" }, "must contain ${pods}"},
		"no limit":                     {func(c *v1alpha1.PrometheusCheck) { c.Max = "" }, "must have min, max or maxRatio"},
		"limits that nothing meets":    {func(c *v1alpha1.PrometheusCheck) { c.Min, c.Max = "10", "9" }, `prometheus.min: Invalid value: "10": must not be greater than max: nothing would be met`},
		"a limit that is not a number": {func(c *v1alpha1.PrometheusCheck) { c.Min = "NaN" }, `prometheus.min: Invalid value: "NaN": must be a decimal number`},
		"a short interval":             {func(c *v1alpha1.PrometheusCheck) { c.Interval = "1s" }, "must be a duration of at least 5s"},
	} {
		t.Run(name, func(t *testing.T) {
			check := query()
			test.change(check.Prometheus)
			errs := coordination.Check(&v1alpha1.RollingUpdate{Checks: []v1alpha1.RolloutCheck{check}}, func(string) bool { return true }, field.NewPath("rollingUpdate"))
			if got := fmt.Sprint(errs.ToAggregate()); test.want == "" && len(errs) > 0 || !strings.Contains(got, test.want) || len(errs) > 1 {
				t.Error(got)
			}
		})
	}
}
