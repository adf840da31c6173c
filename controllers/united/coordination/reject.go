// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import "github.com/unitedworkloads/united/apis/apps/v1alpha1"

// failure returns why the update revision has failed: a check has, or an updated replica for good; "" if neither has. Force and
// the way back ignore failures, and while a rollout is paused, nothing is judged.
func (c *coordinator) failure() string {
	if c.Paused != "" || !c.onRecord() || !c.haltedByFailure() {
		return ""
	}
	if m := c.notMet(false); m != nil && m.record.State == v1alpha1.CheckHasFailed {
		return "check " + m.record.Name + " failed: " + m.record.Message
	}
	if failed, _ := c.failedForGood(); !failed {
		return ""
	}
	return c.failedReplicas() + " failed"
}
