// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Style is how text is written, to a Terminal.
type Style struct {
	// Color uses the 16 colors of a terminal; ASCII has no other characters.
	Color, ASCII bool
	// Width is the number of columns; 0 without a limit.
	Width int
	// Scope is what each command of the plugin needs to reach the same objects, such as "-n shop".
	Scope string
}

// Colors of a terminal.
const (
	green  = "32"
	yellow = "33"
	red    = "31"
	blue   = "34"
	dim    = "2"
	bold   = "1"
)

func (s Style) paint(color, text string) string {
	if !s.Color || color == "" || text == "" {
		return text
	}
	return sequence(color+"m") + text + sequence("0m")
}

// cell is one cell of a table.
type cell struct{ text, color string }

// table writes rows in columns. The last column takes what is left of the width, on several lines where it needs them.
func (s Style) table(w io.Writer, rows [][]cell) { s.rows(w, rows, s.wrap) }

// lines writes rows in columns, each on one line: the last column is cut.
func (s Style) lines(w io.Writer, rows [][]cell) {
	s.rows(w, rows, func(text string, indent int) []string {
		if first := s.wrap(text, indent+4); len(first) > 1 {
			return []string{first[0] + " ..."}
		}
		return []string{text}
	})
}

func (s Style) rows(w io.Writer, rows [][]cell, fit func(text string, indent int) []string) {
	var widths []int
	for _, row := range rows {
		for i := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			row[i].text = oneLine(row[i].text)
			widths[i] = max(widths[i], columns(row[i].text))
		}
	}
	for _, row := range rows {
		line, indent := &strings.Builder{}, 0
		for i, c := range row {
			if i < len(row)-1 {
				line.WriteString(s.paint(c.color, c.text) + strings.Repeat(" ", widths[i]-columns(c.text)+2))
				indent += widths[i] + 2
				continue
			}
			for n, text := range fit(c.text, indent) {
				if n > 0 {
					line.WriteString("\n" + strings.Repeat(" ", indent))
				}
				line.WriteString(s.paint(c.color, text))
			}
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// wrap breaks a text at its spaces into lines that fit beside an indent.
func (s Style) wrap(text string, indent int) []string {
	room := max(s.Width-indent, 24)
	if s.Width == 0 || utf8.RuneCountInString(text) <= room {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > room {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimPrefix(line+" "+word, " ")
	}
	return append(lines, line)
}

// PrintList writes a line for each status.
func (s Style) PrintList(w io.Writer, all []*Status, namespaces bool) {
	head := []cell{{"NAME", dim}, {"DESIRED", dim}, {"UPDATED", dim}, {"AVAILABLE", dim}, {"STATUS", dim}, {"MESSAGE", dim}}
	if namespaces {
		head = append([]cell{{"NAMESPACE", dim}}, head...)
	}
	rows := [][]cell{head}
	for _, st := range all {
		row := []cell{{st.Name, ""}, {fmt.Sprint(st.Desired), ""}, {fmt.Sprint(st.Updated), ""}, {fmt.Sprint(st.Available), ""}, {st.Reason, colorOf[st.State]}, {st.Message, ""}}
		if namespaces {
			row = append([]cell{{st.Namespace, ""}}, row...)
		}
		rows = append(rows, row)
	}
	s.lines(w, rows)
}

// Line is a status on one line, for a log.
func Line(st *Status) string {
	var subsets []string
	for i := range st.Subsets {
		sub := &st.Subsets[i]
		subsets = append(subsets, fmt.Sprintf("%s %d/%d", sub.Name, sub.Bar.Updated, sub.Desired))
	}
	return oneLine(fmt.Sprintf("%s: %s (%s)", st.Reason, st.Message, strings.Join(subsets, ", ")))
}
