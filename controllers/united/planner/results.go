// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"time"

	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// RetryStale is when to retry if the cluster has changed meanwhile. The watch is usually faster.
const RetryStale = time.Second

// Result is the result of the plan for one subset.
type Result struct {
	Failure *subset.Failure
	// Stale: the cluster had changed meanwhile; nothing failed.
	Stale bool
	// Yielded: it was left to another pass (Write.Yielded).
	Yielded bool
	// WaitReason says what the next pass waits for; "" if it is only known that the cluster had changed.
	WaitReason string
	// Child is the child after it was written; nil if it was not.
	Child *world.Child
	// Deleted: the child was deleted.
	Deleted bool
	// DeletedStuck are the deleted replicas that were not ready, DeletedUnreleased those that had come up on the
	// update revision without having been released. Other deleted replicas are in neither.
	DeletedStuck, DeletedUnreleased []string
	// NotRetried: the pod template failed, and is not written again.
	NotRetried bool
	// Corrected says which changes by others were reverted in the child; "" if none.
	Corrected string
	// Note is an additional message about the child.
	Note string
}

// Refused reports whether the child is not as the plan asks, permanently or for the moment.
func (r *Result) Refused() bool { return r.Failure != nil || r.Stale }

// Results are the results of a plan, by subset.
type Results map[string]*Result

// Of returns the result of a subset. If nothing was tried, for example offline, nothing failed.
func (r Results) Of(name string) *Result {
	if done := r[name]; done != nil {
		return done
	}
	return &Result{}
}

// After returns the input with the children as they are after the pass.
func (in *Input) After(results Results) *Input {
	out := *in
	out.Children = maps.Clone(in.Children)
	for name, r := range results {
		if r.Child != nil {
			out.Children[name] = r.Child
		}
	}
	return &out
}
