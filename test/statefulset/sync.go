// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset

// Synced is what one sync of the controller did.
type Synced struct {
	// Created and Deleted have a bit for each ordinal.
	Created, Deleted uint8
	// Replicas, ReadyReplicas and UpdatedReplicas are what it wrote into the status.
	Replicas, ReadyReplicas, UpdatedReplicas uint8
	// Finished: the status says that all replicas, and there are some, are updated and
	// ready. Trap: a surplus replica counts for one that is missing.
	Finished bool
}

// sync is one pass of the controller.
type sync struct {
	*Set
	kind            Kind
	current, update Version
	// before are the pods as the pass has read them: what it deletes it does not see
	// as terminating yet.
	before [MaxPods]Pod
	done   Synced
}

// Sync is one pass of the StatefulSet controller.
func (s *Set) Sync(kind Kind) Synced {
	if !s.Exists {
		return Synced{}
	}
	p := &sync{Set: s, kind: kind}
	p.findRevisions()
	p.adopt()
	p.before = s.Pods
	p.run()
	p.writeStatus()
	return p.done
}

// findRevisions is getStatefulSetRevisions. Trap: a revision of the same name and
// content that an earlier set has left is taken as the update revision, and not found
// again as the current one.
func (p *sync) findRevisions() {
	for v := range p.Revisions {
		if p.Revisions[v] == Nobody {
			p.Revisions[v] = Mine
		}
	}
	p.update, p.current = p.Template, p.Template
	if p.Revisions[p.update] == 0 {
		p.Revisions[p.update] = Mine
	}
	if p.Current != 0 && p.Revisions[p.Current] == Mine {
		p.current = p.Current
	}
}

func (p *sync) adopt() {
	for i := range p.Pods {
		if pod := &p.Pods[i]; pod.Owner == Nobody && !pod.Terminating {
			pod.Owner = Mine
		}
	}
}

func (p *sync) mine(i int) bool { return p.before[i].Exists() && p.before[i].Owner == Mine }

// unavailable is isUnavailable: of a replica that is missing, was created just now,
// or was read as unavailable.
func (p *sync) unavailable(i int) bool {
	return !p.mine(i) || !p.kind.Available(&p.before[i])
}

// run is updateStatefulSet.
func (p *sync) run() {
	if p.processReplicas() {
		return
	}
	if p.processCondemned() {
		return
	}
	switch {
	case !p.kind.CountsUnavailable:
		p.update136()
	case p.kind.Ordered:
		p.updateOrdered137()
	default:
		p.updateParallel137()
	}
}

// processReplicas makes what is missing; it tells whether the pass ends with that.
// Parallel goes in batches of 1, 2, 4 and so on, and one that fails is the last.
func (p *sync) processReplicas() (end bool) {
	failed := false
	for i := range int(p.Replicas) {
		if failed && i&(i+1) == 0 {
			return true
		}
		if !p.mine(i) {
			failed = !p.create(i) || failed
			if p.kind.Ordered {
				return true
			}
			continue
		}
		if p.kind.Ordered && p.unavailable(i) {
			return true
		}
	}
	return failed
}

// create makes a replica; it fails when a pod of the name is still there.
func (p *sync) create(i int) bool {
	if p.Pods[i].Exists() {
		return false
	}
	version := p.update
	if i < int(p.Partition) {
		version = p.current
	}
	p.Pods[i] = Pod{Phase: Starting, Version: version, Owner: Mine}
	p.done.Created |= 1 << i
	return true
}

// processCondemned takes away surplus pods, the highest first; it tells whether the
// pass ends with that.
func (p *sync) processCondemned() (end bool) {
	first := p.firstUnhealthy()
	for i := MaxPods - 1; i >= int(p.Replicas); i-- {
		if !p.mine(i) {
			continue
		}
		if p.before[i].Terminating {
			if p.kind.Ordered {
				return true
			}
			continue
		}
		if p.kind.Ordered && p.unavailable(i) && i != first {
			return true
		}
		p.remove(i)
		if p.kind.Ordered {
			return true
		}
	}
	return false
}

func (p *sync) firstUnhealthy() int {
	for i := range MaxPods {
		if p.unavailable(i) && (i < int(p.Replicas) || p.mine(i)) {
			return i
		}
	}
	return -1
}

func (p *sync) remove(i int) {
	p.Pods[i].Terminating = true
	p.done.Deleted |= 1 << i
}

// outdated tells whether a replica is to be replaced, and is not yet.
func (p *sync) outdated(i int) bool {
	return p.mine(i) && p.before[i].Version != p.update && !p.before[i].Terminating
}

// update136 replaces one released replica at a time, and waits for each.
func (p *sync) update136() {
	for i := int(p.Replicas) - 1; i >= int(p.Partition); i-- {
		if p.outdated(i) {
			p.remove(i)
			return
		}
		if p.unavailable(i) {
			return
		}
	}
}

// down counts the replicas that are unavailable, protected ones too.
func (p *sync) down() int {
	n := 0
	for i := range int(p.Replicas) {
		if p.unavailable(i) {
			n++
		}
	}
	return n
}

// spare is how many replicas more may be taken down, by Kubernetes 1.37.
func (p *sync) spare() int { return int(max(1, p.kind.MaxUnavailable)) - p.down() }

func (p *sync) updateOrdered137() {
	spare := p.spare()
	for i := int(p.Replicas) - 1; i >= int(p.Partition) && spare > 0; i-- {
		if p.outdated(i) {
			p.remove(i)
			spare--
		}
	}
}

// updateParallel137 deletes every released replica that is unavailable and outdated,
// and of the available ones as many as may be unavailable beside all that are.
func (p *sync) updateParallel137() {
	spare := p.spare()
	for i := int(p.Replicas) - 1; i >= int(p.Partition); i-- {
		if p.outdated(i) && !p.kind.Available(&p.before[i]) {
			p.remove(i)
		}
	}
	for i := int(p.Replicas) - 1; i >= int(p.Partition) && spare > 0; i-- {
		if p.outdated(i) && p.kind.Available(&p.before[i]) {
			p.remove(i)
			spare--
		}
	}
}

// writeStatus counts as computeReplicaStatus does, and completes a rolling update.
func (p *sync) writeStatus() {
	for i := range MaxPods {
		if !p.mine(i) {
			continue
		}
		pod := &p.before[i]
		p.done.Replicas++
		if pod.Phase == Ready {
			p.done.ReadyReplicas++
		}
		if !pod.Terminating && pod.Version == p.update {
			p.done.UpdatedReplicas++
		}
	}
	if p.done.Replicas == p.Replicas && p.done.ReadyReplicas == p.Replicas && p.done.UpdatedReplicas == p.Replicas {
		p.current = p.update
		p.done.Finished = p.Replicas > 0
	}
	p.Current, p.Update, p.Observed = p.current, p.update, true
}
