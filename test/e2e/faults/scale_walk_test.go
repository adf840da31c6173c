// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"math/rand/v2"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestScaleWalk walks the scale subresource over replicas that do not divide evenly. At every step
// Settle checks the sum over the real StatefulSets, and that the pods exist; this test checks the
// shares.
func TestScaleWalk(t *testing.T) {
	t.Parallel()
	for _, walk := range []struct {
		name   string
		shares []string
		// honored reports whether n replicas can satisfy the replicas of the subsets.
		honored func(n int32) bool
		// expect checks the shares of the three zones.
		expect func(g Gomega, n int32, got []int32)
	}{
		{
			"33%,33%,34%",
			[]string{"33%", "33%", "34%"},
			func(int32) bool { return true },
			func(g Gomega, n int32, got []int32) {
				for i, percent := range []int32{33, 33, 34} {
					off := 100*got[i] - percent*n
					g.Expect(off).To(And(BeNumerically(">", -100), BeNumerically("<", 100)), "zone %d of %d: less than one replica off", i, n)
				}
			},
		},
		{
			"2,50%,-",
			[]string{"2", "50%", ""},
			func(n int32) bool { return n >= 4 },
			func(g Gomega, n int32, got []int32) {
				if n < 4 {
					return // 2 and 50% do not fit
				}
				g.Expect(got[0]).To(BeEquivalentTo(2))
				off := 2*got[1] - n
				g.Expect(off).To(And(BeNumerically(">=", -2), BeNumerically("<=", 2)), "zone-b of %d: at most one replica off", n)
			},
		},
	} {
		t.Run(walk.name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.Create(NewDraft("web", Replicas(0), Policy(appsv1.ParallelPodManagement), Zones(walk.shares...)))
			check := func(n int32) {
				e.T.Helper()
				var got []int32
				for _, subset := range []string{"zone-a", "zone-b", "zone-c"} {
					got = append(got, *w.Child(subset).Spec.Replicas)
				}
				e.Expect(got[0]+got[1]+got[2]).To(Equal(n), "%v", got)
				walk.expect(e, n, got)
				parent := w.Parent()
				e.Expect(parent.Status.Replicas).To(Equal(n))
				e.Expect(parent.Status.AvailableReplicas).To(Equal(n))
				honored := Condition(parent, v1alpha1.ConditionReplicasHonored)
				e.Expect(honored.Status == metav1.ConditionTrue).To(Equal(walk.honored(n)), "%d: %s", n, honored.Message)
			}
			w.Settle()
			check(0)
			existing := w.Pods()
			for n := range int32(31) {
				kept := e.History.Forbid(Remade(existing))
				w.Scale(n)
				w.Settle()
				check(n)
				kept.Holds()
				existing = w.Pods()
			}
			for _, n := range []int32{29, 17, 30, 5, 4, 3, 1, 0, 30, 13} {
				w.Scale(n)
				w.Settle()
				check(n)
			}
			// Scale faster than anybody can follow; the last value counts.
			random := rand.New(rand.NewPCG(8, 8))
			for range 20 {
				w.Scale(random.Int32N(31))
			}
			w.Scale(11)
			w.Settle()
			check(11)
		})
	}
}
