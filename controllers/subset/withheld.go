// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"slices"

	"github.com/unitedworkloads/united/adapters"
)

// A child that has one template, and no partition, is protected by not being given another
// one: it is made, and made again, on what it protects, and nothing has to be remembered.
// Once it is released it moves by itself, and can only be stopped where it is: by having it
// paused, which keeps the mix of replicas that it has.

// withholds reports whether the child is to stay on what it protects.
func (g *Goal) withholds() bool { return g.Initialized && (g.Held || g.Child.Partition > 0) }

// startWithheld is the first step of such a child that does not exist.
func (g *Goal) startWithheld() Step {
	version := &g.Update
	if g.withholds() {
		if version = g.Protected; version == nil {
			return g.revisionLost()
		}
	}
	child := g.child(*version)
	if child.ProtectedRevision == "" {
		child.ProtectedRevision = child.Revision
	}
	return Step{Action: ActionCreate, Child: child, Reason: fmt.Sprintf("creating %s on %s", child.Name, child.Revision)}
}

// withhold is the next step of such a child.
func (g *Goal) withhold(o *adapters.Observed) Step {
	moves := g.Initialized && o.Replicas > 0 && RevisionOf(o) != g.ProtectedRevision && !statusSettled(o)
	version := &g.Update
	switch {
	case !g.withholds():
	case moves && !stoppedBeforeMoving(o) && g.Has == nil:
		return g.revisionLost()
	case moves && !stoppedBeforeMoving(o):
		// It was released, and has not finished. What has moved stays, and so does the rest.
		version = g.Has
	case g.Protected == nil:
		return g.revisionLost()
	default:
		version = g.Protected
	}
	child := g.child(*version)
	lost := o.Untouched() && len(o.Pods) == 0 // one that is paused would make none of them again
	child.Paused = moves && version.Revision == RevisionOf(o) && (g.Frozen || g.withholds()) && !lost
	if child.Paused {
		child.Surplus = o.Surplus
	}
	return Step{Action: ActionApply, Child: child}
}

// stoppedBeforeMoving reports whether the child was released, and stopped before anything of it moved. So it can get
// back what it protects.
func stoppedBeforeMoving(o *adapters.Observed) bool {
	return o.Untouched() && !slices.ContainsFunc(o.Pods, func(r adapters.Replica) bool { return r.Hash != ProtectedHash(o) })
}
