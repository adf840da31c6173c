// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// stripped reports whether the child of a subset has lost one of its labels.
func (e *executor) stripped(s *planner.SubsetPlan) bool {
	who, current := e.in.ChildIdentity(s.Name), e.currentChild(s)
	return current != nil && !ownership.Labelled(&who, current)
}

// relabel restores the labels on the child of a subset that gets no other write.
func (e *executor) relabel(ctx context.Context, s *planner.SubsetPlan) *planner.Result {
	who := e.in.ChildIdentity(s.Name)
	o := e.attempt(ctx, e.in, s.Name, e.currentChild(s), func(*planner.Result) error {
		if err := e.Writer.Relabel(ctx, &who); err != nil {
			return err
		}
		return subset.ErrStale // it is gone by now
	})
	return orOverridden(o, e.Writer.Overridden(s.Workload, nil))
}

// errIfUnlabelled returns an error that causes another pass if a child does not have its labels after a write, because
// no watch reports what happens to it then. It returns nil if the child has them.
func errIfUnlabelled(c *adapters.Child, after *unstructured.Unstructured) error {
	if ownership.Labelled(c, after) {
		return nil
	}
	return &subset.WaitError{Reason: c.Name + " lost its labels; restoring them"}
}
