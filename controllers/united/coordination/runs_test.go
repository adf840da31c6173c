// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// jobs are the Jobs of a world, by what a plan calls them.
type jobs struct {
	exist map[string]*known.CheckResult
	// created are those that were ever created, and begins is what a new one is.
	created []string
	begins  known.CheckResult
}

// seen returns what the runner sees of what the last pass asked.
func (j *jobs) seen(asks []known.CheckAsk) map[string]known.CheckResult {
	seen := map[string]known.CheckResult{}
	for _, ask := range asks {
		result := known.CheckResult{Absent: true, Message: "it does not exist yet"}
		if job := j.exist[ask.Run]; job != nil {
			result = *job
		}
		result.Seen, result.Round, result.Reached = true, ask.Round, true
		seen[ask.Check.Name] = result
	}
	return seen
}

func (j *jobs) create(start []known.CheckAsk) {
	for _, ask := range start {
		if j.exist[ask.Run] == nil {
			begins := j.begins
			j.exist[ask.Run], j.created = &begins, append(j.created, ask.Run)
		}
	}
}

// all changes what all Jobs are, also those that are created from now on.
func (j *jobs) all(are known.CheckResult) {
	j.begins = are
	for _, job := range j.exist {
		*job = are
	}
}

var (
	isRunning = known.CheckResult{Running: true, Message: "Job j has not finished"}
	succeeded = known.CheckResult{Met: true}
	hasFailed = known.CheckResult{Failed: true, Message: "Job j failed (BackoffLimitExceeded)"}
	undecided = known.CheckResult{Unjudged: true, Message: "AnalysisRun a is inconclusive"}
	refused   = known.CheckResult{Absent: true, Refused: true, Message: "exceeded quota"}
)

func smoke(name string) v1alpha1.RolloutCheck {
	return v1alpha1.RolloutCheck{Name: name, Job: &v1alpha1.JobCheck{Template: &runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}}}
}

// smoked returns a world in which a check with a Job judges the end of each step.
func smoked(change func(*v1alpha1.RollingUpdate), sizes ...int32) *world {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Checks = []v1alpha1.RolloutCheck{smoke("smoke")}
		s.MaxUnavailable = amount("1")
		if change != nil {
			change(s)
		}
	}), sizes...)
	w.runs = &jobs{exist: map[string]*known.CheckResult{}, begins: isRunning}
	return w
}

// passes runs many rounds, also if nothing seems to change.
func (w *world) passes() *world {
	for range 25 {
		w.round()
	}
	return w
}

// TestAJobGatesTheEndOfAStepOnly: the step is released down to its partition before the Job starts, and it ends when the Job has
// completed. The implicit last step has a Job, too.
func TestAJobGatesTheEndOfAStepOnly(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 3, 2).roll("v2")
	for len(w.runs.created) == 0 {
		if w.round(); len(w.last.Start) > 0 && w.running("v2") != 3 {
			t.Fatal("it starts before the step is reached:", w.picture())
		}
	}
	w.passes()
	if w.running("v2") != 3 || w.state.Step != 0 || w.check().State != v1alpha1.CheckRuns || w.check().Run != w.runs.created[0] {
		t.Fatalf("%s %+v", w.picture(), w.state)
	}
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check smoke: Job j has not finished, since ")
	if w.last.Stalled {
		t.Error("it runs, and nothing is wrong")
	}
	w.runs.all(succeeded)
	w.runs.begins = isRunning
	w.passes()
	if w.running("v2") != 5 || w.state.Step != 1 || w.current != "v1" || !w.last.Unfinished {
		t.Fatal(w.current, w.picture())
	}
	w.runs.all(succeeded)
	w.passes()
	if w.expect(t, v1alpha1.RolloutDone, ""); w.current != "v2" || len(w.runs.created) != 2 || w.runs.created[0] == w.runs.created[1] {
		t.Error(w.current, w.runs.created)
	}
	w.runs.exist = nil
	if w.passes().expect(t, v1alpha1.RolloutDone, ""); len(w.last.Start)+len(w.last.Asks) != 0 {
		t.Errorf("%+v", w.last)
	}
}

func TestAFailedJobIsAFailureAtOnce(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 2).roll("v2").passes()
	w.runs.all(hasFailed)
	w.passes()
	w.expect(t, v1alpha1.RolloutCheckFailed, "check smoke failed: Job j failed (BackoffLimitExceeded), since ")
	if !w.last.Stalled || w.check().State != v1alpha1.CheckHasFailed || w.running("v2") != 1 || w.last.Failure != "check smoke failed: "+hasFailed.Message {
		t.Fatalf("%+v", w.last)
	}
	record := w.check()
	for name, change := range map[string]func(){
		"it is gone":           func() { w.runs.exist = map[string]*known.CheckResult{} },
		"the manager restarts": func() { w.last.Asks = nil },
		"it has succeeded now": func() { w.runs.all(succeeded) },
	} {
		change()
		w.passes().after(time.Hour)
		if w.expect(t, v1alpha1.RolloutCheckFailed, "BackoffLimitExceeded"); len(w.last.Start) != 0 {
			t.Errorf("%s: another one starts", name)
		}
		if diff := cmp.Diff(record, w.check()); diff != "" {
			t.Error(name, diff)
		}
	}
}

func TestAJobThatDoesNotFinishInTimeHasFailed(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 2).roll("v2").passes()
	wake := w.last.Wake
	if at := w.check().FailingTime; at == nil || !wake.Equal(at.Add(10*time.Minute)) {
		t.Fatal("no pass when it fails:", wake, at)
	}
	delete(w.runs.exist, w.runs.created[0]) // another one does not get more time
	w.after(8 * time.Minute).passes()
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check smoke")
	w.after(3 * time.Minute)
	w.expect(t, v1alpha1.RolloutCheckFailed, "Job j has not finished (within progressDeadlineSeconds), since ")
}

// TestASuccessStays: when the Job is gone, and when the manager has been restarted.
func TestASuccessStays(t *testing.T) {
	w := smoked(inSteps(&v1alpha1.RolloutPause{}, "1"), 2).roll("v2")
	w.runs.all(succeeded)
	w.passes()
	w.expect(t, v1alpha1.RolloutAwaitingApproval, "")
	w.runs.exist, w.last.Asks, w.runs.begins = map[string]*known.CheckResult{}, nil, hasFailed
	w.passes().after(time.Hour)
	if w.expect(t, v1alpha1.RolloutAwaitingApproval, ""); len(w.runs.created) != 1 {
		t.Error(w.runs.created)
	}
	w.runs.begins = succeeded
	w.approved = w.state.ApprovalKey
	w.passes().expect(t, v1alpha1.RolloutDone, "")
}

// TestADeletedJobIsCreatedAgain: of the same name, so that there are never two.
func TestADeletedJobIsCreatedAgain(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 2).roll("v2").passes()
	delete(w.runs.exist, w.runs.created[0])
	w.passes()
	if len(w.runs.created) != 2 || w.runs.created[0] != w.runs.created[1] {
		t.Error(w.runs.created)
	}
}

// TestOneJobForEachAttempt: another revision, step, content of the check, retry, or rollout of the same revision has another one.
func TestOneJobForEachAttempt(t *testing.T) {
	w := smoked(inSteps(nil, "2", "1"), 3)
	again := func(what string, change func()) {
		t.Helper()
		before := len(w.runs.created)
		change()
		w.passes()
		if len(w.runs.created) != before+1 || slices.Contains(w.runs.created[:before], w.runs.created[before]) {
			t.Fatalf("%s: %v", what, w.runs.created)
		}
		if name := strings.TrimPrefix(w.runs.created[before], "job/"); len(name) > 57 || !strings.HasPrefix(name, "web-") {
			t.Error(name)
		}
	}
	again("the first step", func() { w.roll("v2") })
	again("the second step", func() { *w.runs.exist[w.runs.created[0]] = succeeded })
	again("retry", func() { w.retry = "v2" })
	again("retry again", func() { w.retry = "v2/again" })
	again("edited", func() {
		w.strategy.Checks[0].Job.Template = &runtime.RawExtension{Raw: []byte(`{"spec":{"suspend":true}}`)}
	})
	again("another revision", func() { w.roll("v3") })
	w.roll("v1").settle()
	again("a second rollout", func() { w.roll("v2") })
	again("a long name", func() { w.strategy.Checks[0] = smoke(strings.Repeat("x", 63)) })
}

// TestNoJobStartsWhilePaused: one that runs goes on, and its time does not count.
func TestNoJobStartsWhilePaused(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 2).roll("v2")
	for w.running("v2") == 0 {
		w.round()
	}
	w.paused = true
	w.passes()
	if len(w.runs.created) != 0 {
		t.Fatal(w.runs.created)
	}
	w.paused = false
	w.passes()
	record := w.check()
	w.paused = true
	w.runs.all(hasFailed)
	if w.after(time.Hour); !cmp.Equal(record, w.check()) || len(w.last.Asks) != 0 {
		t.Errorf("%+v", w.check())
	}
	w.runs.all(isRunning)
	w.paused, w.resumed = false, w.now
	w.after(9 * time.Minute).passes()
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check smoke")
	w.after(2 * time.Minute)
	w.expect(t, v1alpha1.RolloutCheckFailed, "")
}

func TestForceAndTheWayBackPassJobs(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 2).roll("v2").passes()
	w.forced = "v2"
	w.passes()
	if w.expect(t, v1alpha1.RolloutDone, ""); len(w.runs.created) != 1 || len(w.last.Asks) != 0 {
		t.Error(w.runs.created, w.last.Asks)
	}
	w = smoked(inSteps(nil, "1"), 2).roll("v2").passes()
	w.runs.all(hasFailed)
	w.passes()
	w.roll("v1").passes()
	if w.expect(t, v1alpha1.RolloutDone, ""); len(w.runs.created) != 1 || w.running("v2") != 0 {
		t.Error(w.runs.created, w.picture())
	}
}

// TestPromoteWaitsForTheJob: the running step ends when its Job has completed, and so does the last one.
func TestPromoteWaitsForTheJob(t *testing.T) {
	w := smoked(inSteps(&v1alpha1.RolloutPause{}, "3", "2", "1"), 4).roll("v2").passes()
	w.promoted = "v2"
	if w.passes(); w.running("v2") != 1 || w.state.Step != 0 {
		t.Fatal(w.picture(), w.state)
	}
	*w.runs.exist[w.runs.created[0]] = succeeded
	if w.passes(); w.running("v2") != 4 || w.current != "v1" {
		t.Fatal(w.picture(), w.current)
	}
	w.runs.all(succeeded)
	w.passes().expect(t, v1alpha1.RolloutDone, "")
	if len(w.runs.created) != 2 {
		t.Error(w.runs.created)
	}
}

// TestAStepWithoutReplicasHasNoJob: it counts as met, and so does all of a parent without replicas.
func TestAStepWithoutReplicasHasNoJob(t *testing.T) {
	w := smoked(inSteps(nil, "100%", "1"), 2).roll("v2").passes()
	if w.state.Step != 1 || len(w.runs.created) != 1 {
		t.Error(w.state, w.runs.created)
	}
}

// TestAnInconclusiveAnalysisHolds until it is retried: it neither fails nor ends the step.
func TestAnInconclusiveAnalysisHolds(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 2).roll("v2").passes()
	w.runs.all(undecided)
	w.passes().after(time.Hour)
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check smoke: AnalysisRun a is inconclusive, since ")
	if w.state.Step != 0 || w.check().State != v1alpha1.CheckIsNotMet {
		t.Fatalf("%+v", w.state)
	}
	w.runs.begins, w.retry = succeeded, "v2"
	w.passes().expect(t, v1alpha1.RolloutDone, "")
}

// TestAJobThatCannotBeCreated is tried again and again, is no failure, and stalls only when that does not pass by itself.
func TestAJobThatCannotBeCreated(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 2).roll("v2")
	w.runs.all(refused)
	w.passes().after(time.Hour)
	w.expect(t, v1alpha1.RolloutBlocked, "waiting for check smoke: exceeded quota, since ")
	if !w.last.Stalled || len(w.last.Start) != 1 || w.check().State != v1alpha1.CheckIsNotMet {
		t.Fatalf("%+v", w.last)
	}
	w.runs.all(succeeded)
	w.passes().expect(t, v1alpha1.RolloutDone, "")
}

// TestAReplicaThatFlickersDoesNotStartAnotherJob: the step is reached again, and the Job is the same.
func TestAReplicaThatFlickersDoesNotStartAnotherJob(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 3).roll("v2").passes()
	record := w.check()
	w.flap(0, 2)
	w.decide()
	w.passes()
	if len(w.runs.created) != 1 || w.check().Run != record.Run {
		t.Error(w.runs.created)
	}
	w.runs.all(succeeded)
	w.passes().expect(t, v1alpha1.RolloutDone, "")
}

// TestJobsAreWrittenOnTransitions: while a Job runs, the status does not change.
func TestJobsAreWrittenOnTransitions(t *testing.T) {
	w := smoked(inSteps(nil, "1"), 2).roll("v2").passes()
	was := w.state.DeepCopy()
	for range 5 {
		if diff := cmp.Diff(was, w.after(time.Minute).state); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestAJobThatNobodyWaitsFor is not on record as running, so that it is deleted: under force, or when the floor ends the rollout.
func TestAJobThatNobodyWaitsFor(t *testing.T) {
	for name, leave := range map[string]func(*world){
		"force": func(w *world) { w.forced = "v2" },
		"floor": func(w *world) { w.strategy.Partition = amount("100%") },
	} {
		w := smoked(inSteps(nil, "1"), 2).roll("v2").passes()
		if w.check().State != v1alpha1.CheckRuns {
			t.Fatalf("%s: %+v", name, w.state)
		}
		w.paused = true
		if w.passes(); w.check().State != v1alpha1.CheckRuns {
			t.Errorf("%s, paused: %+v", name, w.state)
		}
		w.paused = false
		leave(w)
		if w.passes(); w.state.Phase != v1alpha1.RolloutDone || len(w.state.Checks) != 0 {
			t.Errorf("%s: %+v", name, w.state)
		}
	}
}
