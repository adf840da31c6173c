// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// marks are how replicas are drawn, by state.
var marks = []struct {
	state, mark, ascii, color string
}{
	{Protected, "░", ".", dim},
	{Down, "!", "!", yellow},
	{Updating, "▒", "+", yellow},
	{Broken, "✗", "x", red},
	{Missing, "_", "_", yellow},
	{Updated, "█", "#", green},
}

// bar draws the replicas of a subset: one character each up to ten, otherwise in proportion, but whatever there is has one.
func (s Style) bar(b *Bar) (drawn string, width int) {
	total := int32(0)
	for _, m := range marks {
		total += b.Of(m.state)
	}
	text := strings.Builder{}
	for _, m := range marks {
		n := b.Of(m.state)
		if total > 10 && n > 0 {
			n = max(1, n*10/total)
		}
		width += int(n)
		text.WriteString(s.paint(m.color, strings.Repeat(cond(s.ASCII, m.ascii, m.mark), int(n))))
	}
	return text.String(), width
}

func cond(is bool, then, otherwise string) string {
	if is {
		return then
	}
	return otherwise
}

var colorOf = map[string]string{
	OK: green, Held: blue, Waiting: yellow, Failed: red, Updated: green, Updating: yellow, Protected: dim, Down: yellow, Broken: red, Missing: yellow,
	"Stalled": red, "Complete": green,
}

// Print writes a status. pods also writes the replicas one by one.
func (s Style) Print(w io.Writer, st *Status, pods bool) {
	s.table(w, [][]cell{{{st.Name, bold}, {st.Reason, colorOf[st.State]}, {brief(st.Message), ""}}})
	s.table(w, facts(st))
	_, _ = fmt.Fprintln(w)
	s.subsets(w, st)
	if pods {
		_, _ = fmt.Fprintln(w)
		s.replicas(w, st)
	}
	if st.Unseen != "" {
		_, _ = fmt.Fprintln(w, s.paint(dim, "\nNot seen: "+st.Unseen))
	}
	gap := "\n"
	for _, line := range s.next(st) { // not wrapped, so that it can be copied
		_, _ = fmt.Fprintf(w, "%s%s  %s\n", gap, s.paint(dim, line[0]), line[1])
		gap = ""
	}
}

// next are the commands that one is likely to want next, and what no command does.
func (s Style) next(st *Status) (lines [][2]string) {
	if verb := st.Next(); verb != "" {
		wait := ""
		if st.Left != "" && st.moves() {
			wait = "wait, " + st.Left + " left: "
		}
		lines = append(lines, [2]string{"Next", wait + s.Command(verb)})
	}
	back := st.Back()
	if back != "" {
		lines = append(lines, [2]string{"Back", s.Command(back)})
	}
	if st.Setback != "" {
		lines = append(lines, [2]string{cond(back == "", "Back", "Also"), oneLine(st.Setback)})
	}
	return lines
}

// Command is a command of the plugin for the objects in view: the verb, and what comes after it.
func (s Style) Command(verb string) string {
	return strings.TrimRight("kubectl united "+verb+" "+s.Scope, " ")
}

// brief is a message without the kubectl command in it: the plugin has one of its own.
func brief(message string) string {
	for _, lead := range []string{"; to continue, run: ", "; to measure it anew, run: ", "; to roll it out once more, run: "} {
		before, command, found := strings.Cut(message, lead)
		if !found {
			continue
		}
		if _, after, more := strings.Cut(command, "; "); more {
			before += "; " + after
		}
		return before
	}
	return message
}

// Said is the headline without a kubectl command in it.
func (st *Status) Said() string { return brief(st.Message) }

// Waits is what a subset waits for; "" if the headline says it.
func (st *Status) Waits(sub *Subset) string {
	if message := brief(sub.Message); !st.says(message) {
		return message
	}
	return ""
}

// says reports whether the headline says a message already.
func (st *Status) says(message string) bool {
	return strings.Contains(strings.ToLower(brief(st.Message)), strings.ToLower(message))
}

// Next is the verb, with its arguments, that one is likely to want next; "" if there is none.
func (st *Status) Next() string {
	held := slices.IndexFunc(st.Subsets, func(s Subset) bool { return s.Bar.Protected > 0 && s.Updated < s.Desired })
	switch {
	case !st.Observed:
		return ""
	case st.State == Waiting && st.moves():
		return "status " + st.Name + " --watch"
	case st.State == Waiting || st.State == Failed:
		return "why " + st.Name
	case st.Paused:
		return "resume " + st.Name
	case st.Rollout != nil && st.Rollout.Phase == string(v1alpha1.RolloutAwaitingApproval):
		return "approve " + st.Name
	case st.Reason == v1alpha1.ReasonRolloutHeld && st.Strategy == string(v1alpha1.ManualUpdateStrategy) && held >= 0:
		return "release " + st.Name + " " + st.Subsets[held].Name
	}
	return ""
}

// moves reports whether nothing is to be done but wait: a rollout goes on, or pauses for a time, and no replica is lost.
func (st *Status) moves() bool {
	return st.Reason == v1alpha1.ReasonStepPaused || st.Reason == v1alpha1.ReasonRollingOut && !st.Paused &&
		!slices.ContainsFunc(st.Subsets, func(s Subset) bool { return s.Bar.Broken+s.Bar.Down > 0 })
}

// Back is the verb, with its arguments, that goes back; "" while there is no rollout, or it would change nothing.
func (st *Status) Back() string {
	if st.Observed && !st.stuck && st.Current != nil && st.Update != nil && st.Current.Name != st.Update.Name && st.Reason != v1alpha1.ReasonRevisionRejected {
		return "undo " + st.Name
	}
	return ""
}

// facts are what one reads below the headline.
func facts(st *Status) [][]cell {
	fact := func(what, text, color string) []cell { return []cell{{what, dim}, {text, color}} }
	list := [][]cell{fact("Strategy", st.Strategy+" of "+st.Kind+"s, "+replicasText(st), "")}
	if st.Paused {
		list[0][1].text += ", paused"
	}
	moves := st.Current != nil && st.Update != nil && st.Current.Name != st.Update.Name
	switch {
	case moves:
		list = append(list, fact("Current", st.Current.String(), ""), fact("Update", st.Update.String(), ""))
	case st.Update != nil:
		list = append(list, fact("Revision", st.Update.String(), ""))
	}
	if moves && st.BoundTo != "" && st.BoundTo != st.Update.Name {
		list = append(list, fact("Partitions", "are for "+known.Short(st.BoundTo)+", so everything else is held", yellow))
	}
	r := st.Rollout
	if r == nil || r.Phase == "" {
		return list
	}
	text, message := r.Phase, brief(r.Message)
	if r.Rejected != "" {
		text += ", the way back from " + r.Rejected
	}
	switch {
	case message != "" && !st.says(message):
		text += ", " + message
	case r.Steps > 0 && int(r.Step) < r.Steps:
		text += fmt.Sprintf(", step %d of %d", r.Step+1, r.Steps)
	}
	list = append(list, fact("Rollout", text, ""))
	if moves {
		list = append(list, stepsOf(st)...)
	}
	for _, c := range r.Checks {
		text := c.Name + " " + c.State + " since " + c.Since
		if c.Message != "" && !st.says(c.Message) {
			text += ": " + c.Message
		}
		list = append(list, fact("Check", text, map[string]string{"Met": green, "NotMet": yellow, "Running": yellow, "Failed": red}[c.State]))
	}
	if r.Forced {
		list = append(list, fact("Forced", "failed and unavailable replicas hold nothing back", red))
	}
	return list
}

// stepsOf are the steps of a rollout: what is done, and what is to come. Of many only those around the current one.
func stepsOf(st *Status) (list [][]cell) {
	const most = 8
	first := 0
	if now := slices.IndexFunc(st.Steps, func(s Step) bool { return s.Now }); len(st.Steps) > most {
		first = min(max(0, now-2), len(st.Steps)-most)
	}
	for i := first; i < min(first+most, len(st.Steps)); i++ {
		s := &st.Steps[i]
		state, color := "", dim
		switch {
		case s.Done:
			state = ": done"
		case s.Now:
			state, color = ": now", ""
		}
		list = append(list, []cell{{fmt.Sprintf("Step %d", i+1), dim}, {s.String() + state, color}})
	}
	return list
}

// String returns the images of a revision, without their registries, and its name.
func (r *Revision) String() string {
	return strings.TrimSpace(r.ImageNames() + "  " + known.Short(r.Name))
}

// ImageNames returns the images of a revision, without their registries.
func (r *Revision) ImageNames() string {
	var images []string
	for _, image := range r.Images {
		images = append(images, image[strings.LastIndex(image, "/")+1:])
	}
	return strings.Join(images, ", ")
}

func replicasText(st *Status) string {
	return fmt.Sprintf("%d replicas: %d ready, %d updated, %d available", st.Desired, st.Ready, st.Updated, st.Available)
}

// labels are short names of all revisions that replicas run: the tag of the first image in which they differ, or the end of the name.
func labels(st *Status) map[string]string {
	runs := map[string]*Revision{}
	for i := range st.Subsets {
		for j := range st.Subsets[i].Runs {
			if r := &st.Subsets[i].Runs[j].Revision; r.Name != "" {
				runs[r.Name] = r
			}
		}
	}
	for i := range 16 { // of containers
		labels, seen := map[string]string{"": "?"}, map[string]bool{"": true}
		for name, r := range runs {
			if i < len(r.Images) && !seen[Tag(r.Images[i])] {
				labels[name] = Tag(r.Images[i])
				seen[labels[name]] = true
			}
		}
		if len(labels) == len(runs)+1 {
			return labels
		}
	}
	labels := map[string]string{"": "?"}
	for name := range runs {
		labels[name] = known.Short(name)[strings.LastIndex(name, "-")+1:]
	}
	return labels
}

// subsets writes a row for each subset, what the marks mean, and what the subsets wait for, once for those that wait for the same.
func (s Style) subsets(w io.Writer, st *Status) {
	drawn, widths, widest := make([]string, len(st.Subsets)), make([]int, len(st.Subsets)), len("REPLICAS")
	for i := range st.Subsets {
		drawn[i], widths[i] = s.bar(&st.Subsets[i].Bar)
		widest = max(widest, widths[i])
	}
	var rows [][]cell
	head := []cell{}
	for _, title := range []string{"SUBSET", "UPDATED", "AVAILABLE", "REPLICAS" + strings.Repeat(" ", widest-len("REPLICAS")), "RUNS", "PARTITION", "PHASE"} {
		head = append(head, cell{title, dim})
	}
	const column = 4 // RUNS, which is left out where it is not known
	unknown := !slices.ContainsFunc(st.Subsets, func(s Subset) bool { return len(s.Runs) > 0 })
	rows = append(rows, head)
	short := labels(st)
	for i := range st.Subsets {
		sub := &st.Subsets[i]
		var runs []string
		for j := range sub.Runs {
			run := short[sub.Runs[j].Name]
			if r := &sub.Runs[j]; r.Name == "" && len(r.Images) > 0 {
				run = Tag(r.Images[0])
			}
			runs = append(runs, run)
		}
		rows = append(rows, []cell{
			{sub.Name, ""}, {fmt.Sprintf("%d/%d", sub.Updated, sub.Desired), ""}, {fmt.Sprintf("%d/%d", sub.Available, sub.Desired), ""},
			{drawn[i] + strings.Repeat(" ", widest-widths[i]), ""}, {strings.Join(runs, ", "), ""}, {partitionText(st, sub), ""}, {sub.Phase, colorOf[sub.Phase]},
		})
	}
	if unknown {
		for i := range rows {
			rows[i] = slices.Delete(rows[i], column, column+1)
		}
	}
	s.table(w, rows)
	s.legend(w, st)
	s.waits(w, st)
}

// partitionText is the partition as it was written, and how many replicas that is. That of a coordinated rollout is a floor: the
// partition is what the manager has come to.
func partitionText(st *Status, sub *Subset) string {
	number := fmt.Sprint(sub.Protected)
	switch coordinated := st.Strategy == string(v1alpha1.RollingUpdateStrategy); {
	case sub.Partition == number || coordinated && (sub.Partition == "0%" || sub.Partition == "0"):
		return number
	case coordinated:
		return number + " (floor " + sub.Partition + ")"
	}
	return sub.Partition + " (" + number + ")"
}

// legend says what the marks in view mean.
func (s Style) legend(w io.Writer, st *Status) {
	var parts []string
	for _, m := range marks {
		if slices.ContainsFunc(st.Subsets, func(s Subset) bool { return s.Bar.Of(m.state) > 0 }) {
			parts = append(parts, s.paint(m.color, cond(s.ASCII, m.ascii, m.mark))+" "+m.state)
		}
	}
	if len(parts) > 0 {
		_, _ = fmt.Fprintln(w, strings.Join(parts, "  "))
	}
}

// waits says what the subsets wait for, if the headline does not say it.
func (s Style) waits(w io.Writer, st *Status) {
	var order []string
	names := map[string][]string{}
	for i := range st.Subsets {
		message := st.Waits(&st.Subsets[i])
		if message == "" {
			continue
		}
		if names[message] == nil {
			order = append(order, message)
		}
		names[message] = append(names[message], st.Subsets[i].Name)
	}
	var rows [][]cell
	for _, message := range order {
		rows = append(rows, []cell{{shorten(names[message], 3), ""}, {message, ""}})
	}
	if len(rows) > 0 {
		_, _ = fmt.Fprintln(w)
		s.table(w, rows)
	}
}

// runs says what a replica runs: its revision, and where that is not known, its images.
func (r *Replica) runs() string {
	switch {
	case r.Revision != "" || r.State == Missing:
		return known.Short(r.Revision)
	case len(r.Images) > 0:
		return (&Revision{Images: r.Images}).String()
	}
	return "unknown revision"
}

func (s Style) replicas(w io.Writer, st *Status) {
	rows := [][]cell{{{"REPLICA", dim}, {"STATE", dim}, {"REVISION", dim}, {"NODE", dim}, {"CLAIMS", dim}, {"WHY", dim}}}
	for i := range st.Subsets {
		for _, r := range st.Subsets[i].Replicas {
			name := cmp.Or(r.Name, fmt.Sprintf("%s #%d", st.Subsets[i].Workload, r.Position))
			rows = append(rows, []cell{{name, ""}, {r.State, colorOf[r.State]}, {r.runs(), ""}, {r.Node, ""}, {strings.Join(r.Claims, ","), ""}, {r.Why, ""}})
		}
	}
	s.table(w, rows)
}
