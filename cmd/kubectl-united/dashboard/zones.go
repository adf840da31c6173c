// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// tall is how many replicas a zone shows one by one. With more of them, those that follow each other and are alike are one cell.
const tall = 24

// many is how many zones are too many for one look.
const many = 12

// zone is one subset as a column.
type zone struct {
	*view.Subset
	// Above and Below are the replicas above and below the partition, the last one on top.
	Above, Below []cell
	Bars         []bar
	Total        int32
	// Manual: its partition can be moved.
	Manual bool
	// On is how many run the update revision, whatever their state, and Way how many are released and do not run it yet.
	On, Way int32
	// Says is its message, if the headline does not say it.
	Says string
}

// cell is one replica, or several that are alike.
type cell struct {
	Name, Last, State, Revision, Label, Why, Node string
	Position, To                                  int32
	Count                                         int
	// On: it runs the update revision.
	On bool
}

// bar is a part of the bar that counts the replicas.
type bar struct {
	State    string
	At, Size int32
}

// states are in the order of the bar.
var states = []string{view.Broken, view.Missing, view.Down, view.Updating, view.Protected, view.Updated}

func zonesOf(st *view.Status, label func(revision string) string) []zone {
	var zones []zone
	for i := range st.Subsets {
		sub := &st.Subsets[i]
		z := zone{Subset: sub, Manual: st.Strategy == "Manual", Says: st.Waits(sub)}
		z.On, z.Way = onUpdate(st, sub)
		for _, state := range states {
			n := sub.Bar.Of(state)
			if n > 0 {
				z.Bars = append(z.Bars, bar{state, z.Total, n})
			}
			z.Total += n
		}
		for _, r := range slices.Backward(sub.Replicas) {
			c := cell{
				Name: cmp.Or(r.Name, fmt.Sprintf("%s-%d", sub.Workload, r.Position)), State: r.State, Revision: r.Revision, Why: r.Why, Node: r.Node,
				Position: r.Position, To: r.Position, Count: 1, On: st.Update != nil && r.Revision == st.Update.Name,
			}
			switch c.Label = label(r.Revision); {
			case r.State == view.Missing:
				c.Label = ""
			case r.Revision == "" && len(r.Images) > 0:
				c.Label = (&view.Revision{Images: r.Images}).String()
			}
			into := &z.Above
			if r.Position >= 0 && r.Position < sub.Protected || r.Position < 0 && (r.State == view.Protected || r.State == view.Down) {
				into = &z.Below
			}
			if last := len(*into) - 1; len(sub.Replicas) > tall && last >= 0 && alike(&(*into)[last], &c) {
				group := &(*into)[last]
				group.To, group.Last, group.Node = c.Position, c.Name, ""
				group.Count++
				continue
			}
			*into = append(*into, c)
		}
		zones = append(zones, z)
	}
	return zones
}

// onUpdate counts the replicas of a subset that run the update revision, and those that are released and do not run it yet.
func onUpdate(st *view.Status, sub *view.Subset) (on, way int32) {
	if len(sub.Replicas) == 0 {
		return sub.Updated, max(0, sub.Bar.Updating-max(0, sub.Updated-sub.Bar.Updated))
	}
	for i := range sub.Replicas {
		switch r := &sub.Replicas[i]; {
		case st.Update != nil && r.Revision == st.Update.Name:
			on++
		case r.State == view.Updating:
			way++
		}
	}
	return on, way
}

// alike reports whether a replica belongs to a group. What it waits for may have another time in it.
func alike(group, c *cell) bool {
	return group.State == c.State && group.Revision == c.Revision && group.Label == c.Label && (group.Why == "") == (c.Why == "")
}

// Text says of a cell what its mark does not.
func (c cell) Text() string {
	words := map[string]string{
		view.Updated: "updated", view.Updating: "not yet updated and available", view.Protected: "protected", view.Down: "protected, not available", view.Broken: "failed", view.Missing: "missing",
	}
	text := words[c.State]
	switch {
	case c.State == view.Updating && c.On:
		text = "updated, not available"
	case c.State == view.Updating && c.Why == "":
		text = "released, next to be updated"
	}
	return text
}

// Bad reports whether one should look at a zone first.
func (z zone) Bad() bool { return z.Bar.Broken > 0 || z.Phase == string(v1alpha1.PhaseStalled) }

// Mark is the mark of the whole zone.
func (z zone) Mark() string {
	switch {
	case z.Bad():
		return marks[view.Broken]
	case z.Bar.Missing > 0 || z.Bar.Updating > 0 || z.Bar.Down > 0:
		return marks[view.Updating]
	case z.Bar.Protected > 0:
		return marks[view.Protected]
	}
	return marks[view.Updated]
}

// labeler returns short names of revisions: their images, and where these do not tell them apart, with the end of their own name.
func labeler(h *view.History, st *view.Status) func(string) string {
	labels, taken := map[string]string{}, map[string]int{}
	all := map[string]*view.Revision{}
	for _, r := range []*view.Revision{st.Current, st.Update} {
		if r != nil {
			all[r.Name] = r
		}
	}
	for i := range h.Revisions {
		all[h.Revisions[i].Name] = &h.Revisions[i].Revision
	}
	for name, r := range all {
		labels[name] = r.ImageNames()
		taken[labels[name]]++
	}
	return func(name string) string {
		label := labels[name]
		switch {
		case name == "":
			return "unknown revision"
		case label == "":
			return known.Short(name)
		case taken[label] > 1:
			return label + " (" + strings.TrimPrefix(known.Short(name), st.Name+"-") + ")"
		}
		return label
	}
}
