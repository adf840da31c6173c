// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"maps"
	"time"

	"github.com/unitedworkloads/united/controllers/subset"
)

// RetryStale is how soon to look again when the cluster had moved on. The watch
// usually is sooner.
const RetryStale = time.Second

// Result is what became of the plan for one subset.
type Result struct {
	Failure *subset.Failure
	// Stale: the cluster had moved on; nothing failed.
	Stale bool
	// WaitReason says for what it has to look again; "" when nothing is known but that the
	// cluster had moved on.
	WaitReason string
	// Child is the child as it is after it was written; nil when it was not.
	Child *Child
	// Deleted: the child was deleted.
	Deleted bool
	// DeletedStuck are the deleted replicas that were not ready, DeletedUnreleased those that had come up
	// on the update revision without having been released. Other deleted replicas are in neither.
	DeletedStuck, DeletedUnreleased []string
	// NotRetried: what failed is the template of the pods, which is not written again.
	NotRetried bool
	// Corrected says what of the child was put right that somebody had changed; "" if nothing.
	Corrected string
	// Note is what is to be said of the child beside all else.
	Note string
}

// Refused reports whether the child is not as the plan asks, for good or for now.
func (r *Result) Refused() bool { return r.Failure != nil || r.Stale }

// failed is why nothing can be done for the subset, or why what was tried has failed; nil
// when neither is so.
func (s *SubsetPlan) failed(r *Result) *subset.Failure {
	if r.Refused() {
		return r.Failure
	}
	return s.Failure
}

// Results are what became of a plan, by subset.
type Results map[string]*Result

// of is what became of a subset. Where nothing was tried, as offline, nothing failed.
func (r Results) of(name string) *Result {
	if done := r[name]; done != nil {
		return done
	}
	return &Result{}
}

// after is the input with the children as they are after the pass.
func (in *Input) after(results Results) *Input {
	out := *in
	out.Children = maps.Clone(in.Children)
	for name, r := range results {
		if r.Child != nil {
			out.Children[name] = r.Child
		}
	}
	return &out
}
