// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package fairness_test

import (
	"context"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/fairness"
)

// TestOnlyLongPassesAreMeasured: a parent whose last pass was quick is not measured, until a pass takes long; then the rest of
// that is, and all of the next one.
func TestOnlyLongPassesAreMeasured(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	parent := &v1alpha1.UnitedDeployment{}
	parent.Namespace, parent.Name = "ns", "web"
	clock := testingclock.NewFakeClock(time.Unix(1e9, 0))
	meters := 0
	passes := &fairness.Passes{
		Shares: fairness.New(8), Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(parent).Build(), Clock: clock,
		Meter: func() (func() time.Duration, func()) { // all of the time is CPU time
			meters++
			begun := clock.Now()
			return func() time.Duration { return clock.Since(begun) }, func() {}
		},
	}
	place := func() *fairness.Turn {
		turn, _ := passes.Shares.Begin(in("other", "a"), clock.Now())
		turn.MayContinue(time.Hour)
		return turn
	}
	for _, tc := range []struct {
		name string
		// plan is the time before the first child is written, write that of writing one of 10.
		plan, write time.Duration
		measured    bool
		// written is how many children are written while others have all places.
		written int
	}{
		{name: "the first", plan: time.Millisecond, measured: true, written: 10},
		{name: "quick", plan: time.Millisecond, written: 10},
		{name: "quick again", plan: time.Millisecond, written: 10},
		{name: "long to write", plan: time.Millisecond, write: 100 * time.Millisecond, measured: true, written: 4},
		{name: "the next one", plan: time.Millisecond, measured: true, written: 10},
		{name: "quick after that", plan: time.Millisecond, written: 10},
		{name: "long to plan", plan: 2 * time.Second, measured: true, written: 10},
		{name: "long to plan again", plan: 2 * time.Second, measured: true, written: 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			before := meters
			pass, wait := passes.Start(client.ObjectKeyFromObject(parent))
			if pass == nil {
				t.Fatal("it may not begin", wait)
			}
			others := []*fairness.Turn{place(), place()}
			clock.Step(tc.plan)
			written := 0
			for written < 10 && pass.MayContinue(context.Background(), parent) {
				clock.Step(tc.write)
				written++
			}
			pass.End()
			for _, other := range others {
				other.End(0, clock.Now())
			}
			if measured := meters > before; measured != tc.measured || written != tc.written {
				t.Errorf("measured %t, %d written; want %t, %d", measured, written, tc.measured, tc.written)
			}
		})
	}
}
