// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

const reasonsFile = root + "/apis/apps/v1alpha1/reasons.go"

// reasonTexts returns the texts of the constants with a prefix in the file of all reasons, by reason:
// their comments without the name.
func reasonTexts(t *testing.T, prefix string) map[string]string {
	t.Helper()
	g := NewWithT(t)
	file, err := parser.ParseFile(token.NewFileSet(), reasonsFile, nil, parser.ParseComments|parser.SkipObjectResolution)
	g.Expect(err).NotTo(HaveOccurred())
	texts := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, prefix) {
			text := strings.Join(strings.Fields(spec.Doc.Text()), " ")
			texts[strings.TrimPrefix(spec.Names[0].Name, prefix)] = strings.TrimPrefix(text, spec.Names[0].Name+": ")
		}
		return true
	})
	return texts
}

// cells returns the rows of the tables below a heading, by first cell, without backquotes and with
// the text of links.
func (d *document) cells(title string) map[string][]string {
	rows := map[string][]string{}
	below := false
	for _, line := range d.prose {
		if h := heading.FindStringSubmatch(line); h != nil {
			below = h[1] == title
		}
		if !below || !strings.HasPrefix(line, "| `") {
			continue
		}
		var row []string
		for cell := range strings.SplitSeq(strings.Trim(line, "|"), "|") {
			cell = strings.ReplaceAll(inLink.ReplaceAllString(cell, "$1"), "`", "")
			row = append(row, strings.TrimSpace(cell))
		}
		rows[row[0]] = row
	}
	return rows
}

// TestReasonsAreDocumented compares docs/troubleshooting.md with the file of all reasons and their
// texts.
func TestReasonsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	d := documents(t)["docs/troubleshooting.md"]
	for _, c := range []struct {
		prefix, title string
		column        int
	}{{"Reason", "Reasons", 2}, {"Event", "Events", 1}} {
		documented := map[string]string{}
		for name, row := range d.cells(c.title) {
			documented[name] = row[c.column]
		}
		texts := reasonTexts(t, c.prefix)
		g.Expect(len(texts)).To(BeNumerically(">", 10), c.prefix)
		g.Expect(documented).To(Equal(texts), "the table below %q", c.title)
	}
}

// TestReasonsAreInOneFile: the text of a reason that is declared elsewhere would not be compared with
// the documents.
func TestReasonsAreInOneFile(t *testing.T) {
	g := NewWithT(t)
	for _, prefix := range []string{"Reason", "Event"} {
		g.Expect(reasonTexts(t, prefix)).To(HaveLen(len(constants(t, prefix))), prefix)
	}
}

func TestCells(t *testing.T) {
	g := NewWithT(t)
	d := parse("x.md", "## Here\n| a | b |\n| --- | --- |\n| `one` | see [`two`](x.md), *3* |\n## There\n| `four` | five |")
	g.Expect(d.cells("Here")).To(Equal(map[string][]string{"one": {"one", "see two, *3*"}}))
	g.Expect(d.cells("There")).To(HaveKeyWithValue("four", []string{"four", "five"}))
}
