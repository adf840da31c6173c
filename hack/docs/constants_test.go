// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// constants returns the values of the exported string constants of the API whose names begin with
// prefix.
func constants(t *testing.T, prefix string) []string {
	t.Helper()
	g := NewWithT(t)
	files, err := filepath.Glob(root + "/apis/apps/v1alpha1/*.go")
	g.Expect(err).NotTo(HaveOccurred())
	var values []string
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		g.Expect(err).NotTo(HaveOccurred())
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, id := range spec.Names {
				if !strings.HasPrefix(id.Name, prefix) || i >= len(spec.Values) {
					continue
				}
				literal, ok := spec.Values[i].(*ast.BasicLit)
				g.Expect(ok).To(BeTrue(), "%s is not a literal", id.Name)
				value, err := strconv.Unquote(literal.Value)
				g.Expect(err).NotTo(HaveOccurred())
				values = append(values, value)
			}
			return true
		})
	}
	return values
}

// TestConstantsAreDocumented requires a row for each constant of the API, and no row for anything
// else.
func TestConstantsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	all := documents(t)
	for _, c := range []struct{ prefix, document, title string }{
		{"Condition", "docs/troubleshooting.md", "Conditions"},
		{"Reason", "docs/troubleshooting.md", "Reasons"},
		{"Phase", "docs/troubleshooting.md", "Phases of a subset"},
		{"Label", "docs/reference.md", "Labels"},
		{"Annotation", "docs/reference.md", "Annotations"},
	} {
		values := constants(t, c.prefix)
		g.Expect(len(values)).To(BeNumerically(">", 1), c.prefix)
		g.Expect(all[c.document].rows(c.title)).To(ConsistOf(values), "%s: the table below %q", c.document, c.title)
	}
}
