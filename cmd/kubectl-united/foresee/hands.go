// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// The hands of the manager in the future: nothing fails, but what the API server refuses (Options.Refused).
var _ pass.Hands = &future{}

// Try keeps the revisions.
func (f *future) Try(_ *planner.Input, keep func() error) *planner.Result {
	f.unkept = keep()
	return &planner.Result{Stale: f.unkept != nil}
}

// Store stores the revision that the spec asks for.
func (f *future) Store(in *planner.Input, _ []*revision.Revision) (*revision.Revision, error) {
	object := in.Asked().Object.DeepCopy()
	object.UID = f.newUID()
	return revision.Parse(object)
}

// Keep changes a revision.
func (f *future) Keep(_ *planner.Input, r *revision.Revision, change revision.Change) (*revision.Revision, error) {
	if change.None() {
		return r, nil
	}
	return revision.Parse(change.Of(r.Object))
}

// Ask does nothing: the results of checks stay as they are.
func (f *future) Ask([]known.CheckAsk) {}

// MayContinue reports that there is time.
func (f *future) MayContinue() bool { return true }

// Write does a write to a child.
func (f *future) Write(in *planner.Input, w *planner.Write) *planner.Result {
	result, changed := f.carryOut(in, w)
	f.changed = f.changed || changed
	return result
}

// Start does nothing, as Ask.
func (f *future) Start(*planner.Input, []known.CheckAsk) time.Duration { return 0 }

// Record changes a revision.
func (f *future) Record(r *revision.Revision, change revision.Change) error {
	recorded, err := revision.Parse(change.Of(r.Object))
	if err != nil {
		return err
	}
	f.world.Revisions, f.changed = slices.Clone(f.world.Revisions), true
	for i := range f.world.Revisions {
		if f.world.Revisions[i].Name == r.Name {
			f.world.Revisions[i] = recorded
		}
	}
	return nil
}

// Publish sets the status.
func (f *future) Publish(p *pass.Pass) (time.Duration, error) {
	f.changed = f.changed || !equality.Semantic.DeepEqual(p.Status, &f.world.Parent.Status)
	for _, r := range p.Results {
		f.changed = f.changed || r.Stale // it was left to the next pass
	}
	f.world.Parent = f.world.Parent.DeepCopy()
	f.world.Parent.Status = *p.Status
	return 0, nil
}

// Tidy does nothing: a plan does not show which revisions go.
func (f *future) Tidy(*pass.Pass) error { return nil }
