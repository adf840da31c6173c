// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// kindness is how kind the world becomes when I6 is checked: no more faults, new pods become ready, everybody acts
// in turn, time passes, approvals are given, and pauses end. A requested revision that cannot become ready is
// corrected first.
type kindness struct {
	name string
	// scarred: pods that are not ready, and not on what is asked for now, never become ready again.
	scarred bool
	// hasty: the controller acts before the pods and their controllers do, and not after.
	hasty bool
	// back: what is bad is corrected by going back to v1, and not by another version.
	back bool
}

func kindnesses() []kindness {
	return []kindness{
		{name: "everybody heals"},
		{name: "scarred", scarred: true, back: true},
		{name: "scarred, hasty", scarred: true, hasty: true},
	}
}

// kindSteps bounds a kind schedule: no schedule has needed a third of it.
const kindSteps = 500

// correct puts right what no kindness could repair.
func (n *kindness) correct(c *smallConfig, s *smallState) {
	s.budget = [budgets]uint8{}
	s.parent.soaked, s.parent.approval = false, smallApproval{} // only observers know this
	s.parent.check = 0
	if s.parent.run.state == runUndecided {
		s.parent.run.state = runRuns
	}
	c.correctQuery(s)
	if s.parent.paused {
		s.parent.paused = false
		s.parent.generation++
	}
	if c.bad&bit(s.parent.version) != 0 && !c.goesBackByItself(s) {
		s.parent.generation++
		for s.parent.version = 1; c.bad&bit(s.parent.version) != 0 || !n.back && s.parent.version == 1; s.parent.version++ {
			if s.parent.version > 3 {
				panic("no version is good")
			}
		}
	}
}

// next returns what happens next in a kind world; false when nothing more does.
func (n *kindness) next(c *smallConfig, e *seam, s *smallState) (happened string, any bool) {
	turns := []func(*smallConfig, *seam, *smallState) string{n.pods, n.syncs, n.runs, n.pass, n.approval, n.time}
	if n.hasty {
		turns = []func(*smallConfig, *seam, *smallState) string{n.pass, n.syncs, n.pods, n.runs, n.approval, n.time}
	}
	for _, turn := range turns {
		if happened := turn(c, e, s); happened != "" {
			return happened, true
		}
	}
	return "", false
}

// pods advances one pod.
func (n *kindness) pods(c *smallConfig, _ *seam, s *smallState) string {
	for k := range s.kids {
		for i := range s.kids[k].set.Pods {
			pod := &s.kids[k].set.Pods[i]
			ev := smallEvent{what: happensReady, k: uint8(k), i: uint8(i)}
			bad := c.bad&bit(pod.Version) != 0
			switch {
			case pod.Terminating:
				ev.what = happensEnd
			case !pod.Exists(), pod.Phase == statefulset.Ready, bad && pod.Phase == statefulset.Crashed:
				continue
			case bad:
				ev.what = happensCrash
			case n.scarred && pod.Phase != statefulset.Starting && pod.Version != c.wanted(s):
				continue
			}
			c.happen(s, ev)
			return ev.in(c)
		}
	}
	return ""
}

// syncs runs the first child's controller that has something to do.
func (n *kindness) syncs(c *smallConfig, _ *seam, s *smallState) string {
	for k := range s.kids {
		before := *s
		if ev := (smallEvent{what: happensSync, k: uint8(k)}); s.kids[k].set.Exists {
			if c.happen(s, ev); *s != before {
				return ev.in(c)
			}
		}
	}
	return ""
}

func (n *kindness) pass(_ *smallConfig, e *seam, s *smallState) string {
	before := *s
	pass := e.decide(&before)
	if e.carry(pass, &before, s, pass.everything(), [maxKids + 1]bool{}); *s == before {
		return ""
	}
	return "pass"
}

func (n *kindness) approval(c *smallConfig, _ *seam, s *smallState) string {
	if !approvable(s) {
		return ""
	}
	c.happen(s, smallEvent{what: happensApproval})
	return "approved"
}

// time passes if something is young, so that it comes to an end.
func (n *kindness) time(_ *smallConfig, _ *seam, s *smallState) string {
	young := false
	if rollout := statuses.at(s.parent.status).Rollout; rollout != nil {
		for _, at := range timesIn(rollout) {
			young = young || !at.Before(clockAt(s.parent.now))
		}
	}
	for k := range s.kids {
		for i := range s.kids[k].set.Pods {
			pod := &s.kids[k].set.Pods[i]
			young = young || pod.Exists() && !pod.Aged
		}
	}
	if !young {
		return ""
	}
	s.tick()
	return "time"
}

// timesIn returns the times in the state of a rollout, whatever their names.
func timesIn(rollout *v1alpha1.RolloutStatus) []time.Time {
	var times []time.Time
	v := reflect.ValueOf(rollout).Elem()
	for i := range v.NumField() {
		if at, ok := v.Field(i).Interface().(*metav1.Time); ok && at != nil {
			times = append(times, at.Time)
		}
	}
	return times
}

// ending returns how a kind schedule ends: "" if as it should.
func (n *kindness) ending(c *smallConfig, e *seam, s *smallState) string {
	pass := e.decide(s)
	end := *s
	status := e.carry(pass, s, &end, pass.everything(), [maxKids + 1]bool{})
	if c.failedByRun(status) {
		return ""
	}
	wrong := c.missed(e, s, n)
	if wrong == "" {
		return c.told(e, s, status)
	}
	rollout := status.Rollout
	if rollout == nil || rollout.Phase != v1alpha1.RolloutBlocked {
		if n.scarred && c.bars(e, s) {
			return ""
		}
		return wrong
	}
	ending := wrong + "; Blocked: " + rollout.Message
	if n.scarred && c.bars(e, s) && len(n.ways(c, s, ending)) == 0 {
		return ""
	}
	return ending
}

// missed returns what is not as the spec asks when nothing more happens; "" if nothing.
func (c *smallConfig) missed(e *seam, s *smallState, n *kindness) string {
	j := c.judgedState(e, s)
	for k := range s.kids {
		kid, name := &s.kids[k], subsetName(k)
		if !s.parent.has(k) {
			if kid.set.Exists || kid.set.Pods != ([statefulset.MaxPods]statefulset.Pod{}) {
				return "a child of a subset that is gone is there"
			}
			continue
		}
		switch {
		case !kid.set.Exists:
			return "a child is not made"
		case kid.set.Replicas != j.allotted[k]:
			return "a child has not the replicas that it is allotted"
		case kid.set.Template != j.version:
			return "a child has not the template that is asked for"
		case !kid.set.Observed:
			return "a child is not observed"
		}
		for i := range int(j.allotted[k]) {
			if wrong := j.missedPod(k, i, n); wrong != "" {
				return wrong + " (" + name + ")"
			}
		}
	}
	return ""
}

func (j *judged) missedPod(k, i int, n *kindness) string {
	kid := &j.s.kids[k]
	pod := &kid.set.Pods[i]
	protected := i < int(max(j.floor[k], j.most[k]))
	switch {
	case !pod.Exists():
		return "a replica is missing"
	case j.undoes(k) && !j.updated(k, i):
		return "undo: a replica is left on what nobody asks for or holds"
	case protected && (n.scarred || j.available(k, i)):
		if pod.Marks&markStray != 0 {
			return "a protected replica is left on what its subset does not protect"
		}
		if kid.protects != 0 && !j.updated(k, i) && kid.protects&bit(pod.Version) == 0 && pod.Phase == statefulset.Crashed {
			return "a broken protected replica is left on a revision that nobody asks for"
		}
		return ""
	case !j.updated(k, i):
		return "a replica is not updated"
	case !j.available(k, i):
		return "a replica is not available"
	case kid.set.Partition > uint8(i):
		return "a partition is above the floor"
	}
	return ""
}

// bars reports whether a protected replica that is not available, on a revision that it may run, bars an ordered
// child: only a human may touch it.
func (c *smallConfig) bars(e *seam, s *smallState) bool {
	j := c.judgedState(e, s)
	for k := range s.kids {
		for i := range int(min(max(j.floor[k], j.target[k]), j.allotted[k])) {
			if c.kind.Ordered && !j.available(k, i) && j.askedFor(k, s.kids[k].set.Pods[i].Version) {
				return true
			}
		}
	}
	return false
}

// told returns what is wrong with the status of a world that is as it should be.
func (c *smallConfig) told(e *seam, s *smallState, status *v1alpha1.UnitedDeploymentStatus) string {
	// Without replicas nothing is finished: the rollout continues when there are some.
	if status.Rollout != nil && status.Rollout.Phase != v1alpha1.RolloutDone && s.parent.replicas > 0 {
		return "all is done, and the rollout is " + string(status.Rollout.Phase)
	}
	j := c.judgedState(e, s)
	for k := range j.allotted {
		for i := range int(j.allotted[k]) {
			if !j.available(k, i) {
				return "" // it is protected, and left alone: it is not ready
			}
		}
	}
	if j.rejected != 0 {
		return toldRejected(status)
	}
	if !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionReady) {
		return "all is done, and it is not Ready"
	}
	return ""
}

// ways returns the ways out that a message of Blocked names.
func (n *kindness) ways(c *smallConfig, now *smallState, ending string) []func(*smallState) {
	_, message, blocked := strings.Cut(ending, "; Blocked: ")
	var ways []func(*smallState)
	_, raise, _ := strings.Cut(message, ", raise ")
	raise, _, _ = strings.Cut(raise, ",") // the fields that it names, and no others
	fields := strings.Split(raise, " and ")
	total, each := slices.Contains(fields, "maxUnavailable"), slices.Contains(fields, "maxUnavailablePerSubset")
	if blocked && (total || each) {
		ways = append(ways, func(s *smallState) {
			s.parent.raised, s.parent.raisedEach = s.parent.raised || total, s.parent.raisedEach || each
			s.parent.generation++
		})
	}
	if blocked && strings.Contains(message, "force") && c.bad&bit(c.wanted(now)) == 0 { // forced, a bad one stays
		wanted := c.wanted(now)
		ways = append(ways, func(s *smallState) {
			if !s.parent.isForced(wanted) {
				s.parent.forced, s.parent.forces = wanted, s.parent.forces+1
			}
		})
	}
	return ways
}

// live returns how a kind schedule from s ends; "" if well. trace, if set, is called with everything that happens.
func (n *kindness) live(c *smallConfig, e *seam, s smallState, known *endings, number int, trace func(string, *smallState)) string {
	var path []smallHash
	begun := map[smallHash]bool{}
	ending := ""
	for {
		h := hashOf(&s, byte(number))
		if verdict, found := known.get(h); found && trace == nil {
			ending = verdict
			break
		}
		if begun[h] {
			ending = "it never comes to rest"
			break
		}
		if len(path) > kindSteps {
			ending = "it does not come to rest"
			break
		}
		begun[h] = true
		path = append(path, h)
		happened, any := n.next(c, e, &s)
		if !any {
			ending = n.wayOut(c, e, &s, known, number, trace)
			break
		}
		if trace != nil {
			trace(happened, &s)
		}
	}
	for _, h := range path {
		known.set(h, ending)
	}
	return ending
}

// wayOut checks how it ended, and takes the ways out that are named.
func (n *kindness) wayOut(c *smallConfig, e *seam, s *smallState, known *endings, number int, trace func(string, *smallState)) string {
	ending := n.ending(c, e, s)
	ways := n.ways(c, s, ending)
	if len(ways) == 0 || s.parent.raised && s.parent.raisedEach && s.parent.isForced(c.wanted(s)) {
		return withoutNames(ending)
	}
	went := false
	for i, way := range ways {
		after := *s
		if way(&after); after.parent.raised == s.parent.raised && after.parent.raisedEach == s.parent.raisedEach && after.parent.forces == s.parent.forces {
			continue // it was already gone
		}
		went = true
		if trace != nil {
			if i == 0 {
				trace(ending, s)
			}
			trace(fmt.Sprint("BLOCKED, way out ", i+1), &after)
		}
		if wrong := n.live(c, e, after, known, number, trace); wrong != "" {
			return "the way out does not help: " + wrong
		}
	}
	if !went {
		return withoutNames(ending)
	}
	return ""
}

// withoutNames removes from an ending what differs from one state to the next, so that similar endings are counted
// together.
func withoutNames(ending string) string {
	before, _, blocked := strings.Cut(ending, "; Blocked: ")
	if blocked {
		return before + "; Blocked, and no way out is named"
	}
	return ending
}
