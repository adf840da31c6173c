// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"time"

	"github.com/unitedworkloads/united/adapters"
)

// statusWriteDelay is how long after a change of its replicas a child's controller is expected to write the child's
// status. If the status does not match by then, the reason is not a lack of time.
const statusWriteDelay = 3 * time.Second

// ShouldWaitForStatus reports whether a step should wait for the child's controller, which is about to write the child.
// A replica that becomes ready triggers both controllers, and because our writes are fenced by resourceVersion, one of
// the two writes would be rejected.
//
// Only a step that does nothing but lower the partition waits, because it is never urgent. Anything that protects,
// repairs or scales is written at once.
func ShouldWaitForStatus(s Step, o *adapters.Observed, now time.Time) bool {
	if s.Action != ActionApply || o == nil || !o.StatusOutdated || s.Child.Partition >= o.Partition ||
		s.Child.Replicas != o.Replicas || s.Child.Revision != RevisionOf(o) {
		return false
	}
	for _, m := range o.Pods {
		for _, at := range []time.Time{m.Created, m.Since, m.ReadySince} {
			// If a clock is ahead of ours, we must not wait until it is that time here.
			if age := now.Sub(at); age > -statusWriteDelay && age < statusWriteDelay {
				return true
			}
		}
	}
	return false
}
