// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/unitedworkloads/united/controllers/united/fairness"
)

// metered returns a Meter in which the used time grows by each at every call; at the call with the given number,
// happens is called.
func metered(each time.Duration, number int, happens func()) fairness.Meter {
	return func() (func() time.Duration, func()) {
		used, looks := time.Duration(0), 0
		return func() time.Duration {
			if looks++; looks == number {
				happens()
			}
			used += each
			return used
		}, func() {}
	}
}

// released returns a scene in which both subsets are about to be released.
func released(t *testing.T) *scene {
	s := newScene(t).settled()
	s.image("v2").settled()
	s.partition("a", "0").partition("b", "0")
	s.API.Refresh()
	return s
}

func (s *scene) partitionOf(subset string) int64 {
	partition, _, _ := unstructured.NestedInt64(s.API.Live.Sets[s.Child(subset)].Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	return partition
}

// A pass that has used much time, and gets no place, ends between two subsets. Its parent has a turn when there is a
// place, and then everything is done.
func TestAPassWithoutAPlace(t *testing.T) {
	s := released(t)
	s.Reconciler.Shares = fairness.New(4) // one of these is a place
	var woken []types.NamespacedName
	s.Reconciler.Shares.OnWake(func(p types.NamespacedName) { woken = append(woken, p) })
	other, _ := s.Reconciler.Shares.Begin(types.NamespacedName{Name: "other"}, s.Clock.Now())
	other.MayContinue(time.Hour)
	s.Reconciler.Meter = metered(fairness.Allowance*2/3, 0, nil)

	s.Reconcile()
	if a, b := s.partitionOf("a"), s.partitionOf("b"); a != 0 || b != 2 {
		t.Fatal("partitions", a, b)
	}
	if s.Wake <= 0 {
		t.Fatal("nothing brings it back")
	}
	before := s.Parent().ResourceVersion
	s.API.Refresh()
	s.Reconcile()
	if s.partitionOf("b") != 2 || s.Wake <= 0 || s.Parent().ResourceVersion != before {
		t.Fatal("it goes on without a place, or is lost", s.Wake)
	}
	other.End(time.Hour, s.Clock.Now())
	if len(woken) != 1 || woken[0].Name != s.Name {
		t.Fatal("woken", woken)
	}
	s.API.Refresh()
	s.Reconcile()
	if b := s.partitionOf("b"); b != 0 {
		t.Fatal("partition", b)
	}
}

// A pass for an outdated spec ends before the next subset.
func TestAPassThatIsNotWanted(t *testing.T) {
	for name, tc := range map[string]struct {
		happens func(*scene)
		tells   bool
	}{
		"raised meanwhile":  {func(s *scene) { s.partition("b", "100%") }, true},
		"deleted meanwhile": {func(s *scene) { delete(s.API.Live.Parents, s.Name) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := released(t)
			s.Reconciler.Shares = fairness.New(8)
			name := s.Name
			s.Reconciler.Meter = metered(fairness.Allowance/8, 2, func() {
				tc.happens(s)
				s.API.Refresh()
			})
			if _, err := s.Reconciler.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: s.Parent().Namespace, Name: name}}); err != nil {
				t.Fatal(err)
			}
			if a, b := s.partitionOf("a"), s.partitionOf("b"); a != 0 || b != 2 {
				t.Error("partitions", a, b)
			}
			if tc.tells && s.Parent().Status.Subsets[0].Partition != 0 {
				t.Error("what was done is not told")
			}
		})
	}
}

// A pass with slow writes ends between two subsets, so that the status is written. The next one starts with the subsets
// that it did not reach, and does not first repeat the ones that fail.
func TestAPassOfSlowWrites(t *testing.T) {
	s := released(t).refuses("a", errRefused)
	s.Reconciler.Meter = func() (func() time.Duration, func()) {
		return func() time.Duration { s.later(11 * time.Second); return 0 }, func() {} // once for each subset, longer than a pass may write
	}
	s.Reconcile()
	if told := s.Parent().Status.Subsets[0].Message; told != errRefused.Error() || s.partitionOf("b") != 2 {
		t.Fatalf("%q, partition %d", told, s.partitionOf("b"))
	}
	s.API.Refresh()
	s.Reconcile()
	if b := s.partitionOf("b"); b != 0 {
		t.Error("it repeats what fails, and does not get to b: partition", b)
	}
	s.refuses("", nil)
	s.API.Refresh()
	s.Reconcile()
	if a := s.partitionOf("a"); a != 0 {
		t.Error("it does not get to a any more: partition", a)
	}
}
