// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/publish"
	"github.com/unitedworkloads/united/controllers/united/report"
)

// mostWaysOut bounds how many suggested actions are tried one after the other.
const mostWaysOut = 3

// end is a state in which nothing more happens, and its status.
type end[S comparable] struct {
	*schedule[S]
	s     *S
	core  *Core
	ready *metav1.Condition
	said  string
	Look
}

// Rest is a state in which nothing more happens, the last pass, and the status that it has written.
type Rest[S comparable] struct {
	schedule *schedule[S]
	S        *S
	Pass     *Pass
	Status   *v1alpha1.UnitedDeploymentStatus
	// WayOut: the user has done something so that a world goes on that had come to rest.
	WayOut bool
}

// Is reports whether a condition is True.
func (r *Rest[S]) Is(condition string) bool {
	return meta.IsStatusConditionTrue(r.Status.Conditions, condition)
}

// Continues runs the world on to its end after the user has done something, and says what is wrong with that.
func (r *Rest[S]) Continues(how string, f func(*S)) string { return r.schedule.continues(how, r.S, f) }

// ending checks such a state: nothing is written anymore; Ready is True if and only if everything is as the spec asks
// for; and a status that is not Ready says why, and suggests an action that helps (I6, and docs/troubleshooting.md).
func (c *schedule[S]) ending(s *S) string {
	after, x, status := c.passWhole(s)
	if len(x.Does()) > 0 || c.ageless != nil && after != *s {
		return fmt.Sprint(Breach{"rest", fmt.Sprintf("at rest it writes %v", x.Does())})
	}
	e := &end[S]{schedule: c, s: s, core: c.Core(s), ready: meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady), Look: c.Look(s)}
	e.said = fmt.Sprintf("Ready=%s %s %q stalled=%v", e.ready.Status, e.ready.Reason, e.ready.Message,
		meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled))
	for _, sub := range status.Subsets {
		e.said += fmt.Sprintf("; %s: %s %q", sub.Name, sub.Phase, sub.Message)
	}
	if c.ageless != nil {
		if e.Wrong = c.writesStatus(s, x, status); e.Wrong == "" {
			e.Wrong = c.ageless.Ending(&Rest[S]{c, s, x, status, c.depth > 0})
		}
	}
	switch {
	case e.Wrong != "":
		return e.wrong("%s", e.Wrong)
	case c.ageless != nil:
		return ""
	case e.ready.Status == metav1.ConditionTrue:
		return e.whenReady()
	}
	return e.whenNotReady()
}

// writesStatus: on top of its status a pass writes no other one.
func (c *schedule[S]) writesStatus(s *S, x *Pass, status *v1alpha1.UnitedDeploymentStatus) string {
	in := c.w.Input(c.Core(s))
	c.Read(in, s, s)
	in.Parent.Status = *status
	if again, _ := report.Status(in, planner.Make(in), x.results(), report.Undone{}); publish.Compare(status, again) != publish.Same {
		return fmt.Sprint(Breach{"rest", "at rest it writes the status"})
	}
	return ""
}

func (e *end[S]) wrong(how string, args ...any) string {
	return fmt.Sprintf(how, args...) + " :: " + e.said
}

// goesOn runs the world on to its end after an edit.
func (e *end[S]) goesOn(how string, f func(*Core)) string {
	return e.continues(how, e.s, func(s *S) { f(e.Core(s)) })
}

func (e *end[S]) resume() string {
	return e.goesOn("resume", func(s *Core) { s.Paused = false })
}

func (e *end[S]) whenReady() string {
	switch {
	case e.Left != "":
		return e.wrong("%s is removed and still there", e.Left)
	case e.Total != int(e.core.Replicas):
		return e.wrong("Ready and %d of %d replicas", e.Total, e.core.Replicas)
	case !e.AllReady:
		return e.wrong("Ready and not all are ready")
	case !e.Arrived && !e.core.Paused && e.core.Replicas > 0:
		return e.wrong("Ready and not arrived")
	case e.core.Paused && e.depth < mostWaysOut:
		return e.resume()
	}
	return ""
}

func (e *end[S]) whenNotReady() string {
	switch {
	case e.depth >= mostWaysOut:
		return e.wrong("the ways out lead nowhere")
	case e.core.Paused:
		if wrong := e.resume(); wrong != "" {
			return wrong
		}
		if e.w.Bad == 0 && !e.kind.scarred { // scaling and repair continue
			return e.wrong("paused and kind, and not ready")
		}
		return ""
	case e.WayOut != nil && !strings.Contains(e.said, e.Says):
		return e.wrong("it does not say %q", e.Says)
	case e.WayOut != nil:
		return e.goesOn("the way out", e.WayOut)
	case e.Failed:
		return e.whenFailed()
	case e.ready.Reason == v1alpha1.ReasonBlocked:
		return e.whenBlocked()
	case !e.kind.scarred && e.w.Bad == 0:
		return e.wrong("not ready in a kind world")
	case !strings.Contains(e.said, "waiting") && !strings.Contains(e.said, "stalled=true"):
		return e.wrong("it does not say what it waits for")
	case e.w.Rolling(e.core) && !e.Arrived:
		return e.wrong("it stands still for something old, and is not Blocked")
	}
	return ""
}

// whenFailed checks that a failure is reported, unless the user has forced it, and that another template ends it.
func (e *end[S]) whenFailed() string {
	if e.ready.Reason != v1alpha1.ReasonReplicaFailed && e.w.Rolling(e.core) && e.core.Forced == 0 {
		return e.wrong("an updated replica failed and nobody says so")
	}
	for v := uint8(1); v <= MaxVersion; v++ {
		if e.w.Bad&Bit(v) == 0 && v != e.core.Version {
			if wrong := e.goesOn(fmt.Sprintf("template v%d", v), func(s *Core) { s.Version = v }); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// whenBlocked checks that the status suggests an action, and that force helps if it is suggested.
func (e *end[S]) whenBlocked() string {
	if strings.Contains(e.ready.Message, "force-update") {
		return e.goesOn("force", func(s *Core) { s.Forced = e.w.Text(e.w.UpdateRevision(s)) })
	}
	if !strings.Contains(e.ready.Message, "raise") {
		return e.wrong("Blocked without a way out")
	}
	return ""
}
