// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	. "github.com/onsi/gomega"
)

const root = "../.."

// document has the parts of a Markdown file that the tests check.
type document struct {
	path string // relative to the root of the repository
	// prose are the lines outside of fences; lines inside of fences are "".
	prose   []string
	fences  []fence
	anchors []string
}

// fence is a block of code.
type fence struct {
	language, text string
	line           int
}

var (
	fenceMark = regexp.MustCompile("^\\s*```(\\w*)")
	heading   = regexp.MustCompile(`^#{1,6}\s+(.*?)\s*#*$`)
	link      = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	inLink    = regexp.MustCompile(`\[([^\]]*)\]\([^)]*\)`)
	inline    = regexp.MustCompile("`[^`]*`")
)

func parse(path, content string) *document {
	d := &document{path: path}
	seen := map[string]int{}
	inside := false
	for i, line := range strings.Split(content, "\n") {
		if mark := fenceMark.FindStringSubmatch(line); mark != nil {
			if inside = !inside; inside {
				d.fences = append(d.fences, fence{language: mark[1], line: i + 1})
			}
			d.prose = append(d.prose, "")
			continue
		}
		if inside {
			d.fences[len(d.fences)-1].text += line + "\n"
			d.prose = append(d.prose, "")
			continue
		}
		d.prose = append(d.prose, line)
		if h := heading.FindStringSubmatch(line); h != nil {
			anchor := slug(h[1])
			if n := seen[anchor]; n > 0 {
				d.anchors = append(d.anchors, fmt.Sprintf("%s-%d", anchor, n))
			} else {
				d.anchors = append(d.anchors, anchor)
			}
			seen[anchor]++
		}
	}
	return d
}

// slug returns the anchor that GitHub and GitLab give a heading: lower case, with a dash for each
// space, and without punctuation.
func slug(title string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
			return unicode.ToLower(r)
		}
		return -1
	}, inLink.ReplaceAllString(title, "$1"))
}

// links returns the targets of the links in the prose, by line.
func (d *document) links() map[int][]string {
	found := map[int][]string{}
	for i, line := range d.prose {
		for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(line, "`code`"), -1) {
			found[i+1] = append(found[i+1], m[1])
		}
	}
	return found
}

// rows returns the first cells of the tables below a heading, without backquotes.
func (d *document) rows(title string) []string {
	var cells []string
	below := false
	for _, line := range d.prose {
		if h := heading.FindStringSubmatch(line); h != nil {
			below = h[1] == title
		}
		if cell, _, ok := strings.Cut(strings.TrimPrefix(line, "| "), " |"); below && ok && strings.HasPrefix(cell, "`") {
			cells = append(cells, strings.Trim(cell, "`"))
		}
	}
	return cells
}

// documents returns all Markdown files of the repository, by path.
func documents(t *testing.T) map[string]*document {
	t.Helper()
	all := map[string]*document{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", ".playground", "dist", "testdata"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		all[filepath.ToSlash(name)] = parse(filepath.ToSlash(name), string(content))
		return err
	})
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return all
}

func TestParse(t *testing.T) {
	g := NewWithT(t)
	d := parse("x.md", strings.Join([]string{
		"# One two", "See [a](b.md#c), `[not](this.md)` and [d](e/).", "```yaml", "# no heading", "[nor](link.md)", "```",
		"## What's `helm --wait`, then?", "| `first` | x |", "| `second` | y |", "| third | z |", "## One two", "| `other` | |",
	}, "\n"))
	g.Expect(d.anchors).To(Equal([]string{"one-two", "whats-helm---wait-then", "one-two-1"}))
	g.Expect(d.links()).To(Equal(map[int][]string{2: {"b.md#c", "e/"}}))
	g.Expect(d.fences).To(Equal([]fence{{language: "yaml", text: "# no heading\n[nor](link.md)\n", line: 3}}))
	g.Expect(d.rows("What's `helm --wait`, then?")).To(Equal([]string{"first", "second"}))
}
