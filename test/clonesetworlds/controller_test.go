// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import (
	"slices"

	"github.com/unitedworkloads/united/test/worlds"
)

// sync is one sync of the CloneSet controller with strategy ReCreate (pkg/controller/cloneset, cloneset_controller.go,
// doReconcile). Its status counts the pods as they were at the start. taken is the number of deleted available pods.
func (w *game) sync(s *state, k int) (taken int) {
	c := &s.Children[k]
	if !c.Exists {
		return 0
	}
	before := *c
	c.Known |= worlds.Bit(c.Template)
	current := c.Current
	if c.Known&worlds.Bit(current) == 0 {
		current = c.Template // getActiveRevisions
	}
	modified, taken := w.scale(c, current)
	if !modified {
		w.update(c)
	}
	w.syncStatus(c, &before, current)
	return taken
}

// syncStatus is calculateStatus. It counts the pods that the sync has read.
func (w *game) syncStatus(c, read *child, current uint8) {
	c.Observed, c.Current, c.Update = true, current, c.Template
	c.StatusReplicas = uint8(read.count())
	c.StatusReady = uint8(read.count(isReady))
	c.StatusUpdated = uint8(read.count(of(c.Template)))
	if c.StatusUpdated == c.StatusReplicas && c.StatusReplicas == c.Replicas {
		c.Current = c.Update
	}
}

// diffs is expectationDiffs: the differences between a CloneSet and its spec.
type diffs struct {
	scaleUp, scaleUpOld, scaleDown, scaleDownOld int
	deleteReady                                  int
	update, updateMaxUnavailable                 int
}

// partitionReplicas is CalculatePartitionReplicas of a number.
func (c *child) partitionReplicas() int { return int(min(c.Partition, c.Replicas)) }

// mayBeUnavailable returns its maxUnavailable as a number.
func (c *child) mayBeUnavailable() int {
	if c.MaxUnavailable == unbounded {
		return int(c.Replicas)
	}
	return int(c.MaxUnavailable)
}

// diffs is calculateDiffsWithExpectation, without preDelete hooks and without the feature
// CloneSetPartitionRollback.
func (w *game) diffs(c *child) (d diffs) {
	updated := of(c.Template)
	replicas, partition, pods := int(c.Replicas), c.partitionReplicas(), c.count()
	newCount, oldCount := c.count(updated), c.count(not(updated))
	markedNew, markedOld := c.count(updated, marked), c.count(not(updated), marked)
	unavailable := c.count(not(marked), not(w.serves))
	updateOld, updateNew := max(oldCount-partition, 0), min(newCount-(replicas-partition), 0)

	surge, surgeOld := w.useSurge(c, unavailable, markedNew, markedOld, updateOld, updateNew)
	expected, expectedOld := replicas+surge, partition+surgeOld
	if n := expected - pods; n > 0 {
		d.scaleUp, d.scaleUpOld = n, max(expectedOld-oldCount, 0)
	}
	if n := pods - markedOld - markedNew - expected; n > 0 {
		d.scaleDown, d.scaleDownOld = n, max(oldCount-markedOld-expectedOld, 0)
	}
	if markedNew > 0 || markedOld > 0 || d.scaleDown > 0 {
		d.deleteReady = max(c.mayBeUnavailable()+pods-replicas-unavailable, 0)
	}
	if d.update = -updateNew; updateOld <= -updateNew {
		d.update = updateOld
	}
	d.updateMaxUnavailable = c.mayBeUnavailable() + pods - replicas
	return d
}

// useSurge returns how many pods may temporarily exist above the replicas, and how many of those have the previous
// version.
func (w *game) useSurge(c *child, unavailable, markedNew, markedOld, updateOld, updateNew int) (surge, surgeOld int) {
	if w.surge == 0 {
		return 0, 0
	}
	forMarked, forMarkedOld, forUpdate := 0, 0, 0
	if n := markedNew + markedOld; n > 0 {
		forMarked = min(max(unavailable+n-c.mayBeUnavailable(), 0), n)
		if forMarked > markedNew {
			forMarkedOld = forMarked - markedNew
		}
	}
	if updateOld > 0 && updateNew < 0 {
		forUpdate = min(updateOld, -updateNew)
	}
	if forMarked >= forUpdate {
		surge = min(int(w.surge), forMarked)
		return surge, min(surge, forMarkedOld)
	}
	return min(int(w.surge), forUpdate), 0
}

// scale is realControl.Scale: it creates pods, or deletes marked ones, or scales in. It does only one of these.
func (w *game) scale(c *child, current uint8) (modified bool, taken int) {
	d := w.diffs(c)
	if d.scaleUp > 0 {
		for i := range d.scaleUp {
			version := c.Template
			if i < d.scaleUpOld {
				version = current
			}
			c.create(version)
		}
		return true, 0
	}
	var chosen []int
	for n := range c.Pods {
		if p := &c.Pods[n]; p.live() && p.Marked {
			chosen = append(chosen, n)
		}
	}
	wasMarked := len(chosen)
	if modified, taken = w.remove(c, chosen, &d.deleteReady); modified {
		return true, taken
	}
	if d.scaleDown == 0 || wasMarked > 0 { // it "skipped to scale in for deletion"
		return false, 0
	}
	return w.remove(c, w.choose(c, &d), &d.deleteReady)
}

// choose is choosePodsToDelete.
func (w *game) choose(c *child, d *diffs) []int {
	old := w.sorted(c, not(of(c.Template)))
	updated := w.sorted(c, of(c.Template))
	fromOld := min(d.scaleDown, d.scaleDownOld)
	return slices.Concat(old[:min(fromOld, len(old))], updated[:min(d.scaleDown-fromOld, len(updated))])
}

// sorted returns pods in the order in which they are deleted: first those that are not ready, youngest first, then those
// that have been ready for the shortest time. With minReadySeconds, scaling in puts unavailable pods before available
// ones, which is the same order, because they have been ready for a shorter time.
func (w *game) sorted(c *child, is func(*pod) bool) (order []int) {
	for n := range c.Pods {
		if p := &c.Pods[n]; p.live() && is(p) {
			order = append(order, n)
		}
	}
	slices.SortFunc(order, func(a, b int) int {
		pa, pb := &c.Pods[a], &c.Pods[b]
		switch {
		case isReady(pa) != isReady(pb):
			return worlds.Int(isReady(pa)) - worlds.Int(isReady(pb))
		case !isReady(pa) && !pa.created(a).Equal(pb.created(b)):
			return pb.created(b).Compare(pa.created(a))
		}
		return b - a
	})
	return order
}

// remove deletes the chosen pods that are not ready, and as many ready ones as it may.
func (w *game) remove(c *child, chosen []int, mayBeReady *int) (modified bool, taken int) {
	for _, n := range chosen {
		p := &c.Pods[n]
		if isReady(p) {
			if *mayBeReady == 0 {
				continue
			}
			*mayBeReady--
		}
		taken += worlds.Int(w.serves(p))
		w.end(p)
		modified = true
	}
	return modified, taken
}

// end deletes a pod; if pods take time to terminate, it is terminating afterwards.
func (w *game) end(p *pod) {
	if w.lingers {
		p.Terminating = true
		return
	}
	*p = pod{}
}

func (c *child) create(version uint8) {
	last := -1
	for n := range c.Pods {
		if c.Pods[n].Version != 0 {
			last = n
		}
	}
	c.Pods[last+1] = pod{Version: version} // panics with too many
}

// update is realControl.Update: it marks the pods that must be replaced.
func (w *game) update(c *child) {
	d := w.diffs(c)
	if d.update == 0 {
		return
	}
	waiting := w.sorted(c, not(of(c.Template)))
	waiting = waiting[:min(d.update, len(waiting))]
	unavailable, targetUnavailable := 0, 0
	for n := range c.Pods {
		// This checks the state "Normal" and the condition, but not whether the pod is marked.
		if p := &c.Pods[n]; p.live() && !w.serves(p) {
			unavailable++
			targetUnavailable += worlds.Int(p.Version == c.Template)
		}
	}
	for i, n := range waiting {
		if targetUnavailable+i >= d.updateMaxUnavailable {
			return
		}
		if w.serves(&c.Pods[n]) {
			if unavailable >= d.updateMaxUnavailable {
				return
			}
			unavailable++
		}
		c.Pods[n].Marked = true
	}
}
