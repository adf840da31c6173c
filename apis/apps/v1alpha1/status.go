// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnitedDeploymentStatus is the state that the controller last observed. The controller
// writes it as a whole.
// ---
// It is owned as a whole too: a field owner for each of its fields would make up most of
// the object.
//
// +structType=atomic
type UnitedDeploymentStatus struct {
	// observedGeneration is the metadata.generation that this status belongs to; -1
	// before the controller has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	ReplicaCounts `json:",inline"`

	// selector selects the pods, in the form the scale subresource asks for.
	// +optional
	Selector string `json:"selector,omitempty"`

	// currentRevision is the last revision that every replica of every subset ran while
	// ready, as the name of a ControllerRevision. Subsets that have no protected revision of
	// their own protect this one.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// updateRevision is the revision that the spec asks for, as the name of a
	// ControllerRevision.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// lastProgressTime is when a replica last got closer to what the spec asks for, or
	// when the spec last changed. The progress deadline starts then.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`

	// pausedTime is when spec.paused became true; absent if it is false.
	// +optional
	PausedTime *metav1.Time `json:"pausedTime,omitempty"`

	// resumedTime is when spec.paused last became false. For each replica,
	// spec.progressDeadlineSeconds starts at this time or later.
	// +optional
	ResumedTime *metav1.Time `json:"resumedTime,omitempty"`

	// rollout is the state of the rollout, with type RollingUpdate.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// summary describes the subsets in one line, such as "zone-a 1/1 · zone-b 1/3 held":
	// for each, how many replicas run the update revision, how many it gets, and its phase
	// unless it is complete. If there are many subsets, it describes the first ones.
	// +optional
	Summary string `json:"summary,omitempty"`

	// subsets has the state of each subset, in the order of the spec; subsets that are
	// being removed come last. Names are unique.
	// +listType=atomic
	// +optional
	Subsets []SubsetStatus `json:"subsets,omitempty"`

	// conditions are Ready, Available, Progressing, Stalled, Initialized and
	// ReplicasHonored.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RolloutPhase is the state of a rollout in one word.
// +kubebuilder:validation:Enum=Staging;Progressing;Paused;AwaitingApproval;Blocked;Failed;CheckFailed;Done
type RolloutPhase string

// Phases of a rollout.
const (
	// RolloutStaging: the child workloads get the new template, with everything protected.
	RolloutStaging RolloutPhase = "Staging"
	// RolloutProgressing: replicas are being released and updated.
	RolloutProgressing RolloutPhase = "Progressing"
	// RolloutPaused: a step is reached and its timed pause is running, or spec.paused is true.
	RolloutPaused RolloutPhase = "Paused"
	// RolloutAwaitingApproval: a step is reached that waits for approvalKey.
	RolloutAwaitingApproval RolloutPhase = "AwaitingApproval"
	// RolloutBlocked: replicas that cannot be released yet are unavailable, and
	// use up maxUnavailable; or a child workload, or the object of a check, cannot be read.
	RolloutBlocked RolloutPhase = "Blocked"
	// RolloutFailed: an updated replica failed, so no more replicas are released.
	RolloutFailed RolloutPhase = "Failed"
	// RolloutCheckFailed: a check failed, so no more replicas are released.
	RolloutCheckFailed RolloutPhase = "CheckFailed"
	// RolloutDone: every subset is at its floor, and all released replicas are
	// available. Replicas of a child workload that no longer exists do not count here: the
	// condition Ready reports them.
	RolloutDone RolloutPhase = "Done"
)

// RolloutStatus is the state of a coordinated rollout. After a restart, the controller
// continues from it.
type RolloutStatus struct {
	// revision is the revision that this rolls out: the update revision, or, while that is rejected,
	// the current one.
	// +kubebuilder:validation:MinLength=1
	// +required
	Revision string `json:"revision,omitempty"`

	// phase is the state in one word.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// message says what the rollout waits for.
	// +optional
	Message string `json:"message,omitempty"`

	// step is the current step, counted from 0. After the last step, it is the number of
	// spec.updateStrategy.rollingUpdate.steps.
	// +optional
	Step int32 `json:"step"`

	// stepKey is a hash of what the steps before the current one did to each subset. If
	// you edit those steps, the rollout starts over with the first one. Editing the current
	// step or a later one, or removing a subset, does not change it.
	// +optional
	StepKey string `json:"stepKey,omitempty"`

	// startTime is when the rollout started, or when steps that had passed were last
	// edited.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// reachedTime is when the current step was reached, that is, when everything it releases
	// was released and available. It is absent while the step is not reached, or a check is
	// not met.
	// +optional
	ReachedTime *metav1.Time `json:"reachedTime,omitempty"`

	// soakedSeconds is how long the current step had already been reached before reachedTime.
	// A timed pause counts only the time in which its step is reached; a failure resets this
	// to 0.
	// +optional
	SoakedSeconds int64 `json:"soakedSeconds,omitempty"`

	// lastProgressTime is when a replica was last released, or became available
	// on the update revision.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`

	// forced is true if the annotation united.dev/force-update names this revision, and is not spent.
	// +optional
	Forced bool `json:"forced,omitempty"`

	// promoted is true if the annotation united.dev/promote names this revision, and is not spent:
	// its steps are passed.
	// +optional
	Promoted bool `json:"promoted,omitempty"`

	// approvalKey is the value of the annotation united.dev/approved that lets the rollout
	// continue; empty if it does not wait for approval. It is valid only for this revision
	// and step.
	// +optional
	ApprovalKey string `json:"approvalKey,omitempty"`

	// checks are the last results of spec.updateStrategy.rollingUpdate.checks. Names are unique.
	// +listType=atomic
	// +optional
	Checks []CheckStatus `json:"checks,omitempty"`

	// retried identifies the values of the annotation united.dev/retry that have had their effect on
	// this rollout.
	// +optional
	Retried string `json:"retried,omitempty"`

	// spent identifies the values of the annotations united.dev/force-update and united.dev/promote
	// that do not count in this rollout, because they were there before: when status.updateRevision
	// first named its revision, when steps that had passed were edited, or when it was rejected.
	// +optional
	Spent string `json:"spent,omitempty"`

	// rejectedRevision is the update revision while it is rejected (onFailure: Rollback): it failed,
	// and the rollout is on the way back from it, or has ended there. The annotation united.dev/retry
	// rolls it out once more.
	// +optional
	RejectedRevision string `json:"rejectedRevision,omitempty"`
}

// CheckState is the result of a check in one word.
// +kubebuilder:validation:Enum=Met;NotMet;Running;Failed
type CheckState string

// Results of a check.
const (
	// CheckIsMet: the rollout does not wait for it.
	CheckIsMet CheckState = "Met"
	// CheckIsNotMet: no more replicas are released until it is met.
	CheckIsNotMet CheckState = "NotMet"
	// CheckRuns: its Job or AnalysisRun has not finished. The step does not end before.
	CheckRuns CheckState = "Running"
	// CheckHasFailed: a condition was not met for progressDeadlineSeconds, although replicas are
	// released; a query was not met failureLimit times in a row; or a Job or AnalysisRun failed. No
	// more replicas are released.
	CheckHasFailed CheckState = "Failed"
)

// CheckStatus is the last result of a check. It belongs to the revision of the rollout, to a step,
// and to the content of the check: if any of these changes, the check is measured anew.
type CheckStatus struct {
	// name is the name of the check.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name,omitempty"`

	// state is the result in one word.
	// +required
	State CheckState `json:"state,omitempty"`

	// message says why the check is not met, or what was measured when it was last written.
	// +optional
	Message string `json:"message,omitempty"`

	// run is the Job or AnalysisRun of the check in this step, as kubectl takes it: job/name or
	// analysisrun/name.
	// +optional
	Run string `json:"run,omitempty"`

	// sinceTime is since when it has this state.
	// +required
	SinceTime metav1.Time `json:"sinceTime,omitzero"`

	// failingTime is since when it is not met although the revision has a released replica. A condition
	// has failed progressDeadlineSeconds later.
	// +optional
	FailingTime *metav1.Time `json:"failingTime,omitempty"`

	// step is the step of the rollout that the result belongs to.
	// +optional
	Step int32 `json:"step"`

	// key is a hash of the content of the check that the result belongs to.
	// +optional
	Key string `json:"key,omitempty"`
}

// ReplicaCounts counts replicas. A replica that is being deleted is counted in
// Replicas only.
type ReplicaCounts struct {
	// replicas is how many replicas exist, including those being deleted.
	// +optional
	Replicas int32 `json:"replicas"`
	// readyReplicas is how many are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is how many have been ready for minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// updatedReplicas is how many run the update revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// updatedReadyReplicas is how many run the update revision and are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
}

// SubsetStatus is the state of one subset that the controller last observed.
type SubsetStatus struct {
	// name is the name of the subset.
	// +kubebuilder:validation:MinLength=1
	// +required
	Name string `json:"name,omitempty"`

	// workload is the name of the child workload.
	// +optional
	Workload string `json:"workload,omitempty"`

	// desiredReplicas is how many of spec.replicas the subset gets.
	// +optional
	DesiredReplicas int32 `json:"desiredReplicas"`

	ReplicaCounts `json:",inline"`

	// partition is the partition in effect, as a number: replicas below it are protected. A
	// percentage is converted to the number of replicas that it protects. A number is kept
	// as it is, even if it exceeds the number of replicas.
	// +optional
	Partition int32 `json:"partition"`

	// expectedUpdatedReplicas is how many replicas the partition releases to the update
	// revision.
	// +optional
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas"`

	// currentRevision is the revision that protected replicas run.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// updateRevision is the revision that released replicas are updated to.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// phase is the state of the subset in one word.
	// +optional
	Phase SubsetPhase `json:"phase,omitempty"`

	// message says what the subset waits for, what holds it, or why it is stalled.
	// +optional
	Message string `json:"message,omitempty"`

	// cap is there while the subset gets no more replicas, because some of its replicas fitted
	// on no node. With schedule strategy Adaptive only.
	// +optional
	Cap *SubsetCap `json:"cap,omitempty"`

	// conditions is Schedulable, with schedule strategy Adaptive only: False while the subset is
	// capped. The message quotes the scheduler.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// record is a copy of the annotations that the controller keeps on the child
	// workload, in case somebody removes or changes them there. Only the controller reads it.
	// +optional
	ChildRecord *ChildRecord `json:"record,omitempty"`
}

// SubsetCap is how many replicas a subset gets that has no room for more, and for how long.
type SubsetCap struct {
	// replicas is how many replicas the subset gets, if its minimum is not more: those that
	// have a node.
	// +optional
	Replicas int32 `json:"replicas"`

	// reserved is how many of the desiredReplicas of the subset have no node, and are in
	// addition to spec.replicas (reserveUnschedulablePods).
	// +optional
	Reserved int32 `json:"reserved,omitempty"`

	// sinceTime is when the subset was capped.
	// +required
	SinceTime metav1.Time `json:"sinceTime,omitzero"`

	// clearedTime is when no replica was left that fits on no node; absent as long as there is
	// one. The cap is over retryAfterSeconds later.
	// +optional
	ClearedTime *metav1.Time `json:"clearedTime,omitempty"`

	// message names a replica that fitted on no node, and quotes the scheduler.
	// +optional
	Message string `json:"message,omitempty"`
}

// ChildRecord is a copy of the annotations that the controller keeps on a child workload. It is stored as one opaque string,
// because nobody but the controller reads it.
// +kubebuilder:validation:Type=string
type ChildRecord struct {
	// uid is the UID of the child workload that the record belongs to.
	// +optional
	UID string `json:"uid,omitempty"`

	// generation is metadata.generation of the child workload when the copy was made.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// hash identifies the template of the child workload in its own status, once it is known.
	// +optional
	Hash string `json:"hash,omitempty"`

	// annotations are those annotations of the child workload that name its revision and the
	// one of its protected replicas.
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// checksum is a checksum of the other fields. If it does not match, somebody changed the
	// copy, and the controller ignores it.
	// +optional
	Checksum string `json:"checksum,omitempty"`
}
