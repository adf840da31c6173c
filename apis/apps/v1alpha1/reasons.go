// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// All reasons that United gives, with what they mean. docs/troubleshooting.md has the same texts:
// a test compares the two.

// Reasons of the conditions. An event about a condition has the same reason.
const (
	// ReasonRolloutComplete: Every replica runs the update revision and is ready.
	ReasonRolloutComplete = "RolloutComplete"
	// ReasonRolloutHeld: Every released replica is updated and ready, and partitions hold the rest.
	// With type RollingUpdate also: there are no replicas, and the rollout continues when there are.
	ReasonRolloutHeld = "RolloutHeld"
	// ReasonNoReplicas: There are no replicas, so nothing runs the update revision.
	ReasonNoReplicas = "NoReplicas"
	// ReasonReplicasNotHonored: The rollout is done or held, but some subsets do not get the
	// replicas they ask for, because the requests do not add up to spec.replicas. The message says
	// who gets how many. Ready stays True, so that an autoscaler that changes spec.replicas cannot
	// make a release fail.
	ReasonReplicasNotHonored = "ReplicasNotHonored"
	// ReasonNoSubsets: spec.replicas is above 0, but spec.topology.subsets is empty, so the replicas
	// cannot be placed. Child workloads that exist stay as they are.
	ReasonNoSubsets = "NoSubsets"
	// ReasonNodeSelectorChanged: A subset was removed and added again with another nodeSelector, and
	// its replicas cannot be moved to the new nodes. It keeps them on the nodes that they have.
	ReasonNodeSelectorChanged = "NodeSelectorChanged"
	// ReasonPaused: spec.paused is true, which freezes the rollout.
	ReasonPaused = "Paused"
	// ReasonRollingOut: Released replicas are being updated. The message names the ones United waits
	// for.
	ReasonRollingOut = "RollingOut"
	// ReasonScaling: Replicas are being added or removed.
	ReasonScaling = "Scaling"
	// ReasonReplicasUnavailable: All replicas exist, but some are not ready, or have not been ready
	// for minReadySeconds.
	ReasonReplicasUnavailable = "ReplicasUnavailable"
	// ReasonReplicasAvailable: All replicas are available.
	ReasonReplicasAvailable = "ReplicasAvailable"
	// ReasonReconciling: United is creating or updating a child workload, or a write failed and
	// United is trying again.
	ReasonReconciling = "Reconciling"
	// ReasonNotStalled: Nothing prevents United from continuing.
	ReasonNotStalled = "NotStalled"
	// ReasonProgressDeadlineExceeded: Something should have changed, and nothing has for
	// progressDeadlineSeconds. The message says what United waits for.
	ReasonProgressDeadlineExceeded = "ProgressDeadlineExceeded"
	// ReasonNameConflict: An object that this UnitedDeployment does not control has the name of a
	// child workload. United does not touch it. The object may also be left over from an earlier
	// UnitedDeployment of the same name; then the conflict ends when the garbage collector deletes
	// it, unless it was orphaned.
	ReasonNameConflict = "NameConflict"
	// ReasonApplyRefused: The API server rejects a child workload, or the patch of a subset cannot
	// be merged: an unknown field, an invalid value, a change of an immutable field, or a permission
	// that the controller lacks. If the API server rejects a revision, the rollout does not start;
	// everything else continues.
	ReasonApplyRefused = "ApplyRefused"
	// ReasonApplyFailed: Writing a child workload or a revision has failed several times in a row,
	// for example because of a quota, or because the API server has problems.
	ReasonApplyFailed = "ApplyFailed"
	// ReasonOverridden: Something changes a child workload, a ControllerRevision of the
	// UnitedDeployment, or the status, each time right after United writes it: another controller,
	// or a mutating policy or webhook. The message names the field and the field manager. United
	// relies on what it wrote, and writes it less and less often, at least every five minutes.
	// Stalled becomes True after half a minute.
	ReasonOverridden = "Overridden"
	// ReasonReadFailed: United could not read what belongs to the object, several times in a row, and changes nothing
	// meanwhile. The message is the API server's.
	ReasonReadFailed = "ReadFailed"
	// ReasonInvalidSpec: United cannot interpret the spec. It changes nothing, and running replicas
	// keep running. Admission rejects such a spec, but an object can be older than a rule, or the
	// admission policy may not be installed.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonKindNotInstalled: The API server does not serve the kind of the child workloads. The
	// message names the kind and its CustomResourceDefinition.
	ReasonKindNotInstalled = "KindNotInstalled"
	// ReasonKindNotPermitted: United is not permitted to list the kind of the child workloads, or a
	// kind that belongs to them. The message names it.
	ReasonKindNotPermitted = "KindNotPermitted"
	// ReasonUnreadable: United cannot decode an object that the API server has stored: it is nested
	// thousands of levels deep, or has a value that only an older CustomResourceDefinition allowed.
	// If it is the UnitedDeployment, United changes nothing for it. If it is a child workload,
	// United leaves that subset unchanged, and a RollingUpdate releases nothing more.
	ReasonUnreadable = "Unreadable"
	// ReasonRevisionLost: The revision of the protected replicas is gone or unknown: somebody
	// deleted or damaged its ControllerRevision, or removed or changed the annotations of the child
	// workload that name it. United leaves the subset unchanged. Or somebody changed the label
	// controller-revision-hash of a protected replica, so that it is unknown what that runs. United
	// leaves the replica, and everything else continues.
	ReasonRevisionLost = "RevisionLost"
	// ReasonProtectionLost: A child workload keeps forgetting which revision its protected replicas
	// run, although United keeps restoring that record. For some seconds after a restart of the API
	// server this is normal, and only the event ProtectionLost reports it.
	ReasonProtectionLost = "ProtectionLost"
	// ReasonUnschedulable: The scheduler has found no node for some replicas for at least 30 seconds.
	// The message quotes the scheduler. This becomes a stall after progressDeadlineSeconds, because an
	// autoscaler may add a node.
	// As the reason of the condition Schedulable of a subset: a replica has had no node for
	// rescheduleAfterSeconds, so the subset is capped.
	ReasonUnschedulable = "Unschedulable"
	// ReasonGroupUnschedulable: The scheduler has found no node for a replica of a group
	// (spec.topology.colocation) for timeoutSeconds. The message names the group and the domain in
	// which the rest of it runs, and quotes the scheduler. With order Sequential, no further group is
	// created. No running pod is removed.
	ReasonGroupUnschedulable = "GroupUnschedulable"
	// ReasonUngrouped: Pods of spec.topology.colocation have no group, and are not scheduled, because
	// the MutatingAdmissionPolicy united-colocation was missing when they were created. The message
	// has the command that deletes them when the policy is installed.
	ReasonUngrouped = "Ungrouped"
	// ReasonRetryLater: Schedulable: The subset has no replica without a node anymore, and remains
	// capped for retryAfterSeconds.
	ReasonRetryLater = "RetryLater"
	// ReasonSchedulable: Schedulable: The subset is not capped.
	ReasonSchedulable = "Schedulable"
	// ReasonReplicaFailed: An updated replica failed: it crashed, cannot start, or was not available
	// within progressDeadlineSeconds. Stalled is True unless the replica crashed just once and may
	// still recover. With type RollingUpdate the rollout stops in all subsets; with type Manual it
	// stops nothing. Until the first replica has been ready, only an image that cannot be pulled
	// counts as a failure.
	ReasonReplicaFailed = "ReplicaFailed"
	// ReasonBlocked: Type RollingUpdate: replicas that cannot be released yet are unavailable and
	// use up maxUnavailable, so no healthy replica will be disrupted. Also: a child workload cannot
	// be read. Stalled is True if the replicas have failed.
	ReasonBlocked = "Blocked"
	// ReasonStepPaused: Type RollingUpdate: a step is reached, and its timed pause is running. The
	// message says when it ends.
	ReasonStepPaused = "StepPaused"
	// ReasonAwaitingApproval: Type RollingUpdate: a step is reached, and waits for approval. The
	// message has the command that approves it.
	ReasonAwaitingApproval = "AwaitingApproval"
	// ReasonFirstReplicaReady: The first replica became ready. From now on, partitions protect
	// replicas.
	ReasonFirstReplicaReady = "FirstReplicaReady"
	// ReasonWaitingForFirstReplica: No replica has become ready yet. A new template replaces this
	// one everywhere, whatever the partitions.
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
	// EventRolloutFinished: Every replica of every subset runs a new revision and is ready, so that
	// revision is now the current one. After going back, the current revision is the same as before,
	// and there is no such event.
	EventRolloutFinished = "RolloutFinished"
	// EventPartitionChanged: The partition of a subset changed. With type RollingUpdate there is one
	// such event when a subset starts to be released, and one when its partition goes up, but not
	// one for each replica.
	EventPartitionChanged = "PartitionChanged"
	// EventChildCorrected: Somebody changed a child workload, and United restored it. The note names
	// the field and its field manager.
	EventChildCorrected = "ChildCorrected"
	// EventStuckReplicaDeleted: Type Manual: United deleted a replica that was not ready, because its
	// controller would not replace it. There is no such event for a ready replica that was released.
	EventStuckReplicaDeleted = "StuckReplicaDeleted"
	// EventReplicaDeleted: United deleted a replica to replace it. Type RollingUpdate: it was not
	// ready, and its controller would not replace it soon. There is no such event for a ready replica
	// that was released. Either type: it was updated without being released, and comes back on the
	// revision of its subset.
	EventReplicaDeleted = "ReplicaDeleted"
	// EventProtectionLost: A Warning: a child workload has forgotten which revision its protected
	// replicas run, or one of them was updated without being released. United restores the record
	// and replaces the replica.
	EventProtectionLost = "ProtectionLost"
	// EventProtectionRestored: The child workload has its record again, and its protected replicas
	// run their revision.
	EventProtectionRestored = "ProtectionRestored"
	// EventStepReached: Type RollingUpdate: a step is reached, and its pause begins.
	EventStepReached = "StepReached"
	// EventStepPassed: Type RollingUpdate: the rollout continues after a step.
	EventStepPassed = "StepPassed"
	// EventRolloutForced: A Warning. Type RollingUpdate: the annotation united.dev/force-update is
	// in effect.
	EventRolloutForced = "RolloutForced"
	// EventRolloutPromoted: Type RollingUpdate: the annotation united.dev/promote is in effect, so
	// the steps are passed.
	EventRolloutPromoted = "RolloutPromoted"
	// EventSubsetCapped: A Warning. Schedule strategy Adaptive: replicas of a subset have had no node
	// for rescheduleAfterSeconds. They are created in other subsets.
	EventSubsetCapped = "SubsetCapped"
	// EventSubsetUncapped: Schedule strategy Adaptive: a subset may get more replicas again.
	EventSubsetUncapped = "SubsetUncapped"
	// EventSubsetRemoved: A subset was removed from the spec, and United deleted its child workload.
	EventSubsetRemoved = "SubsetRemoved"
)
