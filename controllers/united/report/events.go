// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Event is something to report once.
type Event struct {
	// Type, Reason and Action are as in an Event of events.k8s.io.
	Type, Reason, Action, Note string
	// Workload is the name of the child that the event is about; "" if it is about the whole parent.
	Workload string
}

// Events returns one event for each transition from one status to the next, and for what the pass deleted. p is
// nil if nothing could be planned.
func Events(before, after *v1alpha1.UnitedDeploymentStatus, p *planner.Plan, results planner.Results) []Event {
	list := revisionEvents(before, after, p != nil && p.GoesBack)
	for i := range after.Subsets {
		s := &after.Subsets[i]
		if old := world.SubsetStatus(before, s.Name); partitionDecided(old, s, after.Rollout) {
			note := fmt.Sprintf("%s: partition changed from %d to %d (%d %s)", s.Name, old.Partition, s.Partition, s.DesiredReplicas, replicasWord(s.DesiredReplicas))
			why := changeReason(p, s.Name, results)
			if s.Phase == v1alpha1.PhasePaused {
				why = cmp.Or(why, s.Message)
			}
			if why != "" {
				note += ": " + why
			}
			list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventPartitionChanged, "Rollout", note, s.Workload})
		}
		if what := results.Of(s.Name).Corrected; what != "" {
			list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventChildCorrected, "Apply", s.Name + ": restored " + what, s.Workload})
		}
		list = append(list, memoryEvents(world.SubsetStatus(before, s.Name), s)...)
		list = append(list, capEvents(world.SubsetStatus(before, s.Name), s)...)
		list = append(list, noteEvents(world.SubsetStatus(before, s.Name), s, results[s.Name])...)
	}
	list = append(list, rolloutEvents(before.Rollout, after.Rollout, p != nil && p.GoesBack, after.PausedTime != nil)...)
	list = append(list, deletionEvents(after, p, results)...)
	list = append(list, conditionEvents(before, after)...)
	for i := range list {
		list[i].Note = Note(list[i].Note)
	}
	return list
}

// partitionDecided reports whether the partition of a subset was changed by a decision of its own. A coordinated
// rollout lowers it replica by replica: the first change is the decision to release the subset, and the others
// follow from it. When a rollout raises it, it protects replicas that were not protected.
func partitionDecided(before, after *v1alpha1.SubsetStatus, rollout *v1alpha1.RolloutStatus) bool {
	switch {
	case before == nil || before.Partition == after.Partition:
		return false
	case rollout == nil || after.Partition > before.Partition:
		return true
	}
	return before.Partition >= before.DesiredReplicas
}

// changeReason returns why the partition of a subset was changed; "" if that is not known.
func changeReason(p *planner.Plan, name string, results planner.Results) string {
	if p == nil || results[name] == nil || results[name].Refused() {
		return ""
	}
	i := slices.IndexFunc(p.Subsets, func(s *planner.SubsetPlan) bool { return s.Name == name })
	return p.Subsets[i].Decision.ChangeReason
}

// maxNote is the maximum length of the note of an event in the API server.
const maxNote = 1024

// Note returns a text in the form of the note of an event.
func Note(text string) string { return sentence(plain(text, maxNote)) }

// sentence returns a text with an initial capital, as conditions and events have it. A text that begins with a
// name does not change: names of subsets are followed by a colon or a comma, and all other names contain a dash or
// a dot.
func sentence(text string) string {
	word, _, _ := strings.Cut(text, " ")
	if strings.ContainsFunc(word, func(r rune) bool { return r < 'a' || r > 'z' }) || word == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// noteEvents reports the note on a child once.
func noteEvents(before, after *v1alpha1.SubsetStatus, r *planner.Result) []Event {
	if r == nil || r.Note == "" || before != nil && (before.Message == after.Message || strings.Contains(before.Message, r.Note)) {
		return nil
	}
	return []Event{{corev1.EventTypeWarning, v1alpha1.ReasonOverridden, "Apply", after.Name + ": " + r.Note, after.Workload}}
}

// memoryEvents returns an event when a child has forgotten what its protected replicas run, and when it remembers
// it again and they run it.
func memoryEvents(before, after *v1alpha1.SubsetStatus) []Event {
	was := before != nil && before.Phase == v1alpha1.PhaseRestoring
	is := after.Phase == v1alpha1.PhaseRestoring
	switch {
	case is && !was:
		return []Event{{corev1.EventTypeWarning, v1alpha1.EventProtectionLost, "Restore", after.Name + ": " + after.Message, after.Workload}}
	case was && !is && after.Phase != v1alpha1.PhaseStalled:
		return []Event{{corev1.EventTypeNormal, v1alpha1.EventProtectionRestored, "Restore",
			fmt.Sprintf("%s: protected replicas run %s again, and come back on it when they are replaced", after.Name, known.Short(after.CurrentRevision)), after.Workload}}
	}
	return nil
}

func revisionEvents(before, after *v1alpha1.UnitedDeploymentStatus, back bool) []Event {
	var list []Event
	if before.UpdateRevision != "" && after.UpdateRevision != before.UpdateRevision && goingTo(after) == after.UpdateRevision {
		note := fmt.Sprintf("rolling out %s; the current revision is %s", known.Short(after.UpdateRevision), known.Short(after.CurrentRevision))
		switch {
		case !meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionInitialized):
			note = fmt.Sprintf("%s replaces %s, which never had a ready replica", known.Short(after.UpdateRevision), known.Short(before.UpdateRevision))
		case after.UpdateRevision == after.CurrentRevision && !back:
			note = "rolling out " + known.Short(after.UpdateRevision) + " again"
		case after.UpdateRevision == after.CurrentRevision:
			note = fmt.Sprintf("going back to %s, the current revision", known.Short(after.UpdateRevision))
		case back:
			note = fmt.Sprintf("going back to %s, which all replicas ran before %s", known.Short(after.UpdateRevision), known.Short(after.CurrentRevision))
		}
		list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventRolloutStarted, "Rollout", note, ""})
	}
	if retriedRejected(before, after) {
		list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventRolloutStarted, "Rollout",
			fmt.Sprintf("rolling out %s once more, which was rejected; the current revision is %s", known.Short(after.UpdateRevision), known.Short(after.CurrentRevision)), ""})
	}
	if before.CurrentRevision != "" && after.CurrentRevision != before.CurrentRevision && meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionInitialized) {
		list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventRolloutFinished, "Rollout",
			fmt.Sprintf("all replicas run %s and are ready", known.Short(after.CurrentRevision)), ""})
	}
	return list
}

// rolloutEvents returns the events for the steps of a coordinated rollout, for force and promote. back: it goes back to
// what all replicas run, or they already run it, so the steps are skipped.
func rolloutEvents(before, after *v1alpha1.RolloutStatus, back, paused bool) []Event {
	if after == nil {
		return nil
	}
	same := before != nil && before.Revision == after.Revision
	var list []Event
	if after.Forced && (!same || !before.Forced) {
		list = append(list, Event{corev1.EventTypeWarning, v1alpha1.EventRolloutForced, "Rollout",
			"the rollout to " + known.Short(after.Revision) + " is forced: it ignores unhealthy replicas and maxSkew", ""})
	}
	if after.Promoted && (!same || !before.Promoted) {
		list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventRolloutPromoted, "Rollout",
			"the rollout to " + known.Short(after.Revision) + " is promoted: its steps are passed", ""})
	}
	if same && after.Retried != before.Retried {
		list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventChecksRetried, "Rollout",
			"the checks of the rollout to " + known.Short(after.Revision) + " are measured anew", ""})
	}
	for _, c := range turnedChecks(before, after, met) {
		if c.State == v1alpha1.CheckHasFailed {
			list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventCheckMet, "Rollout", "check " + c.Name + " is met again; it had failed: " + c.Message, ""})
		}
	}
	phase := meaningOf(after, paused)
	if phase.stepReached && after.ReachedTime != nil && (!same || before.Step != after.Step || before.Phase != after.Phase) {
		list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventStepReached, "Rollout", after.Message, ""})
	}
	if same && !back && after.Step > before.Step && !phase.done {
		list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventStepPassed, "Rollout", after.Message, ""})
	}
	return list
}

func deletionEvents(after *v1alpha1.UnitedDeploymentStatus, p *planner.Plan, results planner.Results) []Event {
	if p == nil {
		return nil
	}
	var list []Event
	for _, s := range p.Subsets {
		if results.Of(s.Name).Deleted {
			list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventSubsetRemoved, "Remove",
				s.Name + ": deleted the child workload, because the subset was removed from the spec", s.Workload})
		}
	}
	for i := range after.Subsets {
		s := &after.Subsets[i]
		if o := results.Of(s.Name); len(o.DeletedStuck) > 0 {
			reason := v1alpha1.EventStuckReplicaDeleted
			if after.Rollout != nil {
				reason = v1alpha1.EventReplicaDeleted
			}
			list = append(list, Event{corev1.EventTypeNormal, reason, "Rollout",
				fmt.Sprintf("%s: deleted %s, because %s", s.Name, strings.Join(o.DeletedStuck, ", "), whyStuck(len(o.DeletedStuck), goingTo(after))), s.Workload})
		}
		if o := results.Of(s.Name); len(o.DeletedUnreleased) > 0 {
			list = append(list, Event{corev1.EventTypeNormal, v1alpha1.EventReplicaDeleted, "Restore",
				fmt.Sprintf("%s: deleted %s, because it was updated without being released; it comes back on %s", s.Name, strings.Join(o.DeletedUnreleased, ", "), known.Short(s.CurrentRevision)), s.Workload})
		}
	}
	return list
}

// conditionEvents returns an event when the status of a condition changes, and when a stall changes its cause.
// Progressing is left out, because it follows from Ready.
func conditionEvents(before, after *v1alpha1.UnitedDeploymentStatus) []Event {
	var list []Event
	for _, c := range after.Conditions {
		old := meta.FindStatusCondition(before.Conditions, c.Type)
		turned := old == nil || old.Status != c.Status
		bad := (c.Type == v1alpha1.ConditionStalled) == (c.Status == metav1.ConditionTrue)
		switch c.Type {
		case v1alpha1.ConditionStalled:
			if c.Status == metav1.ConditionTrue && (turned || old.Reason != c.Reason) {
				list = append(list, Event{corev1.EventTypeWarning, c.Reason, "Reconcile", c.Message, ""})
			}
		case v1alpha1.ConditionReady, v1alpha1.ConditionInitialized:
			if c.Reason == v1alpha1.ReasonRolloutComplete && !rolledOut(before, after) {
				continue // it was scaled, or repaired
			}
			if begins := old == nil || old.Reason != c.Reason; begins && c.Reason == v1alpha1.ReasonUnschedulable {
				list = append(list, Event{corev1.EventTypeWarning, c.Reason, "Schedule", c.Message, ""})
			} else if c.Reason == v1alpha1.ReasonBlocked && !meta.IsStatusConditionTrue(after.Conditions, v1alpha1.ConditionStalled) {
				list = append(list, blockedEvents(begins, cmp.Or(old, &metav1.Condition{}).Message, c.Message)...)
			}
			if turned && !bad {
				list = append(list, Event{corev1.EventTypeNormal, c.Reason, "Reconcile", cmp.Or(c.Message, c.Type), ""})
			}
		case v1alpha1.ConditionReplicasHonored:
			if bad && turned {
				list = append(list, Event{corev1.EventTypeWarning, c.Reason, "Allocate", c.Message, ""})
			}
		}
	}
	return list
}

// blockedEvents returns an event when a rollout begins to be blocked, and when those that block it are no longer on their way back:
// that they are is no warning.
func blockedEvents(begins bool, before, after string) []Event {
	back := strings.Contains(after, coordination.UntilBack)
	switch {
	case back && begins:
		return []Event{{corev1.EventTypeNormal, v1alpha1.ReasonBlocked, "Rollout", after, ""}}
	case !back && (begins || strings.Contains(before, coordination.UntilBack)):
		return []Event{{corev1.EventTypeWarning, v1alpha1.ReasonBlocked, "Rollout", after, ""}}
	}
	return nil
}

// whyStuck returns why replicas that were not ready were deleted.
func whyStuck(count int, update string) string {
	if count == 1 {
		return "it is broken or was released and does not run " + update
	}
	return "they are broken or were released and do not run " + update
}

// rolledOut reports whether all replicas run the update revision and are ready because a rollout has ended, and
// not a scaling or a repair: Ready was False since before the first replica was ready, or since the rollout
// started. When a user goes back by hand, the status does not have the time of that, so there is no event.
func rolledOut(before, after *v1alpha1.UnitedDeploymentStatus) bool {
	ready := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionReady)
	initialized := meta.FindStatusCondition(before.Conditions, v1alpha1.ConditionInitialized)
	switch {
	case before.CurrentRevision != after.CurrentRevision, before.UpdateRevision != after.UpdateRevision, before.UpdateRevision != before.CurrentRevision:
		return true
	case ready == nil, initialized == nil, initialized.Status != metav1.ConditionTrue:
		return true
	case ready.LastTransitionTime.Unix() <= initialized.LastTransitionTime.Unix():
		return true
	}
	return before.Rollout != nil && before.Rollout.StartTime != nil && ready.LastTransitionTime.Unix() <= before.Rollout.StartTime.Unix()
}
