// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// coordinates reports whether the manager moves the partitions.
func (q *inquiry) coordinates() bool {
	return q.parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy
}

// rollout looks at what holds a coordinated rollout.
func (q *inquiry) rollout() {
	state := q.status.Rollout
	if !q.coordinates() || state == nil || q.parent.Spec.UpdateStrategy.RollingUpdate == nil {
		return
	}
	if was := q.parent.Status.Rollout; was != nil && len(q.parent.Spec.UpdateStrategy.RollingUpdate.Checks) > 0 && q.observed() {
		state = was // only the manager has seen what the checks are about
	}
	name := q.parent.Name
	switch state.Phase {
	case v1alpha1.RolloutFailed:
		q.back(q.add(Fault, name, v1alpha1.ReasonReplicaFailed, state.Message), func(after *outlook) bool {
			return after.Rollout != nil && after.Rollout.State != nil && after.Rollout.State.Phase != v1alpha1.RolloutFailed
		})
	case v1alpha1.RolloutBlocked:
		kind, told := Fault, state.Message
		if was := q.parent.Status.Rollout; was != nil && was.Phase == v1alpha1.RolloutBlocked {
			told = was.Message // only the manager knows how long a replica has been missing
		}
		if strings.Contains(told, coordination.UntilBack) {
			kind = Passing
		}
		q.add(kind, name, v1alpha1.ReasonBlocked, state.Message)
	case v1alpha1.RolloutCheckFailed:
		q.back(q.add(Fault, name, v1alpha1.ReasonCheckFailed, brief(state.Message)+q.lookAt(state.Checks)), func(after *outlook) bool {
			return after.Rollout != nil && after.Rollout.State != nil && after.Rollout.State.Phase != v1alpha1.RolloutCheckFailed
		})
	case v1alpha1.RolloutProgressing:
		for _, c := range state.Checks {
			switch {
			case c.State == v1alpha1.CheckIsMet:
			case c.State == v1alpha1.CheckIsNotMet && c.Run != "" && q.observed():
				// A run that has ended without a verdict, or may not be created, of which the message says what would help.
				f := q.add(Fault, "check "+c.Name, string(c.State), c.Message)
				if strings.HasPrefix(c.Message, "AnalysisRun ") {
					f.Command, f.Does = q.retry(q.status.UpdateRevision).command, "measures it once more"
				}
			default:
				q.add(Passing, "check "+c.Name, string(c.State), c.Message)
			}
		}
	}
	switch {
	case q.parent.Spec.Paused:
	case state.Phase == v1alpha1.RolloutPaused:
		q.add(Passing, name, v1alpha1.ReasonStepPaused, strings.ReplaceAll(state.Message, "; continues", ", and continues"))
	case state.Phase == v1alpha1.RolloutAwaitingApproval:
		detail := brief(state.Message) + ", and waits for approval; the key is " + state.ApprovalKey
		f := q.add(Told, name, v1alpha1.ReasonAwaitingApproval, detail)
		q.certain(f, q.approval(state.ApprovalKey), func(after *outlook) bool {
			s := after.Rollout.State
			return s.Phase != v1alpha1.RolloutAwaitingApproval || s.Step > state.Step
		})
	}
	q.later(state)
}

// waits says what the subsets of a coordinated rollout wait for, once for those that wait for the same.
func (q *inquiry) waits() {
	if q.plan == nil || q.parent.Spec.UpdateStrategy.RollingUpdate == nil || !q.coordinates() {
		return
	}
	var order []string
	waiting := map[string][]string{}
	for _, s := range q.plan.Subsets {
		why := s.Decision.WaitReason
		if why == "" || q.refused[s.Name] || strings.HasPrefix(why, coordination.WaitingForCheck) {
			continue
		}
		if waiting[why] == nil {
			order = append(order, why)
		}
		waiting[why] = append(waiting[why], s.Name)
	}
	for _, why := range order {
		names := waiting[why]
		word, detail := gates[subsetPlan(q.plan, names[0]).Decision.Gate], why
		if word == "" {
			names = slices.DeleteFunc(names, func(name string) bool { return q.said[name] })
		}
		if len(names) == 0 {
			continue
		}
		if word == ledgerFull {
			if used := q.inUse(); len(used) > 0 {
				detail += ", in use by " + shorten(used, 4)
			}
		}
		q.add(Passing, shorten(names, 3), cmp.Or(word, string(v1alpha1.PhaseWaiting)), strings.TrimPrefix(detail, "waiting: "))
	}
}

// gates are the gates of the planner for which there is a rule in the strategy.
var gates = map[string]string{
	"order": outOfTurn, "skew": skewed,
	"ledger": ledgerFull, "in-flight": ledgerFull, "subset-ledger": ledgerFull, "subset-in-flight": ledgerFull, "counted": ledgerFull,
}

// inUse names the replicas that count in the ledger: those that are missing or not available, and those that are released and
// not replaced yet.
func (q *inquiry) inUse() (names []string) {
	for _, s := range q.plan.Subsets {
		o := s.Observed
		if s.Removed {
			continue
		}
		if o == nil {
			names = append(names, fmt.Sprintf("all replicas of %s, which has no child yet", s.Name))
			continue
		}
		for _, r := range s.States(q.in.Terms()) {
			switch {
			case r.Position < 0 || r.Position >= min(o.Replicas, s.Desired) || s.IsReserved(r.Replica):
			case !r.Available:
				names = append(names, r.Describe())
			case r.Released && !r.OnTemplate:
				names = append(names, r.Name+" (being replaced)")
			}
		}
		if position := o.Missing(); position >= 0 {
			names = append(names, o.DescribeMissing(s.Name, position))
		}
	}
	return names
}

// later says which subsets a step of later releases, or releases more of.
func (q *inquiry) later(state *v1alpha1.RolloutStatus) {
	steps := q.parent.Spec.UpdateStrategy.RollingUpdate.Steps
	if q.plan == nil || q.plan.Rollout == nil || state.Phase == v1alpha1.RolloutDone || int(state.Step) >= len(steps) {
		return
	}
	var names []string
	for _, s := range q.plan.Subsets {
		if !s.Removed && s.Decision.WaitReason == "" && !s.Proven && min(s.Decision.Partition, s.Desired) > min(s.Floor.Partition, s.Desired) {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return
	}
	kind := Passing
	if state.Phase == v1alpha1.RolloutAwaitingApproval || q.parent.Spec.Paused {
		kind = Told
	}
	step, rest := steps[state.Step], "is for a later step"
	if int(state.Step) == len(steps)-1 {
		rest = "is released after it, the last one"
	}
	q.add(kind, shorten(names, 3), laterStep, fmt.Sprintf("step %d of %d runs, which releases %s down to the partition %s; what it protects %s (spec.updateStrategy.rollingUpdate.steps[%d])",
		state.Step+1, len(steps), shorten(step.Subsets, 3), step.Partition, rest, state.Step))
}

// holds looks at the partitions that somebody wrote.
func (q *inquiry) holds() {
	m := q.parent.Spec.UpdateStrategy.ManualUpdate
	if b := coordination.Bound(m, q.status.UpdateRevision); b != "" && !q.coordinates() && len(q.held()) > 0 {
		f := q.add(Told, shorten(q.held(), 3), bound, b+" (spec.updateStrategy.manualUpdate.revision)")
		if first := q.held()[0]; q.in != nil && q.releasable(first) && q.in.Update.Name == q.parent.Status.UpdateRevision {
			q.certain(f, q.release(first), func(after *outlook) bool { return q.releases(after, first) })
		}
		return
	}
	byPartition, order := map[string][]string{}, []string{}
	for _, name := range q.held() {
		partition := q.written(name)
		if byPartition[partition] == nil {
			order = append(order, partition)
		}
		byPartition[partition] = append(byPartition[partition], name)
	}
	for _, partition := range order {
		names := byPartition[partition]
		detail := isHeld + q.protects(names) + " (" + partition + ")"
		if len(names) > 1 {
			detail = areHeld + q.protects(names) + " (" + partition + ")"
		}
		if len(names) == 1 && q.plan != nil { // scaling can protect more than the share
			if _, scaled, is := strings.Cut(subsetPlan(q.plan, names[0]).Floor.Reason, ", but "); is {
				detail += "; " + scaled
			}
		}
		f := q.add(Told, shorten(names, 3), v1alpha1.ReasonRolloutHeld, detail)
		if q.releasable(names[0]) {
			q.certain(f, q.release(names[0]), func(after *outlook) bool { return q.releases(after, names[0]) })
		}
	}
}

// Held subsets: their name and this are one sentence.
const isHeld, areHeld = "is held: ", "are held: "

// lookAt says what shows more of the Jobs and AnalysisRuns that failed.
func (q *inquiry) lookAt(checks []v1alpha1.CheckStatus) (more string) {
	for _, c := range checks {
		verb := "logs"
		if strings.HasPrefix(c.Run, "analysisrun/") {
			verb = "describe"
		}
		if c.State == v1alpha1.CheckHasFailed && c.Run != "" {
			more += fmt.Sprintf("; for more, run: kubectl %s -n %s %s", verb, q.parent.Namespace, c.Run)
		}
	}
	return more
}

// rejected says that the update revision is rejected, what takes it out of the spec, and what rolls it out once more. All goes
// back by itself.
func (q *inquiry) rejected(detail string) {
	f := q.add(Fault, q.parent.Name, v1alpha1.ReasonRevisionRejected, detail)
	if q.in == nil || q.in.Rejected == nil {
		return
	}
	again := *f
	q.certain(&again, q.retry(q.in.Rejected.Name), func(after *outlook) bool {
		return after.Rollout != nil && after.Rollout.State != nil && after.Rollout.State.Revision == q.in.Rejected.Name
	})
	q.certain(f, q.undo(), func(after *outlook) bool { return after.in.Rejected == nil })
	switch {
	case f.Command == "":
		*f = again
	case again.Command != "":
		f.Detail += "; " + again.Command + " " + again.Does
	}
}

// back adds the way back to a finding of a new version that fails, once.
func (q *inquiry) back(f *Finding, ends func(after *outlook) bool) {
	if q.in == nil || q.undone || q.parent.Spec.Paused || q.status.CurrentRevision == "" || q.status.CurrentRevision == q.in.Update.Name {
		return
	}
	q.certain(f, q.undo(), ends)
	q.undone = f.Command != ""
}

// held returns the subsets of which a partition that somebody wrote protects replicas from the update revision.
func (q *inquiry) held() (names []string) {
	if q.in == nil {
		for i := range q.status.Subsets {
			s := &q.status.Subsets[i]
			if !q.coordinates() && s.CurrentRevision != s.UpdateRevision && s.UpdateRevision != "" && min(s.Partition, s.DesiredReplicas) > 0 && s.UpdatedReplicas < s.DesiredReplicas {
				names = append(names, s.Name)
			}
		}
		return names
	}
	for i := range q.status.Subsets {
		j := slices.IndexFunc(q.plan.Subsets, func(s *planner.SubsetPlan) bool { return s.Name == q.status.Subsets[i].Name })
		s := q.plan.Subsets[j]
		if s.Removed || s.Observed == nil || !q.plan.Initialized || s.Proven || q.status.Subsets[i].UpdatedReplicas >= s.Desired {
			continue
		}
		if min(s.Floor.Partition, s.Decision.Partition, s.Desired) > 0 {
			names = append(names, s.Name)
		}
	}
	return names
}

// releasable reports whether one may be told how to release a subset. What the API server refuses, nobody can release; and while
// something is wrong or under way, a release by hand would come on top of it, because no ledger keeps it back.
func (q *inquiry) releasable(name string) bool {
	return !q.refused[name] && (q.coordinates() || !slices.ContainsFunc(q.findings, func(f Finding) bool { return f.Kind != Told }))
}

// protects says how many replicas of subsets a partition protects.
func (q *inquiry) protects(names []string) string {
	protected, all := int32(0), int32(0)
	for i := range q.status.Subsets {
		s := &q.status.Subsets[i]
		if !slices.Contains(names, s.Name) {
			continue
		}
		partition := s.Partition
		if q.plan != nil { // what a coordinated rollout protects for now is another matter
			partition = subsetPlan(q.plan, s.Name).Floor.Partition
		}
		protected, all = protected+min(partition, s.DesiredReplicas), all+s.DesiredReplicas
	}
	return fmt.Sprintf("%d of %d replicas", protected, all)
}

// written names the partition of a subset as it is written.
func (q *inquiry) written(name string) string {
	written, value := coordination.Applies(&q.parent.Spec.UpdateStrategy, name, q.parent.Status.UpdateRevision), Asked(q.parent, name)
	switch {
	case q.coordinates():
		return "rollingUpdate.partition " + value
	case written.Named:
		return "partition " + value
	case written.Field != "":
		return written.Field + " " + value
	}
	return "no partition, which means " + value
}

func (q *inquiry) paused() {
	if !q.parent.Spec.Paused {
		return
	}
	f := q.add(Told, q.parent.Name, v1alpha1.ReasonPaused, "spec.paused is true, which freezes the rollout; scaling and repair go on")
	releases, then := false, ""
	q.certain(f, q.resumption(), func(after *outlook) bool {
		releases = slices.ContainsFunc(after.Subsets, func(s *planner.SubsetPlan) bool { return q.releases(after, s.Name) })
		if after.Rollout != nil && after.Rollout.State != nil {
			state := after.Rollout.State
			if then = state.Message; state.Phase == v1alpha1.RolloutAwaitingApproval { // which counts only after the pause
				then = fmt.Sprintf("%s; to continue, run: %s, and then: %s", brief(then), q.resumption().command, q.approval(state.ApprovalKey).command)
			}
		}
		return releases && q.releasable("")
	})
	if !releases && q.plan != nil {
		f.Detail += strings.TrimSuffix("; ending the pause alone would release nothing now: "+then, ": ")
	}
}

// shorten joins the first names.
func shorten(names []string, most int) string {
	if rest := len(names) - most; rest > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), rest)
	}
	return strings.Join(names, ", ")
}
