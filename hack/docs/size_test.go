// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const (
	mostWords       = 22_000 // of all that users read
	mostReadmeBytes = 7_000
)

// toRead says whether users read a document from beginning to end: README.md, docs/ with the runbooks, the READMEs of the charts and
// of the samples, and CHANGELOG.md. What is looked up or generated, and what is for those who change or measure United, is not.
func toRead(name string) bool {
	if slices.Contains([]string{"docs/api.md", "docs/cli.md", "docs/design.md", "docs/benchmarks.md"}, name) {
		return false
	}
	dir := path.Dir(name)
	return dir == "docs" || dir == "docs/runbooks" || path.Dir(dir) == "charts" ||
		slices.Contains([]string{"README.md", "CHANGELOG.md", "config/samples/README.md"}, name)
}

// TestUsersCanReadItAll counts words as wc does.
func TestUsersCanReadItAll(t *testing.T) {
	g := NewWithT(t)
	words, pages := 0, 0
	for name := range documents(t) {
		if toRead(name) {
			text, err := os.ReadFile(filepath.Join(root, name))
			g.Expect(err).NotTo(HaveOccurred())
			words += len(strings.Fields(string(text)))
			pages++
		}
	}
	g.Expect(pages).To(BeNumerically(">", 30))
	g.Expect(words).To(BeNumerically("<=", mostWords),
		"words in README.md, docs/*.md (without api.md, cli.md, design.md and benchmarks.md), docs/runbooks, charts/*/README.md, config/samples/README.md "+
			"and CHANGELOG.md: say it once, or elsewhere")
	t.Log(words, "words")
}

func TestReadmeIsShort(t *testing.T) {
	g := NewWithT(t)
	info, err := os.Stat(filepath.Join(root, "README.md"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(info.Size()).To(BeNumerically("<=", mostReadmeBytes), "bytes of README.md")
}

func TestWhatUsersRead(t *testing.T) {
	g := NewWithT(t)
	for _, name := range []string{"README.md", "docs/concepts.md", "docs/runbooks/UnitedDown.md", "charts/united/README.md", "config/samples/README.md", "CHANGELOG.md"} {
		g.Expect(toRead(name)).To(BeTrue(), name)
	}
	for _, name := range []string{"docs/api.md", "docs/design.md", "CONTRIBUTING.md", "SECURITY.md"} {
		g.Expect(toRead(name)).To(BeFalse(), name)
	}
}
