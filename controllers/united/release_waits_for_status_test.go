// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

// TestAReleaseYields: when a replica becomes ready, the child's controller writes the child's status. A release that
// would conflict with that write waits for it, but not forever; writes that protect do not wait.
func TestAReleaseYields(t *testing.T) {
	g := NewWithT(t)
	released := func(s *scene) bool {
		from := len(s.API.Writes)
		s.pass()
		for _, w := range s.API.Writes[from:] {
			if strings.HasPrefix(w, "apply web-a: ") {
				return true
			}
		}
		return false
	}
	begin := func() *scene {
		s := newScene(t).settled().image("v2").settled().ready("a-0", false).moves("a").pass().ready("a-0", true)
		return s.partition("a", "1")
	}
	s := begin()
	g.Expect(released(s)).To(BeFalse(), "before the child's controller has told of the replica")
	g.Expect(s.Wake).To(And(BeNumerically(">", 0), BeNumerically("<=", time.Second)))
	g.Expect(released(s.moves("a"))).To(BeTrue(), "after that")
	g.Expect(released(begin().later(5*time.Second))).To(BeTrue(), "if the child's controller never tells")
	g.Expect(released(begin().partition("a", "9"))).To(BeTrue(), "a partition that rises")
}
