// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deploymentworlds

import (
	"math"
	"slices"

	"github.com/unitedworkloads/united/test/worlds"
)

// sync is one sync of the Deployments' controller with strategy RollingUpdate
// (pkg/controller/deployment, deployment_controller.go, syncDeployment).
func (w *game) sync(s *state, k int) {
	c := &s.Children[k]
	if !c.Exists {
		return
	}
	c.Observed = true
	if c.Paused || c.isScalingEvent() {
		w.scale(c)
		w.syncStatus(c)
		return
	}
	newest := &c.ReplicaSets[c.Template]
	if !newest.Exists {
		for v := range c.ReplicaSets {
			newest.Age = max(newest.Age, c.ReplicaSets[v].Age)
		}
		*newest = replicaSet{Exists: true, Age: newest.Age + 1}
		newest.Replicas = w.newReplicas(c)
		c.Progress = progressing // NewReplicaSetCreated
		w.annotate(c, newest)
	} else if c.Progress == noProgress {
		c.Progress = progressing // FoundNewReplicaSet
	}
	if want := w.newReplicas(c); newest.Replicas != c.Replicas && want != newest.Replicas {
		newest.Replicas = want
		w.annotate(c, newest)
	} else {
		w.scaleDownOld(c)
	}
	w.syncStatus(c)
}

// isScalingEvent is the controller's: an active ReplicaSet has an annotation with another number of replicas.
func (c *child) isScalingEvent() bool {
	return slices.ContainsFunc(c.ReplicaSets[:], func(r replicaSet) bool { return r.Replicas > 0 && r.Desired != c.Replicas })
}

// annotate is SetReplicasAnnotations.
func (w *game) annotate(c *child, r *replicaSet) {
	r.Desired, r.Max = c.Replicas, c.Replicas+c.maxSurge()
}

// newReplicas is NewRSNewReplicas.
func (w *game) newReplicas(c *child) uint8 {
	newest := c.ReplicaSets[c.Template]
	if newest.Replicas > c.Replicas {
		return c.Replicas
	}
	most, have := c.Replicas+c.maxSurge(), c.asked()
	if have >= most {
		return newest.Replicas
	}
	return newest.Replicas + min(most-have, c.Replicas-newest.Replicas)
}

// maxUnavailable is MaxUnavailable, which calls ResolveFenceposts.
func (w *game) maxUnavailable(c *child) int {
	most := int(c.MaxUnavailable)
	switch {
	case most != ofTemplate:
	case w.unsaid:
		most = int(c.Replicas) / 4 // the API server's 25%, rounded down
	default:
		most = 1
	}
	if most == 0 && c.maxSurge() == 0 {
		most = 1
	}
	return min(most, int(c.Replicas))
}

// maxSurge is MaxSurge: as written, or the API server's default of 25%, rounded up.
func (c *child) maxSurge() uint8 {
	if c.MaxSurge == unsaid {
		return (c.Replicas + 3) / 4
	}
	return c.MaxSurge
}

// old returns the versions of ReplicaSets without that of the template, oldest first.
func (c *child) old() (old []uint8) {
	for v := uint8(1); v <= worlds.MaxVersion; v++ {
		if v != c.Template && c.ReplicaSets[v].Exists {
			old = append(old, v)
		}
	}
	slices.SortFunc(old, func(a, b uint8) int { return int(c.ReplicaSets[a].Age) - int(c.ReplicaSets[b].Age) })
	return old
}

// scaleDownOld is reconcileOldReplicaSets: first cleanupUnhealthyReplicas, then
// scaleDownOldReplicaSetsForRollingUpdate.
func (w *game) scaleDownOld(c *child) {
	newest := c.ReplicaSets[c.Template].Replicas
	if c.asked() == newest {
		return
	}
	minAvailable := int(c.Replicas) - w.maxUnavailable(c)
	newUnavailable := int(newest) - c.count(of(c.Template), w.available)
	room := int(c.asked()) - minAvailable - newUnavailable
	if room <= 0 {
		return
	}
	take := func(v uint8, n int) int {
		if n > 0 {
			c.ReplicaSets[v].Replicas -= uint8(n)
			w.annotate(c, &c.ReplicaSets[v])
		}
		return max(0, n)
	}
	for _, v := range c.old() {
		unhealthy := int(c.ReplicaSets[v].Replicas) - c.count(of(v), w.available)
		room -= take(v, min(room, unhealthy))
	}
	spare := c.count(w.available) - minAvailable
	for _, v := range c.old() {
		spare -= take(v, min(spare, int(c.ReplicaSets[v].Replicas)))
	}
}

// scale is the controller's: it handles the number of replicas of a Deployment that is paused or was scaled.
func (w *game) scale(c *child) {
	if one, found := c.activeOrLatest(); found {
		if one != 0 && c.ReplicaSets[one].Replicas != c.Replicas { // with the wanted size it is not annotated either
			c.ReplicaSets[one].Replicas = c.Replicas
			w.annotate(c, &c.ReplicaSets[one])
		}
		return
	}
	newest := c.ReplicaSets[c.Template]
	if newest.Exists && newest.Replicas == c.Replicas && newest.Desired == c.Replicas && c.count(of(c.Template), w.available) == int(c.Replicas) {
		for _, v := range c.old() { // it is saturated
			if r := &c.ReplicaSets[v]; r.Replicas > 0 {
				r.Replicas = 0
				w.annotate(c, r)
			}
		}
		return
	}
	w.scaleInProportion(c)
}

// active returns the versions of ReplicaSets with replicas.
func (c *child) active() (active []uint8) {
	for v := uint8(1); v <= worlds.MaxVersion; v++ {
		if c.ReplicaSets[v].Replicas > 0 {
			active = append(active, v)
		}
	}
	return active
}

// activeOrLatest is FindActiveOrLatest: the only active ReplicaSet, or that of the template, or the newest; 0 if there is
// none. It is not found if several are active.
func (c *child) activeOrLatest() (version uint8, found bool) {
	switch active := c.active(); {
	case len(active) > 1:
		return 0, false
	case len(active) == 1:
		return active[0], true
	}
	if c.ReplicaSets[c.Template].Exists {
		return c.Template, true
	}
	if old := c.old(); len(old) > 0 {
		return old[len(old)-1], true
	}
	return 0, true
}

// scaleInProportion distributes the difference over the active ReplicaSets.
func (w *game) scaleInProportion(c *child) {
	allowed := 0
	if c.Replicas > 0 {
		allowed = int(c.Replicas) + int(c.maxSurge())
	}
	toAdd := allowed - int(c.asked())
	active := c.active()
	slices.SortFunc(active, func(a, b uint8) int {
		ra, rb := c.ReplicaSets[a], c.ReplicaSets[b]
		switch {
		case ra.Replicas != rb.Replicas:
			return int(rb.Replicas) - int(ra.Replicas)
		case toAdd > 0:
			return int(rb.Age) - int(ra.Age) // the newer first
		default:
			return int(ra.Age) - int(rb.Age)
		}
	})
	sizes := map[uint8]int{}
	added := 0
	for _, v := range active {
		r := c.ReplicaSets[v]
		sizes[v] = int(r.Replicas)
		if toAdd != 0 {
			share := c.proportion(&r, allowed)
			if left := toAdd - added; toAdd > 0 {
				share = min(share, left)
			} else {
				share = max(share, left)
			}
			sizes[v] += share
			added += share
		}
	}
	for n, v := range active {
		if n == 0 {
			sizes[v] += toAdd - added
		}
		r := &c.ReplicaSets[v]
		r.Replicas = uint8(max(0, sizes[v]))
		w.annotate(c, r)
	}
}

// proportion is GetReplicaSetProportion: the change of a ReplicaSet before it is bounded.
func (c *child) proportion(r *replicaSet, allowed int) int {
	annotated := int(r.Max)
	if r.Desired == 0 {
		annotated = int(c.Replicas)
	}
	size := float64(int(r.Replicas)*allowed) / float64(max(1, annotated))
	return int(math.Round(size)) - int(r.Replicas)
}

// syncStatus is syncRolloutStatus.
func (w *game) syncStatus(c *child) {
	replicas, available, updated := c.count(), c.count(w.available), c.count(of(c.Template))
	progressed := int(c.StatusUpdated) < updated || int(c.StatusReplicas)-int(c.StatusUpdated) > replicas-updated || int(c.StatusAvailable) < available
	c.StatusReplicas, c.StatusUpdated, c.StatusAvailable = uint8(replicas), uint8(updated), uint8(available)
	desired := int(c.Replicas)
	switch {
	case c.Paused:
		if c.Progress != deadlineExceeded {
			c.Progress = progressing
		}
	case replicas == updated && c.Progress == progressDone:
	case updated == desired && replicas == desired && available == desired:
		c.Progress = progressDone
	case progressed:
		c.Progress = progressing
	}
}

// syncReplicaSets syncs all ReplicaSets of a child. taken is the number of deleted available replicas.
func (w *game) syncReplicaSets(s *state, k int) (taken int) {
	c := &s.Children[k]
	for v := uint8(1); v <= worlds.MaxVersion; v++ {
		r := &c.ReplicaSets[v]
		if !r.Exists {
			continue
		}
		for c.count(of(v)) < int(r.Replicas) {
			free := slices.IndexFunc(c.Pods[:], func(p pod) bool { return p.Version == 0 })
			c.Pods[free] = pod{Version: v} // panics with too many
		}
		for c.count(of(v)) > int(r.Replicas) {
			worst := -1
			for n := range c.Pods {
				if c.Pods[n].Version == v && (worst < 0 || c.Pods[n].rank() < c.Pods[worst].rank()) {
					worst = n
				}
			}
			taken += worlds.Int(w.available(&c.Pods[worst]))
			c.Pods[worst] = pod{}
		}
	}
	return taken
}

// rank orders the pods that a ReplicaSet deletes: first those that are not ready, then the youngest.
func (p *pod) rank() int {
	switch {
	case p.Phase != ready:
		return int(p.Phase)
	case !p.Aged:
		return 10
	}
	return 11
}
