// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// All reasons that United gives, with what they mean. docs/troubleshooting.md has the same texts:
// a test compares the two.

// Reasons of the conditions. An event about a condition has the same reason.
const (
	// ReasonRolloutComplete: Every replica runs the update revision and is ready.
	ReasonRolloutComplete = "RolloutComplete"
	// ReasonRolloutHeld: Every released replica is updated and ready, and partitions hold the rest; or
	// there are no replicas.
	ReasonRolloutHeld = "RolloutHeld"
	// ReasonNoReplicas: There are no replicas, so nothing runs the update revision.
	ReasonNoReplicas = "NoReplicas"
	// ReasonReplicasNotHonored: The rollout is done or held, but the requests of the subsets do not add up
	// to spec.replicas. The message says who gets how many.
	ReasonReplicasNotHonored = "ReplicasNotHonored"
	// ReasonNoSubsets: spec.replicas is above 0, but there are no subsets. Child workloads that exist stay
	// as they are.
	ReasonNoSubsets = "NoSubsets"
	// ReasonNodeSelectorChanged: A subset was removed and added again with another nodeSelector, and its
	// replicas cannot be moved there. They stay where they are.
	ReasonNodeSelectorChanged = "NodeSelectorChanged"
	// ReasonPaused: spec.paused is true, which freezes the rollout.
	ReasonPaused = "Paused"
	// ReasonRollingOut: Released replicas are being updated. The message names the ones United waits for.
	ReasonRollingOut = "RollingOut"
	// ReasonScaling: Replicas are being added or removed.
	ReasonScaling = "Scaling"
	// ReasonReplicasUnavailable: All replicas exist, but some are not ready, or not yet for
	// minReadySeconds.
	ReasonReplicasUnavailable = "ReplicasUnavailable"
	// ReasonReplicasAvailable: All replicas are available.
	ReasonReplicasAvailable = "ReplicasAvailable"
	// ReasonReconciling: United is writing a child workload, or tries a failed write again.
	ReasonReconciling = "Reconciling"
	// ReasonNotStalled: Nothing prevents United from continuing.
	ReasonNotStalled = "NotStalled"
	// ReasonProgressDeadlineExceeded: Nothing has changed for progressDeadlineSeconds. The message says
	// what United waits for.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonNameConflict: An object that this UnitedDeployment does not control has the name of a child
	// workload. United does not touch it.
	ReasonNameConflict = "NameConflict"
	// ReasonApplyRefused: The API server rejects a child workload or a revision, or a patch cannot be
	// merged. The message quotes it. Other subsets continue.
	ReasonApplyRefused = "ApplyRefused"
	// ReasonApplyFailed: Writing a child workload or a revision has failed several times in a row.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonOverridden: Something changes a child workload, a revision or the status each time right after
	// United writes it. The message names the field and the field manager.
	ReasonOverridden = "Overridden"
	// ReasonReadFailed: United could not read what belongs to the object several times in a row, and
	// changes nothing meanwhile.
	ReasonReadFailed = "ReadFailed"
	// ReasonInvalidSpec: United cannot interpret the spec, which admission usually rejects. It changes
	// nothing, and replicas keep running.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonKindNotInstalled: The API server does not serve the kind of the child workloads.
	ReasonKindNotInstalled = "KindNotInstalled"
	// ReasonKindNotPermitted: United is not permitted to list the kind of the child workloads, or a kind
	// that belongs to them.
	ReasonKindNotPermitted = "KindNotPermitted"
	// ReasonUnreadable: United cannot decode an object that the API server has stored, and leaves what
	// belongs to it unchanged.
	ReasonUnreadable = "Unreadable"
	// ReasonRevisionLost: The revision of protected replicas is gone or unknown: somebody deleted its
	// ControllerRevision, or changed the annotations or labels that name it. United leaves those replicas
	// unchanged.
	ReasonRevisionLost = "RevisionLost"
	// ReasonProtectionLost: A child workload keeps forgetting which revision its protected replicas run,
	// although United keeps restoring that record.
	ReasonProtectionLost = "ProtectionLost"
	// ReasonUnschedulable: The scheduler has found no node for some replicas for 30 seconds, or for a
	// capped subset for rescheduleAfterSeconds. The message quotes it.
	ReasonUnschedulable = "Unschedulable"
	// ReasonGroupUnschedulable: The scheduler has found no node for a replica of a group for
	// timeoutSeconds. The message names the group and its domain.
	ReasonGroupUnschedulable = "GroupUnschedulable"
	// ReasonUngrouped: Pods of a group were created without the MutatingAdmissionPolicy united-colocation,
	// and are not scheduled.
	ReasonUngrouped = "Ungrouped"
	// ReasonRetryLater: No replica is without a node anymore; the subset stays capped for
	// retryAfterSeconds.
	ReasonRetryLater = "RetryLater"
	// ReasonSchedulable: The subset is not capped.
	ReasonSchedulable = "Schedulable"
	// ReasonReplicaFailed: An updated replica failed: it crashed, cannot start, or was not available
	// within progressDeadlineSeconds. Stalled is True unless it crashed just once. RollingUpdate stops in
	// all subsets; Manual stops nothing.
	ReasonReplicaFailed = "ReplicaFailed"
	// ReasonBlocked: Type RollingUpdate: replicas that cannot be released yet are unavailable and use up
	// maxUnavailable; a child workload cannot be read; or a check cannot run. Stalled is True if they have
	// failed, a check cannot run, or a permission is missing.
	ReasonBlocked = "Blocked"
	// ReasonCheckFailed: Type RollingUpdate: a check has failed. No more replicas are released in any
	// subset.
	ReasonCheckFailed = "CheckFailed"
	// ReasonRevisionRejected: Type RollingUpdate, onFailure Rollback: the update revision failed, and all
	// replicas go back to the current one, or have gone. It is not rolled out again by itself.
	ReasonRevisionRejected = "RevisionRejected"
	// ReasonStepPaused: Type RollingUpdate: a step is reached, and its timed pause is running.
	ReasonStepPaused = "StepPaused"
	// ReasonAwaitingApproval: Type RollingUpdate: a step is reached, and waits for approval.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonFirstReplicaReady: The first replica became ready. From now on, partitions protect replicas.
	ReasonFirstReplicaReady = "FirstReplicaReady"
	// ReasonWaitingForFirstReplica: No replica has become ready yet. A new template replaces this one
	// everywhere.
	ReasonWaitingForFirstReplica = "WaitingForFirstReplica"
	// ReasonAllocatedAsAsked: Every subset gets the replicas it asks for.
	ReasonAllocatedAsAsked = "AllocatedAsAsked"
	// ReasonScaledInProportion: The requests of the subsets do not add up to spec.replicas, so the
	// replicas are split in proportion.
	ReasonScaledInProportion = "ScaledInProportion"
)

// Reasons of events that are not reasons of a condition, or mean something else there.
const (
	// EventRolloutStarted: The spec asks for another revision.
	EventRolloutStarted = "RolloutStarted"
	// EventRolloutFinished: Every replica runs a new revision and is ready, so it is now the current one.
	// Not after going back.
	EventRolloutFinished = "RolloutFinished"
	// EventPartitionChanged: The partition of a subset changed. Type RollingUpdate: once when a subset
	// starts to be released, and when it rises.
	EventPartitionChanged = "PartitionChanged"
	// EventChildCorrected: Somebody changed a child workload, and United restored it. The note names the
	// field and its field manager.
	EventChildCorrected = "ChildCorrected"
	// EventStuckReplicaDeleted: Type Manual: United deleted a replica that was not ready, because its
	// controller would not replace it.
	EventStuckReplicaDeleted = "StuckReplicaDeleted"
	// EventReplicaDeleted: United deleted a replica to replace it: its controller would not do so soon, or
	// it was updated without being released.
	EventReplicaDeleted = "ReplicaDeleted"
	// EventProtectionLost: A Warning: a child workload has forgotten what its protected replicas run, or
	// one was updated without being released. United restores both.
	EventProtectionLost = "ProtectionLost"
	// EventProtectionRestored: The child workload has its record again, and its protected replicas run
	// their revision.
	EventProtectionRestored = "ProtectionRestored"
	// EventStepReached: Type RollingUpdate: a step is reached, and its pause begins.
	EventStepReached = "StepReached"
	// EventStepPassed: Type RollingUpdate: the rollout continues after a step.
	EventStepPassed = "StepPassed"
	// EventRolloutForced: A Warning. Type RollingUpdate: the annotation united.dev/force-update is in
	// effect.
	EventRolloutForced = "RolloutForced"
	// EventRolloutPromoted: Type RollingUpdate: the annotation united.dev/promote is in effect, so the
	// steps are passed.
	EventRolloutPromoted = "RolloutPromoted"
	// EventCheckMet: Type RollingUpdate: a check that had failed is met again, so the rollout continues.
	EventCheckMet = "CheckMet"
	// EventChecksRetried: Type RollingUpdate: the annotation united.dev/retry is in effect, so all checks
	// are measured anew.
	EventChecksRetried = "ChecksRetried"
	// EventSubsetCapped: A Warning. Schedule strategy Adaptive: replicas of a subset have no node, and are
	// created in other subsets.
	EventSubsetCapped = "SubsetCapped"
	// EventSubsetUncapped: Schedule strategy Adaptive: a subset may get more replicas again.
	EventSubsetUncapped = "SubsetUncapped"
	// EventSubsetRemoved: A subset was removed from the spec, and United deleted its child workload.
	EventSubsetRemoved = "SubsetRemoved"
)
