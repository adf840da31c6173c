// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnitedDeploymentStatus is what the controller last saw and did. It is written as a
// whole, and owned as a whole: who owns each of its fields would be most of the
// object.
// +structType=atomic
type UnitedDeploymentStatus struct {
	// ObservedGeneration is the metadata.generation that this status belongs to; -1
	// before the controller has seen the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	ReplicaCounts `json:",inline"`

	// Selector selects the pods, in the form the scale subresource asks for.
	// +optional
	Selector string `json:"selector,omitempty"`

	// CurrentRevision is the last revision that every replica of every subset ran while
	// ready, as the name of a ControllerRevision. It is also what subsets protect that have no
	// protected revision of their own.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// UpdateRevision is the revision that the spec asks for, as the name of a
	// ControllerRevision.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// LastProgressTime is when a replica last got closer to what the spec asks for, or
	// when the spec last changed. The progress deadline starts then.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`

	// PausedTime is when spec.paused became true; absent if it is false.
	// +optional
	PausedTime *metav1.Time `json:"pausedTime,omitempty"`

	// ResumedTime is when spec.paused last became false. Earlier time does not count
	// against spec.progressDeadlineSeconds of a replica.
	// +optional
	ResumedTime *metav1.Time `json:"resumedTime,omitempty"`

	// Rollout is the state of the rollout, with type RollingUpdate.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// Summary describes the subsets in one line, such as "zone-a 1/1 · zone-b 1/3 held":
	// for each, how many replicas run the update revision, how many it gets, and its phase
	// unless it is complete. If there are many subsets, it describes the first ones.
	// +optional
	Summary string `json:"summary,omitempty"`

	// Subsets has the state of each subset, in the order of the spec; subsets that are
	// being removed come last. Names are unique.
	// +listType=atomic
	// +optional
	Subsets []SubsetStatus `json:"subsets,omitempty"`

	// Conditions are Ready, Available, Progressing, Stalled, Initialized and
	// ReplicasHonored.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// RolloutPhase says in one word where a rollout stands.
// +kubebuilder:validation:Enum=Staging;Progressing;Paused;AwaitingApproval;Blocked;Failed;Complete
type RolloutPhase string

// Phases of a rollout.
const (
	// RolloutStaging: the child workloads get the new template, with everything protected.
	RolloutStaging RolloutPhase = "Staging"
	// RolloutProgressing: replicas are being released and updated.
	RolloutProgressing RolloutPhase = "Progressing"
	// RolloutPaused: a step is reached and its timed pause is running, or spec.paused.
	RolloutPaused RolloutPhase = "Paused"
	// RolloutAwaitingApproval: a step is reached that waits for approvalKey.
	RolloutAwaitingApproval RolloutPhase = "AwaitingApproval"
	// RolloutBlocked: replicas that cannot be released yet are unavailable, and
	// use up maxUnavailable.
	RolloutBlocked RolloutPhase = "Blocked"
	// RolloutFailed: an updated replica failed, so no more replicas are released.
	RolloutFailed RolloutPhase = "Failed"
	// RolloutComplete: every subset is at its floor and what was released is
	// available. A child that is gone, and will be made on this revision, has nothing to release:
	// that it is missing is for the condition Ready to say.
	RolloutComplete RolloutPhase = "Complete"
)

// RolloutStatus is the state of a coordinated rollout. After a restart, the controller
// continues from it.
type RolloutStatus struct {
	// Revision is the update revision that this belongs to.
	// +required
	Revision string `json:"revision"`

	// Phase is the state in one word.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// Message says what the rollout waits for.
	// +optional
	Message string `json:"message,omitempty"`

	// Step is the current step, counted from 0. After the last step, it is the number of
	// spec.updateStrategy.rollingUpdate.steps.
	// +optional
	Step int32 `json:"step"`

	// StepKey is a hash of what the steps before the current one did to each subset. If
	// you edit those steps, the rollout starts over with the first one. Editing the current
	// step or a later one, or removing a subset, does not change it.
	// +optional
	StepKey string `json:"stepKey,omitempty"`

	// StartTime is when the rollout started, or when steps that had passed were last
	// edited.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// ReachedTime is when the current step was reached: everything it releases is released
	// and available since then. Absent while that is not so.
	// +optional
	ReachedTime *metav1.Time `json:"reachedTime,omitempty"`

	// SoakedSeconds is how long the current step had been reached before ReachedTime. A timed
	// pause counts only such time; a failure resets it to 0.
	// +optional
	SoakedSeconds int64 `json:"soakedSeconds,omitempty"`

	// LastProgressTime is when a replica was last released, or became available
	// on the update revision.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`

	// Forced: the annotation united.dev/force-update names this revision.
	// +optional
	Forced bool `json:"forced,omitempty"`

	// ApprovalKey is the value of the annotation united.dev/approved that lets the rollout
	// continue; empty if it does not wait for approval. It is valid only for this revision
	// and step.
	// +optional
	ApprovalKey string `json:"approvalKey,omitempty"`
}

// ReplicaCounts counts replicas. A replica that is being deleted is counted in
// Replicas only.
type ReplicaCounts struct {
	// Replicas is how many replicas exist, including those being deleted.
	// +optional
	Replicas int32 `json:"replicas"`
	// ReadyReplicas is how many are ready.
	// +optional
	ReadyReplicas int32 `json:"readyReplicas"`
	// AvailableReplicas is how many have been ready for minReadySeconds.
	// +optional
	AvailableReplicas int32 `json:"availableReplicas"`
	// UpdatedReplicas is how many run the update revision.
	// +optional
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// UpdatedReadyReplicas is how many run the update revision and are ready.
	// +optional
	UpdatedReadyReplicas int32 `json:"updatedReadyReplicas"`
}

// SubsetStatus is the state of one subset that the controller last observed.
type SubsetStatus struct {
	// Name is the name of the subset.
	// +required
	Name string `json:"name"`

	// Workload is the name of the child.
	// +optional
	Workload string `json:"workload,omitempty"`

	// DesiredReplicas is how many replicas the subset gets.
	// +optional
	DesiredReplicas int32 `json:"desiredReplicas"`

	ReplicaCounts `json:",inline"`

	// Partition is the partition in force, as a number: ordinals below it are
	// protected. A percentage has been turned into the number of the subset's
	// replicas that it protects; a number stays as it is, also above the replicas.
	// +optional
	Partition int32 `json:"partition"`

	// ExpectedUpdatedReplicas is how many replicas the partition lets go to the
	// update revision.
	// +optional
	ExpectedUpdatedReplicas int32 `json:"expectedUpdatedReplicas"`

	// CurrentRevision is the revision that protected replicas run.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// UpdateRevision is the revision that released replicas go to.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// Phase says in one word where the subset stands.
	// +optional
	Phase SubsetPhase `json:"phase,omitempty"`

	// Message says what the subset waits for, what holds it, or why it is stalled.
	// +optional
	Message string `json:"message,omitempty"`

	// ChildRecord is a copy of what the controller noted on the child, in case somebody
	// removes it there.
	// +optional
	ChildRecord *ChildRecord `json:"childRecord,omitempty"`
}

// ChildRecord is a copy of what the controller noted on a child.
type ChildRecord struct {
	// UID is that of the child. The record is of no other.
	// +required
	UID string `json:"uid"`

	// Generation is metadata.generation of the child when the copy was made.
	// +optional
	Generation int64 `json:"generation,omitempty"`

	// Hash is the child's own name for what its template is, once it is known.
	// +optional
	Hash string `json:"hash,omitempty"`

	// Annotations of the child that say which revisions it and its protected
	// replicas have.
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`

	// Checksum is over all of the above. A copy that it does not match was changed by
	// somebody, and is not believed.
	// +optional
	Checksum string `json:"checksum,omitempty"`
}
