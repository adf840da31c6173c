// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	"slices"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/test/worlds"
)

// reconcile is LeaderWorkerSetReconciler.Reconcile (pkg/controllers/leaderworkerset_controller.go). maxSurge is 0 in all
// worlds, because United rejects another one, so the StatefulSet has the replicas of the LeaderWorkerSet.
func (w *game) reconcile(c *child) {
	if c.Key == 0 { // getOrCreateRevisionIfNonExist
		c.Key = c.Template
		c.revise(c.Template)
	}
	updated := c.Leaders.Exists && c.Key != c.Template // getUpdatedRevision: the label names another content
	if updated {
		c.Key = c.Template
		c.revise(c.Template)
	}
	partition := max(w.rollingUpdatePartition(c, updated), c.Partition)
	c.apply(partition)
	c.Observed = true
	if w.updateDone(c) { // TruncateRevisions
		for v := range c.Numbers {
			if uint8(v) != c.Key {
				c.Numbers[v] = 0
				c.Orphans &^= worlds.Bit(uint8(v))
			}
		}
	}
}

// revise is NewRevision and CreateRevision. A revision with the content of an earlier one gets its own number, and the
// name of the earlier one stands for both.
func (c *child) revise(version uint8) {
	c.Numbers[version] = slices.Max(c.Numbers[:]) + 1
	c.Orphans &^= worlds.Bit(version)
}

// mayBeUnavailable returns its maxUnavailable as a number.
func (c *child) mayBeUnavailable() int {
	if c.MaxUnavailable == unbounded {
		return int(c.Replicas)
	}
	return int(c.MaxUnavailable)
}

// apply is SSAWithStatefulset.
func (c *child) apply(partition uint8) {
	pace := uint8(max(1, c.mayBeUnavailable()))
	if !c.Leaders.Exists {
		c.LeadersAre = (c.LeadersAre + 1) % 4
	}
	if c.Leaders.Apply(statefulset.Version(c.Template), c.Replicas, partition); pace != c.Pace {
		c.Leaders.Observed = false
	}
	c.Owned, c.Pace, c.Asked = true, pace, c.Replicas
}

// rollingUpdatePartition is rollingUpdateParameters.
func (w *game) rollingUpdatePartition(c *child, updated bool) uint8 {
	set := &c.Leaders
	switch {
	case !set.Exists:
		return 0
	case updated:
		return min(c.Replicas, set.Replicas)
	case set.Partition == 0 && set.Replicas == c.Replicas:
		return 0
	case set.Replicas < c.Replicas:
		return set.Partition
	case c.Asked != c.Replicas:
		return min(set.Partition, c.Replicas)
	}
	return min(w.stepPartition(c, int(set.Replicas), c.mayBeUnavailable()), set.Partition)
}

// stepPartition is the function rollingUpdatePartition there.
func (w *game) stepPartition(c *child, replicas, step int) uint8 {
	settled := 0
	for i := replicas - 1; i >= 0 && w.stateOf(c, i) == (groupState{true, true}); i-- {
		settled++
	}
	lowest := max(0, replicas-settled-step)
	partition := lowest
	for i := range lowest {
		partition += worlds.Int(!w.stateOf(c, i).ready)
	}
	for i := min(partition, replicas-1); i >= lowest; i-- {
		if state := w.stateOf(c, i); state.ready && !state.updated {
			break
		}
		partition = i
	}
	return uint8(partition)
}

// groupState is replicaState: what the controller knows of a group. Trap: a terminating leader counts as ready as long as
// its condition is True, and the workers of the previous leader count for the current one.
type groupState struct{ ready, updated bool }

func (w *game) stateOf(c *child, i int) groupState {
	p, wk := &c.Leaders.Pods[i], &c.Workers[i]
	if !p.Exists() || w.workers && wk.Version == 0 {
		return groupState{}
	}
	return groupState{
		ready:   p.Phase == statefulset.Ready && (!w.workers || wk.Phase == statefulset.Ready),
		updated: c.version(i) == c.Key && (!w.workers || wk.Version == c.Key),
	}
}

// updateDone is the one of updateConditions.
func (w *game) updateDone(c *child) bool {
	done := 0
	for i := range int(c.Replicas) {
		done += worlds.Int(w.stateOf(c, i) == groupState{true, true})
	}
	return c.Partition == 0 && done == int(c.Replicas)
}

// syncLeaders is a sync of the StatefulSet controller. It returns the deleted groups that were available.
func (w *game) syncLeaders(c *child) (taken int) {
	before := *c
	c.Leaders.Sync(statefulset.Kind{CountsUnavailable: !w.older, MaxUnavailable: c.Pace})
	for i := range maxGroups {
		taken += worlds.Int(w.available(&before)(i) && !c.live(i))
	}
	return taken
}

// reconcilePod is PodReconciler.Reconcile (pod_controller.go) for a group: it creates the workers of a leader, of the
// revision that the leader's label names; and if a container of a group restarts, it deletes the whole group, leader and
// workers.
func (w *game) reconcilePod(c *child, i int) {
	p, wk := &c.Leaders.Pods[i], &c.Workers[i]
	switch {
	case !c.live(i):
	case w.restarts && c.crashed(i):
		p.Terminating = true
		*wk = worker{}
	case w.workers && wk.Version == 0 && c.Numbers[p.Version] != 0:
		*wk = worker{Version: c.version(i), Phase: statefulset.Starting}
	}
}
