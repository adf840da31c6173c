// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import "github.com/unitedworkloads/united/adapters"

// Proven is the partition of a child that counts (adapters.ByCount) and protects what the update
// revision is. There a partition keeps so many replicas on whatever else they run, after a
// canary that is taken back for one; and nobody asks for that. So there is none, unless it
// protects all replicas: then nothing is to move.
func (l DesiredPartition) Proven(replicas int32) DesiredPartition {
	if l.Held || l.Partition <= 0 || l.Partition >= replicas {
		return l
	}
	return DesiredPartition{Reason: l.Reason + "; those already run the update revision"}
}

// counts reports whether the child's controller counts its replicas, and chooses among them.
func (s *Subset) counts() bool {
	return s.Observed != nil && s.Observed.Traits.Partition == adapters.ByCount
}
