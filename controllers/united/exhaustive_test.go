// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"flag"
	"strings"
	"testing"
)

var (
	smallWorld = flag.String("small-world", "", "walk the small worlds whose names contain this, the large ones too")
	smallLimit = flag.Int("small-limit", 0, "look at no more than about this many states of each small world")
	smallLarge = flag.Bool("small-large", false, "walk the large small worlds too")
)

func TestExhaustive(t *testing.T) {
	states := 0
	for _, c := range smallConfigs() {
		if !strings.Contains(c.name, *smallWorld) || c.large && !*smallLarge && *smallWorld == "" {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			w := c.walk(*smallLimit)
			t.Logf("%d states, depth %d, %.0f states a second", len(w.origins), w.depth, float64(len(w.origins))/w.took.Seconds())
			for _, f := range w.found {
				t.Errorf("%s (%d times)\n%s", f.rule, f.count, w.trace(f))
			}
			states += len(w.origins)
		})
	}
	t.Logf("%d states in all", states)
}
