// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"
	"time"

	. "github.com/onsi/gomega"
)

func TestPercentile(t *testing.T) {
	g := NewWithT(t)
	var s samples
	g.Expect(s.percentile(50)).To(BeZero())
	for i := 200; i > 0; i-- {
		s = append(s, time.Duration(i))
	}
	g.Expect(s.percentile(50)).To(Equal(time.Duration(100)))
	g.Expect(s.percentile(95)).To(Equal(time.Duration(190)))
	g.Expect(s.percentile(100)).To(Equal(time.Duration(200)))
	g.Expect(samples{7}.percentile(1)).To(Equal(time.Duration(7)))
}

func TestWrongCountsFail(t *testing.T) {
	g := NewWithT(t)
	out := &bytes.Buffer{}
	r := &report{out: out}
	tab := r.table("Rest", "what", "count", "must be")
	tab.exactly("writes", 0, 0)
	g.Expect(r.verdict()).To(Succeed())
	tab.exactly("conflicts", 2, 0)
	tab.must(true, "never seen")
	tab.print()
	g.Expect(out.String()).To(ContainSubstring("| what | count | must be |\n| --- | --- | --- |\n| writes | 0 | 0 |\n| conflicts | 2 | 0 |\n"))
	g.Expect(r.verdict()).To(MatchError(And(ContainSubstring("1 figures"), ContainSubstring("Rest: conflicts: 2, must be 0"))))
}
