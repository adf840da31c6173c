// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"flag"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/test/worlds"
)

// Small worlds combine the real decisions of the controller (planner.Make, report.Status) with a small model of
// StatefulSets, their controllers and their pods (adapters/statefulset/model), in every order in which things can happen.
// Nothing is left to chance, so a breach that is not found in a world does not exist there. Each world is a
// handful of replicas and a budget of disturbances (exhaustive_worlds_test.go). Each state is reached by a
// shortest way, breadth first.
//
//	go test ./controllers/united/planner -run TestExhaustive$ -v
//	    walks all worlds except the large ones, and prints the states and the depth of each (make test-walks; make test-full gives
//	    each a share of the time that it has, see worlds.Until)
//	-short
//	    walks only the first 1,000 states of each, as make test does
//	go test ./controllers/united/planner -run TestExhaustive$ -v -small-world 'Steps, edited, Parallel, 1.37'
//	    walks the worlds whose names contain that, including large ones
//	go test ./controllers/united/planner -run TestExhaustive$ -small-large -timeout 0
//	    walks the large worlds, too (make fuzz)
//	-small-limit 20000
//	    stops each walk after about that many states: for a quick check
//	-small-rule I6
//	    reports only breaches that begin with this
//
// A breach is reported once for each world and kind, with the shortest way to it. Each line of that is an event
// and the world after it:
//
//	evict a-1     v2 x3 (Progressing step 0) | a: v2 x2 p1 1>2 [0:1 1:2x] | b: v2 x1 held unseen 1>2 [0:1]
//
// The parent asks for 3 replicas of v2, and its status.rollout is at step 0. The child of a has the template v2, 2
// replicas and partition 1, and its status goes from v1 to v2. Its pod 0 is of v1 and ready, pod 1 of v2 and
// terminating. "held" is the partition that nothing exceeds, "unseen" a spec that the child's controller has not
// observed. In a pod, "?" is starting, "-" unready, "!" crashed, "x" terminating, "+" for long, and "s" astray:
// created on what its subset does not protect. The event that breaks a rule is marked with <<<. If a world does
// not end well (I6), the trace continues from the point at which it becomes kind with what happens then.
//
// The files:
//
//	exhaustive_seam_test.go    what is known about the controller's internals, in one place
//	exhaustive_state_test.go   a state: the content of a world
//	exhaustive_events_test.go  what can happen in it
//	exhaustive_rules_test.go   what must not happen: safety
//	exhaustive_manual_test.go  the rules of Manual: what scaling keeps, what a bound revision holds, where undo ends
//	exhaustive_back_test.go    going back after a rollout has ended, and the records on revisions
//	exhaustive_kind_test.go    what must happen, once the world is kind: liveness
//	exhaustive_worlds_test.go  the worlds
//	exhaustive_walk_test.go    the walk
//	exhaustive_checks_test.go  checks: what turns, what is read, and what must wait
//	exhaustive_reject_test.go  onFailure Rollback: what is rejected, and what rolls it out again
//	exhaustive_mutants_test.go wrong controllers, which must be convicted
var (
	smallWorld = flag.String("small-world", "", "walk the small worlds whose names contain this, the large ones too")
	smallLimit = flag.Int("small-limit", 0, "look at no more than about this many states of each small world")
	smallLarge = flag.Bool("small-large", false, "walk the large small worlds too")
	smallRule  = flag.String("small-rule", "", "tell only of breaches of small worlds that begin with this")
)

// TestMain lets the walks collect garbage less often, because they allocate much and keep little of it. This saves a
// quarter of their time. The limit is for what they do keep: the states of a large world.
func TestMain(m *testing.M) {
	debug.SetGCPercent(400)
	debug.SetMemoryLimit(1 << 30)
	os.Exit(m.Run())
}

// limitOf returns how many states of a world to look at. make test looks at what is near the beginning, and make test-full at no
// more of the worlds of queries than fits its time.
func limitOf(c *smallConfig) int {
	switch {
	case *smallLimit != 0 || *smallWorld != "":
	case testing.Short():
		return enough
	case c.hasQueries() && !*smallLarge:
		return 20_000
	}
	return *smallLimit
}

func TestExhaustive(t *testing.T) {
	var summary []string
	states, breaches := 0, 0
	configs := slices.DeleteFunc(smallConfigs(), func(c smallConfig) bool {
		return !strings.Contains(c.name, *smallWorld) || c.large && !*smallLarge && *smallWorld == ""
	})
	for i, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			limit := limitOf(&c)
			w := c.walk(limit, worlds.Share(len(configs)-i))
			if w.cut && limit == 0 {
				worlds.Tell("%s: %d states, depth %d: the time was up", c.name, len(w.origins), w.depth)
			}
			states += len(w.origins)
			t.Logf("%d states, depth %d, %.0f states a second", len(w.origins), w.depth, float64(len(w.origins))/w.took.Seconds())
			for _, f := range w.found {
				if c.knows(f.rule) {
					t.Logf("known: %s (from %d states)\n%s", f.rule, f.count, w.trace(f))
					continue
				}
				if strings.HasPrefix(f.rule, *smallRule) {
					breaches++
					summary = append(summary, fmt.Sprintf("%s: %s (from %d states)", c.name, f.rule, f.count))
					t.Errorf("%s (from %d states)\n%s", f.rule, f.count, w.trace(f))
				}
			}
		})
	}
	t.Logf("%d states in all, %d breaches", states, breaches)
	for _, line := range summary {
		t.Log(line)
	}
}
