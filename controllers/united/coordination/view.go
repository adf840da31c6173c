// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"slices"
	"time"

	"github.com/unitedworkloads/united/adapters"
)

// view is one subset in one pass.
type view struct {
	*Subset
	// live and partition are in force now.
	live, partition int32
	// replicas and next are what they become.
	replicas, next int32
	// floor is what the user asks for, target what the running step does.
	floor  Line
	target int32
	// staged: the child is on the update revision, and its controller knows.
	staged bool
	marks  []mark

	// potential is how many of the ordinals from target on are released or updated
	// already; potentialCap what skew allows it to become.
	potential, potentialCap int64
	// arrived is u: how many of those are updated and available.
	arrived int64
	// idle: nothing more can be released in this pass. busy: something was.
	idle, busy bool
	// stuck: it is broken on a template that it never came up on, and protected from
	// any other.
	stuck bool
	// behind is the subset whose turn it is, if that is another one.
	behind *view
	// freed is how many replicas it releases in this pass, freedDown how many of
	// them were unavailable.
	freed, freedDown int64
	// does says what is done to it in this pass, waits what is not done yet.
	does    string
	waits   string
	deletes []adapters.Replica
	// kept: what came up without having been released cannot be taken back now, since a
	// replica below it is unavailable and the child works in order.
	kept bool
	// barred: what is released of it stays as it is, since another of its replicas is
	// unavailable, and the ledger has no room.
	barred bool
	// pace and stopped are as in Decision.
	pace    *adapters.Pace
	stopped bool
}

// mark is one replica that exists, of those that the child is asked for.
type mark struct {
	*adapters.Replica
	// updated: it is of the update revision.
	updated bool
	// available tells of now; usable leaves out what is released and not updated.
	available, usable bool
	// raised: it was released, and is available and not updated, and somebody else has
	// raised the partition over it since. Its controller may have taken it before.
	raised bool
	// broken: nobody loses anything when it is replaced. failed: it is updated, and
	// so tells that the update revision does not work.
	broken, failed bool
}

func (c *coordinator) look(s *Subset) *view {
	v := &view{Subset: s, partition: s.Known, replicas: s.Desired, next: s.Known}
	o := s.Observed
	if o == nil {
		return v
	}
	v.live, v.partition = o.Replicas, o.Partition
	if s.Recorded != nil && *s.Recorded > o.Partition {
		v.partition = *s.Recorded
	}
	v.next = v.partition
	v.marks = make([]mark, 0, len(o.Members))
	v.staged = v.given(c.Update) && o.CaughtUp && (o.UpdateHash != "" || o.Untouched()) && o.Meta.DeletionTimestamp == nil &&
		!s.Forgot && !v.vacant()
	for i := range o.Members {
		if r := &o.Members[i]; r.Position >= 0 && (r.Position < o.Replicas || v.Whole) {
			v.marks = append(v.marks, c.mark(v, r))
		}
	}
	return v
}

func (c *coordinator) mark(v *view, r *adapters.Replica) mark {
	m := mark{Replica: r}
	o := v.Observed
	// While the child's controller has not observed its spec the hashes speak of an
	// older one, and what is released may move at any moment; so may what somebody else
	// has released.
	settled := o.CaughtUp && o.UpdateHash != "" && r.Hash == o.UpdateHash
	m.updated = v.staged && settled && v.Revision == c.Update
	m.available, _ = r.Available(o.MinReadySeconds, c.Now)
	m.usable = m.available && (settled || r.Position < min(v.partition, o.Partition))
	if v.Whole {
		m.usable = m.available // what it may take is counted as a whole
	}
	if v.Recorded != nil && !v.Whole && m.usable && !settled && r.Position >= *v.Recorded {
		m.usable, m.raised = false, true
	}
	var at time.Time
	if m.broken, at = c.terms().Broken(r, v.asked()); !m.broken {
		c.wakeAt(at)
	}
	c.markFailed(v, &m)
	return m
}

// asked are the child's own revisions that somebody asks for; nil if not known.
func (v *view) asked() []string {
	if v.Forgot {
		return nil
	}
	return v.Observed.Asked(v.Proven || v.Completing, v.ProtectedHash)
}

// markFailed tells whether a replica shows that the update revision does not work. It
// asks for what the replica runs and not for when it was made: two clocks would have
// to agree.
func (c *coordinator) markFailed(v *view, m *mark) {
	if !c.goOn() || v.Removed || v.Revision != c.Update || m.Hash != v.Observed.UpdateHash || v.Forgot {
		return
	}
	failed, _ := c.terms().Failed(m.Replica)
	switch {
	case failed && (v.Observed.CaughtUp || v.Whole):
		m.failed = true
	case failed:
		// The hash may be that of the template before.
		c.unsure = v.Observed.Meta.Name
	}
}

// given: the child has got the update revision; or it is on record that it is protected
// from it, if it gets that only when it is released.
func (v *view) given(update string) bool {
	return v.Revision == update || v.Whole && v.partition == Held
}

// vacant: the child has no replicas, and so has forgotten what it protected.
func (v *view) vacant() bool { return v.Observed != nil && !v.Removed && v.live == 0 }

// comesUp is how far a child has come that is to come up on a first template: ready,
// a replica is ready on it; broken, one is not going to be.
func (c *coordinator) comesUp(v *view) (ready, broken bool) {
	for _, m := range v.marks {
		if m.Hash != v.Observed.UpdateHash {
			continue
		}
		ready, broken = ready || m.Ready, broken || m.broken
	}
	return ready, broken
}

// clean: the child has, and makes, nothing but replicas of the update revision.
func (v *view) clean() bool {
	if v.Unreadable != "" {
		return false
	}
	if v.Observed == nil {
		return v.Same || v.Desired == 0
	}
	if v.vacant() {
		return v.Proven || v.Desired == 0
	}
	if v.Observed.UpdateHash == "" {
		return v.Same && v.Observed.Meta.DeletionTimestamp == nil // its controller has not looked yet: it is new
	}
	return v.staged && v.Observed.CurrentHash == v.Observed.UpdateHash &&
		!slices.ContainsFunc(v.marks, func(m mark) bool { return !m.updated })
}

// size is n: how many ordinals are to be released in the running step.
func (v *view) size() int64 { return max(0, int64(v.Desired)-int64(v.target)) }

// aimAt sets the target of the running step.
func (v *view) aimAt(target int32) {
	v.target, v.arrived = target, 0
	for _, m := range v.marks {
		if m.Position >= target && m.Position < v.Desired && m.updated && m.available {
			v.arrived++
		}
	}
}

// through: all that the running step releases is released and available.
func (v *view) through() bool {
	return v.size() == 0 || v.staged && v.partition <= v.target && v.arrived == v.size()
}

// inFlight is how many released replicas are not back yet; healthy leaves out
// those that failed, or cannot move.
func (c *coordinator) inFlightOf(v *view, healthy bool) int64 {
	end := min(v.live, v.Desired)
	if v.Observed == nil {
		end = v.Desired // what was released comes back so
	}
	if v.Removed {
		return 0
	}
	if v.Whole && v.Observed != nil {
		return c.inFlightWhole(v, healthy)
	}
	count := int64(max(0, end-v.partition)) // missing ones are on their way
	if v.Observed != nil && v.live < v.Desired && v.clean() {
		count += int64(v.Desired - v.live) // they come up on the update revision, whatever the partition
	}
	broken := int64(0)
	for _, m := range v.marks {
		if m.Position >= end {
			continue
		}
		if m.Position < v.partition {
			// It was released before the partition rose over it, for replicas that were new.
			if m.updated && !m.available && !m.Terminating && !c.back && (!healthy || !m.failed) {
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
			return 0 // nothing of it can move
		}
		return count - max(0, broken-1) // of broken ones it replaces one at a time
	}
	return count
}

// search is where the replica at a position is among the marks, or would be.
func (v *view) search(position int32) (index int, found bool) {
	return slices.BinarySearchFunc(v.marks, position, func(m mark, p int32) int { return int(m.Position) - int(p) })
}

// at is the replica at a position; nil if it is missing.
func (v *view) at(position int32) *mark {
	i, found := v.search(position)
	if !found {
		return nil
	}
	return &v.marks[i]
}

// gap is how many positions are missing from this one down.
func (v *view) gap(position int32) int32 {
	i, _ := v.search(position)
	if i == 0 {
		return position + 1
	}
	return position - v.marks[i-1].Position
}

// unavailableBelow is the lowest position below the given one without an
// available replica; -1 if there is none.
func (v *view) unavailableBelow(position int32) int32 {
	expected := int32(0)
	for _, m := range v.marks {
		if m.Position >= position {
			break
		}
		if m.Position != expected || !m.available {
			return expected
		}
		expected++
	}
	if expected < position {
		return expected
	}
	return -1
}

// name is that of the replica at a position, or stands for a missing one.
func (v *view) name(position int32) string {
	if m := v.at(position); m != nil {
		return m.Name + " " + m.Trouble()
	}
	return v.Observed.Lacks(v.Name, position)
}

func (v *view) decision() Decision {
	reason := v.floor.Reason
	if v.waits != "" {
		reason = v.waits
	}
	d := Decision{Replicas: v.replicas, Delete: v.deletes, Does: v.does, Waits: v.waits}
	d.Line = Line{Partition: v.next, Held: v.next == Held || v.next == v.floor.Partition && v.floor.Held, Reason: reason}
	d.Pace, d.Stopped = v.pace, v.stopped
	d.Remove = v.Removed && v.Observed != nil && v.live == 0 && len(v.Observed.Members) == 0
	return d
}
