// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/publish"
)

// TestStatusToAndFro: a replica is ready every other second, or somebody deletes a child again and again, so that the
// status changes back and forth. It is written less and less often, but new content is written at once, and in the end
// the status is correct within seconds.
func TestStatusToAndFro(t *testing.T) {
	const most = 5 * time.Second
	for name, disturb := range map[string]func(s *scene, odd bool){
		"a replica that flaps": func(s *scene, odd bool) { s.ready("a-0", odd) },
		"a child that is scaled": func(s *scene, odd bool) {
			if !odd {
				s.takesOver("a", 1, "spec", "replicas").moves("a")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).settled()
			s.Excuse()
			s.Batches(publish.Batching{Delay: time.Millisecond, Interval: 2 * time.Second, MaxReturn: most})
			play := func(rounds int) int {
				before := s.statusWrites()
				for i := range rounds { // seconds
					disturb(s, i%2 == 1)
					s.pass().moves("a").kubelets("a-0", "a-1")
				}
				return s.statusWrites() - before
			}
			if first := play(10); first < 8 {
				t.Error("at first each is written:", first)
			}
			_ = play(60)
			// Every two seconds the status has a new time since when the replica is not ready, as always.
			if late := play(60); late < 5 || late > 30+60/5 {
				t.Error(late, "status writes in a minute")
			}
			s.image("v2").pass()
			if got := s.status().ObservedGeneration; got != s.Parent().Generation {
				t.Error("what is new waits:", got)
			}
			_ = play(20)
			s.ready("a-0", true).later(s.Wake).pass().later(most).pass().settled()
			ready := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionReady)
			if ready == nil || ready.Status != "True" {
				t.Error("in the end:", s.told())
			}
			before := s.statusWrites()
			if s.later(time.Hour).pass().pass(); s.statusWrites() != before {
				t.Error("at rest it is written")
			}
		})
	}
}

// TestStatusThatReturnsNowAndThen: such a status is not delayed, however often it returns.
func TestStatusThatReturnsNowAndThen(t *testing.T) {
	s := newScene(t).settled()
	s.Batches(publish.Batching{Delay: time.Millisecond, MaxReturn: time.Minute})
	before := s.statusWrites()
	for i := range 60 {
		s.ready("a-0", i%2 == 1).later(30 * time.Second).pass()
	}
	if got := s.statusWrites() - before; got != 60 {
		t.Error(got, "of 60 status writes")
	}
}
