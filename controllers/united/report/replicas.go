// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// unschedulableAfter is how long a replica must fit on no node before that is a reason of its own: a scheduler
// often finds a place a moment later, when another pod is gone.
const unschedulableAfter = 30 * time.Second

// unschedulableMessages returns, for each subset, how many replicas have fit on no node for a while, and the
// message of the scheduler for the one that has waited longest.
func unschedulableMessages(tallies []*tally, now time.Time) []string {
	var said []string
	for _, t := range tallies {
		count := 0
		for _, r := range t.unschedulable {
			if !r.UnschedulableSince.Add(unschedulableAfter).After(now) {
				count++
			}
		}
		if count > 0 {
			said = append(said, fmt.Sprintf("%s: no node fits %d of %d replicas: %s", t.name, count, t.counts.Replicas, t.unschedulable[0].Describe()))
		}
	}
	return said
}

// unschedulableAt returns when time alone makes a replica of the subset count as unschedulable; zero if never.
func (t *tally) unschedulableAt(now time.Time) time.Time {
	for _, r := range t.unschedulable {
		if at := r.UnschedulableSince.Add(unschedulableAfter); at.After(now) {
			return at
		}
	}
	return time.Time{}
}

// failedReplicas returns the replicas of a child that failed on the update revision, if no coordinated rollout handles
// them. They freeze nothing: the user decides what to do about them. A revision that all replicas ran before is proven.
//
// Before the first replica was ready, only an image that cannot be pulled counts: a container that crashes may wait for something
// else that is installed together with it.
func failedReplicas(in *planner.Input, p *planner.Plan, t *tally) (failed []*adapters.Replica) {
	if in.Paused() || !t.facts.OnUpdate || !t.facts.Observed.SpecObserved || p.Initialized && (in.Coordinates() || p.GoesBack) {
		return nil
	}
	for _, r := range t.replicas {
		if p.Initialized && r.Failed || !p.Initialized && r.HasNoImage() && !r.Terminating {
			failed = append(failed, r.Replica)
		}
	}
	return failed
}

// replicaFailed describes the failure of updated replicas that no coordinated rollout handles: which replicas, and
// whether waiting alone will not help; "" if none has failed.
func replicaFailed(in *planner.Input, p *planner.Plan, tallies []*tally) (message string, stalled bool) {
	var said []string
	for _, t := range tallies {
		for _, r := range t.failed {
			said = append(said, r.Describe())
			failed, _ := in.Terms().FailedForGood(*r)
			stalled = stalled || failed
		}
	}
	if len(said) == 0 {
		return "", false
	}
	remedy := " failed; fix the template"
	if p.Initialized {
		remedy += ", or go back to the previous one"
	}
	return shortenTo(said, ", ", "replicas") + remedy, stalled
}

// notHonored returns the reason and the message of Ready if everything is as it should be, except that subsets do
// not get the replicas that they ask for. Ready stays True, because an autoscaler that drives spec.replicas must
// not make a release fail. A reason that needs attention takes precedence.
func notHonored(p *planner.Plan, reason, message string) (string, string) {
	if reason == v1alpha1.ReasonRolloutComplete || reason == v1alpha1.ReasonRolloutHeld {
		reason = v1alpha1.ReasonReplicasNotHonored
	}
	return reason, joined(message, p.Allocation.Reason, split(p))
}

// split returns how many replicas each subset gets, if subsets do not get what they ask for; otherwise "".
func split(p *planner.Plan) string {
	var said []string
	for _, s := range p.Subsets {
		if p.Allocation.Honored || s.Removed {
			continue
		}
		text := fmt.Sprintf("%s gets %d", s.Name, s.Desired)
		if asked := asksFor(s.Subset.Subset); asked != "" {
			text += " (asks for " + asked + ")"
		}
		said = append(said, text)
	}
	return shorten(said, ", ")
}

// shortfall describes that a subset does not have the replicas that it asks for; "" if it has them, or asks for
// none.
func shortfall(p *planner.Plan, s *planner.SubsetPlan) string {
	asked := asksFor(s.Subset.Subset)
	if p.Allocation.Honored || asked == "" || s.Replicas != nil && *s.Replicas == intstr.FromInt32(s.Desired) || within(s) {
		return ""
	}
	of := "replicas"
	switch {
	case strings.HasSuffix(asked, "%"):
		of = "of all replicas"
	case asked == "1", strings.HasSuffix(asked, " 1"):
		of = replicasWord(1)
	}
	return fmt.Sprintf("asks for %s %s, gets %d", asked, of, s.Desired)
}

// asksFor returns what a subset asks for, in words; "" if it takes the rest.
func asksFor(s *v1alpha1.Subset) string {
	switch {
	case s.MinReplicas != nil && s.MaxReplicas != nil:
		return s.MinReplicas.String() + " to " + s.MaxReplicas.String()
	case s.MinReplicas != nil:
		return "at least " + s.MinReplicas.String()
	case s.MaxReplicas != nil:
		return "at most " + s.MaxReplicas.String()
	case s.Replicas != nil:
		return s.Replicas.String()
	}
	return ""
}

// within reports whether a subset has a minimum or a maximum, as a number, and its replicas are within these.
func within(s *planner.SubsetPlan) bool {
	number := func(bound *intstr.IntOrString, absent int32) (int32, bool) {
		if bound == nil {
			return absent, true
		}
		return bound.IntVal, bound.Type == intstr.Int
	}
	low, isLow := number(s.MinReplicas, 0)
	high, isHigh := number(s.MaxReplicas, math.MaxInt32)
	return (s.MinReplicas != nil || s.MaxReplicas != nil) && isLow && isHigh && s.Desired >= low && s.Desired <= high
}

// joined joins the texts that are not empty.
func joined(texts ...string) string {
	return strings.Join(slices.DeleteFunc(texts, func(t string) bool { return t == "" }), "; ")
}
