// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// annotationChangeCause says why there is a revision; people set it.
const annotationChangeCause = "kubernetes.io/change-cause"

// History is the revisions of one UnitedDeployment, the one used last at the end.
type History struct {
	Namespace string  `json:"namespace"`
	Name      string  `json:"name"`
	Revisions []Entry `json:"revisions"`
	// Unknown is how many replicas run a revision that is not known.
	Unknown int32 `json:"unknown,omitempty"`
	// Unseen says why it is not known who runs the revisions; "" if it is.
	Unseen string `json:"unseen,omitempty"`
}

// Entry is one revision.
type Entry struct {
	Number int64 `json:"number"`
	Revision
	Created string `json:"created"`
	// ChangeCause is the annotation kubernetes.io/change-cause of the ControllerRevision.
	ChangeCause string `json:"changeCause,omitempty"`
	// Marks are some of: current, update, rejected, left.
	Marks []string `json:"marks,omitempty"`
	// RunBy are the subsets that run it, and with how many replicas.
	RunBy []RunBy `json:"runBy,omitempty"`
}

// RunBy is how many replicas of a subset run a revision.
type RunBy struct {
	Subset   string `json:"subset"`
	Replicas int32  `json:"replicas"`
}

// HistoryOf returns the history of a parent from its revisions in order. in is its world; nil if it could not be read, and then
// unseen says why.
func HistoryOf(parent *v1alpha1.UnitedDeployment, revisions []*revision.Revision, in *planner.Input, unseen string) *History {
	h := &History{Namespace: parent.Namespace, Name: parent.Name, Revisions: []Entry{}, Unseen: unseen}
	adapter, err := all.Registry().For(&parent.Spec.Template)
	if err != nil {
		adapter = nil
	}
	users := h.users(parent, in)
	for _, r := range revisions {
		e := Entry{
			Number: r.Number, Revision: Revision{Name: r.Name}, Created: r.Object.CreationTimestamp.UTC().Format(time.RFC3339),
			ChangeCause: r.Object.Annotations[annotationChangeCause], RunBy: users[r.Name],
		}
		if adapter != nil {
			e.Images = Images(adapter, r)
		}
		for _, mark := range []struct {
			text string
			has  bool
		}{{"current", r.Name == parent.Status.CurrentRevision}, {"update", r.Name == parent.Status.UpdateRevision}, {"rejected", r.Rejected() != ""}, {"left", r.WentBack() && r.Rejected() == ""}} {
			if mark.has {
				e.Marks = append(e.Marks, mark.text)
			}
		}
		h.Revisions = append(h.Revisions, e)
		delete(users, r.Name)
	}
	for _, lost := range users {
		for _, by := range lost {
			h.Unknown += by.Replicas
		}
	}
	return h
}

// users returns who runs which revision, in the order of the status.
func (h *History) users(parent *v1alpha1.UnitedDeployment, in *planner.Input) map[string][]RunBy {
	users := map[string][]RunBy{}
	if in == nil {
		return users
	}
	for i := range parent.Status.Subsets {
		name := parent.Status.Subsets[i].Name
		observed := in.Observed(name)
		if observed == nil {
			continue
		}
		counts := map[string]int32{}
		for p := range observed.Pods {
			counts[runs(observed, &observed.Pods[p])]++
		}
		h.Unknown += counts[""]
		delete(counts, "")
		for r, n := range counts {
			users[r] = append(users[r], RunBy{name, n})
		}
	}
	return users
}

// PrintHistory writes a history.
func (s Style) PrintHistory(w io.Writer, h *History, now time.Time) {
	head, causes := []cell{{"REVISION", dim}, {"NAME", dim}, {"AGE", dim}, {"STATE", dim}, {"IMAGES", dim}}, false
	for i := range h.Revisions {
		causes = causes || h.Revisions[i].ChangeCause != ""
	}
	if causes {
		head = append(head, cell{"CHANGE-CAUSE", dim})
	}
	rows := [][]cell{append(head, cell{"RUN BY", dim})}
	for i := range h.Revisions {
		e := &h.Revisions[i]
		age := "?"
		if created, err := time.Parse(time.RFC3339, e.Created); err == nil {
			age = duration.HumanDuration(now.Sub(created))
		}
		row := []cell{{fmt.Sprint(e.Number), ""}, {known.Short(e.Name), bold}, {age, ""}, {strings.Join(e.Marks, ","), green}, {e.ImageNames(), ""}}
		if causes {
			row = append(row, cell{e.ChangeCause, ""})
		}
		var by []string
		for _, r := range e.RunBy {
			by = append(by, fmt.Sprintf("%d of %s", r.Replicas, r.Subset))
		}
		rows = append(rows, append(row, cell{strings.Join(by, ", "), ""}))
	}
	s.table(w, rows)
	if h.Unknown > 0 {
		_, _ = fmt.Fprintf(w, "\nIt is not known which revision %s.\n", runText(h.Unknown))
	}
	if h.Unseen != "" {
		_, _ = fmt.Fprintln(w, s.paint(dim, "\nNot seen: "+h.Unseen))
	}
}

func runText(n int32) string {
	if n == 1 {
		return "1 replica runs"
	}
	return fmt.Sprintf("%d replicas run", n)
}
