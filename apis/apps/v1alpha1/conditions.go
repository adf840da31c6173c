// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Condition types of a UnitedDeployment. Ready and Stalled are read by kstatus,
// and so by `helm --wait`.
const (
	// ConditionReady is True when the cluster is what the spec asks for now. A
	// deliberate hold and paused are Ready.
	ConditionReady = "Ready"
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

// Reasons of the conditions.
const (
	// ReasonRolloutComplete: every replica runs the update revision.
	ReasonRolloutComplete = "RolloutComplete"
	// ReasonRolloutHeld: what is released is updated; partitions hold the rest.
	ReasonRolloutHeld = "RolloutHeld"
	// ReasonReplicasNotHonored: subsets do not have the replicas that they ask for, since
	// these do not fit spec.replicas. All else is as asked.
	ReasonReplicasNotHonored = "ReplicasNotHonored"
	// ReasonNoSubsets: there are replicas, and no subset to have them.
	ReasonNoSubsets = "NoSubsets"
	// ReasonPaused: spec.paused freezes the rollout.
	ReasonPaused = "Paused"
	// ReasonRollingOut: released replicas are not on the update revision yet.
	ReasonRollingOut = "RollingOut"
	// ReasonScaling: replicas are being added or removed.
	ReasonScaling = "Scaling"
	// ReasonReplicasUnavailable: some replicas are not ready or not available.
	ReasonReplicasUnavailable = "ReplicasUnavailable"
	// ReasonReplicasAvailable: all replicas are available.
	ReasonReplicasAvailable = "ReplicasAvailable"
	// ReasonReconciling: a new generation is being carried out.
	ReasonReconciling = "Reconciling"
	// ReasonNotStalled: nothing keeps the controller from going on by itself.
	ReasonNotStalled = "NotStalled"
	// ReasonProgressDeadlineExceeded: no progress for progressDeadlineSeconds.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonNameConflict: an object that this parent does not control has the
	// name of a child.
	ReasonNameConflict = "NameConflict"
	// ReasonApplyRefused: the API server refuses a child.
	ReasonApplyRefused = "ApplyRefused"
	// ReasonApplyFailed: a child could not be written, repeatedly.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonOverridden: what is written to a child, or to the status, is changed again each
	// time.
	ReasonOverridden = "Overridden"
	// ReasonInvalidSpec: the spec is not understood; nothing is rolled.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonKindNotInstalled: the API server does not serve the kind of the children.
	ReasonKindNotInstalled = "KindNotInstalled"
	// ReasonUnreadable: the object, or the child of a subset, cannot be decoded; nothing of
	// it is touched.
	ReasonUnreadable = "Unreadable"
	// ReasonRevisionLost: a revision that protected replicas need is gone.
	ReasonRevisionLost = "RevisionLost"
	// ReasonProtectionLost: a child forgets again and again what its protected
	// replicas run.
	ReasonProtectionLost = "ProtectionLost"
	// ReasonUnschedulable: replicas have fitted on no node for a while.
	ReasonUnschedulable = "Unschedulable"
	// ReasonReplicaFailed: an updated replica failed. A coordinated rollout releases no
	// other then.
	ReasonReplicaFailed = "ReplicaFailed"
	// ReasonBlocked: replicas that a coordinated rollout cannot release yet are
	// unavailable, and use up maxUnavailable.
	ReasonBlocked = "Blocked"
	// ReasonStepPaused: a step is reached, and its timed pause runs.
	ReasonStepPaused = "StepPaused"
	// ReasonAwaitingApproval: a step is reached, and waits for approval.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonFirstReplicaReady: a replica was ready.
	ReasonFirstReplicaReady = "FirstReplicaReady"
	// ReasonWaitingForFirstReplica: no replica was ever ready.
	ReasonWaitingForFirstReplica = "WaitingForFirstReplica"
	// ReasonAllocatedAsAsked: every subset has the replicas it asks for.
	ReasonAllocatedAsAsked = "AllocatedAsAsked"
	// ReasonScaledInProportion: the wishes cannot be met.
	ReasonScaledInProportion = "ScaledInProportion"
)

// SubsetPhase says in one word where a subset stands.
// +kubebuilder:validation:Enum=Pending;Seeding;Restoring;Updating;Waiting;Scaling;Unavailable;Held;Complete;Paused;Stalled
type SubsetPhase string

// Phases of a subset.
const (
	// PhasePending: the child is not there yet, or has not been observed.
	PhasePending SubsetPhase = "Pending"
	// PhaseSeeding: the child starts on its protected revision, and makes its
	// protected replicas before it is shown another one.
	PhaseSeeding SubsetPhase = "Seeding"
	// PhaseRestoring: the child forgot what its protected replicas run. It is reminded,
	// and what came up on the update revision meanwhile is replaced.
	PhaseRestoring SubsetPhase = "Restoring"
	// PhaseUpdating: released replicas move to the update revision.
	PhaseUpdating SubsetPhase = "Updating"
	// PhaseWaiting: nothing of it is on the way. The coordinated rollout releases more of it
	// later: when its turn comes, when replicas elsewhere are available, or when what has
	// failed is put right.
	PhaseWaiting SubsetPhase = "Waiting"
	// PhaseScaling: replicas are added or removed.
	PhaseScaling SubsetPhase = "Scaling"
	// PhaseUnavailable: all replicas exist, some are not available.
	PhaseUnavailable SubsetPhase = "Unavailable"
	// PhaseHeld: all that is released is done; the partition holds the rest.
	PhaseHeld SubsetPhase = "Held"
	// PhaseComplete: all replicas are available on the update revision.
	PhaseComplete SubsetPhase = "Complete"
	// PhasePaused: spec.paused keeps the rest from moving.
	PhasePaused SubsetPhase = "Paused"
	// PhaseStalled: the child cannot be brought on without help.
	PhaseStalled SubsetPhase = "Stalled"
)
