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
	// ObservedGeneration is the metadata.generation this status speaks of; -1
	// before the controller has looked at the object.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	ReplicaCounts `json:",inline"`

	// Selector selects the pods, in the form the scale subresource asks for.
	// +optional
	Selector string `json:"selector,omitempty"`

	// CurrentRevision is the last revision that every replica of every subset
	// ran and was ready on, as the name of a ControllerRevision. Replicas of
	// subsets without a revision of their own are protected on it.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// UpdateRevision is the revision that the spec asks for, as the name of a
	// ControllerRevision.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// LastProgressTime is when a replica last came closer to what the spec asks
	// for, or when the spec last changed. The progress deadline counts from it.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`

	// PausedTime is since when spec.paused is set; absent when it is not.
	// +optional
	PausedTime *metav1.Time `json:"pausedTime,omitempty"`

	// ResumedTime is when spec.paused last ended. A replica has
	// spec.progressDeadlineSeconds from then on, for the time before does not count.
	// +optional
	ResumedTime *metav1.Time `json:"resumedTime,omitempty"`

	// Rollout is where the rollout stands under type RollingUpdate.
	// +optional
	Rollout *RolloutStatus `json:"rollout,omitempty"`

	// Summary tells of the subsets in one line: of each how many of its replicas run the
	// update revision, how many it is allotted, and where it stands unless it is complete. Such as
	// "zone-a 1/1 · zone-b 1/3 held". Of many subsets the first ones are named.
	// +optional
	Summary string `json:"summary,omitempty"`

	// Subsets tells of each subset, in the order of the spec; a subset that is
	// being removed comes last. Names are unique.
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
	// RolloutStaging: the children get the new template, everything is protected.
	RolloutStaging RolloutPhase = "Staging"
	// RolloutProgressing: replicas are released or on their way.
	RolloutProgressing RolloutPhase = "Progressing"
	// RolloutPaused: a step is reached and its timed pause runs, or spec.paused.
	RolloutPaused RolloutPhase = "Paused"
	// RolloutAwaitingApproval: a step is reached that waits for approvalKey.
	RolloutAwaitingApproval RolloutPhase = "AwaitingApproval"
	// RolloutBlocked: replicas that cannot be released yet are unavailable, and
	// use up maxUnavailable.
	RolloutBlocked RolloutPhase = "Blocked"
	// RolloutFailed: an updated replica failed, so nothing more is released.
	RolloutFailed RolloutPhase = "Failed"
	// RolloutComplete: every subset is at its floor and what was released is
	// available. A child that is gone, and will be made on this revision, has nothing to release:
	// that it is missing is for the condition Ready to say.
	RolloutComplete RolloutPhase = "Complete"
)

// RolloutStatus is where a coordinated rollout stands. The controller goes on
// from it after a restart.
type RolloutStatus struct {
	// Revision is the update revision that this speaks of.
	// +required
	Revision string `json:"revision"`

	// Phase says in one word where it stands.
	// +optional
	Phase RolloutPhase `json:"phase,omitempty"`

	// Message says what it waits for.
	// +optional
	Message string `json:"message,omitempty"`

	// Step is the running step, counted from 0. It is the number of
	// spec.updateStrategy.rollingUpdate.steps while the rest is released, and
	// after that.
	// +optional
	Step int32 `json:"step"`

	// StepKey is a hash of what the steps before the running one did to each subset.
	// When those steps are edited the rollout starts over with the first. Editing the
	// running step or a later one, or removing a subset, changes nothing.
	// +optional
	StepKey string `json:"stepKey,omitempty"`

	// StartTime is when the revision was first asked for, or when the steps that were
	// gone through were last edited.
	// +optional
	StartTime *metav1.Time `json:"startTime,omitempty"`

	// ReachedTime is since when the running step stands: what it releases is released,
	// and all of that is available. Absent while it does not stand.
	// +optional
	ReachedTime *metav1.Time `json:"reachedTime,omitempty"`

	// SoakedSeconds is how long the running step stood before ReachedTime. Of a timed
	// pause only the time counts in which the step stands; a failure sets it back to 0.
	// +optional
	SoakedSeconds int64 `json:"soakedSeconds,omitempty"`

	// LastProgressTime is when a replica was last released, or became available
	// on the update revision.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`

	// Forced: the annotation united.dev/force-update names this revision.
	// +optional
	Forced bool `json:"forced,omitempty"`

	// ApprovalKey is what the annotation united.dev/approved must be for the
	// rollout to go on; empty when it does not wait for that. It is good for this
	// revision and step alone.
	// +optional
	ApprovalKey string `json:"approvalKey,omitempty"`
}

// ReplicaCounts counts replicas. A replica that is being deleted is counted in
// Replicas only.
type ReplicaCounts struct {
	// Replicas is how many replicas exist, those being deleted included.
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

// SubsetStatus is what the controller last saw of one subset.
type SubsetStatus struct {
	// Name is the name of the subset.
	// +required
	Name string `json:"name"`

	// Workload is the name of the child.
	// +optional
	Workload string `json:"workload,omitempty"`

	// DesiredReplicas is how many replicas the subset is allotted.
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
