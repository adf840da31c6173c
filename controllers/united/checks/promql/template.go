// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package promql is about what can be said of the queries of checks without a server: which placeholders they have, what takes
// their place, and whether a value is as a check asks for. It is pure.
package promql

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// MaxQuery is how long a query may be, in bytes, with the values in place of its placeholders. It is enough for some thousand
// pods.
const MaxQuery = 512 << 10

// Placeholders of a query, written as ${pods}. They stand only inside of strings.
const (
	// Pods, Subset and Version are regular expressions, which PromQL anchors.
	Pods    = "pods"
	Subset  = "subset"
	Version = "version"
	// Namespace and Name are plain text.
	Namespace = "namespace"
	Name      = "name"
)

var placeholders = []string{Pods, Subset, Version, Namespace, Name}

// Values are what placeholders stand for.
type Values struct {
	Namespace, Name string
	// Pods, Subsets and Versions are those of the replicas that the query is about.
	Pods, Subsets, Versions []string
}

// Template is a query with placeholders.
type Template struct{ pieces []piece }

// piece is plain text, or a placeholder in a string with that quotation mark.
type piece struct {
	text, placeholder string
	quote             byte
	// matches: the string is the regular expression of a matcher.
	matches bool
}

var (
	// A placeholder has the form of a named group of a replacement, too. A number, as in "${1}" of label_replace, is none.
	placeholder = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)
	// equals ends what precedes the value of a matcher that is no regular expression; a comparison is not followed by a string.
	equals  = regexp.MustCompile(`(^|[^=!<>~])!?=\s*$`)
	matches = regexp.MustCompile(`[=!]~\s*$`)
)

// Parse returns the template of a query. It refuses placeholders whose value could be something else than a part of a string.
func Parse(query string) (*Template, error) {
	t := &Template{}
	for rest := query; rest != ""; {
		start := strings.IndexAny(rest, "\"'`#")
		outside := rest
		if start >= 0 {
			outside = rest[:start]
		}
		if found := placeholder.FindString(outside); found != "" {
			return nil, fmt.Errorf(`%s is not inside of a string: write it as in {pod=~"${pods}"}`, found)
		}
		t.pieces = append(t.pieces, piece{text: outside})
		if start < 0 {
			break
		}
		rest = rest[start:]
		length := lengthOf(rest)
		if length < 0 {
			return nil, fmt.Errorf("a string begins with %c and does not end", rest[0])
		}
		if rest[0] == '#' {
			t.pieces = append(t.pieces, piece{text: rest[:length]})
		} else if err := t.addString(outside, rest[:length]); err != nil {
			return nil, err
		}
		rest = rest[length:]
	}
	return t, nil
}

// lengthOf returns the length of the string, or of the comment, with which a text begins; -1 if it does not end.
func lengthOf(text string) int {
	if text[0] == '#' {
		if end := strings.IndexByte(text, '\n'); end >= 0 {
			return end
		}
		return len(text)
	}
	for i := 1; i < len(text); i++ {
		switch {
		case text[i] == text[0]:
			return i + 1
		case text[i] == '\\' && text[0] != '`':
			i++
		}
	}
	return -1
}

// addString adds a string, with its quotation marks. before is what precedes it.
func (t *Template) addString(before, text string) error {
	plain, end := equals.MatchString(before), 0
	for _, at := range placeholder.FindAllStringSubmatchIndex(text, -1) {
		name := text[at[2]:at[3]]
		switch {
		case !slices.Contains(placeholders, name):
			return fmt.Errorf("${%s} is not known: there are ${%s}", name, strings.Join(placeholders, "}, ${"))
		case plain && isExpression(name):
			return fmt.Errorf(`${%s} is a regular expression: use =~ or !~ instead of = or !=`, name)
		case backslashed(text[:at[0]], text[0]):
			return fmt.Errorf(`${%s} follows a backslash, which would change its value`, name)
		}
		t.pieces = append(t.pieces, piece{text: text[end:at[0]]},
			piece{placeholder: name, quote: text[0], matches: matches.MatchString(before)})
		end = at[1]
	}
	t.pieces = append(t.pieces, piece{text: text[end:]})
	return nil
}

func isExpression(placeholder string) bool {
	return placeholder == Pods || placeholder == Subset || placeholder == Version
}

// backslashed reports whether a text inside of a string ends with the beginning of an escape sequence, of the string or of a
// regular expression.
func backslashed(text string, quote byte) bool {
	n := len(text) - len(strings.TrimRight(text, `\`))
	if quote == '`' {
		return n%2 != 0
	}
	return n%4 != 0
}

// Uses reports whether a query has a placeholder.
func (t *Template) Uses(placeholder string) bool {
	return slices.ContainsFunc(t.pieces, func(p piece) bool { return p.placeholder == placeholder })
}

// Compares reports whether the query differs between replicas that are updated and others.
func (t *Template) Compares() bool {
	return slices.ContainsFunc([]string{Pods, Subset, Version}, t.Uses)
}

// Fill returns the query with values in place of its placeholders.
func (t *Template) Fill(v *Values) (string, error) {
	var b strings.Builder
	for _, p := range t.pieces {
		b.WriteString(p.text)
		if p.placeholder != "" {
			quoted, err := p.quoted(v)
			if err != nil {
				return "", err
			}
			b.WriteString(quoted)
		}
		if b.Len() > MaxQuery {
			return "", fmt.Errorf("the query for %d replicas is longer than %d KiB: use ${subset} instead of ${pods}", len(v.Pods), MaxQuery>>10)
		}
	}
	return b.String(), nil
}

// quoted returns the value of a placeholder, quoted for its string.
func (p *piece) quoted(v *Values) (string, error) {
	value := ""
	switch p.placeholder {
	case Pods:
		value = expression(v.Pods)
	case Subset:
		value = expression(v.Subsets)
	case Version:
		value = expression(v.Versions)
	case Namespace:
		value = v.Namespace
	default:
		value = v.Name
	}
	if p.matches && !isExpression(p.placeholder) {
		value = regexp.QuoteMeta(value)
	}
	if p.quote == '`' { // there is no way to quote in it
		if strings.Contains(value, "`") {
			return "", fmt.Errorf("${%s} cannot stand in `, because its value has one", p.placeholder)
		}
		return value, nil
	}
	return strings.NewReplacer(`\`, `\\`, string(p.quote), `\`+string(p.quote), "\n", `\n`).Replace(value), nil
}

// expression returns a regular expression that matches the values and nothing else, also as a part of another one.
func expression(values []string) string {
	sorted := slices.Compact(slices.Sorted(slices.Values(values)))
	for i := range sorted {
		sorted[i] = regexp.QuoteMeta(sorted[i])
	}
	if len(sorted) == 1 {
		return sorted[0]
	}
	return "(?:" + strings.Join(sorted, "|") + ")"
}
