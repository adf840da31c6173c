// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"

	. "github.com/onsi/gomega"
	"pgregory.net/rapid"
)

// obeyed reports whether a terminal would obey or hide something in a text.
func obeyed(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && r != '\t' && !unicode.IsGraphic(r) }) || strings.ToValidUTF8(text, "") != text
}

func terminal(text string) string {
	out := &strings.Builder{}
	_, _ = Terminal{out}.Write([]byte(text))
	return out.String()
}

func TestTerminalShowsWhatItWouldObey(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"text":               {"Zürich: 1/3 · █░ 日本 🚀\n\tindented", "Zürich: 1/3 · █░ 日本 🚀\n\tindented"},
		"clear screen":       {"a\x1b[2Jb", `a\x1b[2Jb`},
		"clipboard":          {"\x1b]52;c;aGk=\a", `\x1b]52;c;aGk=\a`},
		"hidden":             {"\x1b[8mrm -rf\x1b[0m", `\x1b[8mrm -rf\x1b[0m`},
		"carriage return":    {"failed\rok    ", `failed\rok    `},
		"backspace, DEL":     {"a\bb\x7f", `a\bb\x7f`},
		"NUL":                {"a\x00b", `a\x00b`},
		"C1":                 {"\u009b2J\u0085", `\u009b2J\u0085`},
		"C1 as a byte":       {"\x9b2J", `\x9b2J`},
		"bidi":               {"\u202egnp.exe\u2066x\u2069", `\u202egnp.exe\u2066x\u2069`},
		"zero width":         {"we\u200bb\ufeff", `we\u200bb\ufeff`},
		"tags":               {"\U000e0041", `\U000e0041`},
		"line separators":    {"a\u2028b\u2029", `a\u2028b\u2029`},
		"ours":               {Style{Color: true}.paint(red, "no"), "\x1b[31mno\x1b[0m"},
		"a screen":           {Redrawn("a\nb\n"), "\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J"},
		"ours around theirs": {Style{Color: true}.paint(bold, "\x1b[8m"), "\x1b[1m" + `\x1b[8m` + "\x1b[0m"},
		"forged":             {"\x1bABCDEFGHIJKLMNOPQRSTUVWXYZ0m", `\x1bABCDEFGHIJKLMNOPQRSTUVWXYZ0m`},
	} {
		NewWithT(t).Expect(terminal(tc.text)).To(Equal(tc.want), name)
	}
}

func TestTerminalProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		theirs := string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) + rapid.StringOf(rapid.SampledFrom([]rune("a \n\t\r\x1b[]m0;\u009b\u202e\u200d\U000e0001é日"))).Draw(t, "text")
		shown := terminal(theirs)
		if obeyed(shown) {
			t.Fatalf("%q is shown as %q", theirs, shown)
		}
		if again := terminal(shown); again != shown {
			t.Fatalf("%q became %q", shown, again)
		}
		if !obeyed(theirs) && shown != theirs {
			t.Fatalf("%q was changed to %q", theirs, shown)
		}
		raw, err := json.Marshal(theirs)
		if err != nil {
			t.Fatal(err)
		}
		var was, is string
		if err := json.Unmarshal(raw, &was); err != nil {
			t.Fatal(err)
		}
		escaped := Escaped(string(raw), false)
		if err := json.Unmarshal([]byte(escaped), &is); err != nil || was != is || obeyed(escaped) {
			t.Fatalf("%s: %q became %q: %v", escaped, was, is, err)
		}
	})
}

// What somebody else wrote stays in its cell: no line of it looks like one of ours, and the columns stand where they stand.
func TestCellsKeepTheirPlace(t *testing.T) {
	g := NewWithT(t)
	out := &strings.Builder{}
	Style{Color: true}.table(Terminal{out}, [][]cell{{{"NAME", dim}, {"WHY", dim}}, {{"a\x1b\n", red}, {"no\n\nNext  kubectl united force web", ""}}, {{"long name", ""}, {"yes", ""}}})
	g.Expect(out.String()).To(Equal("\x1b[2mNAME\x1b[0m       \x1b[2mWHY\x1b[0m\n\x1b[31ma\\x1b\x1b[0m      no Next kubectl united force web\nlong name  yes\n"))
	out.Reset()
	Style{}.PrintWhy(Terminal{out}, &Why{Answer: "a: \x1b[2J\nb", Findings: []Finding{{Kind: Fault, Subject: "web", Finding: "X", Detail: "web says: \x1b]0;t\a\nend"}}, Unseen: []string{"x\r\ny"}})
	g.Expect(out.String()).To(Equal("a: \\x1b[2J b\n\nSUBJECT  FINDING  DETAIL\nweb      X        web says: \\x1b]0;t\\a end\n\nNot seen: x y\n"))
}
