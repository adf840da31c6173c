// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Style is how text is written.
type Style struct {
	// Color uses the 16 colors of a terminal; ASCII has no other characters.
	Color, ASCII bool
	// Width is the number of columns; 0 without a limit.
	Width int
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
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

// cell is one cell of a table.
type cell struct{ text, color string }

// table writes rows in columns. The last column takes what is left of the width, on several lines where it needs them.
func (s Style) table(w io.Writer, rows [][]cell) {
	var widths []int
	for _, row := range rows {
		for i, c := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(c.text))
		}
	}
	for _, row := range rows {
		line, indent := &strings.Builder{}, 0
		for i, c := range row {
			if i < len(row)-1 {
				line.WriteString(s.paint(c.color, c.text) + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(c.text)+2))
				indent += widths[i] + 2
				continue
			}
			for n, text := range s.wrap(c.text, indent) {
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

var marks = []struct {
	state, mark, ascii, color string
	count                     func(*Bar) int32
}{
	{Protected, "░", ".", dim, func(b *Bar) int32 { return b.Protected }},
	{Updating, "▒", "+", yellow, func(b *Bar) int32 { return b.Updating }},
	{Broken, "✗", "x", red, func(b *Bar) int32 { return b.Broken }},
	{Missing, "_", "_", yellow, func(b *Bar) int32 { return b.Missing }},
	{Updated, "█", "#", green, func(b *Bar) int32 { return b.Updated }},
}

// bar draws the replicas of a subset: one character each up to ten, otherwise in proportion, but whatever there is has one.
func (s Style) bar(b *Bar) (drawn string, width int) {
	total := int32(0)
	for _, m := range marks {
		total += m.count(b)
	}
	text := strings.Builder{}
	for _, m := range marks {
		n := m.count(b)
		if total > 10 && n > 0 {
			n = max(1, n*10/total)
		}
		mark := m.mark
		if s.ASCII {
			mark = m.ascii
		}
		width += int(n)
		text.WriteString(s.paint(m.color, strings.Repeat(mark, int(n))))
	}
	return text.String(), width
}

var colorOf = map[string]string{
	OK: green, Waiting: yellow, Failed: red, Updated: green, Updating: yellow, Protected: dim, Broken: red, Missing: yellow,
	"Stalled": red, "Complete": green,
}

// Print writes a status. pods also writes the replicas one by one.
func (s Style) Print(w io.Writer, st *Status, pods bool) {
	s.table(w, [][]cell{{{st.Name, bold}, {st.Reason, colorOf[st.State]}, {st.Message, ""}}})
	facts := [][]cell{
		{{"Strategy", dim}, {st.Strategy + " of " + st.Kind + "s, " + replicasText(st), ""}},
	}
	if st.Paused {
		facts[0][1].text += ", paused"
	}
	if st.Current != nil {
		facts = append(facts, []cell{{"Current", dim}, {st.Current.String(), ""}})
	}
	if st.Update != nil && (st.Current == nil || st.Current.Name != st.Update.Name) {
		facts = append(facts, []cell{{"Update", dim}, {st.Update.String(), ""}})
	}
	if st.BoundTo != "" && st.Update != nil && st.BoundTo != st.Update.Name {
		facts = append(facts, []cell{{"Partitions", dim}, {"are for " + st.BoundTo + ", so everything else is held", yellow}})
	}
	if r := st.Rollout; r != nil && r.Phase != "" {
		text := r.Phase
		if r.Steps > 0 && int(r.Step) < r.Steps {
			text += fmt.Sprintf(", step %d of %d", r.Step+1, r.Steps)
		}
		if r.ApprovalKey != "" && r.Phase == "AwaitingApproval" {
			text += ": kubectl united approve " + st.Name
		}
		facts = append(facts, []cell{{"Rollout", dim}, {text, ""}})
	}
	s.table(w, facts)
	_, _ = fmt.Fprintln(w)
	s.subsets(w, st)
	if pods {
		_, _ = fmt.Fprintln(w)
		s.replicas(w, st)
	}
	if st.Unseen != "" {
		_, _ = fmt.Fprintln(w, s.paint(dim, "\nNot seen: "+st.Unseen))
	}
}

// String returns the name of a revision with its images, without their registries.
func (r *Revision) String() string {
	var images []string
	for _, image := range r.Images {
		images = append(images, image[strings.LastIndex(image, "/")+1:])
	}
	return strings.TrimSpace(r.Name + "  " + strings.Join(images, ", "))
}

func replicasText(st *Status) string {
	return fmt.Sprintf("%d replicas: %d ready, %d updated, %d available", st.Desired, st.Ready, st.Updated, st.Available)
}

// subsets writes a row for each subset. Bars have a width of their own, since their characters are painted one by one.
func (s Style) subsets(w io.Writer, st *Status) {
	drawn, widest := make([]string, len(st.Subsets)), len("REPLICAS")
	widths := make([]int, len(st.Subsets))
	for i := range st.Subsets {
		drawn[i], widths[i] = s.bar(&st.Subsets[i].Bar)
		widest = max(widest, widths[i])
	}
	head := [][]cell{{{"SUBSET", dim}, {"REPLICAS" + strings.Repeat(" ", widest-len("REPLICAS")), dim}, {"AVAILABLE", dim}, {"PARTITION", dim}, {"PHASE", dim}, {"WAITS FOR", dim}}}
	for i := range st.Subsets {
		sub := &st.Subsets[i]
		partition := sub.Partition
		if numeric := fmt.Sprint(sub.Protected); partition != numeric {
			partition += " = " + numeric
		}
		head = append(head, []cell{
			{sub.Name, ""}, {strings.Repeat("\x00", widths[i]) + strings.Repeat(" ", widest-widths[i]), ""},
			{fmt.Sprintf("%d/%d", sub.Available, sub.Desired), ""}, {partition, ""}, {sub.Phase, colorOf[sub.Phase]}, {sub.Message, ""},
		})
	}
	text := &strings.Builder{}
	s.table(text, head)
	out := text.String()
	for i := range drawn {
		if widths[i] > 0 {
			out = strings.Replace(out, strings.Repeat("\x00", widths[i]), drawn[i], 1)
		}
	}
	_, _ = fmt.Fprint(w, out)
}

func (s Style) replicas(w io.Writer, st *Status) {
	rows := [][]cell{{{"REPLICA", dim}, {"STATE", dim}, {"REVISION", dim}, {"NODE", dim}, {"CLAIMS", dim}, {"WHY", dim}}}
	for i := range st.Subsets {
		for _, r := range st.Subsets[i].Replicas {
			name := cmp.Or(r.Name, fmt.Sprintf("%s #%d", st.Subsets[i].Workload, r.Position))
			rows = append(rows, []cell{{name, ""}, {r.State, colorOf[r.State]}, {r.Revision, ""}, {r.Node, ""}, {strings.Join(r.Claims, ","), ""}, {r.Why, ""}})
		}
	}
	s.table(w, rows)
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
	s.table(w, rows)
}

// Line is a status on one line, for a log.
func Line(st *Status) string {
	var subsets []string
	for i := range st.Subsets {
		sub := &st.Subsets[i]
		subsets = append(subsets, fmt.Sprintf("%s %d/%d", sub.Name, sub.Bar.Updated, sub.Desired))
	}
	return fmt.Sprintf("%s: %s (%s)", st.Reason, st.Message, strings.Join(subsets, ", "))
}
