// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// FactsOf returns what a child says, which is nil if it does not exist.
func FactsOf(o *adapters.Observed) known.Facts {
	if o == nil {
		return known.Facts{}
	}
	return known.Facts{
		Observed: o, Revision: RevisionOf(o), Recorded: ptr.To(RecordedPartition(o)),
		RecordedRevision: RecordedProtectedRevision(o), ProtectedHash: ProtectedHash(o),
		Seeding: Seeding(o), FirstRolloutPending: FirstRolloutPending(o), Forgot: Forgot(o), Unreleased: Unreleased(o),
	}
}
