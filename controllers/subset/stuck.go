// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import "github.com/unitedworkloads/united/adapters"

// Stuck gives the replicas to delete so that the rollout gets past them: those
// that are released, not ready and not on the update revision. A StatefulSet
// with OrderedReady waits for such a replica forever, and so never replaces it.
//
// From a child that works in order at most one is given, the lowest, and only
// when all below it are ready: one that is deleted above an unready one is not
// made again. The child's template must be the update revision.
func Stuck(o *adapters.Observed) []adapters.Replica {
	if !o.CaughtUp || o.UpdateHash == "" {
		return nil // what a deleted replica comes back on is not known
	}
	var stuck []adapters.Replica
	expected := int32(0)
	for _, r := range o.Members {
		inOrder := r.Position == expected
		expected = r.Position + 1
		healthy := r.Ready && !r.Terminating
		released := r.Position >= o.Partition && r.Position < o.Replicas
		if o.Ordered && !inOrder {
			return stuck
		}
		if !healthy && !r.Terminating && released && r.Hash != o.UpdateHash {
			stuck = append(stuck, r)
		}
		if o.Ordered && !healthy {
			return stuck
		}
	}
	return stuck
}
