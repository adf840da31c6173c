// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"slices"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// subsetState is the state of one subset in one pass.
type subsetState struct {
	*Subset
	// revision is the name of the parent revision of the child's template.
	revision string
	// forgot: the child creates all of its pods on the update revision although it protects another. It must first be
	// reminded. If everything is released, it does not have to remember anything.
	forgot bool
	// currentReplicas and partition are in force now.
	currentReplicas, partition int32
	// nextReplicas and nextPartition are their next values.
	nextReplicas, nextPartition int32
	// floor is the partition that the user asks for, target the one of the running step.
	floor  DesiredPartition
	target int32
	// staged: the child has the update revision, and its controller has observed it.
	staged        bool
	replicaStates []replicaState

	// releasedOrUpdated is how many of the ordinals from target on are already released or updated; releaseLimit
	// is how far skew allows that to rise.
	releasedOrUpdated, releaseLimit int64
	// own is the ledger of the subset alone.
	own ledger
	// updatedAvailable is u: how many of the ordinals from target on are updated and available.
	updatedAvailable int64
	// exhausted: nothing more can be released in this pass. releasedInPass: something was released.
	exhausted, releasedInPass bool
	// stuck: it is broken on a template that it never came up on, and protected from any other.
	stuck bool
	// waitsForSubset is the subset that goes first, if this one has to wait for its turn.
	waitsForSubset *subsetState
	// releasedNow is how many replicas it releases in this pass, releasedUnavailable how many of these were
	// unavailable.
	releasedNow, releasedUnavailable int64
	// changeReason is why its partition changes in this pass, waitReason what it still waits for.
	changeReason string
	waitReason   string
	// gate is the name of the gate that gave waitReason; "" if none did.
	gate      string
	deletions []adapters.Replica
	// cannotTakeBack: replicas that came up without having been released cannot be taken back now, because a
	// replica below them is unavailable and the child works in order.
	cannotTakeBack bool
	// barred: its released replicas stay as they are, because another of its replicas is unavailable and the
	// ledger has no room.
	barred bool
	// pace and stopped are as in Decision.
	pace    *adapters.Pace
	stopped bool
}

// replicaState is the state of one existing replica, among those that the child is asked for.
type replicaState struct {
	known.Replica // in its words, a reserved replica without a node is not available
	// updated: the child has the update revision, and the replica runs that. One that merely makes the same pods
	// (known.Replica.Updated) may yet be replaced when the child gets it.
	updated bool
	// available is its current availability; a reserved replica is always available, because nobody waits for it.
	// usable excludes replicas that are released and not updated.
	available, usable bool
	// serves: it counts as unavailable, but only because it has not been ready for minReadySeconds, perhaps because these were
	// raised just now. Whoever takes it down takes it from somebody.
	serves bool
	// raised: it was released, is available and not updated, and somebody else has since raised the partition over
	// it. The child's controller may have taken it down before that.
	raised bool
	// broken: nobody loses anything when it is replaced. failed: it is updated and broken, and so shows that the
	// update revision does not work.
	broken, failed bool
}

func (c *coordinator) newSubsetState(s *Subset) *subsetState {
	v := &subsetState{Subset: s, revision: s.Runs(), partition: s.LastPartition, nextReplicas: s.Desired, nextPartition: s.LastPartition}
	o := s.Observed
	if o == nil {
		return v
	}
	v.forgot = s.Forgot && (s.Recorded == nil || *s.Recorded > 0)
	v.currentReplicas, v.partition = o.Replicas, o.Partition
	if s.Recorded != nil && *s.Recorded > o.Partition {
		v.partition = *s.Recorded
	}
	v.nextPartition = v.partition
	v.replicaStates = make([]replicaState, 0, len(o.Pods))
	v.staged = v.hasRevision(c.Update) && o.SpecObserved && (o.UpdateHash != "" || o.Untouched()) && o.Meta.DeletionTimestamp == nil &&
		!v.forgot && !v.hasNoReplicas()
	reserved := v.Reserved
	for i := range o.Pods {
		if r := &o.Pods[i]; r.Position >= 0 && (r.Position < o.Replicas || v.Whole) {
			v.replicaStates = append(v.replicaStates, c.newReplicaState(v, r, reserved > 0))
			if v.hasNoNode(r) {
				reserved--
			}
		}
	}
	return v
}

// newReplicaState returns the state of a replica. reserved: if it has no node, it does not count.
func (c *coordinator) newReplicaState(v *subsetState, r *adapters.Replica, reserved bool) replicaState {
	m := replicaState{Replica: v.State(r, c.terms())}
	o := v.Observed
	m.updated = v.staged && m.OnTemplate && v.revision == c.Update
	hasNoNode := v.hasNoNode(r)
	m.available = m.Available || hasNoNode && reserved
	// While the child's controller has not observed its spec, the hashes are those of an older one, and released
	// replicas may move at any moment; so may replicas that somebody else has released.
	m.usable = m.available && (m.OnTemplate || r.Position < min(v.partition, o.Partition))
	if v.Whole {
		m.usable = m.available // the ledger counts as a whole what the child may take
	}
	m.serves = !v.Whole && !m.available && m.Serves() && (m.OnTemplate || r.Position < v.partition && r.Position < o.Partition)
	if v.Recorded != nil && !v.Whole && m.usable && !m.OnTemplate && r.Position >= *v.Recorded {
		m.usable, m.raised = false, true
	}
	if hasNoNode {
		return m
	}
	m.broken = m.Broken
	c.requeueAt(m.BrokenAt)
	c.setFailed(v, &m)
	return m
}

// hasNoNode reports whether a replica has no node, in a subset that keeps such replicas: it never fails. As many of them
// as are reserved do not use the ledger: such a replica is released like an available one, and deleted when it is
// released. It is done when it is updated. The others are the replicas for which no subset has room. They are
// missing, so they use the ledger. They are the highest ones, because those can be released first, and the next revision
// may need less room.
func (s *Subset) hasNoNode(r *adapters.Replica) bool {
	return s.Reserved > 0 && r.Unschedulable != "" && !r.Terminating && r.Position < s.Desired
}

// setFailed records whether a replica shows that the update revision does not work.
func (c *coordinator) setFailed(v *subsetState, m *replicaState) {
	if !c.onRecord() || v.Removed || v.revision != c.Update || v.forgot || !m.Failed {
		return
	}
	switch {
	case v.Observed.SpecObserved || v.Whole:
		m.failed = true
	default:
		// The hash may be that of the previous template.
		c.unobservedFailure = v.Observed.Meta.Name
	}
}

// hasRevision reports whether the child has the update revision. A child that gets it only when it is released has
// it, too, once it is on record that the child is protected from it.
func (v *subsetState) hasRevision(update string) bool {
	return v.revision == update || v.Whole && v.partition == Held
}

// hasNoReplicas reports whether the child has no replicas, and so has forgotten what it protected.
func (v *subsetState) hasNoReplicas() bool {
	return v.Observed != nil && !v.Removed && v.currentReplicas == 0
}

// startupState reports how far a child that has not come up on its first template yet has come: ready, some
// replica is ready on it; broken, some replica is broken on it.
func (c *coordinator) startupState(v *subsetState) (ready, broken bool) {
	for _, m := range v.replicaStates {
		if m.Hash != v.Observed.UpdateHash {
			continue
		}
		ready, broken = ready || m.Ready, broken || m.broken
	}
	return ready, broken
}

// fullyUpdated reports whether the child has, and creates, only replicas of the update revision.
func (v *subsetState) fullyUpdated(update string) bool {
	if v.Unreadable != "" {
		return false
	}
	if v.Observed == nil || v.hasNoReplicas() {
		return v.Proven || v.Desired == 0
	}
	if v.Observed.UpdateHash == "" {
		return v.Proven && v.revision == update && v.Observed.Meta.DeletionTimestamp == nil // its controller has not synced it yet: it is new
	}
	return v.staged && v.Observed.CurrentHash == v.Observed.UpdateHash &&
		!slices.ContainsFunc(v.replicaStates, func(m replicaState) bool { return !m.updated })
}

// toRelease returns n: how many ordinals the running step releases.
func (v *subsetState) toRelease() int64 { return max(0, int64(v.Desired)-int64(v.target)) }

// setTarget sets the target of the running step.
func (v *subsetState) setTarget(target int32) {
	v.target, v.updatedAvailable = target, 0
	for _, m := range v.replicaStates {
		if m.Position >= target && m.Position < v.Desired && m.updated && m.available {
			v.updatedAvailable++
		}
	}
}

// stepDone reports whether all replicas that the running step releases are released and available.
func (v *subsetState) stepDone() bool {
	return v.toRelease() == 0 || v.staged && v.partition <= v.target && v.updatedAvailable == v.toRelease()
}

// inFlightOf returns how many released replicas are not back yet; healthy excludes those that failed or cannot
// move.
func (c *coordinator) inFlightOf(v *subsetState, healthy bool) int64 {
	end := min(v.currentReplicas, v.nextReplicas) // surplus ones move as long as they are kept
	if v.Observed == nil {
		end = v.Desired // released replicas come back as released
	}
	switch {
	case v.Removed && (healthy || v.revision != c.Update):
		return 0 // nobody waits for them, or they go to another revision
	case v.Whole && v.Observed != nil:
		return c.inFlightWhole(v, healthy)
	}
	count := int64(max(0, end-v.partition)) // including missing ones, which are on their way
	if v.Observed != nil && v.currentReplicas < v.Desired && v.fullyUpdated(c.Update) {
		count += int64(v.Desired - v.currentReplicas) // they come up on the update revision, regardless of the partition
	}
	broken := int64(0)
	for _, m := range v.replicaStates {
		if m.Position >= end {
			continue
		}
		if m.Position < v.partition {
			// It was released before the partition rose over it, for replicas that were new.
			if m.updated && !m.available && !m.Terminating && !c.goingBack && (!healthy || !m.failed) {
				count++
			}
			continue
		}
		pending := !m.updated && (v.staged || !m.usable)
		switch {
		case m.updated && m.available || !m.updated && !pending || healthy && m.failed:
			count--
		case !m.updated && m.broken:
			broken++
		}
	}
	if v.Observed != nil && v.Observed.Ordered {
		if healthy && v.unavailableBelow(v.partition) >= 0 {
			return 0 // none of its replicas can move
		}
		return count - max(0, broken-1) // it replaces broken ones one at a time
	}
	return count
}

// search returns the index of the replica at a position in replicaStates, or the index that it would have.
func (v *subsetState) search(position int32) (index int, found bool) {
	return slices.BinarySearchFunc(v.replicaStates, position, func(m replicaState, p int32) int { return int(m.Position) - int(p) })
}

// at returns the replica at a position, or nil if it is missing.
func (v *subsetState) at(position int32) *replicaState {
	i, found := v.search(position)
	if !found {
		return nil
	}
	return &v.replicaStates[i]
}

// missingDownFrom returns how many positions are missing from this one down.
func (v *subsetState) missingDownFrom(position int32) int32 {
	i, _ := v.search(position)
	if i == 0 {
		return position + 1
	}
	return position - v.replicaStates[i-1].Position
}

// unavailableBelow returns the lowest position below the given one without an available replica, or -1 if there is
// none.
func (v *subsetState) unavailableBelow(position int32) int32 {
	return v.lowestWithout(position, func(m *replicaState) bool { return m.available })
}

// downBelow is unavailableBelow without replicas that serve.
func (v *subsetState) downBelow(position int32) int32 {
	return v.lowestWithout(position, func(m *replicaState) bool { return m.available || m.Serves() })
}

// lowestWithout returns the lowest position below the given one without a replica that is well, or -1 if there is none.
func (v *subsetState) lowestWithout(position int32, well func(*replicaState) bool) int32 {
	expected := int32(0)
	for i := range v.replicaStates {
		m := &v.replicaStates[i]
		if m.Position >= position || m.Position != expected || !well(m) {
			break
		}
		expected++
	}
	if expected < position {
		return expected
	}
	return -1
}

// name describes the replica at a position, whether it exists or is missing.
func (v *subsetState) name(position int32) string {
	if m := v.at(position); m != nil {
		return m.Describe()
	}
	return v.Observed.DescribeMissing(v.Name, position)
}

func (v *subsetState) decision() Decision {
	reason := v.floor.Reason
	if v.waitReason != "" {
		reason = v.waitReason
	}
	d := Decision{Replicas: v.nextReplicas, Delete: v.deletions, ChangeReason: v.changeReason, WaitReason: v.waitReason, Gate: v.gate}
	d.DesiredPartition = DesiredPartition{Partition: v.nextPartition, Held: v.nextPartition == Held || v.nextPartition == v.floor.Partition && v.floor.Held, Reason: reason}
	d.Pace, d.Stopped = v.pace, v.stopped
	d.Remove = v.Removed && v.Observed != nil && v.currentReplicas == 0 && v.isDrained()
	return d
}

// isDrained reports whether a child that is asked for no replicas has none, or none that it would remove by itself: if two
// of its replicas are not ready, an ordered one waits for the lower one before it removes the other.
func (v *subsetState) isDrained() bool {
	waits := v.Observed.Ordered && v.Observed.SpecObserved
	return !slices.ContainsFunc(v.Observed.Pods, func(r adapters.Replica) bool { return !waits || r.Ready || r.Terminating })
}
