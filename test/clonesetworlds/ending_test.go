// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// mostWaysOut is how many ways out are gone one after the other.
const mostWaysOut = 3

// end is a world in which nothing more happens, and what the status says of it.
type end struct {
	*schedule
	s     *state
	ready *metav1.Condition
	said  string
	// arrived: every subset is where the spec wants it; allReady: every pod is ready. total is how many
	// there are.
	arrived, allReady bool
	total             int
}

// ending says what is wrong with an end: nothing is written; Ready is true when all is as the spec asks for,
// and only then; what is not ready says why, and names a way out that helps (I6, and docs/troubleshooting.md).
func (c *schedule) ending(s *state) string {
	_, x, status := c.w.passWhole(s)
	if len(x.does()) > 0 {
		return fmt.Sprintf("at rest it writes %v", x.does())
	}
	e := &end{schedule: c, s: s, ready: meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady), arrived: true, allReady: true}
	e.said = fmt.Sprintf("Ready=%s %s %q stalled=%v", e.ready.Status, e.ready.Reason, e.ready.Message,
		meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionStalled))
	for _, sub := range status.Subsets {
		e.said += fmt.Sprintf("; %s: %s %q", sub.Name, sub.Phase, sub.Message)
	}
	if wrong := e.look(); wrong != "" {
		return wrong
	}
	if e.ready.Status == metav1.ConditionTrue {
		return e.whenReady()
	}
	return e.whenNotReady()
}

func (e *end) wrong(how string, args ...any) string {
	return fmt.Sprintf(how, args...) + " :: " + e.said
}

// look compares the world with the spec.
func (e *end) look() string {
	for k := range e.s.Children {
		c := &e.s.Children[k]
		if !e.s.has(k) {
			if c.Exists && e.ready.Status == metav1.ConditionTrue {
				return e.wrong("%s is removed and still there", subsetName(k))
			}
			e.arrived = e.arrived && !c.Exists
			continue
		}
		e.total += c.count()
		e.allReady = e.allReady && c.count(func(p *pod) bool { return p.Phase != ready }) == 0
		if c.count(of(e.s.Version)) < c.count()-e.w.partition(e.s, k) {
			e.arrived = false
		}
		if wrong := e.protected(k); wrong != "" {
			return wrong
		}
	}
	return ""
}

// protected: "as many as the partition says run the protected version in the end" (workloads.md), but for those that the
// user has released before, which "stay so until something else replaces them" (design.md).
func (e *end) protected(k int) string {
	c := &e.s.Children[k]
	protects := e.w.protects(e.s, k)
	want := min(e.w.partition(e.s, k), int(c.Replicas)-int(c.Released))
	// While a pod is broken nothing healthy is taken beside it.
	if e.s.Paused || !e.w.initialized(e.s) || c.count(not(isReady)) > 0 || c.count(in(protects)) >= want {
		return ""
	}
	if bit(c.Current)&protects == 0 && e.w.except(forgets) {
		return ""
	}
	return e.wrong("in the end %s has %d of %b, and protects %d", subsetName(k), c.count(in(protects)), protects, want)
}

func (e *end) whenReady() string {
	switch {
	case e.total != int(e.s.Replicas):
		return e.wrong("Ready and %d of %d pods", e.total, e.s.Replicas)
	case !e.allReady:
		return e.wrong("Ready and not all are ready")
	case !e.arrived && !e.s.Paused && e.s.Replicas > 0:
		return e.wrong("Ready and not arrived")
	case e.s.Paused && e.depth < mostWaysOut:
		return e.goesOn("resume", e.s, func(s *state) { s.Paused = false })
	}
	return ""
}

func (e *end) whenNotReady() string {
	switch {
	case e.depth >= mostWaysOut:
		return e.wrong("the ways out lead nowhere")
	case e.s.Paused:
		if wrong := e.goesOn("resume", e.s, func(s *state) { s.Paused = false }); wrong != "" {
			return wrong
		}
		if e.w.bad == 0 && !e.scarred { // scaling and repair go on
			return e.wrong("paused and kind, and not ready")
		}
		return ""
	case e.s.failed():
		return e.whenFailed()
	case e.ready.Reason == v1alpha1.ReasonBlocked:
		return e.whenBlocked()
	case !e.scarred && e.w.bad == 0:
		return e.wrong("not ready in a kind world")
	case !strings.Contains(e.said, "waiting") && !strings.Contains(e.said, "stalled=true"):
		return e.wrong("it does not say what it waits for")
	case e.w.rolling(e.s) && !e.arrived:
		return e.wrong("it stands still for something old, and is not Blocked")
	}
	return ""
}

// whenFailed: a failure is said, and another template ends it.
func (e *end) whenFailed() string {
	if e.ready.Reason != v1alpha1.ReasonReplicaFailed && e.w.rolling(e.s) {
		return e.wrong("an updated replica failed and nobody says so")
	}
	for v := uint8(1); v <= maxVersion; v++ {
		if e.w.bad&bit(v) == 0 && v != e.s.Version {
			if wrong := e.goesOn(fmt.Sprintf("template v%d", v), e.s, func(s *state) { s.Version = v }); wrong != "" {
				return wrong
			}
		}
	}
	return ""
}

// whenBlocked: a way out is named, and force helps where it is.
func (e *end) whenBlocked() string {
	if strings.Contains(e.ready.Message, "force-update") {
		return e.goesOn("force", e.s, func(s *state) { s.Forced = e.w.text(e.w.updateRevision(s)) })
	}
	if !strings.Contains(e.ready.Message, "raise") {
		return e.wrong("Blocked without a way out")
	}
	return ""
}
