// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"math"
	"strconv"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// RecordedPartition returns the child's partition as United wrote it; somebody else may have changed the one in the
// spec since. It returns the one in the spec if none is recorded.
func RecordedPartition(o *adapters.Observed) int32 {
	if n, ok := writtenPartition(o.Meta.Annotations); ok {
		return n
	}
	return o.Partition
}

// Difference returns the path of the first field or annotation of a child that is not as desired; nil if none differs. It does not
// compare what has a fingerprint.
func Difference(c *adapters.Child, o *adapters.Observed, fields adapters.FieldPaths) []string {
	annotation := func(key string) []string { return []string{"metadata", "annotations", key} }
	switch {
	case o.Replicas != c.Replicas:
		return fields.Replicas
	case o.Paused != c.Paused:
		return fields.Paused
	case o.NoPartition:
		return fields.Strategy
	case o.Partition != c.Partition && fields.Partition != nil:
		return fields.Partition
	case !c.HasPace(o.Pace):
		return fields.Strategy
	case RecordedPartition(o) != c.Partition: // if somebody else has set it to its desired value, that is not recorded
		return annotation(v1alpha1.AnnotationPartition)
	case Seeding(o) != c.Seeding:
		return annotation(v1alpha1.AnnotationSeeding)
	case o.Meta.Annotations[v1alpha1.AnnotationAsked] != c.Asked:
		return annotation(v1alpha1.AnnotationAsked)
	case RevisionOf(o) != c.Revision: // if admission changed it when it was written, managedFields say that it is ours
		return annotation(v1alpha1.AnnotationRevision)
	}
	return nil
}

// LastAsked returns what was last asked of a child, nil if that is not recorded. The copy of the record outlives the child.
func LastAsked(o *adapters.Observed, kept *v1alpha1.ChildRecord) *known.Asked {
	if o != nil {
		return known.ReadAsked(o.Meta.Annotations[v1alpha1.AnnotationAsked])
	}
	if !unaltered(kept) {
		return nil
	}
	return known.ReadAsked(kept.Annotations[v1alpha1.AnnotationAsked])
}

// ProtectedHash returns the child's own revision of its protected replicas, "" if that is not recorded.
func ProtectedHash(o *adapters.Observed) string {
	return o.Meta.Annotations[v1alpha1.AnnotationProtectedHash]
}

// releasedFrom returns the position below which no replica was released to another revision than the protected one, or
// had such a revision before.
func releasedFrom(o *adapters.Observed) int32 {
	from, _ := released(o)
	return from
}

// released returns releasedFrom, and also the position below which no replica was released to a revision that the
// template had between the protected one and the current one.
func released(o *adapters.Observed) (from, before int32) {
	from, before, _ = adapters.ReadReleased(o.Meta.Annotations[v1alpha1.AnnotationReleasedFrom])
	return from, before
}

// writtenPartition returns the recorded partition of a child, or of the copy of its record.
func writtenPartition(annotations map[string]string) (n int32, ok bool) {
	v, err := strconv.ParseInt(annotations[v1alpha1.AnnotationPartition], 10, 32)
	return int32(v), err == nil && v >= 0
}

// record sets in a child, which is written in place of o, what must be known about it later. o is nil if the child does
// not exist.
func (g *Goal) record(c *adapters.Child, o *adapters.Observed) {
	if o == nil {
		// The child has no revision yet, and its first one need not be distinguished from others. But there may be pods
		// that outlived an earlier child of the same name, which therefore named its revisions in the same way.
		c.ReleasedFrom, c.ReleasedBefore = releasedOfEarlier(g.Before, c.ProtectedRevision)
		if c.ReleasedFrom > 0 && !c.Seeding {
			c.ProtectedHash = g.Before.Annotations[v1alpha1.AnnotationProtectedHash]
		}
		return
	}
	c.ProtectedHash = hashToRecord(c.ProtectedRevision, o)
	if g.Protection == adapters.Withheld {
		return // none of its replicas can come up unreleased
	}
	from, before := g.releasedThen(c, o)
	if (c.Revision == g.Update.Revision || c.Revision == g.ProtectedRevision) && g.Update.Revision != g.ProtectedRevision {
		// A partition that is raised only until the child remembers does not change what is released. But no more is
		// released to a template on which the child is only held (holdFirst).
		from = min(from, g.Child.Partition)
	}
	c.ReleasedFrom = from
	c.ReleasedBefore = min(before, c.ReleasedFrom)
}

// hashToRecord returns the child's own revision for the given parent revision, if that is certain, or was at the last
// write.
func hashToRecord(protected string, o *adapters.Observed) string {
	switch {
	case protected == "":
		return ""
	case protected == RevisionOf(o) && statusSettled(o):
		return o.CurrentHash
	case protected != RecordedProtectedRevision(o):
		return ""
	case ProtectedHash(o) != "":
		return ProtectedHash(o)
	case o.SpecObserved && o.HasTwoRevisions() && o.Replicas > 0 && protected != RevisionOf(o):
		return o.CurrentHash
	}
	return ""
}

// releasedThen returns what released returns for o after c is written. A replica of another revision than the protected
// one was released before, and may stay as it is, unless it is below the current releasedFrom: then it came up like
// that by itself.
//
// Trap: the observed revisions of the replicas may be outdated, and replicas that were released, but are not yet
// observed to be updated, may be updated until the child's controller has observed c. So the position to which the
// earlier template was released is recorded in before, whatever its replicas run. That does not apply to a change to
// the protected revision, or from it: a child that relearns has unreleased replicas of the template that it leaves, and
// these must be recognized.
//
// Releases to the protected revision itself do not count. A replica that is missing when the child goes back to that may
// come up on the revision that the child leaves. If the child is held before that is seen, the replica was not released.
func (g *Goal) releasedThen(c *adapters.Child, o *adapters.Observed) (from, before int32) {
	from, before = released(o)
	back := c.Revision == g.ProtectedRevision && g.Update.Revision == g.ProtectedRevision
	switch {
	case c.Revision == g.Revision && back:
		opened := *g.Recorded
		if g.Asked != nil && g.Asked.Value != known.Coordinated {
			opened = max(opened, g.Asked.Partition) // while it goes back, the partition releases nothing
		}
		for _, m := range o.Pods {
			if m.Hash != c.ProtectedHash && m.HashChanged == "" && m.Position >= opened {
				from = min(from, m.Position)
			}
		}
		return from, min(before, from)
	case c.Revision == g.Revision, c.Revision == g.Update.Revision && g.SameTemplate:
		return min(from, c.Partition), before
	case c.ProtectedHash == "":
		return 0, 0 // nothing is known
	}
	// While a child is seeded, it has not recorded a revision of its own, and uses what is known from the child before
	// it.
	known := g.ProtectedHash == c.ProtectedHash || g.Seeding && g.RecordedRevision == c.ProtectedRevision
	seen := c.Partition
	if back {
		seen = math.MaxInt32
	}
	for _, m := range o.Pods {
		if m.Hash != c.ProtectedHash && m.HashChanged == "" && m.Position >= 0 && (!known || !neverReleased(o, &m)) {
			seen = min(seen, m.Position)
		}
	}
	if !known || g.Revision == c.ProtectedRevision || c.Revision == c.ProtectedRevision {
		return seen, seen
	}
	return seen, before
}

// neverReleased reports whether a replica of another revision than the protected one has a position at which no replica
// was released to that revision, be that the template or an earlier one.
func neverReleased(o *adapters.Observed, m *adapters.Replica) bool {
	from, before := released(o)
	return m.Position < before || m.Position < from && m.Hash == o.UpdateHash
}

// releasedOfEarlier returns what was released in the child that existed before, if that protected the same revision;
// otherwise, or if that is unknown, it returns 0, which means nothing. It identifies pods that came up unreleased on
// another revision, and outlived that child.
func releasedOfEarlier(was *v1alpha1.ChildRecord, protected string) (from, before int32) {
	if was == nil || protected == "" || was.Annotations[v1alpha1.AnnotationProtectedRevision] != protected {
		return 0, 0
	}
	from, before, _ = adapters.ReadReleased(was.Annotations[v1alpha1.AnnotationReleasedFrom])
	return from, before
}
