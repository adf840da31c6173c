// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// UnitedDeploymentStatus is what the controller last saw and did.
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
	// ran and was ready on. Replicas of subsets without a revision of their own
	// are protected on it.
	// +optional
	CurrentRevision string `json:"currentRevision,omitempty"`

	// UpdateRevision is the revision that the spec asks for.
	// +optional
	UpdateRevision string `json:"updateRevision,omitempty"`

	// LastProgressTime is when a replica last came closer to what the spec asks
	// for, or when the spec last changed. The progress deadline counts from it.
	// +optional
	LastProgressTime *metav1.Time `json:"lastProgressTime,omitempty"`

	// Subsets tells of each subset, in the order of the spec; a subset that is
	// being removed comes last.
	// +listType=map
	// +listMapKey=name
	// +optional
	Subsets []SubsetStatus `json:"subsets,omitempty"`

	// Conditions are Ready, Available, Progressing, Stalled, Initialized and
	// ReplicasHonored.
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ReplicaCounts counts replicas. A replica that is being deleted is counted in
// Replicas only.
type ReplicaCounts struct {
	// Replicas is how many replicas exist.
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

	// Partition is the partition in force: ordinals below it are protected.
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

	// Message says what the subset waits for, or why it is stalled.
	// +optional
	Message string `json:"message,omitempty"`
}
