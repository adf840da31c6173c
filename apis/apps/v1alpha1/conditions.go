// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of a UnitedDeployment. Ready and Stalled are read by kstatus,
// and so by `helm --wait`.
const (
	// ConditionReady is True when the cluster is what the spec asks for now. A
	// deliberate hold and paused are Ready.
	ConditionReady = "Ready"
	// ConditionComplete is True when every replica of every subset runs the update
	// revision and is available. It is False while a rollout is held, paused or awaits
	// approval, and without replicas.
	ConditionComplete = "Complete"
	// ConditionAvailable is True when every replica is available, and Unknown while
	// the replicas are not looked at, as with ReasonInvalidSpec.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while replicas are created, moved or removed.
	ConditionProgressing = "Progressing"
	// ConditionStalled is True when the controller cannot go on by itself.
	ConditionStalled = "Stalled"
	// ConditionInitialized becomes True when the first replica is ready, and
	// stays so. Before it there is nothing to protect.
	ConditionInitialized = "Initialized"
	// ConditionReplicasHonored is False when the replicas that the subsets wish
	// for do not fit spec.replicas and were scaled in proportion.
	ConditionReplicasHonored = "ReplicasHonored"
)

// ConditionSchedulable is a condition of a subset, with schedule strategy Adaptive: False while
// it is capped, since replicas of it fit, or fitted, on no node.
const ConditionSchedulable = "Schedulable"

// SubsetPhase is the state of a subset in one word.
// +kubebuilder:validation:Enum=Pending;Seeding;Restoring;Updating;Waiting;Scaling;Unavailable;Held;Complete;Paused;Stalled
type SubsetPhase string

// Phases of a subset.
const (
	// PhasePending: the child workload does not exist yet, or has not been observed.
	PhasePending SubsetPhase = "Pending"
	// PhaseSeeding: the child workload starts on its protected revision, and creates its
	// protected replicas before it gets another one.
	PhaseSeeding SubsetPhase = "Seeding"
	// PhaseRestoring: the child workload forgot what its protected replicas run. The
	// controller restores that, and replaces replicas that were updated meanwhile.
	PhaseRestoring SubsetPhase = "Restoring"
	// PhaseUpdating: released replicas are being updated.
	PhaseUpdating SubsetPhase = "Updating"
	// PhaseWaiting: nothing is being updated in it now. The coordinated rollout releases more
	// of it later: when its turn comes, when replicas elsewhere are available again, or when a
	// failure is fixed.
	PhaseWaiting SubsetPhase = "Waiting"
	// PhaseScaling: replicas are being added or removed.
	PhaseScaling SubsetPhase = "Scaling"
	// PhaseUnavailable: all replicas exist, but some are not available.
	PhaseUnavailable SubsetPhase = "Unavailable"
	// PhaseHeld: everything that is released is done, and the partition holds the rest.
	PhaseHeld SubsetPhase = "Held"
	// PhaseComplete: all replicas are available on the update revision.
	PhaseComplete SubsetPhase = "Complete"
	// PhasePaused: spec.paused holds the rest.
	PhasePaused SubsetPhase = "Paused"
	// PhaseStalled: the controller cannot continue with this subset without help.
	PhaseStalled SubsetPhase = "Stalled"
)
