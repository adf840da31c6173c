// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"crypto/rand"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Sequences that a terminal obeys are written in a form that nobody can write into a cluster, since mark is another one in each run.
// Terminal makes them what they are. Everything else is text, which may be that of anybody.
var (
	mark      = "\x1b" + rand.Text()
	sequences = regexp.MustCompile(mark + "([0-9]*[A-Za-z])")
)

// sequence is one that a terminal obeys.
func sequence(code string) string { return mark + code }

// Redrawn is a screen that replaces what is on the terminal.
func Redrawn(screen string) string {
	return sequence("H") + strings.ReplaceAll(screen, "\n", sequence("K")+"\n") + sequence("J")
}

// Terminal is where everything is written for people. Text goes through it as it is, except what a terminal would obey or hide:
// that is shown as Go would write it in a string, such as \x1b. Newlines and tabs are kept.
type Terminal struct{ io.Writer }

// Write writes a text; a character must not be divided between two.
func (t Terminal) Write(text []byte) (int, error) {
	_, err := io.WriteString(t.Writer, sequences.ReplaceAllString(visible(string(text), "\n\t"), "\x1b[$1"))
	return len(text), err
}

// visible returns a text with what a terminal would obey or hide in a form that is seen, except kept characters and our sequences.
func visible(text, kept string) string {
	shown := &strings.Builder{}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case r == '\x1b' && strings.HasPrefix(text[i:], mark):
			size = len(mark)
			shown.WriteString(mark)
		case r == utf8.RuneError && size == 1:
			_, _ = fmt.Fprintf(shown, `\x%02x`, text[i])
		case !unicode.IsGraphic(r) && !strings.ContainsRune(kept, r):
			shown.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		default:
			shown.WriteRune(r)
		}
		i += size
	}
	return shown.String()
}

// oneLine returns a text on one line.
func oneLine(text string) string {
	if strings.ContainsAny(text, "\n\r\t") {
		text = strings.Join(strings.Fields(text), " ")
	}
	return visible(text, "")
}

// columns is how wide a text is on one line.
func columns(text string) int {
	return utf8.RuneCountInString(sequences.ReplaceAllString(text, ""))
}

// Escaped returns JSON, or with JSON in YAML the same, in which no character is left that a terminal would obey or hide. The value is
// the same.
func Escaped(text string, yaml bool) string {
	escaped := &strings.Builder{}
	for _, r := range text {
		switch {
		case r == '\n' || unicode.IsGraphic(r):
			escaped.WriteRune(r)
		case r <= 0xffff:
			_, _ = fmt.Fprintf(escaped, `\u%04x`, r)
		case yaml:
			_, _ = fmt.Fprintf(escaped, `\U%08x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			_, _ = fmt.Fprintf(escaped, `\u%04x\u%04x`, high, low)
		}
	}
	return escaped.String()
}
