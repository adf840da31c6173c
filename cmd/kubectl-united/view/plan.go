// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// PrintPlan writes a plan.
func (s Style) PrintPlan(w io.Writer, p *foresee.Plan) {
	s.table(w, [][]cell{{{p.Name, bold}, {headOf(p), ""}}})
	if len(p.Subsets) > 0 {
		_, _ = fmt.Fprintln(w)
		s.planSubsets(w, p)
	}
	s.planRestarts(w, p)
	s.planWaves(w, p)
	var facts [][]cell
	if len(p.Subsets) > 0 {
		_, _ = fmt.Fprintln(w)
		facts = append(facts, []cell{{"In the end", dim}, {strings.TrimSuffix(p.End.State+": "+p.End.Message, ": "), endColor(p.End.State)}})
	}
	for _, text := range p.Assumed {
		facts = append(facts, []cell{{"Assumed", dim}, {text, ""}})
	}
	for _, text := range p.Unfinished {
		facts = append(facts, []cell{{"Not checked", yellow}, {text, ""}})
	}
	for _, text := range p.Refused {
		facts = append(facts, []cell{{"Refused", red}, {text, ""}})
	}
	s.table(w, facts)
}

func endColor(state string) string {
	switch state {
	case foresee.Complete:
		return green
	case foresee.Waiting, foresee.Unfinished:
		return yellow
	}
	return ""
}

// headOf sums up a plan.
func headOf(p *foresee.Plan) string {
	var parts []string
	for _, action := range actions() {
		n := int32(0)
		for i := range p.Subsets {
			n += countOf(&p.Subsets[i], action)
		}
		if n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", action, n))
		}
	}
	text := strings.Join(parts, ", ")
	switch {
	case len(p.Refused) > 0 && text == "":
		return "would be refused"
	case len(p.Refused) > 0:
		return "would be refused in part; otherwise: " + text
	case text == "":
		text = "no replica would be restarted, created or removed"
	}
	if p.New {
		return "is new: " + text
	}
	if p.Current != p.Update && p.Current != "" {
		text += "  (" + known.Short(p.Current) + " -> " + known.Short(p.Update) + ")"
	}
	return text
}

// actions are what may happen to replicas, in the order in which it is shown.
func actions() []string { return []string{foresee.Restarted, foresee.Created, foresee.Removed} }

// countOf returns to how many replicas of a subset something happens.
func countOf(sub *foresee.Subset, action string) (n int32) {
	switch {
	case action == foresee.Restarted:
		for _, r := range sub.Restarts {
			n += r.Count
		}
	case action == foresee.Created && sub.Created != nil:
		n = sub.Created.Count
	case action == foresee.Removed && sub.Removed != nil:
		n = sub.Removed.Count
	}
	return n
}

// planSubsets writes a row for each subset, with columns only for what happens.
func (s Style) planSubsets(w io.Writer, p *foresee.Plan) {
	rows := make([][]cell, len(p.Subsets)+1)
	column := func(title string, text func(*foresee.Subset) cell) {
		rows[0] = append(rows[0], cell{title, dim})
		for i := range p.Subsets {
			rows[i+1] = append(rows[i+1], text(&p.Subsets[i]))
		}
	}
	column("SUBSET", func(sub *foresee.Subset) cell { return cell{sub.Name, ""} })
	column("REPLICAS", func(sub *foresee.Subset) cell {
		if sub.Now == sub.Then {
			return cell{fmt.Sprint(sub.Then), ""}
		}
		return cell{fmt.Sprintf("%d -> %d", sub.Now, sub.Then), ""}
	})
	for _, action := range actions() {
		if slices.ContainsFunc(p.Subsets, func(sub foresee.Subset) bool { return countOf(&sub, action) > 0 }) {
			column(strings.ToUpper(action), func(sub *foresee.Subset) cell { return cell{number(countOf(sub, action)), ""} })
		}
	}
	column("UPDATED", func(sub *foresee.Subset) cell { return cell{fmt.Sprintf("%d/%d", sub.Updated, sub.Then), ""} })
	column("IN THE END", func(sub *foresee.Subset) cell {
		if sub.Gone && sub.Phase == "" {
			return cell{"gone", ""}
		}
		return cell{strings.TrimSuffix(sub.Phase+": "+sub.Message, ": "), colorOf[sub.Phase]}
	})
	s.table(w, rows)
}

// number is a number of which 0 says nothing.
func number(n int32) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// planRestarts writes why replicas are restarted: the same reason once.
func (s Style) planRestarts(w io.Writer, p *foresee.Plan) {
	var whys, places []string
	for i := range p.Subsets {
		for _, r := range p.Subsets[i].Restarts {
			why := strings.Join(r.Why, "; ")
			switch {
			case why == "" && r.From == r.To:
				why = "the same revision (" + r.To + ") again"
			case why == "" && r.From == "":
				why = "from an earlier revision to " + r.To
			case why == "":
				why = r.From + " -> " + r.To
			}
			place := p.Subsets[i].Name + " " + ordinals(p.Subsets[i].Workload, &r.Replicas)
			if n := slices.Index(whys, why); n >= 0 {
				places[n] += ", " + place
				continue
			}
			whys, places = append(whys, why), append(places, place)
		}
	}
	if len(whys) == 0 {
		return
	}
	rows := [][]cell{{{"RESTARTED", dim}, {"BECAUSE OF", dim}}}
	for i := range whys {
		rows = append(rows, []cell{{places[i], ""}, {whys[i], ""}})
	}
	_, _ = fmt.Fprintln(w)
	s.table(w, rows)
}

// planWaves writes the waves. Waves that follow each other and are alike are written together.
func (s Style) planWaves(w io.Writer, p *foresee.Plan) {
	if len(p.Waves) == 0 {
		return
	}
	workloads := map[string]string{}
	for i := range p.Subsets {
		workloads[p.Subsets[i].Name] = p.Subsets[i].Workload
	}
	rows := [][]cell{{{"WAVE", dim}, {"WHAT HAPPENS AT THE SAME TIME", dim}}}
	for first, n := 0, 1; first < len(p.Waves); {
		wave := p.Waves[first]
		if wave.Pause != "" {
			rows = append(rows, []cell{{"pause", yellow}, {strings.TrimSuffix(wave.Pause+": "+wave.Why, ": "), ""}})
			first++
			continue
		}
		last := first + 1
		for last < len(p.Waves) && alike(&wave, &p.Waves[last]) {
			last++
		}
		count := last - first
		label := strconv.Itoa(n)
		if count > 1 {
			label += "-" + strconv.Itoa(n+count-1)
		}
		rows = append(rows, []cell{{label, ""}, {together(p.Waves[first:last], workloads), ""}})
		first, n = last, n+count
	}
	_, _ = fmt.Fprintln(w)
	s.table(w, rows)
}

// alike reports whether two waves do the same to as many replicas of the same subsets.
func alike(a, b *foresee.Wave) bool {
	return b.Pause == "" && slices.EqualFunc(a.Changes, b.Changes, func(x, y foresee.Change) bool {
		return x.Subset == y.Subset && x.Action == y.Action && x.Count == y.Count
	})
}

// together describes waves that are alike.
func together(waves []foresee.Wave, workloads map[string]string) string {
	text, subset := "", ""
	for i := range waves[0].Changes {
		one := &waves[0].Changes[i]
		all := foresee.Replicas{}
		for _, w := range waves {
			all.Count += w.Changes[i].Count
			all.Names = append(all.Names, w.Changes[i].Names...)
		}
		switch {
		case one.Subset == subset:
			text += ", "
		case text != "":
			text += "; " + one.Subset + ": "
		default:
			text = one.Subset + ": "
		}
		subset = one.Subset
		text += one.Action + " " + ordinals(workloads[one.Subset], &all)
		if len(waves) > 1 {
			text += fmt.Sprintf(" (%d at a time)", one.Count)
		}
	}
	return text
}

// ordinals names replicas by what their names have after that of their workload, with ranges; or says how many they are.
func ordinals(workload string, r *foresee.Replicas) string {
	if len(r.Names) == 0 {
		if r.Count == 1 {
			return "1 replica"
		}
		return fmt.Sprintf("%d replicas", r.Count)
	}
	var parts []string
	for i := 0; i < len(r.Names); {
		first := strings.TrimPrefix(r.Names[i], workload+"-")
		end, step := i, 0
		for end+1 < len(r.Names) {
			a, errA := strconv.Atoi(strings.TrimPrefix(r.Names[end], workload+"-"))
			b, errB := strconv.Atoi(strings.TrimPrefix(r.Names[end+1], workload+"-"))
			if errA != nil || errB != nil || b-a != 1 && b-a != -1 || step != 0 && b-a != step {
				break
			}
			end, step = end+1, b-a
		}
		if end-i < 2 {
			parts, i = append(parts, first), i+1
			continue
		}
		parts, i = append(parts, first+".."+strings.TrimPrefix(r.Names[end], workload+"-")), end+1
	}
	return strings.Join(parts, ", ")
}

// PlanText is a plan as it is printed.
func PlanText(p *foresee.Plan) string {
	text := &strings.Builder{}
	Style{}.PrintPlan(text, p)
	return text.String()
}
