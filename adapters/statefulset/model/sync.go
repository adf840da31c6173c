// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset

// Synced is the result of one sync of the controller.
type Synced struct {
	// Created and Deleted have a bit for each ordinal.
	Created, Deleted uint8
	// Replicas, ReadyReplicas and UpdatedReplicas are what the sync wrote into the status.
	Replicas, ReadyReplicas, UpdatedReplicas uint8
	// Finished: the status says that there are replicas, and all of them are updated and ready. Trap: a surplus
	// replica makes up for a missing one.
	Finished bool
}

// sync is one sync of the controller.
type sync struct {
	kind                Kind
	replicas, partition int
	// template is the version in the spec; current and update are the revisions in the status.
	template, current, update Version
	revisions                 *[MaxVersions + 1]Owner
	pods                      []Pod
	// before are the pods as the sync has read them: it does not see yet that a pod which it deletes is terminating.
	before []Pod
	// counted are the counts for the status.
	counted struct{ replicas, ready, updated int }
	// finished: the status says that all replicas are updated and ready.
	finished bool
}

// Sync runs one sync of the StatefulSet controller.
func (s *Set) Sync(kind Kind) Synced {
	if !s.Exists {
		return Synced{}
	}
	var before [MaxPods]Pod
	p := sync{
		kind: kind, replicas: int(s.Replicas), partition: int(s.Partition), template: s.Template, current: s.Current,
		revisions: &s.Revisions, pods: s.Pods[:], before: before[:],
	}
	p.pass()
	s.Current, s.Update, s.Observed = p.current, p.update, true
	done := Synced{
		Replicas: uint8(p.counted.replicas), ReadyReplicas: uint8(p.counted.ready), UpdatedReplicas: uint8(p.counted.updated),
		Finished: p.finished && p.replicas > 0,
	}
	for i := range s.Pods {
		if p.created(i) {
			done.Created |= 1 << i
		}
		if p.deleted(i) {
			done.Deleted |= 1 << i
		}
	}
	return done
}

// pass does what a sync does.
func (p *sync) pass() {
	p.findRevisions()
	p.adopt()
	copy(p.before, p.pods)
	p.run()
	p.writeStatus()
}

func (p *sync) created(i int) bool { return !p.before[i].Exists() && p.pods[i].Exists() }
func (p *sync) deleted(i int) bool { return !p.before[i].Terminating && p.pods[i].Terminating }

// findRevisions is getStatefulSetRevisions. Trap: if an earlier set has left a revision of the same name and content,
// it becomes the update revision, but is not found as the current one.
func (p *sync) findRevisions() {
	for v := range p.revisions {
		if p.revisions[v] == Nobody {
			p.revisions[v] = Mine
		}
	}
	p.update = p.template
	if p.revisions[p.update] == 0 {
		p.revisions[p.update] = Mine
	}
	if p.current == 0 || p.revisions[p.current] != Mine {
		p.current = p.update
	}
}

func (p *sync) adopt() {
	for i := range p.pods {
		if pod := &p.pods[i]; pod.Owner == Nobody && !pod.Terminating {
			pod.Owner = Mine
		}
	}
}

func (p *sync) mine(i int) bool { return p.before[i].Exists() && p.before[i].Owner == Mine }

// unavailable is isUnavailable for a replica that is missing, was created just now, or was read as unavailable.
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

// processReplicas creates missing replicas, and reports whether the sync ends with that. Parallel sets do this in
// batches of 1, 2, 4 and so on, and a batch with a failure is the last one.
func (p *sync) processReplicas() (end bool) {
	failed := false
	for i := range p.replicas {
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

// create creates a replica; it fails if a pod of that name still exists.
func (p *sync) create(i int) bool {
	if p.pods[i].Exists() {
		return false
	}
	version := p.update
	if i < p.partition {
		version = p.current
	}
	p.pods[i] = Pod{Phase: Starting, Version: version, Owner: Mine}
	return true
}

// processCondemned deletes surplus pods, the highest first, and reports whether the sync ends with that.
func (p *sync) processCondemned() (end bool) {
	first := p.firstUnhealthy()
	for i := len(p.pods) - 1; i >= p.replicas; i-- {
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
	for i := range p.pods {
		if p.unavailable(i) && (i < p.replicas || p.mine(i)) {
			return i
		}
	}
	return -1
}

func (p *sync) remove(i int) {
	p.pods[i].Terminating = true
}

// outdated reports whether a replica must be replaced and is not terminating yet.
func (p *sync) outdated(i int) bool {
	return p.mine(i) && p.before[i].Version != p.update && !p.before[i].Terminating
}

// update136 replaces one released replica at a time, and waits for it.
func (p *sync) update136() {
	for i := p.replicas - 1; i >= p.partition; i-- {
		if p.outdated(i) {
			p.remove(i)
			return
		}
		if p.unavailable(i) {
			return
		}
	}
}

// down counts the unavailable replicas, including protected ones.
func (p *sync) down() int {
	n := 0
	for i := range p.replicas {
		if p.unavailable(i) {
			n++
		}
	}
	return n
}

// budget returns how many more replicas Kubernetes 1.37 may make unavailable.
func (p *sync) budget() int { return int(max(1, p.kind.MaxUnavailable)) - p.down() }

func (p *sync) updateOrdered137() {
	budget := p.budget()
	for i := p.replicas - 1; i >= p.partition && budget > 0; i-- {
		if p.outdated(i) {
			p.remove(i)
			budget--
		}
	}
}

// updateParallel137 deletes every released replica that is unavailable and outdated, and as many available ones as
// maxUnavailable allows in addition to all unavailable replicas.
func (p *sync) updateParallel137() {
	budget := p.budget()
	for i := p.replicas - 1; i >= p.partition; i-- {
		if p.outdated(i) && !p.kind.Available(&p.before[i]) {
			p.remove(i)
		}
	}
	for i := p.replicas - 1; i >= p.partition && budget > 0; i-- {
		if p.outdated(i) && p.kind.Available(&p.before[i]) {
			p.remove(i)
			budget--
		}
	}
}

// writeStatus counts like computeReplicaStatus, and completes a rolling update.
func (p *sync) writeStatus() {
	for i := range p.pods {
		if !p.mine(i) {
			continue
		}
		pod := &p.before[i]
		p.counted.replicas++
		if pod.Phase == Ready {
			p.counted.ready++
		}
		if !pod.Terminating && pod.Version == p.update {
			p.counted.updated++
		}
	}
	if p.counted.replicas == p.replicas && p.counted.ready == p.replicas && p.counted.updated == p.replicas {
		p.current, p.finished = p.update, true
	}
}
