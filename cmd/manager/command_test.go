// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/spf13/pflag"
)

// TestFlagsAreDocumented requires that docs/reference.md has a row with the default for each flag,
// and no row for a flag that does not exist.
func TestFlagsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	var flags []string
	newCommand().Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, "--"+f.Name+" "+f.DefValue) })
	g.Expect(flags).NotTo(BeEmpty())
	text, err := os.ReadFile("../../docs/reference.md")
	g.Expect(err).NotTo(HaveOccurred())
	var rows []string
	for _, m := range regexp.MustCompile("(?m)^\\| `(--[\\w-]+)` \\| ?`?([^`|]*?)`? ?\\|").FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, m[1]+" "+m[2])
	}
	g.Expect(rows).To(ConsistOf(flags), "rows of docs/reference.md")
}
