// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import "github.com/unitedworkloads/united/adapters"

// Proven returns the partition of a child that counts (adapters.ByCount) if its protected revision makes the same
// pods as the update revision. In such a child, a partition keeps that many replicas on whatever else they run,
// for example after a canary that is taken back, and nobody asks for that. So there is no partition, unless it
// protects all replicas: then nothing may move.
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
