// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/unitedworkloads/united/controllers/united/known"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// wholeSubset returns a subset with a child that is released as a whole, and its replicas: "v1", or "v1?" if it is
// not ready.
func wholeSubset(name, revision string, partition int32, replicas ...string) coordination.Subset {
	o := &adapters.Observed{
		Traits: adapters.Traits{Partition: adapters.AllOrNothing, Protection: adapters.Withheld}, Replicas: int32(len(replicas)), Partition: partition,
		Pace: &adapters.Pace{MaxUnavailable: 1}, SpecObserved: true, CurrentHash: "v1", UpdateHash: revision,
	}
	for i, hash := range replicas {
		o.Pods = append(o.Pods, adapters.Replica{Name: fmt.Sprint(name, "-", i), Position: int32(i), Hash: hash[:2], Ready: len(hash) == 2})
	}
	return coordination.Subset{Name: name, Desired: o.Replicas, Whole: true, Facts: known.Facts{Observed: o, Revision: revision, LastPartition: partition}}
}

// TestForceKeepsTheOrderOfWholeChildren: under order Sequential a child was stopped on its way, because a replica
// of a later subset is down, and the user forces the rollout. Then that child continues. It is not skipped in
// favor of the later subset, which is released as a whole, with its available replicas (I5).
func TestForceKeepsTheOrderOfWholeChildren(t *testing.T) {
	in := coordination.Input{
		Strategy: strategy(func(s *v1alpha1.RollingUpdate) { s.Order = v1alpha1.SequentialOrder }),
		Update:   "v2", Forced: "v2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute,
		State:   &v1alpha1.RolloutStatus{Revision: "v2", Phase: v1alpha1.RolloutBlocked},
		Subsets: []coordination.Subset{wholeSubset("a", "v2", 0, "v2", "v1"), wholeSubset("b", "v1", coordination.Held, "v1", "v1?")},
	}
	a := in.Subsets[0].Observed
	a.Paused = true
	p := coordination.Coordinate(in)
	if p.Subsets[0].Stopped || p.Subsets[1].Partition != coordination.Held {
		t.Errorf("a stopped: %v; b: partition %d, %s", p.Subsets[0].Stopped, p.Subsets[1].Partition, p.Subsets[1].WaitReason)
	}

	// The control: the rest of a has failed, and force ignores that.
	a.Pods[0].Ready, a.Pods[0].Failure = false, "CrashLoopBackOff"
	a.Pods[1] = a.Pods[0]
	a.Pods[1].Position = 1
	if p := coordination.Coordinate(in); p.Subsets[1].Partition != 0 {
		t.Errorf("b waits behind what failed: %s", p.Subsets[1].WaitReason)
	}
}

// TestAFailedReplicaBeyondTheOthersStopsEverything: a child that creates replicas before it deletes others has one too many if
// the new one fails.
func TestAFailedReplicaBeyondTheOthersStopsEverything(t *testing.T) {
	for failure, halts := range map[string]bool{"CrashLoopBackOff": true, "": false} {
		b := wholeSubset("b", "v2", 0, "v1", "v1")
		b.Observed.Pace.MaxUnavailable = 0
		b.Observed.Pods = append(b.Observed.Pods, adapters.Replica{Name: "b-2", Position: 2, Hash: "v2", Failure: failure, Since: time.Unix(1e9, 0)})
		p := coordination.Coordinate(coordination.Input{
			Update: "v2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute, State: &v1alpha1.RolloutStatus{Revision: "v2", Phase: v1alpha1.RolloutProgressing},
			Subsets: []coordination.Subset{wholeSubset("a", "v1", coordination.Held, "v1", "v1"), b},
		})
		if a := p.Subsets[0]; (p.State.Phase == v1alpha1.RolloutFailed) != halts || (a.Partition != 0) != halts {
			t.Errorf("%q: %s; a: partition %d, %s", failure, p.State.Phase, a.Partition, a.WaitReason)
		}
	}
}

// TestTheWayBackKeepsReadyReplicasOfWholeChildren: a higher minReadySeconds makes all replicas unavailable, and they serve all the same.
func TestTheWayBackKeepsReadyReplicasOfWholeChildren(t *testing.T) {
	for unready, want := range map[string]int32{"v2": 1, "v2?": 2} {
		a := wholeSubset("a", "v1", 0, unready, unready, "v2")
		a.Observed.CurrentHash, a.Observed.MinReadySeconds = "", 30
		for i := range a.Observed.Pods {
			a.Observed.Pods[i].ReadySince = time.Unix(1e9, 0)
		}
		p := coordination.Coordinate(coordination.Input{
			Update: "v1", GoesBack: true, Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute,
			State: &v1alpha1.RolloutStatus{Revision: "v1", Phase: v1alpha1.RolloutProgressing}, Subsets: []coordination.Subset{a},
		})
		if pace := p.Subsets[0].Pace; pace == nil || pace.MaxUnavailable != want || p.Subsets[0].Stopped {
			t.Errorf("%s: %+v, stopped: %v", unready, pace, p.Subsets[0].Stopped)
		}
	}
}

// TestOwnControllerReplacesReplicas: a child may lose replicas although this pass does not release it, because its
// controller replaces some. They count in the ledger, so that nothing else is released beside them (I2).
func TestOwnControllerReplacesReplicas(t *testing.T) {
	returned := func(edit func(o *adapters.Observed)) func() coordination.Subset {
		return func() coordination.Subset {
			a := wholeSubset("a", "v1", coordination.Held, "v1", "v1")
			a.Observed.SpecObserved, a.Observed.DesiredUpdated, a.Observed.DesiredOthers = false, 1, 1
			edit(a.Observed)
			return a
		}
	}
	for _, tc := range []struct {
		name string
		a    func() coordination.Subset
		// released: b is released; stopped: a is stopped.
		released, stopped bool
	}{
		{"it was scaled to 0 and back in the middle of its update", returned(func(*adapters.Observed) {}), false, false},
		{"and one of its replicas has been updated", returned(func(o *adapters.Observed) { o.Pods[1].Hash = "v2" }), false, false},
		{"and only that one is left to delete", returned(func(o *adapters.Observed) { o.DesiredUpdated, o.DesiredOthers, o.Pods[1].Hash = 2, 0, "v2" }), false, false},
		{"its controller has no ReplicaSet for the template yet", returned(func(o *adapters.Observed) { o.UpdateHash, o.DesiredUpdated, o.DesiredOthers = "", 0, 2 }), false, false},
		{"nothing of the update is left", returned(func(o *adapters.Observed) { o.DesiredUpdated, o.DesiredOthers = 2, 0 }), true, false},
		{"it was stopped, and is scaled down", func() coordination.Subset {
			a := wholeSubset("a", "v2", 0, "v1", "v2")
			a.Observed.Paused, a.Desired = true, 1
			return a
		}, true, true},
		{"it was stopped and scaled down, and its controller may leave either of both", func() coordination.Subset {
			a := wholeSubset("a", "v2", 0, "v1", "v2")
			a.Observed.Paused, a.Observed.SpecObserved, a.Observed.Replicas, a.Desired = true, false, 1, 1
			a.Observed.DesiredUpdated, a.Observed.DesiredOthers, a.Observed.Unscaled = 1, 1, 1
			return a
		}, false, true},
		{"it is done, and is scaled down", func() coordination.Subset {
			a := wholeSubset("a", "v2", 0, "v2", "v2")
			a.Desired = 1
			return a
		}, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := coordination.Coordinate(coordination.Input{
				Update: "v2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute,
				State:   &v1alpha1.RolloutStatus{Revision: "v2", Phase: v1alpha1.RolloutProgressing},
				Subsets: []coordination.Subset{tc.a(), wholeSubset("b", "v1", coordination.Held, "v1", "v1")},
			})
			a, b := p.Subsets[0], p.Subsets[1]
			if released := b.Partition == 0; released != tc.released || a.Stopped != tc.stopped {
				t.Errorf("b: released %v, %s; a: partition %d, stopped %v", released, b.WaitReason, a.Partition, a.Stopped)
			}
		})
	}
}

// TestOwnReplacementsKeepNoChildBack: what a child's controller replaces is no reason not to release that child.
func TestOwnReplacementsKeepNoChildBack(t *testing.T) {
	a := wholeSubset("a", "v1", coordination.Held, "v1", "v2")
	a.Observed.DesiredUpdated, a.Observed.DesiredOthers = 1, 1
	p := coordination.Coordinate(coordination.Input{
		Update: "v2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute,
		State:   &v1alpha1.RolloutStatus{Revision: "v2", Phase: v1alpha1.RolloutProgressing},
		Subsets: []coordination.Subset{a, wholeSubset("b", "v1", coordination.Held, "v1", "v1")},
	})
	if a, b := p.Subsets[0], p.Subsets[1]; a.Partition != 0 || a.Pace.MaxUnavailable != 1 || b.Partition != coordination.Held {
		t.Errorf("a: partition %d, pace %v, %s; b: partition %d", a.Partition, a.Pace, a.WaitReason, b.Partition)
	}
}

// TestBoundBeforeRelease: a child is released when its controller would replace no more replicas at once than the ledger
// has room for. Until then it gets that bound. An admission policy may keep it from having it (I2).
func TestBoundBeforeRelease(t *testing.T) {
	for _, tc := range []struct {
		name string
		edit func(o *adapters.Observed, in *coordination.Input)
		want string
	}{
		{"it has the bound", func(*adapters.Observed, *coordination.Input) {}, "released, pace 1"},
		{"it would replace more", func(o *adapters.Observed, _ *coordination.Input) { o.Pace.MaxUnavailable = 3 },
			"held, pace 1: waiting: the child workload must allow at most 1 replica to be unavailable before it is released, and it allows 3"},
		{"it would replace all, with Recreate", func(o *adapters.Observed, _ *coordination.Input) { o.Pace = nil },
			"held, pace 1: waiting: the child workload must allow at most 1 replica to be unavailable before it is released, and it allows 3"},
		{"there is room for all of them", func(o *adapters.Observed, in *coordination.Input) {
			o.Pace = nil
			in.Strategy.MaxUnavailable = ptr.To(intstr.FromInt32(3))
		}, "released, pace 3"},
		{"force", func(o *adapters.Observed, in *coordination.Input) { o.Pace, in.Forced = nil, "v2" }, "released, pace 1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			in := coordination.Input{
				Strategy: strategy(func(*v1alpha1.RollingUpdate) {}),
				Update:   "v2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute,
				State:   &v1alpha1.RolloutStatus{Revision: "v2", Phase: v1alpha1.RolloutProgressing},
				Subsets: []coordination.Subset{wholeSubset("a", "v1", coordination.Held, "v1", "v1", "v1")},
			}
			tc.edit(in.Subsets[0].Observed, &in)
			a := coordination.Coordinate(in).Subsets[0]
			got := fmt.Sprintf("released, pace %d", a.Pace.MaxUnavailable)
			if a.Partition != 0 {
				got = fmt.Sprintf("held, pace %d: %s", a.Pace.MaxUnavailable, a.WaitReason)
			}
			if got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// TestACheckStopsWholeChildren: they would go on by themselves. A controller that has not read the object yet changes nothing.
func TestACheckStopsWholeChildren(t *testing.T) {
	in := coordination.Input{
		Strategy: strategy(func(s *v1alpha1.RollingUpdate) { s.Checks = []v1alpha1.RolloutCheck{mysql()} }),
		Update:   "v2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute,
		State:   &v1alpha1.RolloutStatus{Revision: "v2", Phase: v1alpha1.RolloutProgressing},
		Subsets: []coordination.Subset{wholeSubset("a", "v2", 0, "v2", "v1"), wholeSubset("b", "v1", coordination.Held, "v1", "v1")},
	}
	for _, tc := range []struct {
		seen    known.CheckResult
		stopped bool
	}{{known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Met: true}, false}, {known.CheckResult{}, false}, {known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Message: why}, true}, {known.CheckResult{}, true}, {known.CheckResult{Round: known.AnyRound, Reached: true, Seen: true, Met: true}, false}} {
		in.Seen = map[string]known.CheckResult{"mysql": tc.seen}
		p := coordination.Coordinate(in)
		if a, b := p.Subsets[0], p.Subsets[1]; a.Stopped != tc.stopped || b.Partition != coordination.Held {
			t.Errorf("%+v: a stopped %v; b: partition %d", tc.seen, a.Stopped, b.Partition)
		}
		in.State = p.State
	}
	in.Forced, in.Seen = "v2", map[string]known.CheckResult{"mysql": {Round: known.AnyRound, Reached: true, Seen: true, Message: why}}
	if p := coordination.Coordinate(in); p.Subsets[0].Stopped {
		t.Error("force stops")
	}
}
