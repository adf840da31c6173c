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
	if n, ok := number(o, v1alpha1.AnnotationPartition); ok {
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
	n, _ := number(o, v1alpha1.AnnotationReleasedFrom)
	return n
}

func number(o *adapters.Observed, annotation string) (n int32, ok bool) {
	return numberIn(o.Meta.Annotations, annotation)
}

// numberIn is an annotation that is a number, of a child or of the copy of its record.
func numberIn(annotations map[string]string, annotation string) (n int32, ok bool) {
	v, err := strconv.ParseInt(annotations[annotation], 10, 32)
	return int32(v), err == nil && v >= 0
}

// record adds to a child that is written in place of o, nil when there is none, what
// is to be known of it later.
func (g *Goal) record(c *adapters.Child, o *adapters.Observed) {
	if o == nil {
		// It knows no revision yet, and its first one is not to be told apart from any. But
		// pods that outlived an earlier child can be there, which had the same name and so
		// names its revisions alike.
		c.ReleasedFrom = releasedBefore(g.Before, c.ProtectedRevision)
		if c.ReleasedFrom > 0 && !c.Seeding {
			c.ProtectedHash = g.Before.Annotations[v1alpha1.AnnotationProtectedHash]
		}
		return
	}
	c.ProtectedHash = hashToRecord(c.ProtectedRevision, o)
	if g.Protection == adapters.Withheld {
		return // nothing of it can come up unreleased
	}
	// What the partition is raised over only until the child remembers is released.
	c.ReleasedFrom = min(g.releasedFromThen(c, o), g.Child.Partition)
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

// releasedFromThen is releasedFrom of o when c is written. A replica of another revision
// than the protected one was released before, and may go on as it is; unless it is below
// what releasedFrom is now: it came up so by itself.
func (g *Goal) releasedFromThen(c *adapters.Child, o *adapters.Observed) int32 {
	switch {
	case c.Revision == RevisionOf(o), c.Revision == g.Update.Revision && g.SameTemplate:
		return min(releasedFrom(o), c.Partition)
	case c.ProtectedHash == "":
		return 0 // nothing is known
	}
	// While it is seeded it has no revision of its own on record, and knows from the child
	// before it.
	known := ProtectedHash(o) == c.ProtectedHash || Seeding(o) && RecordedProtectedRevision(o) == c.ProtectedRevision
	from := c.Partition
	for _, m := range o.Pods {
		if m.Hash != c.ProtectedHash && m.Position >= 0 && (m.Position >= releasedFrom(o) || !known) {
			from = min(from, m.Position)
		}
	}
	return from
}

// releasedBefore is releasedFrom of the child that was there before, when that protected
// the same revision; 0, which is nothing, when it did not or is not known. What had come up
// on another revision unreleased, and outlived that child, is known by it.
func releasedBefore(before *v1alpha1.ChildRecord, protected string) int32 {
	if before == nil || protected == "" || before.Annotations[v1alpha1.AnnotationProtectedRevision] != protected {
		return 0
	}
	n, ok := numberIn(before.Annotations, v1alpha1.AnnotationReleasedFrom)
	if !ok {
		return 0
	}
	return n
}
