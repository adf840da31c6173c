// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package known

import (
	"time"

	"github.com/unitedworkloads/united/adapters"
)

// Replica is the state of one existing replica of a subset. Planner, report and plugin read the same one, so that they cannot
// disagree.
type Replica struct {
	*adapters.Replica
	// OnTemplate: it runs the template of the child, and the child's controller has observed that. Whether the child *has* the
	// update revision is not said by it (Facts.Revision).
	OnTemplate bool
	// Updated: its pod is one that the update revision makes, by whatever name.
	Updated bool
	// Released: the partition that is in force lets the child's controller replace it.
	Released bool
	// Available: it has been ready for as long as the child asks. AvailableAt is when time alone makes it available; zero if it
	// does not.
	Available   bool
	AvailableAt time.Time
	// Broken: nobody loses anything when it is replaced (adapters.Terms.Broken). BrokenAt is when time alone makes it broken; zero if
	// it does not.
	Broken   bool
	BrokenAt time.Time
	// Failed: it failed on the template of the child, so that the template does not work (adapters.Terms.UpdateFailed).
	Failed bool
}

// States returns the states of the existing replicas, by position; nil without a child.
func (f *Facts) States(t adapters.Terms) []Replica {
	o := f.Observed
	if o == nil {
		return nil
	}
	all := make([]Replica, len(o.Pods))
	for i := range o.Pods {
		all[i] = f.State(&o.Pods[i], t)
	}
	return all
}

// State returns the state of one existing replica of the child.
func (f *Facts) State(r *adapters.Replica, t adapters.Terms) Replica {
	o := f.Observed
	s := Replica{
		Replica:    r,
		OnTemplate: o.SpecObserved && o.UpdateHash != "" && r.Hash == o.UpdateHash,
		Updated:    f.UpdatedHash != "" && r.Hash == f.UpdatedHash,
		Released:   r.Position >= o.Partition && r.Position < o.Replicas,
		Failed:     t.UpdateFailed(o, r),
	}
	s.Available, s.AvailableAt = r.Available(o.MinReadySeconds, t.Now)
	s.Broken, s.BrokenAt = t.Broken(r, f.Wanted())
	return s
}

// Wanted returns the child's own revisions that somebody asks for; nil if they are not known.
func (f *Facts) Wanted() []string {
	if f.Observed == nil || f.Forgot && (f.Recorded == nil || *f.Recorded > 0) {
		return nil
	}
	return f.Observed.WantedHashes(f.Proven || f.FirstRolloutPending, f.ProtectedHash)
}
