// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// Each test is a sentence of docs/checks.md.

const why = "MySQLCluster shop is not Healthy (False, Degraded)"

func mysql() v1alpha1.RolloutCheck {
	return v1alpha1.RolloutCheck{Name: "mysql", ObjectCondition: &v1alpha1.ObjectCondition{
		APIVersion: "moco.cybozu.com/v1beta2", Kind: "MySQLCluster", Name: "shop", Type: "Healthy",
	}}
}

// checked returns a world with a check that is met, and a first step of the highest replica of each subset.
func checked(change func(*v1alpha1.RollingUpdate), sizes ...int32) *world {
	w := newWorld(strategy(func(s *v1alpha1.RollingUpdate) {
		s.Checks = []v1alpha1.RolloutCheck{mysql()}
		s.MaxUnavailable = amount("1")
		if change != nil {
			change(s)
		}
	}), sizes...)
	return w.met()
}

func inSteps(pause *v1alpha1.RolloutPause, partitions ...string) func(*v1alpha1.RollingUpdate) {
	return func(s *v1alpha1.RollingUpdate) {
		for _, p := range partitions {
			s.Steps = append(s.Steps, v1alpha1.RolloutStep{Subsets: []string{v1alpha1.AllSubsets}, Partition: amount(p), Pause: pause})
		}
	}
}

func (w *world) met() *world {
	w.seen = map[string]known.CheckResult{"mysql": {Round: known.AnyRound, Reached: true, Seen: true, Met: true}}
	return w
}

func (w *world) notMet() *world {
	w.seen = map[string]known.CheckResult{"mysql": {Round: known.AnyRound, Reached: true, Seen: true, Message: why}}
	return w
}

func (w *world) unseen() *world {
	w.seen = nil
	return w
}

// check returns the result on record.
func (w *world) check() v1alpha1.CheckStatus {
	if len(w.state.Checks) == 0 {
		return v1alpha1.CheckStatus{}
	}
	return w.state.Checks[0]
}

func (w *world) expect(t *testing.T, phase v1alpha1.RolloutPhase, message string) {
	t.Helper()
	if w.state.Phase != phase || !strings.Contains(w.state.Message, message) {
		t.Errorf("%s: %q, want %s: %q", w.state.Phase, w.state.Message, phase, message)
	}
}

func TestACheckThatIsNotMetHoldsEveryRelease(t *testing.T) {
	w := checked(nil, 3, 2).notMet().roll("v2")
	w.settle()
	if w.running("v2") != 0 || w.state.Phase != v1alpha1.RolloutProgressing || w.check().State != v1alpha1.CheckIsNotMet {
		t.Fatal(w.picture())
	}
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql: "+why+", since 2026-01-01T00:00:")
	for i, d := range w.last.Subsets {
		if !strings.Contains(d.WaitReason, "check mysql") {
			t.Errorf("subset %d waits for %q", i, d.WaitReason)
		}
	}
	w.met()
	for w.running("v2") < 2 { // in the middle it is not met again: at once, and for as long as it lasts
		w.round()
	}
	partitions := []int32{w.subsets[0].Observed.Partition, w.subsets[1].Observed.Partition}
	w.notMet().settle()
	if w.subsets[0].Observed.Partition != partitions[0] || w.subsets[1].Observed.Partition != partitions[1] {
		t.Error("it releases more: ", w.picture())
	}
	w.met().settle()
	if w.expect(t, v1alpha1.RolloutDone, ""); w.current != "v2" {
		t.Error(w.picture())
	}
}

func TestNothingIsReleasedBeforeACheckHasAResult(t *testing.T) {
	w := checked(nil, 2).unseen().roll("v2")
	w.settle()
	if w.running("v2") != 0 || len(w.state.Checks) != 0 {
		t.Fatal(w.picture())
	}
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for the next result of check mysql")
	w.met().settle()
	w.expect(t, v1alpha1.RolloutDone, "")
}

func TestACheckStopsTheSoakClock(t *testing.T) {
	w := checked(inSteps(&v1alpha1.RolloutPause{Duration: "10m"}, "1"), 2).roll("v2")
	w.settle()
	w.after(4 * time.Minute).notMet().after(time.Second)
	if w.state.ReachedTime != nil || w.state.SoakedSeconds < 240 || w.state.SoakedSeconds > 260 {
		t.Fatalf("%+v", w.state)
	}
	w.after(8 * time.Minute).met().after(time.Second)
	w.expect(t, v1alpha1.RolloutPaused, "step 1 of 1 reached")
	if w.after(4*time.Minute).state.Step != 0 || w.after(3*time.Minute).state.Step != 1 {
		t.Errorf("%+v", w.state)
	}
}

func TestACheckFailsAfterTheProgressDeadline(t *testing.T) {
	w := checked(inSteps(&v1alpha1.RolloutPause{}, "1"), 2).roll("v2")
	w.settle()
	w.notMet().after(time.Second)
	wake := w.last.Wake
	w.after(9 * time.Minute)
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql")
	if at := w.check().FailingTime; at == nil || !wake.Equal(at.Add(10*time.Minute)) || w.last.Stalled {
		t.Fatal("no pass when it fails:", wake, at)
	}
	w.after(time.Minute)
	w.expect(t, v1alpha1.RolloutCheckFailed, "check mysql failed: "+why+", since ")
	if !w.last.Stalled || w.check().State != v1alpha1.CheckHasFailed {
		t.Fatalf("%+v", w.last)
	}
	// The verdict is on record: nothing else remembers it.
	w.unseen().after(time.Second)
	w.expect(t, v1alpha1.RolloutCheckFailed, why)
	w.met().after(time.Second)
	w.expect(t, v1alpha1.RolloutAwaitingApproval, "")
	if w.last.Stalled || w.check().State != v1alpha1.CheckIsMet {
		t.Fatalf("%+v", w.state)
	}
}

func TestAFailedCheckSetsSoakBack(t *testing.T) {
	w := checked(inSteps(&v1alpha1.RolloutPause{Duration: "1h"}, "1"), 2).roll("v2")
	w.settle()
	w.after(30 * time.Minute).notMet().after(time.Second).after(11 * time.Minute)
	if w.expect(t, v1alpha1.RolloutCheckFailed, ""); w.state.SoakedSeconds != 0 {
		t.Errorf("%+v", w.state)
	}
}

func TestACheckDoesNotFailWithoutAReleasedReplica(t *testing.T) {
	w := checked(nil, 2).notMet().roll("v2")
	w.settle()
	w.after(20 * time.Minute)
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql")
	w.met()
	w.round() // releases one
	w.notMet()
	for range 5 {
		w.round()
	}
	w.after(9 * time.Minute)
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql")
	w.after(time.Minute)
	w.expect(t, v1alpha1.RolloutCheckFailed, "")
}

func TestTimeWhilePausedDoesNotCount(t *testing.T) {
	w := checked(inSteps(&v1alpha1.RolloutPause{}, "1"), 2).roll("v2")
	w.settle()
	w.notMet().after(time.Second)
	record := w.check()
	w.paused = true
	w.met().after(time.Hour) // nothing is measured
	if diff := cmp.Diff(record, w.check()); diff != "" {
		t.Fatal(diff)
	}
	w.paused, w.resumed = false, w.now
	w.notMet().after(9 * time.Minute)
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql")
	w.after(2 * time.Minute)
	w.expect(t, v1alpha1.RolloutCheckFailed, "")
}

func TestAStepEndsOnlyWhileItsChecksAreMet(t *testing.T) {
	w := checked(inSteps(nil, "2", "1"), 3).roll("v2")
	for w.state.Step == 0 {
		w.round()
	}
	for w.subsets[0].Observed.Partition != 1 {
		w.round()
	}
	w.notMet().settle()
	if w.state.Step != 1 || w.running("v2") != 2 {
		t.Fatal(w.picture())
	}
	if r := w.check(); r.Step != 1 || r.State != v1alpha1.CheckIsNotMet {
		t.Errorf("%+v", r)
	}
	w.met().settle()
	w.expect(t, v1alpha1.RolloutDone, "")
}

// TestTheLastStepEndsOnlyWhileChecksAreMet: only then does the update revision become the current one, so the last wave can go
// back, too.
func TestTheLastStepEndsOnlyWhileChecksAreMet(t *testing.T) {
	for name, steps := range map[string]func(*v1alpha1.RollingUpdate){"implicit": nil, "explicit": inSteps(&v1alpha1.RolloutPause{Duration: "1m"}, "1", "0")} {
		t.Run(name, func(t *testing.T) {
			w := checked(steps, 2).roll("v2")
			for w.running("v2") < 1 || w.subsets[0].Observed.Partition != 0 {
				w.round()
				if w.state.Phase == v1alpha1.RolloutPaused {
					w.after(2 * time.Minute)
				}
			}
			w.notMet().settle()
			if w.running("v2") != 2 || w.current != "v1" || !w.last.Unfinished {
				t.Fatal(w.current, w.picture())
			}
			w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql")
			w.unseen().settle() // after a restart
			if w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql"); w.current != "v1" {
				t.Fatal(w.picture())
			}
			back := *w
			if back.roll("v1").settle(); back.running("v2") != 0 {
				t.Error("the last wave does not go back:", back.picture())
			}
		})
	}
}

// TestWhatCannotBeJudgedCountsAsMet: a step that releases nothing has nothing to judge.
func TestWhatCannotBeJudgedCountsAsMet(t *testing.T) {
	w := checked(inSteps(nil, "100%", "1"), 2).notMet().roll("v2")
	w.settle()
	if w.state.Step != 1 || w.running("v2") != 0 {
		t.Error(w.picture())
	}
}

func TestForceAndTheWayBackPass(t *testing.T) {
	w := checked(nil, 2, 2).notMet().roll("v2")
	w.settle()
	w.forced = "v2"
	w.settle()
	if w.expect(t, v1alpha1.RolloutDone, ""); w.running("v2") != 4 || w.check().State == v1alpha1.CheckHasFailed {
		t.Error(w.picture())
	}
	w = checked(inSteps(&v1alpha1.RolloutPause{}, "1"), 2).roll("v2")
	w.settle()
	w.notMet().after(time.Second).after(time.Hour)
	w.expect(t, v1alpha1.RolloutCheckFailed, "")
	w.roll("v1").settle()
	if w.expect(t, v1alpha1.RolloutDone, ""); w.running("v2") != 0 {
		t.Error(w.picture())
	}
}

// TestForceDoesNotFail: what force ignores is not a failure, and the clock begins when the force ends.
func TestForceDoesNotFail(t *testing.T) {
	w := checked(inSteps(&v1alpha1.RolloutPause{}, "1"), 2).notMet().roll("v2")
	w.forced = "v2"
	w.settle()
	w.after(time.Hour)
	if w.expect(t, v1alpha1.RolloutAwaitingApproval, ""); w.check().State != v1alpha1.CheckIsNotMet {
		t.Errorf("%+v", w.check())
	}
	w.forced = ""
	w.after(time.Second)
	w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql")
	w.after(11 * time.Minute)
	w.expect(t, v1alpha1.RolloutCheckFailed, "")
}

func TestPromoteWaitsForChecks(t *testing.T) {
	w := checked(inSteps(&v1alpha1.RolloutPause{}, "1"), 3).roll("v2")
	w.settle()
	w.promoted = "v2"
	w.notMet().settle()
	if w.running("v2") != 2 || w.state.Step != 0 || !w.state.Promoted { // the running step ends with its checks
		t.Fatal(w.picture(), w.state)
	}
	w.met().settle()
	w.expect(t, v1alpha1.RolloutDone, "")
}

// A check holds releases, and not the repair of what is protected: that may be the reason why the check is not met.
func TestAProtectedReplicaIsRepairedWhileACheckIsNotMet(t *testing.T) {
	w := checked(nil, 3).notMet().roll("v2")
	w.settle()
	c := w.subsets[0]
	c.drop(1)
	w.make(c, 1, "v0") // a version that nobody asks for any more
	w.fail(0, 1)
	w.settle()
	if w.running("v0") != 0 || w.running("v1") != 3 {
		t.Error(w.picture())
	}
}

// TestResultsAreBound: editing the check measures anew, and so does each step and each value of the annotation, once.
func TestResultsAreBound(t *testing.T) {
	failed := func(t *testing.T) *world {
		t.Helper()
		w := checked(inSteps(&v1alpha1.RolloutPause{}, "1"), 2).roll("v2")
		w.settle()
		w.notMet().after(time.Second).after(11 * time.Minute)
		w.expect(t, v1alpha1.RolloutCheckFailed, "")
		return w
	}
	anew := func(t *testing.T, w *world) {
		t.Helper()
		if r := w.after(time.Second).check(); r.State != v1alpha1.CheckIsNotMet || !r.FailingTime.Equal(&r.SinceTime) {
			t.Fatalf("%+v", r)
		}
		w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql")
		w.after(9*time.Minute).expect(t, v1alpha1.RolloutProgressing, "")
		w.after(2*time.Minute).expect(t, v1alpha1.RolloutCheckFailed, "")
	}
	t.Run("edited", func(t *testing.T) {
		w := failed(t)
		w.strategy.Checks[0].ObjectCondition.Type = "Available"
		anew(t, w)
	})
	t.Run("retry", func(t *testing.T) {
		w := failed(t)
		for _, value := range []string{"v2", "v2/again", "v2/and again"} {
			w.retry = value
			anew(t, w)
		}
		w.retry = "v2" // a value that was used
		if w.after(time.Second).check().State != v1alpha1.CheckHasFailed {
			t.Errorf("%+v", w.state)
		}
		w.retry = "v3"
		w.after(time.Second).expect(t, v1alpha1.RolloutCheckFailed, `; the annotation united.dev/retry is "v3", which is not the update revision`)
	})
	t.Run("another revision", func(t *testing.T) {
		w := failed(t).roll("v3")
		w.settle()
		w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql")
	})
	t.Run("status lost", func(t *testing.T) {
		w := failed(t)
		w.state = nil
		w.settle()
		if w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql"); w.running("v2") != 1 {
			t.Error(w.picture())
		}
	})
	t.Run("dropped", func(t *testing.T) {
		w := failed(t)
		w.strategy.Checks = nil
		if w.after(time.Second).expect(t, v1alpha1.RolloutAwaitingApproval, ""); len(w.state.Checks) != 0 {
			t.Errorf("%+v", w.state)
		}
	})
}

// TestResultsAreWrittenOnTransitions: between them the status does not change.
func TestResultsAreWrittenOnTransitions(t *testing.T) {
	w := checked(nil, 2).notMet().roll("v2")
	w.settle()
	record := w.check()
	for range 5 {
		if w.after(time.Minute); w.check() != record {
			t.Fatalf("%+v, %+v", w.check(), record)
		}
	}
	w.met().after(time.Second)
	if r := w.check(); r.State != v1alpha1.CheckIsMet || !r.SinceTime.After(record.SinceTime.Time) || r.Message != "" {
		t.Errorf("%+v", r)
	}
}

func TestACheckThatMayNotBeReadIsAStall(t *testing.T) {
	w := checked(nil, 2).roll("v2")
	w.seen = map[string]known.CheckResult{"mysql": {Round: known.AnyRound, Reached: true, Seen: true, Refused: true, Message: "United is not permitted to read mysqlclusters"}}
	w.settle()
	if w.expect(t, v1alpha1.RolloutBlocked, "waiting for check mysql: United is not permitted"); !w.last.Stalled || w.running("v2") != 0 {
		t.Errorf("%+v", w.last)
	}
	w.met().settle()
	w.expect(t, v1alpha1.RolloutDone, "")
}

// TestOneOfSeveralChecksIsEnough, and the one that has failed is named.
func TestOneOfSeveralChecksIsEnough(t *testing.T) {
	w := checked(func(s *v1alpha1.RollingUpdate) {
		other := mysql()
		other.Name, other.ObjectCondition.Name = "other", "other"
		s.Checks = append(s.Checks, other)
		inSteps(&v1alpha1.RolloutPause{}, "1")(s)
	}, 2).roll("v2")
	w.seen["other"] = known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Message: "MySQLCluster other does not exist"}
	w.settle()
	if w.expect(t, v1alpha1.RolloutProgressing, "check other: MySQLCluster other does not exist"); w.running("v2") != 0 {
		t.Fatal(w.picture())
	}
	w.seen["other"] = known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Met: true}
	w.settle()
	w.seen["other"] = known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Message: "MySQLCluster other does not exist"}
	w.after(time.Second).after(5 * time.Minute)
	w.seen["mysql"] = known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Message: why}
	w.after(time.Second)
	w.expect(t, v1alpha1.RolloutProgressing, "check mysql")
	w.after(6*time.Minute).expect(t, v1alpha1.RolloutCheckFailed, "check other failed")
}

// TestAtTheFloorChecksAreOver: a rollout that has ended at its floor does not begin again because of a check. Lowering the
// floor is a release.
func TestAtTheFloorChecksAreOver(t *testing.T) {
	w := checked(func(s *v1alpha1.RollingUpdate) { s.Partition = amount("1") }, 2).roll("v2")
	w.settle()
	w.expect(t, v1alpha1.RolloutDone, "")
	w.notMet().settle()
	w.expect(t, v1alpha1.RolloutDone, "")
	w.strategy.Partition = amount("0")
	w.settle()
	if w.expect(t, v1alpha1.RolloutProgressing, "waiting for check mysql"); w.running("v2") != 1 {
		t.Error(w.picture())
	}
	w.strategy.Partition, w.strategy.Steps = amount("1"), []v1alpha1.RolloutStep{{Subsets: []string{"a"}, Partition: amount("1")}}
	w.met().settle()
	w.expect(t, v1alpha1.RolloutDone, "")
}

// TestAScaleUpComesUpProtectedWhileACheckIsNotMet: growth is a release.
func TestAScaleUpComesUpProtectedWhileACheckIsNotMet(t *testing.T) {
	w := checked(inSteps(&v1alpha1.RolloutPause{}, "1"), 2).roll("v2")
	w.settle()
	w.notMet()
	w.subsets[0].desired = 4
	w.settle()
	if w.running("v2") != 1 || w.running("v1") != 3 {
		t.Error(w.picture())
	}
}

// TestAFloorPassesNoSteps: with everything held, the rollout rests where it is. When the floor is lowered, the checks of the running
// step count again.
func TestAFloorPassesNoSteps(t *testing.T) {
	w := checked(inSteps(nil, "2", "1"), 3).roll("v2")
	for w.running("v2") == 0 {
		w.round()
	}
	w.notMet().settle()
	w.strategy.Partition = amount("100%")
	if w.settle(); w.state.Phase != v1alpha1.RolloutDone || w.state.Step != 0 {
		t.Fatalf("%+v", w.state)
	}
	w.strategy.Partition = amount("0")
	if w.settle(); w.running("v2") != 1 || w.state.Step != 0 {
		t.Fatal(w.picture())
	}
	w.met().settle()
	w.expect(t, v1alpha1.RolloutDone, "")
	if w.running("v2") != 3 {
		t.Error(w.picture())
	}
}
