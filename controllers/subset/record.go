// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"strconv"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// RecordedPartition is the child's partition as United wrote it, which another may
// have changed since in its spec; that where nothing is on record.
func RecordedPartition(o *adapters.Observed) int32 {
	if n, ok := writtenPartition(o.Meta.Annotations); ok {
		return n
	}
	return o.Partition
}

// ProtectedHash is the child's own revision that its protected replicas run, "" when
// that is not on record.
func ProtectedHash(o *adapters.Observed) string {
	return o.Meta.Annotations[v1alpha1.AnnotationProtectedHash]
}

// releasedFrom is the position below which no replica was released to another revision
// than the protected one, nor had run one before.
func releasedFrom(o *adapters.Observed) int32 {
	from, _ := released(o)
	return from
}

// released gives, beside releasedFrom, the position below which no replica was released to a
// revision that the template was between the protected one and the one that it is.
func released(o *adapters.Observed) (from, before int32) {
	from, before, _ = adapters.ReadReleased(o.Meta.Annotations[v1alpha1.AnnotationReleasedFrom])
	return from, before
}

// writtenPartition is the partition that is on record, of a child or in the copy of its record.
func writtenPartition(annotations map[string]string) (n int32, ok bool) {
	v, err := strconv.ParseInt(annotations[v1alpha1.AnnotationPartition], 10, 32)
	return int32(v), err == nil && v >= 0
}

// record adds to a child that is written in place of o, nil when there is none, what
// is to be known of it later.
func (g *Goal) record(c *adapters.Child, o *adapters.Observed) {
	if o == nil {
		// It knows no revision yet, and its first one is not to be told apart from any. But
		// pods that outlived an earlier child can be there, which had the same name and so
		// names its revisions alike.
		c.ReleasedFrom, c.ReleasedBefore = releasedOfEarlier(g.Before, c.ProtectedRevision)
		if c.ReleasedFrom > 0 && !c.Seeding {
			c.ProtectedHash = g.Before.Annotations[v1alpha1.AnnotationProtectedHash]
		}
		return
	}
	c.ProtectedHash = hashToRecord(c.ProtectedRevision, o)
	if g.Protection == adapters.Withheld {
		return // nothing of it can come up unreleased
	}
	from, before := g.releasedThen(c, o)
	if c.Revision == g.Update.Revision || c.Revision == g.ProtectedRevision {
		// What the partition is raised over only until the child remembers is released. But to a
		// template on which it is only held (holdFirst) nothing more is.
		from = min(from, g.Child.Partition)
	}
	c.ReleasedFrom = from
	c.ReleasedBefore = min(before, c.ReleasedFrom)
}

// hashToRecord is the child's own revision that is the given parent revision, when
// that is certain or was when it was last written.
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

// releasedThen is released of o when c is written. A replica of another revision than the
// protected one was released before, and may go on as it is; unless it is below what
// releasedFrom is now: it came up so by itself.
//
// Trap: what the replicas are seen to run may be old, and what was released and not seen to
// move may move until the child's controller has seen c. So what the earlier template was
// released to goes on record, as far as it was, whatever its replicas look like: before. Not on the
// way to what is protected, or from there: a child that relearns that has unreleased replicas
// of the template that it leaves, and must know them.
func (g *Goal) releasedThen(c *adapters.Child, o *adapters.Observed) (from, before int32) {
	from, before = released(o)
	switch {
	case c.Revision == RevisionOf(o), c.Revision == g.Update.Revision && g.SameTemplate:
		return min(from, c.Partition), before
	case c.ProtectedHash == "":
		return 0, 0 // nothing is known
	}
	// While it is seeded it has no revision of its own on record, and knows from the child
	// before it.
	known := ProtectedHash(o) == c.ProtectedHash || Seeding(o) && RecordedProtectedRevision(o) == c.ProtectedRevision
	seen := c.Partition
	for _, m := range o.Pods {
		if m.Hash != c.ProtectedHash && m.HashChanged == "" && m.Position >= 0 && (!known || !neverReleased(o, &m)) {
			seen = min(seen, m.Position)
		}
	}
	if !known || RevisionOf(o) == c.ProtectedRevision || c.Revision == c.ProtectedRevision {
		return seen, seen
	}
	return seen, before
}

// neverReleased reports whether a replica of another revision than the protected one lies where
// none was released to that: to the template, or to those before it.
func neverReleased(o *adapters.Observed, m *adapters.Replica) bool {
	from, before := released(o)
	return m.Position < before || m.Position < from && m.Hash == o.UpdateHash
}

// releasedOfEarlier is released of the child that was there before, when that protected
// the same revision; 0, which is nothing, when it did not or is not known. What had come up
// on another revision unreleased, and outlived that child, is known by it.
func releasedOfEarlier(was *v1alpha1.ChildRecord, protected string) (from, before int32) {
	if was == nil || protected == "" || was.Annotations[v1alpha1.AnnotationProtectedRevision] != protected {
		return 0, 0
	}
	from, before, _ = adapters.ReadReleased(was.Annotations[v1alpha1.AnnotationReleasedFrom])
	return from, before
}
