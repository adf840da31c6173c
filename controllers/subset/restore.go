// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// The record of what a child runs is in its annotations, so everybody who may edit the child can change it. A missing
// annotation does not mean that it never existed: with that assumption a child in the middle of a canary looks like one
// in which nothing ever worked, and all its replicas would be updated. So all of the annotations are always written,
// with a checksum. managedFields show which of them others have removed or changed, and the checksum shows whether
// admission changed them when they were written. A copy of them is in the parent's status.

// Record returns the copy of the child's record for the status of its parent. was is the previous copy, nil if there is
// none. The copy does not have the parent's generation, because a copy in a stale parent cannot show that it is stale.
//
// If the record is lost, it does not replace a copy that may help later.
func Record(o *adapters.Observed, was *v1alpha1.ChildRecord) *v1alpha1.ChildRecord {
	if was != nil && len(lostAnnotations(o)) > 0 && unaltered(was) {
		return was // even if it is of the previous child
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
		// Only the existence of a checksum is recorded, not its value: it includes the generation, which changes alone.
		record.Annotations[v1alpha1.AnnotationRecordChecksum] = ""
	}
	switch {
	case o.SpecObserved:
		record.Hash = o.UpdateHash
	case was != nil && was.Annotations[v1alpha1.AnnotationRevision] == RevisionOf(o):
		record.Hash = was.Hash
	}
	bound(record)
	if was != nil && was.Generation == record.Generation && was.Hash == record.Hash && maps.Equal(was.Annotations, record.Annotations) {
		return was // even if it is from an earlier version of United; that alone does not justify a write
	}
	record.Checksum = checksumOf(record)
	return record
}

// bound cuts values that are not ours, so that no length of them prevents the status from being written. Ours are names, which fit.
func bound(record *v1alpha1.ChildRecord) {
	const most, each = 1024, 64
	size := len(record.Hash)
	for _, v := range record.Annotations {
		size += len(v)
	}
	if size <= most {
		return
	}
	record.Hash = strings.ToValidUTF8(record.Hash[:min(each, len(record.Hash))], "")
	for key, v := range record.Annotations {
		record.Annotations[key] = strings.ToValidUTF8(v[:min(each, len(v))], "")
	}
}

// checksumOf returns the checksum of a copy.
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

// Reworded changes the texts of a copy. It has a true checksum after that if it had one before.
func Reworded(record *v1alpha1.ChildRecord, reword func(string) string) {
	whole := record.Checksum == checksumOf(record)
	for key, v := range record.Annotations {
		record.Annotations[key] = reword(v)
	}
	if whole {
		record.Checksum = checksumOf(record)
	}
}

// unaltered reports whether there is a copy, and nobody has changed it. An earlier version of United did not write a
// checksum.
func unaltered(kept *v1alpha1.ChildRecord) bool {
	return kept != nil && (kept.Checksum == "" || kept.Checksum == checksumOf(kept))
}

// checked reports whether the child of a copy had a checksum, so that its absence is noticed.
func checked(kept *v1alpha1.ChildRecord) bool {
	if kept == nil {
		return false
	}
	_, had := kept.Annotations[v1alpha1.AnnotationRecordChecksum]
	return had
}

// isCopyOf reports whether the copy is unaltered, and is of this very child.
func isCopyOf(kept *v1alpha1.ChildRecord, o *adapters.Observed) bool {
	return unaltered(kept) && types.UID(kept.UID) == o.Meta.UID
}

// Taken describes which parts of a child are no longer ours according to managedFields, because somebody has changed or
// removed them.
type Taken struct {
	// Annotations are the taken ones of the record, and its checksum.
	Annotations []string
	// Partition: the partition in the spec is not ours.
	Partition bool
}

// Restore restores in o what was taken, as far as the copy has it and is of this very child. Anything that the copy
// does not have stays as it is, because somebody may have repaired it by hand. But if nothing was taken, and the
// checksum does not match, then admission changed it when it was written, and it counts as unknown.
//
// A checksum that does not match shows that some annotations are not as they were written, but not which ones. The same
// is true for a checksum that is missing where there was one.
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
	restoreProtection(o, lost, latest) // even from a copy of the previous child
	if slices.Contains(lost, v1alpha1.AnnotationProtectedHash) && ProtectedHash(o) == "" {
		deduceHash(o)
	}
}

// deduceHash restores the child's own revision of its protected replicas if that is recorded nowhere. It can be deduced
// if the child has settled on one revision, should protect another one, and all replicas below its partition that do
// not have the first revision have the same other one. Without the hash, the child would count as finished.
func deduceHash(o *adapters.Observed) {
	if !protectsAnother(o) || !statusSettled(o) {
		return
	}
	hash := ""
	for _, m := range o.Pods {
		switch below := m.Position >= 0 && m.Position < min(RecordedPartition(o), o.Replicas); {
		case !below || m.Hash == o.CurrentHash || m.HashChanged != "":
		case hash != "" && hash != m.Hash:
			return // it cannot be decided which one it is
		default:
			hash = m.Hash
		}
	}
	if hash != "" {
		o.Meta.Annotations = maps.Clone(o.Meta.Annotations) // o shares them with the cache
		o.Meta.Annotations[v1alpha1.AnnotationProtectedHash] = hash
	}
}

// restoreProtection restores the details of the protection if the protected revision is the same as in the copy: the
// child's own revision for it, and from where on replicas were released. Users who learn that a revision is lost
// restore the revision, but not these details; others restore earlier ones. The copy may be of a child that existed
// before: the name of a revision depends on its content, and replicas that have since come up only because of the
// template were never released.
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

// restorePartition restores the partition that United wrote last if somebody has recorded a lower one, for example with
// an old manifest. The higher one is the safer choice, and it shows whether somebody lowers the partition again and
// again.
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

// contradicts reports whether somebody has recorded another protected revision than the copy has, which is what United
// last wrote to this child or the one before. The recorded one is then from an earlier time, for example from a backup,
// or it is a mistake: whoever restores what the child has lost agrees with the copy, if there is one.
func contradicts(o *adapters.Observed, taken []string, kept *v1alpha1.ChildRecord) bool {
	said := RecordedProtectedRevision(o)
	if kept == nil || !unaltered(kept) || said == "" || !slices.Contains(taken, v1alpha1.AnnotationProtectedRevision) {
		return false
	}
	known, ok := kept.Annotations[v1alpha1.AnnotationProtectedRevision]
	return ok && known != said
}

// matchesChild reports whether the copy is true for the child as it is now. The copy may be from before the last write,
// if the pass that made that was killed, and somebody may have changed the spec together with the annotations. Then the
// copy counts if the template is still the same.
func matchesChild(kept *v1alpha1.ChildRecord, o *adapters.Observed) bool {
	return kept != nil && (kept.Generation == o.Meta.Generation || o.SpecObserved && kept.Hash != "" && kept.Hash == o.UpdateHash)
}

// restoreSuspects restores the suspects from the copy. If the copy may be from before the last write, the spec shows
// what that write released; unless somebody else has set the partition: lowering it does not release anything.
func restoreSuspects(o *adapters.Observed, suspects []string, kept *v1alpha1.ChildRecord, foreignPartition bool) {
	annotations := maps.Clone(o.Meta.Annotations) // o shares them with the cache
	if annotations == nil {
		annotations = map[string]string{}
	}
	for _, key := range suspects {
		if v, ok := kept.Annotations[key]; ok && key != v1alpha1.AnnotationRecordChecksum {
			annotations[key] = v
		} else if key == v1alpha1.AnnotationParentGeneration {
			delete(annotations, key) // the present value is forged
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

// Credible returns the revision that a subset protects according to its parent's status, unless the copy of the child's
// record, which was written together with that, shows that it cannot be true. whole is the revision that the whole
// parent ran last. A status can be forged as well as a child.
//
// The status is ahead of the record if the subset has finished, which a child that was never released cannot have done.
// It has an altogether different revision for a child that is MissedProtectedRevision, and then it is that of the whole
// parent.
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
	case !unaltered(kept): // last, because it is most of the work
		return known
	}
	return note
}

// neverFinished is unfinishable for the child of a copy.
func neverFinished(kept *v1alpha1.ChildRecord) bool {
	hash := kept.Annotations[v1alpha1.AnnotationProtectedHash]
	from, _, ok := adapters.ReadReleased(kept.Annotations[v1alpha1.AnnotationReleasedFrom])
	return hash != "" && hash != kept.Hash && ok && from > 0
}

// lostAnnotations returns the annotations that are lost for good, and without which the revision of the child's
// template or of its protected replicas is unknown.
func lostAnnotations(o *adapters.Observed) []string {
	return slices.DeleteFunc([]string{v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision}, func(key string) bool {
		v, ok := o.Meta.Annotations[key]
		return ok && (v != "" || key == v1alpha1.AnnotationProtectedRevision)
	})
}

// recordLost returns the step for a child if it is no longer known what it runs.
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
		o.Meta.Name, lostAnnotations(o), g.Child.Parent, hint, known.Short(g.Update.Revision))}
}
