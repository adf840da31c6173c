// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"testing"
	"time"

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
	return coordination.Subset{Name: name, Desired: o.Replicas, Whole: true, Observed: o, Revision: revision, LastPartition: partition}
}

// TestForceKeepsTheOrderOfWholeChildren: under order Sequential a child was stopped on its way, because a replica
// of a later subset is down, and the user forces the rollout. Then that child continues. It is not skipped in
// favor of the later subset, which is released as a whole, with its available replicas (I5).
func TestForceKeepsTheOrderOfWholeChildren(t *testing.T) {
	in := coordination.Input{
		Strategy: strategy(func(s *v1alpha1.RollingUpdate) { s.Order = v1alpha1.SequentialOrder }),
		Update:   "v2", Current: "v1", Forced: "v2", Now: time.Unix(1e9, 0), ProgressDeadline: time.Minute,
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
