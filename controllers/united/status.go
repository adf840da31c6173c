// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// makeStatus tells where things stand after a pass, and in how long time alone
// will change that (0: it will not).
func makeStatus(w *world, p *plan, done *carried) (*v1alpha1.UnitedDeploymentStatus, time.Duration) {
	old := &w.parent.Status
	status := &v1alpha1.UnitedDeploymentStatus{
		ObservedGeneration: w.parent.Generation,
		Selector:           w.spec.podSelector,
		CurrentRevision:    p.currentRevision,
		UpdateRevision:     w.update.Name,
		Conditions:         slices.Clone(old.Conditions),
	}
	status.PausedTime, status.ResumedTime = pauseTimes(w)
	tallies := make([]*tally, 0, len(p.subsets))
	for _, s := range p.subsets {
		t := w.tally(p, s, done.subsets[s.Name])
		tallies = append(tallies, t)
		status.Subsets = append(status.Subsets, w.subsetStatus(p, s, t))
		add(&status.ReplicaCounts, t.counts)
	}
	for _, d := range p.drained {
		t := w.tallyRemoved(d.name, done.subsets[d.name])
		if t.failure == nil {
			t.message = cmp.Or(done.waitsOf(d.name), d.waits, fmt.Sprintf("is being removed: %d replicas are left", t.counts.Replicas))
		}
		tallies = append(tallies, t)
		status.Subsets = append(status.Subsets, w.removedStatus(d.name, t))
	}
	for _, name := range p.removed {
		t := w.tallyRemoved(name, done.subsets[name])
		tallies = append(tallies, t)
		if !slices.Contains(done.removed, name) {
			status.Subsets = append(status.Subsets, w.removedStatus(name, t))
		}
	}
	for _, name := range p.unseen {
		if o := done.of(name); o != nil && o.refused() {
			t := w.tallyRemoved(name, o)
			t.counts = subsetStatus(old, name).ReplicaCounts // as far as is known
			tallies = append(tallies, t)
			status.Subsets = append(status.Subsets, w.removedStatus(name, t))
		}
	}
	for _, name := range w.leaving() {
		t := w.tallyRemoved(name, &outcome{waits: "waits: it is deleted, and held by the finalizers " + strings.Join(w.children[name].object.GetFinalizers(), ", ")})
		tallies = append(tallies, t)
		status.Subsets = append(status.Subsets, w.removedStatus(name, t))
	}
	if w.completeOn(p, tallies) {
		status.CurrentRevision = w.update.Name
	}
	if p.rollout != nil && p.rollout.State != nil { // none when it is paused before it began
		status.Rollout = p.rollout.State
		status.Rollout.Message = truncated(status.Rollout.Message, maxSubsetMessage)
	}
	status.LastProgressTime = lastProgress(w, status)
	if status.Rollout != nil {
		status.Rollout.LastProgressTime = status.LastProgressTime
	}
	judge(w, p, tallies, status)
	return status, wakeUp(w, p, tallies, status)
}

// removedStatus tells of a subset that the spec does not have any more.
func (w *world) removedStatus(name string, t *tally) v1alpha1.SubsetStatus {
	return v1alpha1.SubsetStatus{
		Name: name, Workload: adapters.ChildName(w.parent.Name, name),
		ReplicaCounts: t.counts, Phase: t.phase, Message: truncated(t.message, maxSubsetMessage), ChildRecord: w.childRecord(name),
	}
}

// completeOn tells whether every replica of every subset is ready on the update
// revision, and there is one.
func (w *world) completeOn(p *plan, tallies []*tally) bool {
	if !p.initialized {
		return !w.paused() // what never worked is not worth going back to
	}
	total := int32(0)
	for i, s := range p.subsets {
		t := tallies[i]
		// Trap: a surplus replica counts like one that is missing.
		if observed := w.observed(s.Name); observed != nil && observed.Missing() >= 0 {
			return false
		}
		if t.counts.UpdatedReadyReplicas != s.replicas || t.counts.Replicas != s.replicas || !t.observed {
			return false
		}
		if observed := w.observed(s.Name); observed != nil && len(subset.Unreleased(observed)) > 0 {
			return false // they go back
		}
		total += s.replicas
	}
	return total > 0
}

func (w *world) subsetStatus(p *plan, s *subsetPlan, t *tally) v1alpha1.SubsetStatus {
	status := v1alpha1.SubsetStatus{
		Name: s.Name, Workload: s.workload, DesiredReplicas: s.replicas,
		ReplicaCounts:   t.counts,
		Partition:       s.line.Partition,
		CurrentRevision: s.protected,
		UpdateRevision:  w.update.Name,
		Phase:           t.phase, Message: truncated(t.message, maxSubsetMessage),
	}
	if observed := w.observed(s.Name); observed != nil {
		status.Partition = observed.Partition
		if told := w.protected(s.Name, observed, s.protected, w.parent.Generation); p.initialized && told != "" && !s.goal.Behind {
			status.CurrentRevision = told
		}
	}
	status.ChildRecord = w.childRecord(s.Name)
	if status.Partition == coordination.Held {
		status.Partition = s.replicas // the number says nothing, except that all are protected
	}
	status.ExpectedUpdatedReplicas = max(0, s.replicas-status.Partition)
	return status
}

// childRecord is the copy of what is written on a child. It stays while the child is not
// seen: that may have lost its labels.
func (w *world) childRecord(name string) *v1alpha1.ChildRecord {
	kept := w.keptRecord(name)
	if observed := w.observed(name); observed != nil {
		return subset.Record(observed, kept)
	}
	return kept
}

// keptRecord is the copy in the status; nil if there is none.
func (w *world) keptRecord(name string) *v1alpha1.ChildRecord {
	if was := subsetStatus(&w.parent.Status, name); was != nil {
		return was.ChildRecord
	}
	return nil
}

// tally is what one pass knows of one subset in the end.
type tally struct {
	name   string
	counts v1alpha1.ReplicaCounts
	phase  v1alpha1.SubsetPhase
	// message says what it waits for, or why it is stalled.
	message string
	failure *subset.Failure
	stale   bool
	// observed: the child is as it shall be, and its controller knows.
	observed bool
	// availableAt is when time alone makes a replica available; zero if none.
	availableAt time.Time
	// notUpdated is how many replicas do not run the update revision.
	notUpdated int32
}

// done tells whether the subset is what the spec asks for now.
func (t *tally) done() bool {
	return t.phase == v1alpha1.PhaseComplete || t.phase == v1alpha1.PhaseHeld || t.phase == v1alpha1.PhasePaused
}

func (w *world) tally(p *plan, s *subsetPlan, o *outcome) *tally {
	t := &tally{name: s.Name, failure: o.failure, stale: o.stale}
	observed := w.observed(s.Name)
	if observed == nil {
		t.notUpdated = s.replicas
		t.phase, t.message = v1alpha1.PhasePending, cmp.Or(o.waits, s.step.Reason)
		return t.orFailed()
	}
	onUpdate := w.onUpdate(s, observed)
	t.count(observed, onUpdate, w.now)
	if !observed.CaughtUp {
		// The hashes speak of an older spec: what was known of this revision stays.
		t.counts.UpdatedReplicas, t.counts.UpdatedReadyReplicas = 0, 0
		if old := subsetStatus(&w.parent.Status, s.Name); old != nil && old.UpdateRevision == w.update.Name {
			t.counts.UpdatedReplicas = min(old.UpdatedReplicas, t.counts.Replicas)
			t.counts.UpdatedReadyReplicas = min(old.UpdatedReadyReplicas, t.counts.ReadyReplicas)
		}
	}
	t.notUpdated = max(0, s.replicas-t.counts.UpdatedReplicas)
	t.observed = observed.CaughtUp && s.step.Action == subset.ActionApply && o.failure == nil && !o.stale
	t.phase, t.message = w.phase(p, s, observed, t, onUpdate)
	if t.phase == v1alpha1.PhaseScaling || t.phase == v1alpha1.PhaseRestoring {
		t.message = cmp.Or(o.waits, t.message)
	}
	if o.note != "" {
		t.message = strings.TrimPrefix(t.message+"; "+o.note, "; ")
	}
	return t.orFailed()
}

// restores reports whether a child is being taught again what it has forgotten, which
// takes several writes; each has to be seen by its controller.
func (w *world) restores(s *subsetPlan) bool {
	switch s.step.Action {
	case subset.ActionRemind, subset.ActionRelearn:
		return true
	case subset.ActionWait:
		was := subsetStatus(&w.parent.Status, s.Name)
		return was != nil && was.Phase == v1alpha1.PhaseRestoring
	default:
		return false
	}
}

func (w *world) tallyRemoved(name string, o *outcome) *tally {
	t := &tally{name: name, failure: o.failure, stale: o.stale, phase: v1alpha1.PhaseScaling, message: cmp.Or(o.waits, "is being removed")}
	if observed := w.observed(name); observed != nil {
		t.count(observed, false, w.now)
	}
	return t.orFailed()
}

// orFailed lets a failure speak before all else.
func (t *tally) orFailed() *tally {
	if t.failure != nil {
		t.message = t.failure.Message
		t.observed = false
		if t.failure.Stalled {
			t.phase = v1alpha1.PhaseStalled
		} else if t.done() {
			t.phase = v1alpha1.PhasePending
		}
	}
	return t
}

// onUpdate tells whether the child's template makes the pods of the update
// revision.
func (w *world) onUpdate(s *subsetPlan, observed *adapters.Observed) bool {
	has := revision.ByName(w.revisions, subset.RevisionOf(observed))
	return has != nil && revision.SamePods(has, w.update, s.Name, s.overlay)
}

func (t *tally) count(observed *adapters.Observed, onUpdate bool, now time.Time) {
	for _, r := range observed.Members {
		t.counts.Replicas++
		if r.Terminating {
			continue
		}
		updated := onUpdate && observed.UpdateHash != "" && r.Hash == observed.UpdateHash
		if updated {
			t.counts.UpdatedReplicas++
		}
		if !r.Ready {
			continue
		}
		t.counts.ReadyReplicas++
		if updated {
			t.counts.UpdatedReadyReplicas++
		}
		available, at := r.Available(observed.MinReadySeconds, now)
		if available {
			t.counts.AvailableReplicas++
		} else if !at.IsZero() && (t.availableAt.IsZero() || at.Before(t.availableAt)) {
			t.availableAt = at
		}
	}
}

// phase says where a subset stands whose child exists, and what it waits for.
func (w *world) phase(p *plan, s *subsetPlan, observed *adapters.Observed, t *tally, onUpdate bool) (v1alpha1.SubsetPhase, string) {
	waits := w.waitsFor(observed, onUpdate)
	switch {
	case w.restores(s):
		return v1alpha1.PhaseRestoring, s.step.Reason
	case s.step.Action == subset.ActionSeed, s.step.Action == subset.ActionWait && (observed.Replicas == 0 && s.replicas > 0 || subset.Seeding(observed)):
		return v1alpha1.PhaseSeeding, s.step.Reason
	case s.step.Action == subset.ActionWait:
		return v1alpha1.PhasePending, s.step.Reason
	case s.step.Reason != "":
		return v1alpha1.PhaseUpdating, s.step.Reason
	case observed.Replicas != s.replicas || t.counts.Replicas != s.replicas:
		return v1alpha1.PhaseScaling, cmp.Or(waits, s.waits, fmt.Sprintf("waits: %d of %d replicas exist", t.counts.Replicas, s.replicas))
	case !observed.CaughtUp:
		return v1alpha1.PhaseUpdating, "waits: " + observed.Meta.Name + " has not been observed by its controller yet"
	case !w.paused() && (!onUpdate || releasedPending(observed)):
		return v1alpha1.PhaseUpdating, cmp.Or(waits, "moves its released replicas")
	case len(subset.Unreleased(observed)) > 0:
		return v1alpha1.PhaseRestoring, fmt.Sprintf("waits: %s is on %s and was not released; it is to come back on %s",
			subset.Unreleased(observed)[0].Name, subset.RevisionOf(observed), s.protected)
	case s.waits != "" && p.moving():
		return v1alpha1.PhaseUpdating, cmp.Or(waits, s.waits)
	case t.counts.AvailableReplicas != s.replicas:
		return v1alpha1.PhaseUnavailable, waits
	case t.notUpdated == 0:
		return v1alpha1.PhaseComplete, ""
	case w.paused():
		return v1alpha1.PhasePaused, s.line.Reason
	case p.rollout != nil && p.rollout.State.Message != "" && s.line.Partition > w.floor(s).Partition:
		return v1alpha1.PhaseHeld, p.rollout.State.Message
	}
	return v1alpha1.PhaseHeld, s.line.Reason
}

// floor is the line that the user asks for, whatever a coordinated rollout does now.
func (w *world) floor(s *subsetPlan) coordination.Line {
	return coordination.Floor(w.parent.Spec.UpdateStrategy.RollingUpdate, s.replicas)
}

// moving: a coordinated rollout is about to release more by itself.
func (p *plan) moving() bool {
	return p.rollout != nil && meaningOf(p.rollout.State, false).moves
}

// releasedPending tells whether a replica at or above the partition is not on
// the update revision. Paused or not is not asked: the partition was raised then.
func releasedPending(observed *adapters.Observed) bool {
	return slices.ContainsFunc(observed.Members, func(r adapters.Replica) bool {
		return r.Position >= observed.Partition && (r.Hash != observed.UpdateHash || r.Terminating)
	})
}

// waitsFor names the replica that the subset waits for: one that failed before
// one that is not ready, a released one before a protected one, then the lowest.
// The time is when it began, not how long ago: a text that ages by itself would
// have to be written again and again.
func (w *world) waitsFor(observed *adapters.Observed, onUpdate bool) string {
	var worst *adapters.Replica
	rank := func(r *adapters.Replica) int {
		rank := 0
		if r.Failure != "" {
			rank += 2
		}
		if r.Position >= observed.Partition {
			rank++
		}
		return rank
	}
	for i := range observed.Members {
		r := &observed.Members[i]
		available, _ := r.Available(observed.MinReadySeconds, w.now)
		if !available && (worst == nil || rank(r) > rank(worst)) {
			worst = r
		}
	}
	if worst != nil {
		if broken, _ := w.terms().Broken(worst, nil); !broken { // one that is broken is replaced
			return "waits: " + worst.Name + " " + worst.Trouble() + wayOut(*worst, observed)
		}
		return "waits: " + worst.Name + " " + worst.Trouble()
	}
	if missing := observed.Missing(); missing >= 0 && observed.CaughtUp {
		return "waits: " + observed.Lacks(observed.Meta.Name, missing)
	}
	if !w.paused() && onUpdate && releasedPending(observed) {
		return fmt.Sprintf("moves its replicas from position %d on to %s", observed.Partition, w.update.Name)
	}
	return ""
}

// wayOut is for a replica that the partition protects on neither of the revisions
// that it could be made of, as when a canary was held and then taken back. It is
// left alone, since it may serve; one that does not is for the user to give up.
func wayOut(r adapters.Replica, observed *adapters.Observed) string {
	if r.Position >= observed.Partition || r.Terminating || r.Hash == observed.CurrentHash || r.Hash == observed.UpdateHash {
		return ""
	}
	return "; its partition keeps it on an earlier revision: delete it, or lower the partition, to replace it"
}

// pauseTimes are since when the parent is paused, and when that last ended.
func pauseTimes(w *world) (paused, resumed *metav1.Time) {
	old, now := &w.parent.Status, ptr.To(metav1.NewTime(w.now.Truncate(time.Second)))
	switch {
	case w.parent.Spec.Paused && old.PausedTime != nil:
		return old.PausedTime, nil
	case w.parent.Spec.Paused:
		return now, nil
	case old.PausedTime != nil:
		return nil, now
	}
	return nil, old.ResumedTime
}

// lastProgress is now when the spec changed or a replica came closer to it, and
// else what it was.
func lastProgress(w *world, status *v1alpha1.UnitedDeploymentStatus) *metav1.Time {
	old := &w.parent.Status
	// As the API server keeps it, so that what is read back is equal.
	now := ptr.To(metav1.NewTime(w.now.Truncate(time.Second)))
	if old.LastProgressTime == nil || old.ObservedGeneration != w.parent.Generation || resumed(old.Rollout, status.Rollout) {
		return now
	}
	for _, s := range status.Subsets {
		if before := subsetStatus(old, s.Name); before == nil || progressed(before, &s) {
			return now
		}
	}
	return old.LastProgressTime
}

// resumed: a coordinated rollout went on to another step, or after a pause. The
// time in between does not count as standing still.
func resumed(before, after *v1alpha1.RolloutStatus) bool {
	if before == nil || after == nil {
		return before != after
	}
	stood := meaningOf(before, false).stands
	return before.Revision != after.Revision || before.Step != after.Step || stood && before.Phase != after.Phase
}

func progressed(before, after *v1alpha1.SubsetStatus) bool {
	distance := func(s *v1alpha1.SubsetStatus) int32 {
		return max(s.Replicas-s.DesiredReplicas, s.DesiredReplicas-s.Replicas)
	}
	return after.UpdatedReplicas > before.UpdatedReplicas ||
		after.UpdatedReadyReplicas > before.UpdatedReadyReplicas ||
		after.ReadyReplicas > before.ReadyReplicas ||
		after.AvailableReplicas > before.AvailableReplicas ||
		after.DesiredReplicas != before.DesiredReplicas ||
		distance(after) < distance(before)
}

func add(sum *v1alpha1.ReplicaCounts, c v1alpha1.ReplicaCounts) {
	sum.Replicas += c.Replicas
	sum.ReadyReplicas += c.ReadyReplicas
	sum.AvailableReplicas += c.AvailableReplicas
	sum.UpdatedReplicas += c.UpdatedReplicas
	sum.UpdatedReadyReplicas += c.UpdatedReadyReplicas
}

// wakeUp is in how long time alone changes something: a write is tried again, a
// replica becomes available, the progress deadline passes.
func wakeUp(w *world, p *plan, tallies []*tally, status *v1alpha1.UnitedDeploymentStatus) time.Duration {
	var at time.Time
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	sooner(p.wake)
	sooner(w.holderWake)
	if p.rollout != nil {
		sooner(p.rollout.Wake)
	}
	if w.unkept != nil {
		sooner(w.unkept.RetryAt)
	}
	for _, t := range tallies {
		sooner(t.availableAt)
		if t.failure != nil {
			sooner(t.failure.RetryAt)
		}
		if t.stale {
			sooner(w.now.Add(retryStale))
		}
	}
	if deadline, running := progressDeadline(w.parent, status); running && deadline.After(w.now) {
		sooner(deadline)
	}
	if at.IsZero() {
		return 0
	}
	return max(at.Sub(w.now), time.Millisecond)
}
