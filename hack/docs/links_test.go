// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"cmp"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// broken returns the relative links of a document that lead nowhere.
func broken(d *document, all map[string]*document, exists func(path string) bool) []string {
	var bad []string
	for _, targets := range d.links() {
		for _, target := range targets {
			if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
				continue
			}
			file, anchor, _ := strings.Cut(target, "#")
			file = cmp.Or(file, path.Base(d.path))
			file = path.Join(path.Dir(d.path), file)
			if !exists(file) || anchor != "" && (all[file] == nil || !slices.Contains(all[file].anchors, anchor)) {
				bad = append(bad, d.path+": "+target)
			}
		}
	}
	slices.Sort(bad)
	return bad
}

func TestLinks(t *testing.T) {
	g := NewWithT(t)
	all := documents(t)
	count := 0
	for _, d := range all {
		count += len(d.links())
		g.Expect(broken(d, all, func(path string) bool {
			_, err := os.Stat(filepath.Join(root, path))
			return err == nil
		})).To(BeEmpty(), "links that lead nowhere")
	}
	g.Expect(count).To(BeNumerically(">", 50), "lines with links")
}

var addressOfPage = regexp.MustCompile(`united/blob/main/([\w/-]+\.md)(?:#([\w-]+))?`)

// TestLinksOfMessages follows the links to documents in messages of the code and the chart, and in the alerts.
func TestLinksOfMessages(t *testing.T) {
	g := NewWithT(t)
	all := documents(t)
	count := 0
	for _, dir := range []string{"cmd", "controllers", "adapters", "charts"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range addressOfPage.FindAllStringSubmatch(string(text), -1) {
				count++
				g.Expect(all).To(HaveKey(m[1]), path)
				if m[2] != "" {
					g.Expect(all[m[1]].anchors).To(ContainElement(m[2]), "%s: %s", path, m[1])
				}
			}
			return err
		})).To(Succeed())
	}
	g.Expect(count).To(BeNumerically(">", 10))
}

func TestBrokenLinksAreFound(t *testing.T) {
	a := parse("docs/a.md", "# Here\n[1](b.md) [2](b.md#there) [3](#here) [4](../README.md)\n[5](c.md) [6](b.md#gone) [7](#gone) [8](https://x/y#z)")
	all := map[string]*document{"docs/a.md": a, "docs/b.md": parse("docs/b.md", "# There"), "README.md": parse("README.md", "")}
	NewWithT(t).Expect(broken(a, all, func(path string) bool { return all[path] != nil })).
		To(Equal([]string{"docs/a.md: #gone", "docs/a.md: b.md#gone", "docs/a.md: c.md"}))
}

// TestReadmeLinksAll requires that every document can be reached from the README.
func TestReadmeLinksAll(t *testing.T) {
	g := NewWithT(t)
	all := documents(t)
	var targets []string
	for _, list := range all["README.md"].links() {
		for _, target := range list {
			file, _, _ := strings.Cut(target, "#")
			targets = append(targets, path.Clean(file))
		}
	}
	for name := range all {
		if path.Dir(name) == "docs/runbooks" && name != "docs/runbooks/README.md" {
			continue // TestRunbooks: the list there has them all
		}
		if name != "README.md" && !strings.HasPrefix(name, ".github/") { // forms, which the site shows when they are needed
			g.Expect(targets).To(ContainElement(name), "documents that the README links")
		}
	}
}

var (
	testName = regexp.MustCompile(`\bTest[A-Z]\w*`)
	testLink = regexp.MustCompile(`\[(Test[A-Z]\w*)\]\(([^)]+)\)`)
	testFunc = regexp.MustCompile(`(?m)^func (Test[A-Z]\w*)\(`)
)

// TestNamedTestsExist requires that every test exists that a document names, and that users find them in one page only.
func TestNamedTestsExist(t *testing.T) {
	g := NewWithT(t)
	var exist []string
	files, err := filepath.Glob(root + "/*/*/*_test.go")
	g.Expect(err).NotTo(HaveOccurred())
	deeper, err := filepath.Glob(root + "/*/*/*/*_test.go")
	g.Expect(err).NotTo(HaveOccurred())
	for _, file := range append(files, deeper...) {
		content, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		for _, m := range testFunc.FindAllSubmatch(content, -1) {
			exist = append(exist, string(m[1]))
		}
	}
	named := 0
	for _, d := range documents(t) {
		for _, line := range d.prose {
			for _, name := range testName.FindAllString(line, -1) {
				g.Expect(slices.Contains(exist, name)).To(BeTrue(), "%s names %s", d.path, name)
				g.Expect(d.path).To(BeElementOf("docs/guarantees.md", "docs/design.md", "CONTRIBUTING.md"), "%s: docs/guarantees.md is the place for it", name)
				named++
			}
		}
	}
	g.Expect(named).To(BeNumerically(">", 10))
}

// TestGuaranteesAreHeld requires that every promise of docs/guarantees.md has a test, and that the file to which it links has
// that test.
func TestGuaranteesAreHeld(t *testing.T) {
	g := NewWithT(t)
	promises := 0
	for _, line := range documents(t)["docs/guarantees.md"].prose {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) < 2 || cells[0] == "promise" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		promises++
		links := testLink.FindAllStringSubmatch(cells[1], -1)
		g.Expect(links).NotTo(BeEmpty(), line)
		for _, m := range links {
			content, err := os.ReadFile(filepath.Join(root, "docs", m[2]))
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(string(content)).To(ContainSubstring("func "+m[1]+"("), m[2])
		}
	}
	g.Expect(promises).To(BeNumerically(">", 20))
}
