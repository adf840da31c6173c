// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"time"

	"github.com/unitedworkloads/united/adapters"
)

// statusWriteDelay is how long after a change of its replicas a child's controller is expected
// to write the child's status. If that does not agree by then, it is not for lack
// of time.
const statusWriteDelay = 3 * time.Second

// ShouldWaitForStatus reports whether a step had better wait for the child's controller, which is
// about to write the child. A replica that becomes ready sets both of us going; as
// our writes are fenced by resourceVersion, one of the two would be refused.
//
// Only a step that does nothing but lower the partition waits: it is never urgent.
// Whatever protects, repairs or scales is written at once.
func ShouldWaitForStatus(s Step, o *adapters.Observed, now time.Time) bool {
	if s.Action != ActionApply || o == nil || !o.StatusOutdated || s.Child.Partition >= o.Partition ||
		s.Child.Replicas != o.Replicas || s.Child.Revision != RevisionOf(o) {
		return false
	}
	for _, m := range o.Pods {
		for _, at := range []time.Time{m.Created, m.Since, m.ReadySince} {
			// A clock that is ahead of ours must not make us wait until then.
			if age := now.Sub(at); age > -statusWriteDelay && age < statusWriteDelay {
				return true
			}
		}
	}
	return false
}
