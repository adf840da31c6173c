// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coordination decides which ordinals of a subset may run the update revision, and reports why. It is
// pure: it uses no client, no clock, and no logger.
//
// It decides on a partition P. Ordinals below P are protected: they are never moved to, re-created on, or created
// on the update revision. Ordinals from P up to the subset's replicas R go to it. An integer is P itself, also if
// it is greater than R. A percentage keeps a share of the subset's own replicas, P = ceil(p * R / 100). It is
// computed again whenever the subset scales; under type Manual that releases nothing ([DesiredPartition.Scaled]).
// "100%" is a hold: P is R at every R.
//
// [Manual] returns the partition that the user asks for, [Freeze] the partition while spec.paused is set, and
// [Coordinate] the partitions of a coordinated rollout (type RollingUpdate).
//
// # The coordinated rollout
//
// Coordinate considers all subsets together. Its only memory is status.rollout, so the controller can be killed
// between any two writes. A pass calls setTargets, scale, stageAndProtect (staging, growth), takeBack, release,
// deleteReplicas and advance (steps, status), in this order.
//
// Gates. Every release, and the end of every step, must pass the gates in the table in gate.go. Each gate is a
// function in gates.go. It reports whether the gate is closed, why, when time alone may open it, and whether it
// is a stall. The entry in the table says what the gate holds: all releases (and deletions), one subset, the next
// replica of a subset, or the end of a step. It also says which releases pass the gate anyway: by force, on the
// way back, because the replica is broken or already updated, and so on. The first closed gate provides the
// reason. The sections below explain what the gates check, and why.
//
// Staging. The controller writes a new revision to every child together with the partition [Held], which protects
// everything at any scale. Nothing is released before those writes, and status.rollout of that revision, have been
// written and read back: the rollout acts only on what is on record. A partition is lowered only if the child has
// the update revision, its controller has observed its spec, and it has not forgotten what it protects.
//
// If the first template of a child was corrected before any replica was ready, and the child has not come up on
// the correction since, the whole child is open to the correction. It can get another revision, and protect
// replicas, only after it has come up. If none of its replicas is ready on the correction, and its target is 0,
// the update revision replaces the correction at once: a released replica that is not back is released to another
// revision. (Under force, the same applies if some are ready and others are broken.)
//
// Targets. With the user's floor F and the running step k, the target of a subset is T = max(F, min over the steps
// up to k that name it of the step's partition), or R if no step names it. After the last step T = F. A percentage
// below 100 releases at least one replica of the subset. Partitions go down to T. They go up if T does (because
// the user raised it, or because a percentage of more replicas is more), and over replicas that a scale-up adds.
//
// # Unready, broken, failed
//
// A replica is broken ([adapters.Terms.Broken]) if its container failed or crashed and it has not been ready
// since, if it has not been ready for progressDeadlineSeconds, or if it was never ready and runs a revision that
// nobody asks for. Any other replica that is not available is merely unready. Only broken replicas are released
// out of turn, and only broken replicas are deleted because they are not available. On the way back (see below),
// unready replicas are deleted, too.
//
// An updated replica that is broken for one of the first two reasons is failed: it shows that the update revision
// does not work. Whether it is updated depends on the pod's hash, in a child whose controller has observed its
// spec. The creation time of the pod does not count, because that would compare the clock of the API server with
// ours. If the controller has not observed the spec, it is not known whether a failed replica is an updated one,
// so nothing is released either.
//
// While there is a failed replica, nothing is released and nothing is deleted, in any subset. Replicas that a
// scale-up adds come up protected. This ends when the replica is ready, or with the next revision: then the
// replica is an old broken one, and replacing it costs nothing.
//
// # The ledger
//
// A replica is unavailable if it is missing, unready, not available for minReadySeconds, terminating, or released
// and not yet on the update revision, whether it is protected or not. U is the number of these among the ordinals
// [0, R) of all subsets. A is the number of available replicas among all that the children are asked for,
// including surplus ones. N is the sum of all R. The released replicas that are not updated and available are in
// flight. If an updated replica is not available, and growth (see below) has since raised the partition over it,
// it is in flight, too. So are surplus replicas, also of a removed subset, as long as they are kept: their controller
// updates them all the same. Force does not wait for those of a removed subset.
//
//	release an available replica      if U + 1 <= maxUnavailable
//	release an unready or missing one if in flight + 1 <= maxUnavailable
//	release a broken one              the same, regardless of order and skew
//	remove a surplus available one    if N - A + 1 <= maxUnavailable
//	remove a surplus unavailable one  always
//
// With maxUnavailablePerSubset each subset also has a ledger of its own, with U, A, N and the replicas in flight
// of the subset alone. The same rules apply with that bound. A percentage is of R, rounded down, at least 1. A
// subset that its own ledger holds leaves the room to other subsets.
//
// Without the bound on the replicas in flight, a moment in which a whole zone is unready would put the whole zone
// on a revision that may not work. The subset that is furthest behind goes first. If several are equally far
// behind, the first one in the spec does.
//
// Growth. Replicas that a scale-up adds during a rollout are protected first: the partition rises to R, over
// ordinals that do not exist. Then they are released from the top as missing replicas, within the bound on the
// replicas in flight. Replicas below the partition that are already updated count as updated, and the partition
// passes them at no cost.
//
// Order within a child. Children that work in order (OrderedReady) move nothing while any of their replicas is not
// available. So such a child releases one available replica at a time, and only if all are available. The broken
// replicas at its top are all released, and count as one in flight. They are deleted one by one, the lowest first,
// and only if all replicas below are ready: if one is deleted above an unready replica, it is not created again.
//
// Deletions. Released broken replicas that are not updated are deleted. So are protected broken replicas of a
// revision that nobody asks for (stray): they come back on the protected revision. A child that works in parallel
// replaces released available replicas one at a time. From Kubernetes 1.37 on (MaxUnavailableStatefulSet), it replaces
// all that are unavailable, released and outdated at once, but no available one while as many of its replicas as its
// own maxUnavailable are unavailable, including protected ones. United deletes what is released beyond that
// ([Decision.Delete]), the highest first, while U is at most maxUnavailable. The replica that the child's controller is
// about to take is left to it, and already counts as down. If U is too high, the subset is barred, and the rollout may
// be Blocked.
//
// Taking back. Replicas that came up on the update revision without having been released (Unreleased) are deleted
// before anything is released: unavailable ones at once, available ones as the ledger allows. Their subset
// releases nothing until they are back.
//
// Reserved replicas. Replicas without a node that are kept in addition to the replicas of the parent
// (reserveUnschedulablePods) count as available, and N excludes them when a percentage of maxUnavailable is computed.
// So they are released in turn, like available ones, and deleted, because the child's controller waits for them. When
// they are updated they are done, without a node. Replicas behind them are deleted, too. If no subset has room for a
// replica, there are more replicas without a node than reserved ones: the others count as unavailable.
//
// # The way back
//
// If the update revision is the one that all replicas ran last (Update = Current), it is proven. So there are no
// steps, and the floor of a subset is 0 until all of it is back. Replicas that are not ready are released at once,
// regardless of the bound on replicas in flight, skew and order, and those that run anything else are deleted, even
// if they are merely unready. A failed replica stops nothing, and the phase is Failed only if nothing else is on
// its way, or Blocked if it uses the room that others need. Replicas that a scale-up adds are not held up. Ready
// replicas are released as usual: available ones through the ledger, and others, which a higher minReadySeconds
// makes unavailable, within the bound on replicas in flight.
//
// # Zero
//
// Without a single replica nothing is finished: the step, its soaked time and its approvals stay, and the phase
// does not become Complete. Replicas that come up from 0 come up protected, and the rollout continues where it
// was. A child without replicas has forgotten what it protected, so it counts as not staged (hasNoReplicas).
//
// # Skew, order
//
// Skew applies to the subsets in maxSkewSubsets, or to all. If a subset has n = R - T > 0 replicas to release, its
// share is u / n, where u is the number of replicas among [T, R) that are updated and available. Let s be the
// smallest share. A subset may have at most floor(n * (s + maxSkew)) replicas that are at or above its partition
// or already updated. A subset with the share s may have u + 1 if its next replica is down anyway, because that
// costs the ledger nothing and others may wait for it. If all this lets no subset move, one subset with the share
// s may have u + 1, too. So United never makes shares differ by more than maxSkew + 1 / (the smallest n). Subsets
// with n = 0 have no share: otherwise, a subset at its floor would hold the others back forever.
//
// Sequential. Only the first subset that is not done moves. A subset is done if u = n. Broken replicas of the
// others are released anyway.
//
// # Steps
//
// The position is status.rollout.step together with stepKey, which has a hash for each subset of what the steps
// *before* the running one did to it. A pass searches for the step before which the same was done to the subsets
// that are on record and still exist. So the running step and later ones can be edited, steps can be appended, and
// subsets can be added and removed without losing the position. If the steps before were edited, the rollout
// starts again at the first step. The approval key is bound to the revision, the start of the rollout, and the
// running step.
//
// Soak. A step stands while all replicas that it releases are released, updated and available, nothing is being
// drained, and every child is staged. reachedTime is the time since which it stands, not before the last replica
// became ready. soakedSeconds is the time for which it stood before. When the step ceases to stand, the first is
// added to the second. A failure resets both. A timed pause is over when the sum reaches its duration.
//
// Force ignores health and skew: only replicas that are on their way and have not failed count, at most
// maxUnavailable at a time. It does not loosen the rules that keep surplus replicas, nor floor, steps and
// approvals.
//
// # Invariants
//
//	I1 No ordinal below the floor, or below a step's target, of the moment is moved to,
//	   or created on, the update revision, except on the way back.
//	I2 No release or deletion by United makes more than maxUnavailable unavailable, nor
//	   more than maxUnavailablePerSubset of one subset.
//	   Nothing that is merely unready is deleted, except on the way back, and what was
//	   never released.
//	I3 United does not make shares differ by more than maxSkew + 1/(smallest number to
//	   release), except for broken replicas.
//	I4 Within a revision a partition rises only to a higher target, or over ordinals
//	   that are new.
//	I5 Sequential: no available replica of subset k+1 is released before subset k is
//	   done.
//	I6 From every state, once the world is kind (no more faults, new pods become
//	   ready), the rollout ends in what the spec asks for. The exception is Blocked,
//	   whose message names a way out.
//	I7 Stale caches, crashes between any two writes, lost answers, conflicts, and
//	   restarts of the API server break none of these.
package coordination
