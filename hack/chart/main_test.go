// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
)

func TestPart(t *testing.T) {
	g := NewWithT(t)
	d := document{text: []byte("# about\nkind: X\nspec:\n  a: 1\n  # inside\n\n  b:\n- c\nother: 2\n")}
	g.Expect(string(d.part("spec"))).To(Equal("spec:\n  a: 1\n  # inside\n\n  b:\n- c\n"))
	g.Expect(d.part("spe")).To(BeEmpty())
}

func TestByKind(t *testing.T) {
	g := NewWithT(t)
	const pods, sets, more = "- apiGroups:\n  - \"\"\n  resources:\n  - pods\n", "- apiGroups:\n  - apps.kruise.io\n  resources:\n  - clonesets\n", "- nonResourceURLs: [/metrics]\n"
	files := byKind("x", []byte("rules:\n"+pods+sets+more+sets))
	g.Expect(files).To(HaveLen(2))
	g.Expect(string(files["x"])).To(Equal("rules:\n" + pods + more))
	g.Expect(string(files["x-kruise"])).To(Equal("rules:\n" + sets + sets))
	files = byKind("x", []byte("rules:\n# why\n"+more))
	g.Expect(files).To(HaveLen(1))
	g.Expect(string(files["x"])).To(Equal("rules:\n# why\n" + more))
}

func TestValues(t *testing.T) {
	for name, c := range map[string]struct {
		content string
		want    []value
		fails   string
	}{
		"nested": {
			content: "# -- First\n# and more.\na: 1\n\nb:\n  # -- Inner.\n  c: [x]\n# -- Whole.\nd:\n  e: f\n  g: h\n# -- List.\nl:\n- m: x\n",
			want: []value{
				{"a", "1", "First and more."}, {"b.c", `["x"]`, "Inner."}, {"d", `{"e":"f","g":"h"}`, "Whole."}, {"l", `[{"m":"x"}]`, "List."},
			},
		},
		"undocumented":       {content: "# -- First\na: 1\nb: 2\n", fails: "b: has no comment"},
		"undocumented empty": {content: "b: {}\n", fails: "b: has no comment"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			got, err := parseValues([]byte(c.content))
			if c.fails != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.fails)))
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(got).To(Equal(c.want))
		})
	}
}

func TestSchema(t *testing.T) {
	values := []value{{path: "a"}, {path: "b.c"}}
	for name, c := range map[string]struct{ schema, fails string }{
		"fits": {
			schema: `{"additionalProperties":false,"properties":{"a":{},"global":{},"b":{"additionalProperties":false,"properties":{"c":{}}}}}`,
		},
		"lacks a value": {
			schema: `{"additionalProperties":false,"properties":{"a":{},"b":{"additionalProperties":false}}}`,
			fails:  "does not have b.c",
		},
		"has another": {
			schema: `{"additionalProperties":false,"properties":{"a":{},"b":{"additionalProperties":false,"properties":{"c":{},"d":{}}}}}`,
			fails:  "has b.d, which values.yaml does not document",
		},
		"takes anything": {
			schema: `{"additionalProperties":false,"properties":{"a":{},"b":{"properties":{"c":{}}}}}`,
			fails:  "the section of b.c must have additionalProperties: false",
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			path := filepath.Join(t.TempDir(), "schema.json")
			g.Expect(os.WriteFile(path, []byte(c.schema), 0o600)).To(Succeed())
			if err := checkSchema(path, values); c.fails == "" {
				g.Expect(err).NotTo(HaveOccurred())
			} else {
				g.Expect(err).To(MatchError(ContainSubstring(c.fails)))
			}
		})
	}
}
