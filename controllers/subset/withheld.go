// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"slices"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// A child that has one template, and no partition, is protected by withholding the new template: its replicas are
// created, and created again, from the protected revision, and nothing has to be remembered. Once the child is
// released, its controller updates the replicas by itself, and can only be stopped where it is: pausing the child keeps
// its mix of replicas.

// withholds reports whether the child should stay on its protected revision.
func (g *Goal) withholds() bool { return g.Initialized && (g.Held || g.Child.Partition > 0) }

// startWithheld returns the first step for such a child that does not exist.
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
	return Step{Action: ActionCreate, Child: child, Reason: fmt.Sprintf("creating %s on %s", child.Name, known.Short(child.Revision))}
}

// withhold returns the next step for such a child.
func (g *Goal) withhold(o *adapters.Observed) Step {
	moves := g.Initialized && o.Replicas > 0 && g.Revision != g.ProtectedRevision && !statusSettled(o)
	version := &g.Update
	switch {
	case !g.withholds():
	case moves && !g.comesBackProtected(o) && g.Has == nil:
		return g.revisionLost()
	case moves && !g.comesBackProtected(o):
		// The child was released, and has not finished. Both updated and other replicas stay as they are.
		version = g.Has
	case g.Protected == nil:
		return g.revisionLost()
	default:
		version = g.Protected
	}
	child := g.child(*version)
	reason := g.scaleBeside(&child, o)
	lost := o.Untouched() && len(o.Pods) == 0 // a paused child would not create any of them again
	child.Paused = moves && version.Revision == g.Revision && (g.Frozen || g.withholds()) && !lost
	if child.Paused {
		child.Surplus = o.Surplus
	}
	return Step{Action: ActionApply, Child: child, Reason: reason}
}

// scaleBeside keeps a scale-down and an update of the child from crossing, and ends the state that comes from that: one
// replica more is a number that its controller has to scale to. It returns the reason.
func (g *Goal) scaleBeside(child *adapters.Child, o *adapters.Observed) string {
	switch {
	case o.Crossing && child.Replicas < o.Replicas && child.Replicas > 0:
		child.Replicas = o.Replicas
		return "waiting for the controller of " + o.Meta.Name + " to begin its update before it is scaled down"
	case o.Missed && child.Replicas == o.Replicas:
		child.Replicas++
		return "adding a replica to " + o.Meta.Name + " for a moment, because its controller has missed that it was scaled and updates nothing"
	}
	return ""
}

// comesBackProtected reports whether a child that was released gets its protected revision back.
func (g *Goal) comesBackProtected(o *adapters.Observed) bool {
	return stoppedBeforeMoving(o) || g.Held && desiresNothing(o)
}

// stoppedBeforeMoving reports whether the child was released, and stopped before any of its replicas was updated. If
// so, it can get its protected revision back.
func stoppedBeforeMoving(o *adapters.Observed) bool {
	return o.Untouched() && !slices.ContainsFunc(o.Pods, func(r adapters.Replica) bool { return r.Hash != ProtectedHash(o) })
}

// desiresNothing reports whether the child's controller asks for no replicas, although the child has some: it has given
// up all replicas that it had, and has not yet asked for updated ones. There is no mix that could stay as it is.
//
// Trap: a paused Deployment then creates all its replicas from the newest of its ReplicaSets, which is the one that was
// released.
func desiresNothing(o *adapters.Observed) bool {
	return o.DesiredUpdated == 0 && o.DesiredOthers == 0
}
