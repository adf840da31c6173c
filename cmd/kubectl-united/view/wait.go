// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// Patience is how long something may be unanswered before nobody is there to answer. A standby manager, or a new one, needs
// most of it to take over.
const Patience = 30 * time.Second

// What one can wait for.
const (
	// AwaitSettled: the cluster is what the spec asks for now; holds, pauses and approvals are part of what it asks for.
	AwaitSettled = "settled"
	// AwaitComplete: every replica runs the update revision and is available.
	AwaitComplete = "complete"
	// AwaitHeld: it is settled, and partitions, a pause or an approval keep it from being complete.
	AwaitHeld = "held"
)

// WaitOutcome is how a wait stands.
type WaitOutcome string

// Outcomes of a wait.
const (
	WaitGoesOn   WaitOutcome = "goes on"
	WaitMet      WaitOutcome = "met"
	WaitFailed   WaitOutcome = "failed"
	WaitTimedOut WaitOutcome = "timed out"
	WaitNobody   WaitOutcome = "nobody"
)

// Wait is a wait for one UnitedDeployment. It remembers what it has seen, since the clocks of a cluster may differ from that of the
// caller: nothing but how long it itself has seen something is measured.
type Wait struct {
	For string
	// Revision is the update revision that it waits for; "" is any.
	Revision string
	Deadline time.Time

	// unanswered is what no manager had done at the last look, and since when.
	unanswered string
	since      time.Time
	// renewal is the last renewal of the Lease, and renewed when it was seen to change.
	renewal, renewed time.Time
}

// Sight is what there is to see.
type Sight struct {
	Parent *v1alpha1.UnitedDeployment
	// Lease is that of the manager; nil if it cannot be read.
	Lease *coordinationv1.Lease
	// Update is the update revision; nil if it cannot be read. It matters only for a rollout that is forced.
	Update *appsv1.ControllerRevision
	Now    time.Time
}

// Look returns how the wait stands, why, and the wait for the next look.
func (w Wait) Look(s *Sight) (WaitOutcome, string, Wait) {
	w = w.seen(s)
	open := unanswered(s)
	if s.Parent.DeletionTimestamp != nil {
		return WaitFailed, "it is being deleted", w
	}
	if c := currentCondition(s.Parent, v1alpha1.ConditionStalled); conditionTrue(c) && (open == "" || !overruled(c.Reason)) {
		return WaitFailed, c.Reason + ": " + c.Message, w
	}
	if update := s.Parent.Status.UpdateRevision; open == "" && w.Revision != "" && update != w.Revision {
		return WaitFailed, fmt.Sprintf("its update revision is %s, and not %s", update, w.Revision), w
	}
	if open == "" && !w.alive(s) {
		open = fmt.Sprintf("renewed the Lease %s/%s", s.Lease.Namespace, s.Lease.Name)
	}
	if open != w.unanswered {
		w.unanswered, w.since = open, s.Now
	}
	_, reason, message := Headline(s.Parent)
	why := reason + ": " + approving(s.Parent, reason, message)
	if open != "" {
		why = "no manager has " + open + " yet"
	}
	switch {
	case open == "" && w.met(s.Parent):
		return WaitMet, why, w
	case open != "" && s.Now.Sub(w.since) >= Patience:
		return WaitNobody, w.nobody(s), w
	case !s.Now.Before(w.Deadline):
		return WaitTimedOut, why, w
	}
	return WaitGoesOn, why, w
}

// approving is a message that names the command of the plugin for an approval, instead of the one of kubectl.
func approving(parent *v1alpha1.UnitedDeployment, reason, message string) string {
	if said := brief(message); reason == v1alpha1.ReasonAwaitingApproval && said != message {
		return fmt.Sprintf("%s; to continue, run: kubectl united approve %s -n %s", said, parent.Name, parent.Namespace)
	}
	return message
}

// Away returns the wait after a look that failed: while the API server is away, no manager can answer.
func (w Wait) Away() Wait {
	w.unanswered, w.since = "", time.Time{}
	return w
}

// Line is what there is to see on one line, after a look at it.
func (w Wait) Line(s *Sight) string {
	st := StatusOf(s.Parent, nil, "")
	st.Message = approving(s.Parent, st.Reason, st.Message)
	if w.unanswered == "" || !st.Observed { // then the status says so
		return Line(st)
	}
	return "no manager has " + w.unanswered + " yet; until then: " + Line(st)
}

// met reports whether what was waited for is there.
func (w Wait) met(parent *v1alpha1.UnitedDeployment) bool {
	ready, complete := currentCondition(parent, v1alpha1.ConditionReady), currentCondition(parent, v1alpha1.ConditionComplete)
	switch w.For {
	case AwaitComplete:
		return conditionTrue(complete)
	case AwaitHeld:
		return conditionTrue(ready) && complete != nil && !conditionTrue(complete) && holds(ready.Reason, complete.Reason)
	}
	return conditionTrue(ready)
}

// holds reports whether something holds a rollout that is Ready and not Complete. Trap: ReplicasNotHonored takes the place of
// RolloutHeld, and of the reason of a rollout that is not complete only because it has no replicas.
func holds(ready, complete string) bool {
	switch ready {
	case v1alpha1.ReasonRolloutHeld, v1alpha1.ReasonPaused, v1alpha1.ReasonAwaitingApproval:
		return true
	case v1alpha1.ReasonReplicasNotHonored:
		return complete != v1alpha1.ReasonNoReplicas
	}
	return false
}

// unanswered returns what no manager has done yet; "" if the status answers everything. A status from before an approval or a force
// says what was, although the generation is the same.
func unanswered(s *Sight) string {
	parent, status, rollout := s.Parent, &s.Parent.Status, s.Parent.Status.Rollout
	if status.ObservedGeneration != parent.Generation || currentCondition(parent, v1alpha1.ConditionReady) == nil {
		return fmt.Sprintf("observed generation %d", parent.Generation)
	}
	if parent.Spec.UpdateStrategy.Type != v1alpha1.RollingUpdateStrategy || rollout == nil {
		return ""
	}
	if key := parent.Annotations[v1alpha1.AnnotationApproved]; key != "" && key == rollout.ApprovalKey && rollout.Phase == v1alpha1.RolloutAwaitingApproval {
		return "observed the annotation " + v1alpha1.AnnotationApproved
	}
	for _, annotation := range Unseen(parent) {
		if !spent(s, annotation) {
			return "observed the annotation " + annotation
		}
	}
	return ""
}

// Unseen returns the annotations that force or promote the update revision, or measure its checks anew, and of which the status does
// not say so yet.
func Unseen(parent *v1alpha1.UnitedDeployment) (annotations []string) {
	r, update := parent.Status.Rollout, parent.Status.UpdateRevision
	retry := parent.Annotations[v1alpha1.AnnotationRetry]
	switch {
	case r != nil && r.RejectedRevision != "" && coordination.NamesRevision(retry, r.RejectedRevision):
		return []string{v1alpha1.AnnotationRetry}
	case r == nil || update == "" || r.Revision != update:
		return nil
	}
	if coordination.Counts(r.Spent, v1alpha1.AnnotationForceUpdate, parent.Annotations[v1alpha1.AnnotationForceUpdate], update) && !r.Forced {
		annotations = append(annotations, v1alpha1.AnnotationForceUpdate)
	}
	if coordination.Counts(r.Spent, v1alpha1.AnnotationPromote, parent.Annotations[v1alpha1.AnnotationPromote], update) && !r.Promoted {
		annotations = append(annotations, v1alpha1.AnnotationPromote)
	}
	if coordination.NamesRevision(retry, update) && len(r.Checks) > 0 && r.Phase != v1alpha1.RolloutDone && !strings.Contains(r.Retried, coordination.RetryKey(retry)) {
		annotations = append(annotations, v1alpha1.AnnotationRetry)
	}
	return annotations
}

// spent reports whether an annotation no longer applies to a revision, because the rollout has left that revision since.
func spent(s *Sight, annotation string) bool {
	return s.Update != nil && planner.Spent(s.Update.Annotations[v1alpha1.AnnotationLeft], annotation, s.Parent.Annotations[annotation], s.Update.Name)
}

// overruled reports whether a force, or an approval, may end a stall.
func overruled(reason string) bool {
	return reason == v1alpha1.ReasonReplicaFailed || reason == v1alpha1.ReasonBlocked || reason == v1alpha1.ReasonCheckFailed || reason == v1alpha1.ReasonRevisionRejected || reason == v1alpha1.ReasonProgressDeadlineExceeded
}

// currentCondition returns a condition if it is of the current generation, else nil.
func currentCondition(parent *v1alpha1.UnitedDeployment, conditionType string) *metav1.Condition {
	c := meta.FindStatusCondition(parent.Status.Conditions, conditionType)
	if c == nil || c.ObservedGeneration != parent.Generation || parent.Status.ObservedGeneration != parent.Generation {
		return nil
	}
	return c
}

func conditionTrue(c *metav1.Condition) bool { return c != nil && c.Status == metav1.ConditionTrue }

// seen remembers a renewal of the Lease.
func (w Wait) seen(s *Sight) Wait {
	if s.Lease == nil || s.Lease.Spec.RenewTime == nil {
		return w
	}
	renewal := s.Lease.Spec.RenewTime.Time
	if !w.renewal.IsZero() && !w.renewal.Equal(renewal) {
		w.renewed = s.Now
	}
	w.renewal = renewal
	return w
}

// alive reports whether a manager holds the Lease: it was renewed lately, by the clock of the caller, or was seen to be. What
// cannot be read is taken for alive.
func (w Wait) alive(s *Sight) bool {
	if s.Lease == nil {
		return true
	}
	spec := &s.Lease.Spec
	if ptr.Deref(spec.HolderIdentity, "") == "" || spec.RenewTime == nil {
		return false
	}
	lasts := time.Duration(ptr.Deref(spec.LeaseDurationSeconds, 15)) * time.Second
	return s.Now.Sub(spec.RenewTime.Time).Abs() < lasts || !w.renewed.IsZero() && s.Now.Sub(w.renewed) < lasts
}

// nobody says that nobody answers, and where to look.
func (w Wait) nobody(s *Sight) string {
	said := fmt.Sprintf("no manager has %s for %s", w.unanswered, Patience)
	switch {
	case s.Lease == nil:
		return said + ": is United running?"
	case w.alive(s):
		return said + fmt.Sprintf(", although the Lease %s/%s says that one runs: does it watch the namespace %s?", s.Lease.Namespace, s.Lease.Name, s.Parent.Namespace)
	}
	return said + fmt.Sprintf(": see kubectl get pods -n %s -l app.kubernetes.io/name=united", s.Lease.Namespace)
}
