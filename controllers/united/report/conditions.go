// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/spec"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// setConditions sets the conditions.
func setConditions(in *planner.Input, p *planner.Plan, tallies []*tally, status *v1alpha1.UnitedDeploymentStatus) {
	set := setter(status, in.Parent.Generation, in.Now)
	setInitialized(p, set)
	setReplicasHonored(p, set)
	setAvailable(in, status, set)

	ready, reason, message := readiness(in, p, tallies, status)
	complete := ready && reason == v1alpha1.ReasonRolloutComplete && spec.Replicas(in.Parent) > 0
	if ready && !p.Allocation.Honored {
		reason, message = notHonored(p, reason, message)
	}
	stalledReason, stalledMessage := stalledBy(in, p, status, tallies)
	if reason == v1alpha1.ReasonNoSubsets {
		stalledReason, stalledMessage = reason, message
	}
	if in.Unkept != nil {
		ready, complete, reason, message = false, false, in.Unkept.Reason, in.Unkept.Message
		if in.Unkept.Stalled {
			stalledReason, stalledMessage = reason, message
		}
	}
	// The clock of the deadline starts with the current value of Ready.
	set(v1alpha1.ConditionReady, ready, reason, message)
	if deadline, running := progressDeadline(in.Parent, status); stalledReason == "" && running && !in.Now.Before(deadline) {
		stalledReason = v1alpha1.ReasonProgressDeadlineExceeded
		stalledMessage = fmt.Sprintf("no progress for %ds: %s%s", ptr.Deref(in.Parent.Spec.ProgressDeadlineSeconds, spec.DefaultProgressDeadline), message, notRolledBack(in, p, status))
	}
	if stalledReason != "" {
		set(v1alpha1.ConditionReady, false, stalledReason, stalledMessage)
		set(v1alpha1.ConditionComplete, false, stalledReason, stalledMessage)
		set(v1alpha1.ConditionProgressing, false, stalledReason, stalledMessage)
		set(v1alpha1.ConditionStalled, true, stalledReason, stalledMessage)
		return
	}
	setComplete(in, complete, ready, reason, message, set)
	set(v1alpha1.ConditionProgressing, !ready, reason, message)
	set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonNotStalled, "")
}

// notRolledBack says why onFailure does not go back where replicas are missing: one that cannot be created, because of a quota or
// an admission policy, says nothing of its revision, and the one before may not be created either.
func notRolledBack(in *planner.Input, p *planner.Plan, status *v1alpha1.UnitedDeploymentStatus) string {
	rolling := in.Parent.Spec.UpdateStrategy.RollingUpdate
	if p.Rollout == nil || p.GoesBack || rolling == nil || rolling.OnFailure != v1alpha1.RollbackOnFailure || status.Replicas >= spec.Replicas(in.Parent) {
		return ""
	}
	return "; onFailure: Rollback does not go back because of replicas that are not created: to go back, run: kubectl united undo -n " + in.Parent.Namespace + " " + in.Parent.Name
}

// setComplete sets Complete. ready, reason and message are those of Ready, which say why it is not.
func setComplete(in *planner.Input, complete, ready bool, reason, message string, set setCondition) {
	switch {
	case complete:
		reason = v1alpha1.ReasonRolloutComplete
	case ready && spec.Replicas(in.Parent) == 0:
		reason, message = v1alpha1.ReasonNoReplicas, "there are no replicas"
	}
	set(v1alpha1.ConditionComplete, complete, reason, message)
}

type setCondition func(conditionType string, value bool, reason, message string)

func setter(status *v1alpha1.UnitedDeploymentStatus, generation int64, now time.Time) setCondition {
	return func(conditionType string, value bool, reason, message string) {
		state := metav1.ConditionFalse
		if value {
			state = metav1.ConditionTrue
		}
		setState(status, generation, now, conditionType, state, reason, message)
	}
}

func setState(status *v1alpha1.UnitedDeploymentStatus, generation int64, now time.Time, conditionType string, state metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(&status.Conditions, metav1.Condition{
		Type: conditionType, Status: state, Reason: reason, Message: sentence(message),
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	})
}

func setInitialized(p *planner.Plan, set setCondition) {
	if p.Initialized {
		set(v1alpha1.ConditionInitialized, true, v1alpha1.ReasonFirstReplicaReady, "first replica became ready; partitions now take effect")
		return
	}
	set(v1alpha1.ConditionInitialized, false, v1alpha1.ReasonWaitingForFirstReplica,
		"no replica has become ready yet; until one does, a new template replaces this one everywhere, whatever the partitions")
}

func setReplicasHonored(p *planner.Plan, set setCondition) {
	reason := v1alpha1.ReasonAllocatedAsAsked
	if !p.Allocation.Honored {
		reason = v1alpha1.ReasonScaledInProportion
	}
	set(v1alpha1.ConditionReplicasHonored, p.Allocation.Honored, reason, joined(p.Allocation.Reason, split(p)))
}

func setAvailable(in *planner.Input, status *v1alpha1.UnitedDeploymentStatus, set setCondition) {
	wanted := spec.Replicas(in.Parent)
	available := status.AvailableReplicas >= wanted
	for name := range in.Unreadable {
		if unknown := in.LastKnown(name).AvailableReplicas; available && status.AvailableReplicas-unknown < wanted {
			setState(status, in.Parent.Generation, in.Now, v1alpha1.ConditionAvailable, metav1.ConditionUnknown, v1alpha1.ReasonUnreadable,
				fmt.Sprintf("%d of %d replicas were available when last seen: %s", status.AvailableReplicas, wanted, in.Unreadable[name].Why))
			return
		}
	}
	reason := v1alpha1.ReasonReplicasAvailable
	if !available {
		reason = v1alpha1.ReasonReplicasUnavailable
	}
	set(v1alpha1.ConditionAvailable, available, reason, fmt.Sprintf("%d of %d replicas are available", min(status.AvailableReplicas, wanted), wanted))
}

// readiness reports whether the cluster currently is as the spec asks.
func readiness(in *planner.Input, p *planner.Plan, tallies []*tally, status *v1alpha1.UnitedDeploymentStatus) (ready bool, reason, message string) {
	if reason, message := trouble(in, tallies, status); reason != "" {
		return false, reason, message
	}
	rollout := ptr.Deref(status.Rollout, v1alpha1.RolloutStatus{})
	phase := meaningOf(status.Rollout, in.Parent.Spec.Paused)
	switch {
	case spec.Replicas(in.Parent) == 0 && status.Replicas == 0 && phase.coversAllSubsets:
		return true, v1alpha1.ReasonRolloutHeld, rollout.Message // nothing more is asked for
	case phase.failureReason != "":
		return false, phase.failureReason, rollout.Message
	}
	if failed, _ := replicaFailed(in, p, tallies); failed != "" {
		return false, v1alpha1.ReasonReplicaFailed, failed
	}
	if reason, message := groupTrouble(in); reason != "" {
		return false, reason, message
	}
	if said := unschedulableMessages(tallies, in.Now); len(said) > 0 {
		return false, v1alpha1.ReasonUnschedulable, shorten(said, "; ")
	}
	for _, blocker := range []struct {
		phases []v1alpha1.SubsetPhase
		reason string
	}{
		{[]v1alpha1.SubsetPhase{v1alpha1.PhasePending, v1alpha1.PhaseSeeding, v1alpha1.PhaseRestoring}, v1alpha1.ReasonReconciling},
		{[]v1alpha1.SubsetPhase{v1alpha1.PhaseUpdating, v1alpha1.PhaseWaiting}, v1alpha1.ReasonRollingOut},
		{[]v1alpha1.SubsetPhase{v1alpha1.PhaseScaling}, v1alpha1.ReasonScaling},
		{[]v1alpha1.SubsetPhase{v1alpha1.PhaseUnavailable}, v1alpha1.ReasonReplicasUnavailable},
	} {
		if said := messagesOf(status, blocker.phases); len(said) > 0 {
			if blocker.reason != v1alpha1.ReasonReconciling && phase.coversAllSubsets && rollout.Message != "" {
				return false, v1alpha1.ReasonRollingOut, rollout.Message // it says what holds all of them
			}
			return false, blocker.reason, shorten(said, "; ")
		}
	}
	if slices.ContainsFunc(tallies, func(t *tally) bool { return !t.done() || t.stale }) {
		return false, v1alpha1.ReasonReconciling, "a child workload changed while it was being written; retrying"
	}
	if p.Growth != nil {
		return false, v1alpha1.ReasonScaling, fmt.Sprintf("%d of %d groups are created", p.Growth.Groups, p.Growth.Total)
	}
	updated := howManyRun(status, updateName(in, status.CurrentRevision))
	switch {
	case phase.reason != "":
		return phase.ready, phase.reason, updated + "; " + rollout.Message
	case in.Parent.Spec.Paused:
		return true, v1alpha1.ReasonPaused, updated + "; the rollout is paused"
	case slices.ContainsFunc(status.Subsets, func(s v1alpha1.SubsetStatus) bool { return s.Phase == v1alpha1.PhaseHeld }):
		return true, v1alpha1.ReasonRolloutHeld, updated + "; " + howHeld(in, status)
	}
	if spec.Replicas(in.Parent) == 0 && status.CurrentRevision != in.Update.Name {
		return true, v1alpha1.ReasonRolloutHeld, "there are no replicas, so the rollout of " + updateName(in, status.CurrentRevision) + " continues when there are"
	}
	if spec.Replicas(in.Parent) == 0 {
		updated = "there are no replicas"
	}
	return true, v1alpha1.ReasonRolloutComplete, updated
}

// runUpdate returns how many replicas run the update revision, and how many the subsets are to have. A surge pod is in neither.
func runUpdate(status *v1alpha1.UnitedDeploymentStatus) (ran, wanted int32) {
	for i := range status.Subsets {
		wanted += status.Subsets[i].DesiredReplicas
	}
	return min(status.UpdatedReplicas, wanted), wanted
}

func howManyRun(status *v1alpha1.UnitedDeploymentStatus, name string) string {
	ran, wanted := runUpdate(status)
	return fmt.Sprintf("%d of %d replicas run %s", ran, wanted, name)
}

// trouble returns what comes before whatever the replicas do; "" if nothing.
func trouble(in *planner.Input, tallies []*tally, status *v1alpha1.UnitedDeploymentStatus) (reason, message string) {
	if said := errorsOf(status); len(said) > 0 {
		return v1alpha1.ReasonApplyFailed, shorten(said, "; ")
	}
	if said := overriddenMessages(tallies); len(said) > 0 {
		return v1alpha1.ReasonOverridden, shorten(said, "; ")
	}
	if in.LostSubsets() {
		return v1alpha1.ReasonNoSubsets, noSubsets(in)
	}
	if in.Rejected != nil {
		return v1alpha1.ReasonRevisionRejected, rejectedMessage(in, tallies, status)
	}
	return "", ""
}

// howHeld says how many replicas partitions hold, and, if nothing has been released yet, how to release. The summary says
// which ones.
func howHeld(in *planner.Input, status *v1alpha1.UnitedDeploymentStatus) string {
	if bound := coordination.Bound(in.Parent.Spec.UpdateStrategy.ManualUpdate, status.UpdateRevision); !in.Coordinates() && bound != "" {
		return bound
	}
	if in.Coordinates() || status.UpdatedReplicas > 0 {
		ran, wanted := runUpdate(status)
		return fmt.Sprintf("partitions hold %d", wanted-ran)
	}
	return "to release, set manualUpdate.partitions"
}

// noSubsets says that there are no subsets, and what that means for the children that exist.
func noSubsets(in *planner.Input) string {
	message := fmt.Sprintf("spec.topology.subsets is empty, so the %d replicas of spec.replicas cannot be placed: add a subset", spec.Replicas(in.Parent))
	if len(in.Children) > 0 {
		message += "; the existing child workloads stay as they are: to remove them, set spec.replicas to 0, or delete the UnitedDeployment"
	}
	return message
}

// overriddenMessages returns the messages of the subsets in which somebody undoes what United writes, with their
// names. These come before what the subsets wait for, which cannot happen because of that.
func overriddenMessages(tallies []*tally) []string {
	var said []string
	for _, t := range tallies {
		if t.failure != nil && t.failure.Reason == v1alpha1.ReasonOverridden {
			said = append(said, t.name+": "+t.message)
		}
	}
	return said
}

// messagesOf returns the messages of the subsets in the given phases, with their names.
func messagesOf(status *v1alpha1.UnitedDeploymentStatus, phases []v1alpha1.SubsetPhase) []string {
	var said []string
	for _, s := range status.Subsets {
		if slices.Contains(phases, s.Phase) {
			said = append(said, s.Name+": "+s.Message)
		}
	}
	return said
}

// errorsOf returns the messages of the stalled subsets. The answer of the API server is long, and is the same for
// each child except for its name, so it appears only once, with all the subsets that it is about.
func errorsOf(status *v1alpha1.UnitedDeploymentStatus) []string {
	var messages []string
	about := map[string][]*v1alpha1.SubsetStatus{} // by message, without the name of the child
	for i := range status.Subsets {
		s := &status.Subsets[i]
		if s.Phase != v1alpha1.PhaseStalled {
			continue
		}
		message := s.Message
		if s.Workload != "" {
			message = strings.ReplaceAll(message, s.Workload, strings.TrimSuffix(s.Workload, s.Name)+"*")
		}
		if about[message] == nil {
			messages = append(messages, message)
		}
		about[message] = append(about[message], s)
	}
	said := make([]string, 0, len(messages))
	for _, message := range messages {
		var names []string
		for _, s := range about[message] {
			names = append(names, s.Name)
		}
		switch {
		case len(names) == 1:
			said = append(said, names[0]+": "+about[message][0].Message)
		case len(names) == len(status.Subsets):
			said = append(said, "all subsets: "+message)
		default:
			said = append(said, shorten(names, ", ")+": "+message)
		}
	}
	return said
}

// shorten joins the first few texts: those of a hundred subsets would not fit into a condition.
func shorten(said []string, separator string) string { return shortenTo(said, separator, "subsets") }

// shortenTo is shorten for things other than subsets.
func shortenTo(said []string, separator, things string) string {
	const most = 3
	if rest := len(said) - most; rest > 0 {
		return fmt.Sprintf("%s%sand %d more %s", strings.Join(said[:most], separator), separator, rest, things)
	}
	return strings.Join(said, separator)
}

// stalledBy returns the first failure that does not pass by itself.
func stalledBy(in *planner.Input, p *planner.Plan, status *v1alpha1.UnitedDeploymentStatus, tallies []*tally) (reason, message string) {
	said := errorsOf(status)
	for _, t := range tallies {
		if t.failure != nil && t.failure.Stalled {
			return t.failure.Reason, shorten(said, "; ")
		}
	}
	if in.Rejected != nil {
		return v1alpha1.ReasonRevisionRejected, rejectedMessage(in, tallies, status)
	}
	if p.Rollout != nil && p.Rollout.Stalled {
		return cmp.Or(meaningOf(status.Rollout, false).failureReason, v1alpha1.ReasonReplicaFailed), status.Rollout.Message
	}
	if failed, stalled := replicaFailed(in, p, tallies); stalled {
		return v1alpha1.ReasonReplicaFailed, failed
	}
	return groupTrouble(in)
}

// progressDeadline returns when a lack of progress becomes a stall; false if there is nothing to wait for.
func progressDeadline(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus) (time.Time, bool) {
	ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status == metav1.ConditionTrue || status.LastProgressTime == nil {
		return time.Time{}, false
	}
	if parent.Spec.Paused || meaningOf(status.Rollout, false).clockStops || checkIsFailing(status.Rollout) {
		return time.Time{}, false // a check has a deadline of its own; a pause stops the clock; ending it changes the spec, and so restarts the clock
	}
	start := status.LastProgressTime.Time
	if ready.LastTransitionTime.After(start) {
		start = ready.LastTransitionTime.Time // until then everything was fine
	}
	return start.Add(spec.ProgressTime(parent)), true
}

// checkIsFailing reports whether a check is about to fail, or has failed.
func checkIsFailing(rollout *v1alpha1.RolloutStatus) bool {
	return rollout != nil && slices.ContainsFunc(rollout.Checks, func(c v1alpha1.CheckStatus) bool { return c.FailingTime != nil })
}

// Blocked returns the status of a parent for which nothing can be done. It keeps what was known of the
// replicas. Unless the failure passes by itself soon, their availability becomes unknown. overridden is why the status
// itself is overridden; nil if it is not.
func Blocked(parent *v1alpha1.UnitedDeployment, failure *subset.Failure, overridden *undone.OverriddenError, now time.Time) *v1alpha1.UnitedDeploymentStatus {
	status := parent.Status.DeepCopy()
	status.ObservedGeneration = parent.Generation
	set := setter(status, parent.Generation, now)
	set(v1alpha1.ConditionReady, false, failure.Reason, failure.Message)
	set(v1alpha1.ConditionComplete, false, failure.Reason, failure.Message)
	set(v1alpha1.ConditionProgressing, false, failure.Reason, failure.Message)
	if failure.Stalled {
		set(v1alpha1.ConditionStalled, true, failure.Reason, failure.Message)
		setState(status, parent.Generation, now, v1alpha1.ConditionAvailable, metav1.ConditionUnknown, failure.Reason,
			"the availability of replicas is unknown: "+failure.Message)
	} else {
		set(v1alpha1.ConditionStalled, false, v1alpha1.ReasonNotStalled, "")
	}
	setOverridden(parent, status, overridden, now)
	return status
}

// setOverridden sets conditions that say that the status itself, or a record that it needs, is overridden, if it is, so
// that none of it can be relied on. Another cause of a stall takes precedence.
func setOverridden(parent *v1alpha1.UnitedDeployment, status *v1alpha1.UnitedDeploymentStatus, why *undone.OverriddenError, now time.Time) {
	if why == nil {
		return
	}
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionStalled); c != nil && c.Status == metav1.ConditionTrue && c.Reason != v1alpha1.ReasonOverridden {
		return
	}
	set := setter(status, parent.Generation, now)
	say := func(conditionType string, value bool) {
		// Start from the previous condition, so that its transition time does not change back and forth.
		was, is := meta.FindStatusCondition(parent.Status.Conditions, conditionType), meta.FindStatusCondition(status.Conditions, conditionType)
		if was != nil && is != nil {
			*is = *was
		}
		set(conditionType, value, v1alpha1.ReasonOverridden, why.Error())
	}
	say(v1alpha1.ConditionReady, false)
	say(v1alpha1.ConditionComplete, false)
	say(v1alpha1.ConditionProgressing, !why.Lasting)
	if why.Lasting {
		say(v1alpha1.ConditionStalled, true)
	}
}
