// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coordination decides which ordinals of a subset may run the update
// revision, and says why. It is pure: no client, no clock, no logger.
//
// What is decided is a partition P. Ordinals below P are protected: they are never
// moved to, re-created on or created on the update revision. Ordinals from P up
// to the subset's replicas R go to it. An integer is P as it is, also above R. A
// percentage keeps a share of the subset's own replicas, P = ceil(p * R / 100),
// and is computed anew whenever the subset scales, so scaling down may release
// ordinals. "100%" is a hold: P is R at every R.
//
// [Manual] gives the partition that the user asks for, [Freeze] that while spec.paused,
// and [Coordinate] those of a coordinated rollout (type RollingUpdate).
//
// # The coordinated rollout
//
// Coordinate looks at all subsets at once. It remembers nothing but
// status.rollout, so it can be killed between any two writes. A pass goes through
// setTargets, scale, stageAndProtect (staging, growth), takeBack, release, deleteReplicas
// and advance (steps, status), in this order.
//
// Gates. Everything that is released, and every step that ends, passes the gates of the
// table in gates.go. Each is one function in checks.go that tells whether it is closed, why,
// when time alone may open it, and whether it is a stall. Its entry in the table says what it
// holds: all releases (and deletions), one subset, the next replica of a subset, or the end
// of a step; and which releases pass it all the same: by force, on the way back, because
// the replica is broken or updated already, and so on. The first gate that is closed gives
// the reason. The sections below say what the gates check, and why.
//
// Staging. A new revision is written to every child together with the partition
// [Held], which protects everything whatever the scale. Nothing is released before
// that, and status.rollout of that revision, have been written and read back: what
// is acted on is always on record. A partition is lowered only on a child that has
// the update revision, whose controller has observed its spec, and that has not
// forgotten what it protects.
//
// A child whose first template was corrected before anything was ready, and that did
// not come up on the correction since, is open to it. It can be given another, and
// protect replicas, only when it has. If none of its replicas is ready on what it has,
// and its target is 0, the update revision takes the place of that at once: a released
// replica that is not back is released to another revision. (Under force also when
// some are ready and others broken.)
//
// Targets. With the user's floor F and the running step k, the target of a subset
// is T = max(F, min over the steps up to k that name it of the step's partition),
// or R if none does; after the last step T = F. A percentage below 100 releases at
// least one replica of the subset. Partitions go down to T. They go up when T does
// (the user raised it, or a percentage of more replicas is more), and over replicas
// that a scale-up adds.
//
// # Unready, broken, failed
//
// A replica is broken ([adapters.Terms.Broken]) when its container failed or crashed
// and it is not ready since, when it is not ready for progressDeadlineSeconds, or when
// it was never ready and runs a revision that nobody asks for. Everything else that is
// not available is merely unready. Only what is broken is released out of turn, and
// only what is broken is deleted for not being available; on the way back, below,
// what is unready as well.
//
// Failed is an updated replica that is broken for one of the first two reasons: it
// shows that the update revision does not work. Updated is asked of the pod's hash and
// of a child whose controller has observed its spec. When the pod was made is not asked,
// for that would compare the API server's clock with ours. Where the controller has not,
// and so it cannot be known whether a failed replica is an updated one, nothing is
// released either.
//
// While a replica is failed nothing is released, and nothing is deleted, in any
// subset. What a scale-up adds comes up protected. It is over when the replica is
// ready, or with the next revision: the replica is then an old broken one, which costs
// nothing to replace.
//
// # The ledger
//
// A replica is unavailable when it is missing, unready, not available for
// minReadySeconds, terminating, or released and not yet on the update revision,
// protected or not. U counts those among the ordinals [0, R) of all subsets; A the
// available ones among all that are asked for, surplus ones included; N is the sum of
// all R. In flight are the released replicas that are not updated and available; an
// updated one that is not available is among them also where growth, below, has raised
// the partition over it since.
//
//	release an available replica      if U + 1 <= maxUnavailable
//	release an unready or missing one if in flight + 1 <= maxUnavailable
//	release a broken one              the same, whatever order and skew say
//	remove a surplus available one    if N - A + 1 <= maxUnavailable
//	remove a surplus unavailable one  always
//
// With maxUnavailablePerSubset each subset has a ledger of its own beside that, with U, A, N and what
// is in flight of the subset alone, and the same holds with that bound; a percentage is of R, rounded
// down, at least 1. What is barred by it leaves the room to other subsets.
//
// The bound on what is in flight is there because a moment in which a whole zone is
// unready must not put the whole zone on a revision of which nobody knows whether it
// works. Among equals, the subset goes first that is the furthest behind; ties go to
// the first in the spec.
//
// Growth. Replicas that a scale-up adds in mid-rollout are protected first: the
// partition rises to R, over ordinals that do not exist. Then they are released from
// the top as missing ones, within what is in flight. What is updated below the
// partition by then counts as updated, and the partition passes it for nothing.
//
// Order within a child. Children that work in order (OrderedReady) move nothing while
// any of their replicas is not available. So of those one available replica is
// released at a time, when all are available. Of broken ones at the top all are
// released, count as one in flight, and are deleted one by one, the lowest first and
// only when all below are ready: one deleted above an unready one is not made again.
//
// Deletions. Released broken replicas that are not updated are deleted, and so are
// protected broken ones of a revision that nobody asks for (stray): they come back on
// the protected one. A child that works in parallel replaces released available
// replicas one at a time, and from Kubernetes 1.37 on none at all while as many of its
// replicas as its own maxUnavailable are unavailable, protected ones too. What is
// released beyond that is deleted by us ([Decision.Delete]), highest first, while U is
// at most maxUnavailable. The one that the child's controller is about to take is left
// to it, and counted as down already. Where U is too much, the subset is barred, and
// the rollout may be Blocked.
//
// Taking back. Replicas that came up on the update revision without having been
// released (Unreleased) are deleted before anything is released: unavailable ones at
// once, available ones as the ledger allows. Their subset releases nothing until they
// are back.
//
// Reserved replicas. Those that have no node and are kept beside the replicas of the parent
// (reserveUnschedulablePods) count as available, and N leaves them out of a percentage of
// maxUnavailable. So they are released in turn, like available ones, and deleted, since the
// child's controller waits for them; when they are updated they are done, without a node. What is
// behind them is deleted too.
//
// # The way back
//
// The update revision is the one that all replicas ran last (Update = Current). It is
// proven, so: there are no steps. Unavailable replicas are released at once, without
// regard to what is in flight, to skew, order or turn, and those that run anything else
// are deleted, also when they are merely unready. A failed replica stops nothing; the
// phase is Failed only when nothing else is on its way. Growth is not held up.
// Available replicas go through the ledger, with order and skew, as ever.
//
// # Zero
//
// Without a single replica nothing is finished: the step, its soaked time and its
// approvals stay, and phase Complete is not reached. What comes up from 0 comes up
// protected, and the rollout goes on where it was. A child without replicas has
// forgotten what it protected, so it counts as not staged (hasNoReplicas).
//
// # Skew, order
//
// Skew, among the subsets of maxSkewSubsets, or all. With n = R - T > 0 replicas to release, a subset's share is u / n, where u
// are those among [T, R) that are updated and available. Let s be the smallest
// share. A subset may have at most floor(n * (s + maxSkew)) replicas that are at or
// above its partition or updated already. A subset with the share s gets u + 1 if its
// next replica is down anyway, for that costs the ledger nothing and others may wait
// for it; and one gets it if all this lets nobody move. Shares then never differ by
// more than maxSkew + 1 / (the smallest n) through our doing. Subsets with n = 0 have
// no share: one at its floor would else keep the others back for ever.
//
// Sequential. Only the first subset that is not done moves: done is u = n. Broken
// replicas of the others are released all the same.
//
// # Steps
//
// The position is status.rollout.step together with stepKey: for each subset a hash of
// what the steps *before* the running one did to it. A pass looks for the step before
// which the same was done to the subsets that are on record and still there. So the
// running step and later ones can be edited, steps can be added behind, and subsets
// can come and go, without a loss. When the steps before were edited, it is the first
// one again. The approval key is bound to the revision, the start of the rollout, and
// the steps up to and including the running one.
//
// Soak. A step stands when all that it releases is released, updated and available,
// nothing is being drained, and every child is staged. reachedTime is since when it
// stands, not before the last replica became ready; soakedSeconds the time for which it
// stood before. When it ceases to stand the one is added to the other; a failure sets
// both back to nothing. A timed pause is over when the sum is its duration.
//
// Force ignores health and skew: only replicas that are on their way and have not
// failed count, at most maxUnavailable at a time. It does not loosen what keeps
// surplus replicas, nor floor, steps and approvals.
//
// # Invariants
//
//	I1 No ordinal below the floor, or below a step's target, of the moment is moved to,
//	   or created on, the update revision.
//	I2 No release or deletion of ours makes more than maxUnavailable unavailable, nor
//	   more than maxUnavailablePerSubset of one subset.
//	   Nothing that is merely unready is deleted, the way back and what was never
//	   released aside.
//	I3 Shares differ by at most maxSkew + 1/(smallest number to release) through our
//	   doing, broken replicas aside.
//	I4 Within a revision a partition rises only to a higher target, or over ordinals
//	   that are new.
//	I5 Sequential: no available replica of subset k+1 is released before subset k is
//	   done.
//	I6 From every state, once the world is kind (no more faults, new pods become
//	   ready), the rollout ends in what the spec asks for. The exception is Blocked,
//	   whose message names a way out that ends it.
//	I7 Stale caches, crashes between any two writes, lost answers, conflicts, and
//	   restarts of the API server break none of these.
package coordination
