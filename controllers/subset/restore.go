// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// What a child runs is written on the child, and so is in the hands of everybody who may
// edit it. An annotation that is not there any more is not one that was never there:
// taken for that, a child in mid-canary looks like one of which nothing ever worked, and
// is rolled over. So all of them are always written, with a checksum; what another has
// taken or changed is told by managedFields, and what admission has changed as they were
// written by the checksum. A copy of them is in the parent's status.

// Record is the copy of what was written on the child, for the status of its parent. was
// is the one before, nil if none. The parent's generation is not in it: a copy in a stale
// parent tells nobody that it is stale.
//
// What nobody knows any more does not take the place of a copy that may tell later.
func Record(o *adapters.Observed, was *v1alpha1.ChildRecord) *v1alpha1.ChildRecord {
	if was != nil && len(lostAnnotations(o)) > 0 && unaltered(was) {
		return was // also one of the child before
	}
	if !isCopyOf(was, o) {
		was = nil
	}
	record := &v1alpha1.ChildRecord{UID: string(o.Meta.UID), Generation: o.Meta.Generation, Annotations: map[string]string{}}
	for _, key := range adapters.RecordKeys() {
		if v, ok := o.Meta.Annotations[key]; ok && key != v1alpha1.AnnotationParentGeneration {
			record.Annotations[key] = v
		}
	}
	if _, ok := o.Meta.Annotations[v1alpha1.AnnotationRecordChecksum]; ok || checked(was) {
		// That there is one, and not which: the generation is in it, and changes alone.
		record.Annotations[v1alpha1.AnnotationRecordChecksum] = ""
	}
	switch {
	case o.SpecObserved:
		record.Hash = o.UpdateHash
	case was != nil && was.Annotations[v1alpha1.AnnotationRevision] == RevisionOf(o):
		record.Hash = was.Hash
	}
	if was != nil && was.Generation == record.Generation && was.Hash == record.Hash && maps.Equal(was.Annotations, record.Annotations) {
		return was // also one of an earlier version, which is not worth a write of its own
	}
	record.Checksum = checksumOf(record)
	return record
}

// checksumOf is the checksum over a copy.
func checksumOf(record *v1alpha1.ChildRecord) string {
	keys := make([]string, 0, len(record.Annotations))
	for key := range record.Annotations {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	said := make([]string, 0, 3+2*len(keys))
	said = append(said, record.UID, strconv.FormatInt(record.Generation, 10), record.Hash)
	for _, key := range keys {
		said = append(said, key, record.Annotations[key])
	}
	return adapters.Checksum(said...)
}

// unaltered reports whether there is a copy, and nobody has changed it. An earlier version of United wrote
// no checksum.
func unaltered(kept *v1alpha1.ChildRecord) bool {
	return kept != nil && (kept.Checksum == "" || kept.Checksum == checksumOf(kept))
}

// checked reports whether the child that a copy is of had a checksum, so it is missed.
func checked(kept *v1alpha1.ChildRecord) bool {
	if kept == nil {
		return false
	}
	_, had := kept.Annotations[v1alpha1.AnnotationRecordChecksum]
	return had
}

// isCopyOf reports whether the copy is sound, and of this very child.
func isCopyOf(kept *v1alpha1.ChildRecord, o *adapters.Observed) bool {
	return unaltered(kept) && types.UID(kept.UID) == o.Meta.UID
}

// Taken is what of a child is not ours any more by managedFields: somebody has changed or removed it.
type Taken struct {
	// Annotations are those of the record, and its checksum.
	Annotations []string
	// Partition: that of the spec is not ours.
	Partition bool
}

// Restore puts back into o what was taken, as far as the copy tells of this very child.
// What it does not know stays as it is: somebody may have put it right by hand. But when
// nobody has, and the checksum says that it is not what was written, then admission has
// made it so, and it counts as unknown.
//
// A checksum that does not match tells that some are not as they were written, and not which; so
// does one that is missing where there was one.
func Restore(o *adapters.Observed, from Taken, kept *v1alpha1.ChildRecord) {
	taken, lost, latest := from.Annotations, from.Annotations, kept
	verdict := adapters.VerifyRecord(o.Meta.Namespace, o.Meta.Name, o.Meta.Annotations)
	if contradicts(o, taken, kept) {
		verdict, taken = adapters.Forged, nil
	}
	if !isCopyOf(kept, o) {
		kept = nil
	}
	suspects := taken
	if verdict == adapters.Forged || verdict == adapters.Unsaid && checked(kept) {
		suspects = adapters.RecordKeys()
	}
	switch {
	case len(suspects) == 0:
	case matchesChild(kept, o):
		restoreSuspects(o, suspects, kept, from.Partition)
	case verdict == adapters.Forged && len(taken) == 0:
		annotations := maps.Clone(o.Meta.Annotations) // o shares them with the cache
		maps.DeleteFunc(annotations, func(key, _ string) bool { return slices.Contains(suspects, key) })
		o.Meta.Annotations = annotations
	}
	if kept != nil && slices.Contains(lost, v1alpha1.AnnotationPartition) {
		restorePartition(o, kept)
	}
	restoreProtection(o, lost, latest) // also of the child before
	if slices.Contains(lost, v1alpha1.AnnotationProtectedHash) && ProtectedHash(o) == "" {
		deduceHash(o)
	}
}

// deduceHash puts back by which name the child knows what it protects, where nobody knows that any
// more: it has settled on one revision, is said to protect another, and the replicas below its
// partition that are not of the one are all of one other. Without that it would be taken for
// finished.
func deduceHash(o *adapters.Observed) {
	if !protectsAnother(o) || !statusSettled(o) {
		return
	}
	hash := ""
	for _, m := range o.Pods {
		switch below := m.Position >= 0 && m.Position < min(RecordedPartition(o), o.Replicas); {
		case !below || m.Hash == o.CurrentHash || m.HashChanged != "":
		case hash != "" && hash != m.Hash:
			return // nobody can tell which
		default:
			hash = m.Hash
		}
	}
	if hash != "" {
		o.Meta.Annotations = maps.Clone(o.Meta.Annotations) // o shares them with the cache
		o.Meta.Annotations[v1alpha1.AnnotationProtectedHash] = hash
	}
}

// restoreProtection puts back how the child keeps what it protects, where that is the same revision
// as in the copy: by which name it knows it, and from where on replicas were released. Whoever is
// told that a revision is lost puts back which it is, and not these; others put earlier ones there.
// The copy may be of a child that was there before: the name tells of the content, and what has come
// up since on the template alone was never released.
func restoreProtection(o *adapters.Observed, lost []string, kept *v1alpha1.ChildRecord) {
	lostHash, lostReleased := slices.Contains(lost, v1alpha1.AnnotationProtectedHash), slices.Contains(lost, v1alpha1.AnnotationReleasedFrom)
	if !lostHash && !lostReleased || kept == nil || RecordedProtectedRevision(o) == "" ||
		kept.Annotations[v1alpha1.AnnotationProtectedRevision] != RecordedProtectedRevision(o) || !unaltered(kept) {
		return
	}
	annotations := maps.Clone(o.Meta.Annotations) // o shares them with the cache
	if hash := kept.Annotations[v1alpha1.AnnotationProtectedHash]; hash != "" && lostHash {
		annotations[v1alpha1.AnnotationProtectedHash] = hash
	}
	remade := types.UID(kept.UID) != o.Meta.UID
	if from := kept.Annotations[v1alpha1.AnnotationReleasedFrom]; lostReleased && remade && from != "" &&
		kept.Annotations[v1alpha1.AnnotationRevision] == RevisionOf(o) {
		annotations[v1alpha1.AnnotationReleasedFrom] = from
	}
	o.Meta.Annotations = annotations
}

// restorePartition puts back the partition that United wrote last where somebody has put a lower
// one on record, as with an old manifest. The higher one is the more careful reading, and by it a
// partition that is lowered again and again is seen to be.
func restorePartition(o *adapters.Observed, kept *v1alpha1.ChildRecord) {
	was, ok := writtenPartition(kept.Annotations)
	if has, there := writtenPartition(o.Meta.Annotations); !ok || there && has >= was {
		return
	}
	annotations := maps.Clone(o.Meta.Annotations) // o shares them with the cache
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[v1alpha1.AnnotationPartition] = strconv.FormatInt(int64(was), 10)
	o.Meta.Annotations = annotations
}

// contradicts reports whether somebody has put another protected revision on record than the copy
// has, which tells what United last wrote to this child or the one before. It is that of an earlier
// time, as from a backup, or a mistake: whoever puts back what the child has lost agrees with the
// copy, if there is one.
func contradicts(o *adapters.Observed, taken []string, kept *v1alpha1.ChildRecord) bool {
	said := RecordedProtectedRevision(o)
	if kept == nil || !unaltered(kept) || said == "" || !slices.Contains(taken, v1alpha1.AnnotationProtectedRevision) {
		return false
	}
	known, ok := kept.Annotations[v1alpha1.AnnotationProtectedRevision]
	return ok && known != said
}

// matchesChild reports whether what the copy says is true of the child as it is now. The copy may be of before
// the last write, when the pass that made that was killed, and somebody may have changed
// the spec along with the annotations. Then it counts if the template is what it was.
func matchesChild(kept *v1alpha1.ChildRecord, o *adapters.Observed) bool {
	return kept != nil && (kept.Generation == o.Meta.Generation || o.SpecObserved && kept.Hash != "" && kept.Hash == o.UpdateHash)
}

// restoreSuspects puts the suspects back as the copy has them. Where that may be of before the
// last write, what the spec says counts for what was released by that write; unless the partition
// that it has is somebody else's: who lowers it has released nothing.
func restoreSuspects(o *adapters.Observed, suspects []string, kept *v1alpha1.ChildRecord, foreignPartition bool) {
	annotations := maps.Clone(o.Meta.Annotations) // o shares them with the cache
	if annotations == nil {
		annotations = map[string]string{}
	}
	for _, key := range suspects {
		if v, ok := kept.Annotations[key]; ok && key != v1alpha1.AnnotationRecordChecksum {
			annotations[key] = v
		} else if key == v1alpha1.AnnotationParentGeneration {
			delete(annotations, key) // what is there is forged
		}
	}
	o.Meta.Annotations = annotations
	if kept.Generation == o.Meta.Generation {
		return
	}
	if n, ok := writtenPartition(annotations); ok && slices.Contains(suspects, v1alpha1.AnnotationPartition) {
		annotations[v1alpha1.AnnotationPartition] = strconv.FormatInt(int64(max(n, o.Partition)), 10)
	}
	from, before, ok := adapters.ReadReleased(annotations[v1alpha1.AnnotationReleasedFrom])
	if ok && slices.Contains(suspects, v1alpha1.AnnotationReleasedFrom) && !foreignPartition {
		annotations[v1alpha1.AnnotationReleasedFrom] = adapters.ReleasedText(min(from, o.Partition), min(before, o.Partition))
	}
}

// Credible is what a subset protects by its parent's status: what that says, unless the
// copy of the child's record beside it, which was written with it, tells that it cannot be.
// whole is what the whole parent ran last. A status can be forged as well as a child.
//
// The status is ahead of the record when the subset has finished, which a child cannot
// have that was never released; and it says something else altogether of a child that is
// MissedProtectedRevision, and then what it says of the whole parent.
func Credible(known, whole string, kept *v1alpha1.ChildRecord) string {
	if kept == nil {
		return known
	}
	revision, note := kept.Annotations[v1alpha1.AnnotationRevision], kept.Annotations[v1alpha1.AnnotationProtectedRevision]
	switch {
	case note == "" || revision == "" || known == note:
		return known
	case known == revision && !neverFinished(kept):
		return known
	case known == whole && note == revision:
		return known
	case !unaltered(kept): // last, for it is most of the work
		return known
	}
	return note
}

// neverFinished is unfinishable of the child that a copy is of.
func neverFinished(kept *v1alpha1.ChildRecord) bool {
	hash := kept.Annotations[v1alpha1.AnnotationProtectedHash]
	from, _, ok := adapters.ReadReleased(kept.Annotations[v1alpha1.AnnotationReleasedFrom])
	return hash != "" && hash != kept.Hash && ok && from > 0
}

// lostAnnotations gives the annotations without which nobody knows what the child's template or
// its protected replicas are, and that are gone for good.
func lostAnnotations(o *adapters.Observed) []string {
	return slices.DeleteFunc([]string{v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision}, func(key string) bool {
		v, ok := o.Meta.Annotations[key]
		return ok && (v != "" || key == v1alpha1.AnnotationProtectedRevision)
	})
}

// recordLost is the step of a child of which it is not known any more what it runs.
func (g *Goal) recordLost(o *adapters.Observed) Step {
	if !o.SpecObserved {
		return Step{Action: ActionWait, Reason: "waiting for the controller of " + o.Meta.Name + " to observe its latest spec, to learn what it runs"}
	}
	hint := "the name of a ControllerRevision of " + g.Child.Parent
	if g.Before != nil && unaltered(g.Before) && g.Before.Annotations[v1alpha1.AnnotationProtectedRevision] != "" {
		hint += "; when United last wrote it, it protected " + g.Before.Annotations[v1alpha1.AnnotationProtectedRevision]
	}
	return Step{Action: ActionHalt, Reason: fmt.Sprintf(
		"the revision of the protected replicas of %s is unknown: somebody removed or changed %v, and the status of %s has no matching copy; "+
			"restore it (%s), or, to move to %s, lower the partition to 0 with updateStrategy.type Manual",
		o.Meta.Name, lostAnnotations(o), g.Child.Parent, hint, g.Update.Revision)}
}
