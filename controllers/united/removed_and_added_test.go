// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/test/simulation"
)

// TestRemovedAndAdded: in a canary of one subset, others are removed and added again while their children are deleted
// slowly, in random orders of events. What is added comes up on the version that the whole parent ran last: that is the new
// one only if, in between, the parent consisted of updated and ready replicas alone.
func TestRemovedAndAdded(t *testing.T) {
	updated, seeds := false, uint64(400)
	if testing.Short() {
		seeds /= 5
	}
	for seed := range seeds {
		s, story := newScene(t).settled(), []string{}
		s.image("v2").partition("a", "0").settled()
		random := rand.New(rand.NewPCG(seed, 7))
		old := s.Parent().Status.CurrentRevision
		v1 := simulation.PodContent(s.API.Live.Pods["web-b-0"])
		does := []struct {
			name string
			do   func()
		}{
			{"edit", func() { s.comeOrGo("b") }},
			{"edit both", func() { s.comeOrGo("a"); s.partition("a", "0"); s.comeOrGo("b") }},
			{"deletion begins", func() {
				if s.API.Live.Sets["web-b"] != nil {
					s.dying("b")
				}
			}},
			{"deletion ends", func() {
				if set := s.API.Live.Sets["web-b"]; set != nil && set.GetDeletionTimestamp() != nil {
					s.delete("b", false)
				}
			}},
			{"pass", func() { s.pass() }}, {"pass", func() { s.pass() }}, {"stale pass", func() { s.Reconcile() }},
			{"statefulsets", func() { s.moves("a", "b") }}, {"statefulsets", func() { s.moves("a", "b") }},
			{"kubelets", func() { s.kubelets("a-0", "a-1", "a-2", "a-3", "b-0", "b-1") }},
		}
		for range 40 {
			next := does[random.IntN(len(does))]
			next.do()
			story = append(story, next.name)
			whole := s.Parent().Status.CurrentRevision != old
			for name, pod := range s.API.Live.Pods {
				if strings.HasPrefix(name, "web-b-") && simulation.PodContent(pod) != v1 && !whole {
					t.Fatalf("seed %d: %s runs what nobody has released:\n%s\n%s", seed, name, strings.Join(story, "\n"), s.told())
				}
			}
			if updated = updated || whole; whole {
				break
			}
		}
	}
	if !updated {
		t.Error("a control: the parent never consisted of updated replicas alone")
	}
}
