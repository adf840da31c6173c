// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/change"
	"github.com/unitedworkloads/united/cmd/kubectl-united/drive"
	"github.com/unitedworkloads/united/cmd/kubectl-united/foresee"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// action is a button.
type action struct {
	Verb, Label string
	// Plans: the plan is shown before. Primary: somebody waits for it.
	Plans, Primary bool
	// Does says what it does; "" if its label does.
	Does string
	// Reason is why it cannot be pressed; "" if it can.
	Reason string
}

// asked is what a button asks for. It is bound to what was in view.
type asked struct {
	verb, zone, value, to              string
	uid, generation, revision, approve string
}

func askedOf(r *http.Request) asked {
	return asked{
		r.PostFormValue("verb"), r.PostFormValue("zone"), r.PostFormValue("value"), r.PostFormValue("to"),
		r.PostFormValue("uid"), r.PostFormValue("generation"), r.PostFormValue("revision"), r.PostFormValue("approve"),
	}
}

// deed returns what a button does. in is the world of the parent, nil if it could not be read, and revisions are its own.
func (a *asked) deed(parent *v1alpha1.UnitedDeployment, in *planner.Input, revisions []*revision.Revision) (*drive.Deed, error) {
	switch a.verb {
	case "approve":
		return drive.Approve(parent)
	case "pause":
		return drive.Pause(parent, true)
	case "resume":
		return drive.Pause(parent, false)
	case "promote":
		return drive.Promote.Of(parent, time.Now())
	case "force":
		return drive.Force.Of(parent, time.Now())
	case "undo":
		return drive.GoBack(parent, in, revisions, a.to)
	case "hold":
		return drive.Hold(parent, nil)
	case "retry":
		return drive.Retry(parent, time.Now())
	case "partition":
		// All of them is a hold, also when the subset grows; a number would not be.
		if s := world.SubsetStatus(&parent.Status, a.zone); s != nil && a.value == fmt.Sprint(s.DesiredReplicas) {
			return drive.Hold(parent, []string{a.zone})
		}
		return drive.Partitions(parent, []string{a.zone + "=" + a.value}, change.Set)
	}
	return nil, fmt.Errorf("there is no action %q", a.verb)
}

// question is what is asked before it; "" for none.
func (a *asked) question(parent *v1alpha1.UnitedDeployment) string {
	switch a.verb {
	case "promote":
		return drive.Promote.Question(parent)
	case "force":
		return drive.Force.Question(parent)
	}
	return ""
}

// actionsOf are the buttons for the whole object. Why one cannot be pressed is what the command would say.
func actionsOf(parent *v1alpha1.UnitedDeployment, in *planner.Input, revisions []*revision.Revision, forbidden string) []action {
	var all []action
	if parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		all = append(all, action{Verb: "approve", Label: "Approve", Primary: true, Does: view.Releases(parent)}, action{Verb: "promote", Label: "Promote", Plans: true})
	}
	// Each at its own place: the second click of a double click must not take the first one back.
	all = append(all, action{Verb: "pause", Label: "Pause"}, action{Verb: "resume", Label: "Resume", Primary: true})
	if parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy {
		all = append(all, action{Verb: "force", Label: "Force", Plans: true})
		if r := parent.Status.Rollout; r != nil && r.RejectedRevision != "" {
			all = append(all, action{Verb: "retry", Label: "Retry"})
		} else if r != nil && len(r.Checks) > 0 {
			all = append(all, action{Verb: "retry", Label: "Retry checks"})
		}
	} else {
		all = append(all, action{Verb: "hold", Label: "Hold all"})
	}
	all = append(all, action{Verb: "undo", Label: "Undo", Plans: true})
	for i := range all {
		a := asked{verb: all[i].Verb}
		all[i].Reason = forbidden
		if _, err := a.deed(parent, in, revisions); err != nil && forbidden == "" {
			all[i].Reason = err.Error()
		}
	}
	return all
}

// bound returns the parent and what is to be done, if the parent is still what was in view.
func (s *server) bound(ctx context.Context, r *http.Request, a *asked) (*v1alpha1.UnitedDeployment, *drive.Deed, error) {
	key, user := keyOf(r), s.user(newSeen())
	read := func(ctx context.Context) (*v1alpha1.UnitedDeployment, error) {
		return look.One(ctx, s.api, key.Namespace, key.Name)
	}
	parent, err := read(ctx)
	if err != nil {
		return nil, nil, drive.Explained(err)
	}
	if err := a.stale(parent); err != nil {
		return nil, nil, err
	}
	if a.verb != "pause" { // that must always work
		if parent, err = drive.InView(ctx, read, a.revision); err != nil {
			return nil, nil, err
		}
	}
	var in *planner.Input
	var revisions []*revision.Revision
	if a.verb == "undo" {
		in, _ = user.World(ctx, parent)
		if revisions, err = user.Revisions(ctx, parent); err != nil {
			return nil, nil, err
		}
	}
	d, err := a.deed(parent, in, revisions)
	return parent, d, err
}

// stale returns an error if the parent is no longer what was in view.
func (a *asked) stale(parent *v1alpha1.UnitedDeployment) error {
	switch status := &parent.Status; {
	case a.uid != string(parent.UID):
		return fmt.Errorf("%s is another one than you looked at: %w", parent.Name, errStale)
	case a.revision != status.UpdateRevision:
		return fmt.Errorf("the update revision of %s is %s, and no longer %s: %w", parent.Name, status.UpdateRevision, a.revision, errStale)
	case a.generation != strconv.FormatInt(parent.Generation, 10):
		return fmt.Errorf("somebody has changed %s since you looked at it: %w", parent.Name, errStale)
	case a.verb == "approve" && (status.Rollout == nil || a.approve != status.Rollout.ApprovalKey):
		return fmt.Errorf("%s waits for another approval than you looked at: %w", parent.Name, errStale)
	}
	return nil
}

// proposed is what a button would do.
type proposed struct {
	At                                              string
	Verb, Zone, Value, To                           string
	UID, Generation, Revision, Key, Title, Question string
	Command                                         string
	What                                            string
	Notes                                           []string
	Plan                                            *foresee.Plan
	Text                                            string
	Error                                           string
}

// plan shows what a button would do.
func (s *server) plan(w http.ResponseWriter, r *http.Request) {
	a := askedOf(r)
	p := &proposed{
		At: "/" + s.token + "/o/" + r.PathValue("namespace") + "/" + r.PathValue("name"), Verb: a.verb, Zone: a.zone, Value: a.value, To: a.to,
		UID: a.uid, Generation: a.generation, Revision: a.revision, Key: a.approve,
	}
	parent, d, err := s.bound(r.Context(), r, &a)
	if err == nil && len(d.Operations) == 0 {
		err = fmt.Errorf("%s: its pods are like that already", parent.Name)
	}
	if err == nil {
		p.Question, p.What, p.Notes = a.question(parent), d.What, d.Notes
		if p.Command, err = d.Command(parent); err == nil {
			p.Plan, err = s.user(newSeen()).PlanOf(r.Context(), parent, d)
		}
	}
	if err != nil {
		p.Error = err.Error()
	} else {
		p.Text = view.PlanText(p.Plan)
	}
	show(w, "proposed", p)
}

// done is what became of a change.
type done struct{ Name, What, Command, Error string }

// do makes a change.
func (s *server) do(w http.ResponseWriter, r *http.Request) {
	a, result := askedOf(r), done{Name: r.PathValue("name")}
	parent, d, err := s.bound(r.Context(), r, &a)
	if err == nil {
		if result.Command, err = d.Command(parent); err == nil {
			_, err = s.user(newSeen()).Act(r.Context(), parent, d, false)
		}
	}
	if err != nil {
		result.Error = err.Error()
	} else {
		result.What = d.What
	}
	show(w, "done", result)
}
