// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package coordination decides which ordinals of a subset may run the update
// revision, and says why. It is pure: no client, no clock, no logger.
//
// The line is a partition P. Ordinals below P are protected: they are never
// moved to, re-created on or created on the update revision. Ordinals from P up
// to the subset's replicas R go to it. An integer is P as it is, also above R. A
// percentage keeps a share of the subset's own replicas, P = ceil(p * R / 100),
// and is computed anew whenever the subset scales, so scaling down may release
// ordinals. "100%" is a hold: P is R at every R.
//
// [Manual] is the line that the user asks for, [Freeze] that while spec.paused,
// and [Coordinate] those of a coordinated rollout (type RollingUpdate).
//
// # The coordinated rollout
//
// Coordinate looks at all subsets at once. It remembers nothing but
// status.rollout, so it can be killed between any two writes.
//
// Staging. A new revision is written to every child together with the partition
// [Held], which protects everything whatever the scale. Nothing is released before
// that, and status.rollout of that revision, have been written and read back: what
// is acted on is always on record. A partition is lowered only on a child that has
// the update revision and whose controller has observed its spec.
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
// least one replica of the subset. Partitions go down to T, and go up only when T
// does (the user raised it, or a percentage of more replicas is more).
//
// The ledger. A replica is unavailable when it is missing, unready, not available
// for minReadySeconds, terminating, or released and not yet on the update revision.
// U counts those among the ordinals [0, R) of all subsets; A the available ones
// among all that are asked for, surplus ones included; N is the sum of all R.
//
//	release an available replica      if U + 1 <= maxUnavailable
//	release an unavailable one        if in flight + 1 <= maxUnavailable
//	remove a surplus available one    if N - A + 1 <= maxUnavailable
//	remove a surplus unavailable one  always
//
// In flight are the released replicas that are not updated and available. They
// are counted for replicas that are down already because a moment in which a
// whole zone is unready must not put the whole zone on a revision of which nobody
// knows whether it works. Among equals, the subset goes first that is the furthest
// behind; ties go to the first in the spec.
//
// Children that work in order (OrderedReady) move nothing while any of their
// replicas is not available. So of those one available replica is released at a
// time, when all are available; of replicas at the top that are unavailable all
// are released, and deleted one by one, the lowest first: that is the only way to
// the one that the child waits for.
//
// A child that works in parallel still moves one replica at a time. What else is
// released is to be deleted by us ([Decision.Delete]), as long as no more than
// maxUnavailable are down.
//
// Skew. With n = R - T > 0 replicas to release, a subset's share is u / n, where u
// are those among [T, R) that are updated and available. Let s be the smallest
// share. A subset may have at most floor(n * (s + maxSkew)) replicas that are at or
// above its partition or updated already. A subset with the share s gets u + 1 if its
// next replica is down anyway, for that costs the ledger nothing and others may wait
// for it; and one gets it if all this lets nobody move. Shares then never differ by
// more than maxSkew + 1 / (the smallest n) through our doing. Subsets with n = 0 have
// no share: one at its floor would else keep the others back for ever.
//
// Sequential. Only the first subset that is not done moves: done is u = n.
//
// Failure. A replica that this rollout made (created since it began) and that
// failed, crashed before it was ready, or is not available for
// progressDeadlineSeconds, stops every release and deletion in all subsets. It is
// over when the replica is available, or with the next revision: the failed
// replica is then an unavailable one, which costs nothing to release.
//
// Force ignores health and skew: only replicas that are on their way and have not
// failed count, at most maxUnavailable at a time. It does not loosen what keeps
// surplus replicas.
//
// # Invariants
//
//	I1 No ordinal below the target of the moment is moved to, or created on, the
//	   update revision.
//	I2 No release makes more than maxUnavailable unavailable.
//	I3 Shares differ by at most maxSkew + 1/(smallest n) through our doing.
//	I4 Within a revision a partition rises only to a higher target.
//	I5 Sequential: nothing of a subset is released before the one ahead is done.
//	I6 Every rollout whose new replicas become available ends, unless unavailable
//	   replicas that it cannot reach yet use up the ledger (Blocked). A child that
//	   works in order also waits for a replica below its target, and not even force
//	   helps: the floor and the steps stay in force, and nothing of it moves.
//	I7 None of this depends on a write arriving, or on a cache being fresh.
package coordination
