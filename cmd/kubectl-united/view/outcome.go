// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"io"
	"strings"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Outcome is what a change of the pods leads to, according to the planner.
type Outcome struct {
	// Revision is the update revision after the change. New: there was none with these pods.
	Revision string
	New      bool
	// Rejected: it was rejected, and is not rolled out.
	Rejected bool
	// Back: all replicas ran it before, and partitions and steps do not hold it.
	Back bool
	// Stopped: the spec is paused. Coordinated: the strategy is RollingUpdate.
	Stopped, Coordinated bool
	// Refused are the subsets whose child the API server refused before the change.
	Refused []string
	// Held are the subsets that keep replicas on what they run.
	Held []Kept
	// Released is how many replicas go to the revision at once, or one after the other, without another command.
	Released int32
}

// Kept is how many of the replicas of a subset are held.
type Kept struct {
	Subset            string
	Replicas, Desired int32
}

// OutcomeOf returns what a change leads to. in is the world with the changed parent.
func OutcomeOf(in *planner.Input) *Outcome {
	p := planner.Make(in)
	o := &Outcome{
		Revision: in.Asked().Name, New: revision.ByName(in.Kept(), in.Asked().Name) == nil, Rejected: in.Rejected != nil,
		Back:    p.GoesBack || p.Initialized && p.CurrentRevision == in.Update.Name,
		Stopped: in.Parent.Spec.Paused, Coordinated: in.Coordinates(), Refused: RefusedIn(in.Parent),
	}
	for _, s := range p.Subsets {
		if s.Removed {
			continue
		}
		held := min(s.Desired, s.Decision.Partition)
		if s.Decision.Held {
			held = s.Desired
		}
		if o.Back || s.Proven || !p.Initialized {
			held = 0
		}
		below, above := alreadyOn(s.Observed, in.Update.Name, held)
		o.Released += max(0, s.Desired-held-above)
		if held -= below; held > 0 {
			o.Held = append(o.Held, Kept{s.Name, held, s.Desired})
		}
	}
	return o
}

// alreadyOn returns how many replicas of a child run a revision at positions below a partition, and how many from there on.
func alreadyOn(observed *adapters.Observed, name string, partition int32) (below, above int32) {
	if observed == nil {
		return 0, 0
	}
	for i := range observed.Pods {
		switch r := &observed.Pods[i]; {
		case runs(observed, r) != name:
		case r.Position < partition:
			below++
		default:
			above++
		}
	}
	return below, above
}

// PrintOutcome writes what happens after a change of the named UnitedDeployment, and what is left to do.
func (s Style) PrintOutcome(w io.Writer, name string, o *Outcome) {
	if o.Stopped {
		_, _ = fmt.Fprintf(w, "%s is paused: no replica is updated until you run: %s\n", name, s.Command("resume "+name))
	}
	if text := RefusalText(o.Refused, s.Command("why "+name)); len(o.Refused) > 0 && !o.Back { // going back has a note of its own
		_, _ = fmt.Fprintf(w, "%s\n", strings.ToUpper(text[:1])+text[1:])
	}
	switch {
	case o.Rejected:
		_, _ = fmt.Fprintf(w, "%s\n", s.paint(yellow, known.Short(o.Revision)+" was rejected when it failed, so it is not rolled out. To roll it out once more: "+s.Command("retry "+name)))
	case o.Back && o.Coordinated:
		_, _ = fmt.Fprintf(w, "This is the way back: no step or approval holds it.\n")
	case o.Back:
		_, _ = fmt.Fprintf(w, "Every replica that runs something else goes to it, whatever the partitions: nothing is held.\n")
	case o.Coordinated:
		_, _ = fmt.Fprintf(w, "The rollout moves by itself: %s\n", s.Command("status "+name+" --watch"))
	case len(o.Held) == 0:
		_, _ = fmt.Fprintf(w, "No partition holds it: it is rolled out now.\n")
	default:
		s.printHeld(w, name, o)
	}
}

func (s Style) printHeld(w io.Writer, name string, o *Outcome) {
	var held []string
	for _, k := range o.Held {
		held = append(held, fmt.Sprintf("%d of %d in %s", k.Replicas, k.Desired, k.Subset))
	}
	if o.Released > 0 {
		_, _ = fmt.Fprintf(w, "Replicas that no partition protects, and that go to it now: %d\n", o.Released)
	}
	_, _ = fmt.Fprintf(w, "%s\n", s.paint(yellow, "The partitions hold "+shorten(held, 4)+" on what they run."))
	_, _ = fmt.Fprintf(w, "To release one: %s\n", s.Command("release "+name+" "+o.Held[0].Subset))
}
