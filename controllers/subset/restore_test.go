// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func TestRestore(t *testing.T) {
	kept := func() *v1alpha1.ChildRecord { return Record(&finished().recorded(2, "h1", 2).Observed, nil) }
	if len(kept().Annotations) != len(adapters.RecordKeys())-3 { // it is not being seeded, nothing was asked, and the generation is not copied
		t.Fatal(kept())
	}
	for _, tc := range []struct {
		name  string
		child *childBuilder
		taken []string
		kept  *v1alpha1.ChildRecord
		want  map[string]string
	}{
		{"nothing was taken", aChild(), nil, kept(), aChild().Meta.Annotations},
		{"all was removed", aChild().without(adapters.RecordKeys()...), adapters.RecordKeys(), kept(), kept().Annotations},
		{"all is gone", func() *childBuilder { b := aChild(); b.Meta.Annotations = nil; return b }(), adapters.RecordKeys(), kept(), kept().Annotations},
		{"one was changed", finished().recorded(2, "h1", 2).writtenFrom(99), []string{v1alpha1.AnnotationParentGeneration}, kept(), kept().Annotations},
		{"there is no copy", aChild(), adapters.RecordKeys(), nil, aChild().Meta.Annotations},
		{"the copy is of another child", aChild(), adapters.RecordKeys(), &v1alpha1.ChildRecord{UID: "s-0", Annotations: kept().Annotations},
			aChild().with(v1alpha1.AnnotationProtectedHash, "h1").Meta.Annotations}, // the hash depends on the content
	} {
		t.Run(tc.name, func(t *testing.T) {
			shared := tc.child.Meta.Annotations
			before := cmp.Diff(shared, map[string]string(nil))
			Restore(&tc.child.Observed, Taken{Annotations: tc.taken}, tc.kept)
			if diff := cmp.Diff(tc.want, tc.child.Meta.Annotations); diff != "" {
				t.Error(diff)
			}
			if cmp.Diff(shared, map[string]string(nil)) != before {
				t.Error("it writes to the cache")
			}
		})
	}
}

// written adds the checksum of the child's record.
func (b *childBuilder) written() *childBuilder {
	b.Meta.Annotations[v1alpha1.AnnotationSeeding] = strconv.FormatBool(Seeding(&b.Observed))
	b.Meta.Annotations[v1alpha1.AnnotationRecordChecksum] = adapters.RecordChecksum(b.Meta.Namespace, b.Meta.Name, b.Meta.Annotations)
	return b
}

// with sets annotations of the child, as somebody else might.
func (b *childBuilder) with(pairs ...string) *childBuilder {
	for i := 0; i < len(pairs); i += 2 {
		b.Meta.Annotations[pairs[i]] = pairs[i+1]
	}
	return b
}

func (b *childBuilder) uid(uid types.UID) *childBuilder { b.Meta.UID = uid; return b }

func (b *childBuilder) at(generation int64) *childBuilder { b.Meta.Generation = generation; return b }

// If admission changes an annotation when it is written, it is ours according to managedFields, but the checksum shows
// the change.
func TestRestoreForged(t *testing.T) {
	// staged returns a child that is on r2 from position 2 on, protects r1, and was written at generation 7.
	staged := func() *childBuilder { return aChild().on("r2").hashes("h1", "h2").recorded(2, "h1", 2).at(7).written() }
	// backup returns it with its record from when it protected r0.
	backup := func() *childBuilder { return staged().with(v1alpha1.AnnotationProtectedRevision, "r0").written() }
	protected, sum := v1alpha1.AnnotationProtectedRevision, v1alpha1.AnnotationRecordChecksum
	copied := func(edits ...func(*v1alpha1.ChildRecord)) *v1alpha1.ChildRecord {
		record := Record(staged().observed(), nil)
		for _, edit := range edits {
			edit(record)
			record.Checksum = checksumOf(record)
		}
		return record
	}
	earlier := func(r *v1alpha1.ChildRecord) { r.Generation = 6 }
	earlierTemplate := func(r *v1alpha1.ChildRecord) { r.Generation, r.Hash = 6, "h1" }
	noChecksum := func(r *v1alpha1.ChildRecord) { delete(r.Annotations, sum) }
	for _, tc := range []struct {
		name  string
		child *childBuilder
		taken []string
		kept  *v1alpha1.ChildRecord
		// want is what it protects then; "-" if that is unknown.
		want string
	}{
		{"as it was written", staged(), nil, copied(), "r1"},
		{"forged", staged().with(protected, "r2"), nil, copied(), "r1"},
		{"emptied", staged().with(protected, ""), nil, copied(), "r1"},
		{"forged, and by hand as well", staged().with(protected, "r2", v1alpha1.AnnotationPartition, "0"), []string{v1alpha1.AnnotationPartition}, copied(), "r1"},
		{"the checksum is gone as well", staged().with(protected, "r2").without(sum), nil, copied(), "r1"},
		{"the checksum is gone as well, and it was written by us", staged().with(protected, "r2").without(sum), []string{sum}, copied(), "r1"},
		{"the copy is of before the last write", staged().with(protected, "r2"), nil, copied(earlier), "r1"},
		{"it is of before the last write, and of another template", staged().with(protected, "r2"), nil, copied(earlierTemplate), "-"},
		{"it is of before the last write, and not seen", staged().unseen().with(protected, "r2"), nil, copied(earlier), "-"},
		{"it is forged as well", staged().with(protected, "r2"), nil, func() *v1alpha1.ChildRecord {
			r := copied()
			r.Annotations[protected] = "r2"
			return r
		}(), "-"},
		{"there is no copy", staged().with(protected, "r2"), nil, nil, "-"},
		{"there is none, and somebody has put it right", staged().with(protected, "r0"), []string{protected}, nil, "r0"},
		{"of an earlier version", staged().without(sum), nil, copied(noChecksum), "r1"},
		{"of an earlier version, which alone is believed", staged().with(protected, "r0").without(sum), nil, copied(noChecksum), "r0"},
		{"an earlier record is put back", backup().at(8), adapters.RecordKeys(), copied(), "r1"},
		{"an earlier record is put back, with another template", backup().hashes("h1", "h9").at(8), adapters.RecordKeys(), copied(), "-"},
		{"an earlier record is put back, of a child made from it", backup().uid("s-9"), adapters.RecordKeys(), copied(), "-"},
		{"the record of now is put back", staged().hashes("h1", "h9").at(8), adapters.RecordKeys(), copied(), "r1"},
		{"an earlier record, and there is no copy", backup(), adapters.RecordKeys(), nil, "r0"},
		{"the same in a cache that is behind", backup(), nil, copied(), "r0"},
		{"of a later version", staged().with(protected, "r0", sum, "3-00"), nil, copied(noChecksum), "r0"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := tc.child.observed()
			Restore(o, Taken{Annotations: tc.taken}, tc.kept)
			got, there := o.Meta.Annotations[protected]
			if !there {
				got = "-"
			}
			if got != tc.want {
				t.Errorf("want %s, have %s", tc.want, got)
			}
			if there {
				return
			}
			if s := nextStep(aGoal().partition(2).Goal, o); s.Action != ActionHalt && s.Action != ActionWait {
				t.Error("nobody knows what it protects, and it gets", s.Action)
			}
			if again := Record(o, tc.kept); unaltered(tc.kept) && tc.kept != nil && again != tc.kept {
				t.Error("the copy is lost: it may tell when the child is seen")
			}
		})
	}
}

// TestForgedGeneration: the generation is not in the copy, and a forged one is ignored.
func TestForgedGeneration(t *testing.T) {
	child := func() *childBuilder { return aChild().on("r2").hashes("h1", "h2").recorded(2, "h1", 2).at(7).written() }
	o := child().with(v1alpha1.AnnotationParentGeneration, "99999").observed()
	Restore(o, Taken{}, Record(child().observed(), nil))
	if WrittenLater(o, 5) || RecordedProtectedRevision(o) != "r1" {
		t.Error(o.Meta.Annotations)
	}
}

// TestRecordOfAnEarlierVersion: the lack of a checksum alone does not cause another write of a copy.
func TestRecordOfAnEarlierVersion(t *testing.T) {
	was := Record(aChild().observed(), nil)
	was.Checksum = ""
	if Record(aChild().observed(), was) != was {
		t.Error("it is written again")
	}
	if Record(aChild().at(8).observed(), was).Checksum == "" {
		t.Error("the next has none either")
	}
}

// TestRecordOfAChecksum: a write that only corrects drift has another generation of the parent, and nothing else
// changes. It does not cause a write of the status.
func TestRecordOfAChecksum(t *testing.T) {
	child := func(generation int64) *adapters.Observed {
		return aChild().writtenFrom(generation).written().observed()
	}
	was := Record(child(5), nil)
	if diff := cmp.Diff(was, Record(child(6), was)); diff != "" {
		t.Error(diff)
	}
	// A checksum that existed once is expected until an earlier version has written the child.
	without := aChild().writtenFrom(5).written().without(v1alpha1.AnnotationRecordChecksum).observed()
	if again := Record(without, was); !checked(again) {
		t.Error("it is not missed any more")
	}
	if checked(Record(without, nil)) {
		t.Error("it was never there")
	}
}

// TestCredible compares the protected revision in the status of a subset with the copy beside it.
func TestCredible(t *testing.T) {
	finishing := func() *childBuilder { return aChild().on("r2").hashes("h1", "h2").recorded(0, "h1", 0) }
	staged := func() *childBuilder { return aChild().on("r2").hashes("h1", "h2").recorded(2, "h1", 2) }
	forgedCopy := Record(staged().observed(), nil)
	forgedCopy.Annotations[v1alpha1.AnnotationProtectedRevision] = "r2"
	for _, tc := range []struct {
		name  string
		kept  *v1alpha1.ChildRecord
		known string
		want  string
	}{
		{"as the child says", Record(staged().observed(), nil), "r1", "r1"},
		{"there is no copy", nil, "r2", "r2"},
		{"ahead of a child that has finished", Record(finishing().observed(), nil), "r2", "r2"},
		{"ahead of a child that cannot have finished", Record(staged().observed(), nil), "r2", "r1"},
		{"ahead of one that was not seen", Record(staged().unseen().observed(), nil), "r2", "r1"},
		{"both make the same pods", Record(staged().hashes("h1", "h1").observed(), nil), "r2", "r2"},
		{"something else altogether", Record(staged().observed(), nil), "r9", "r1"},
		{"something else altogether, at rest", Record(aChild().observed(), nil), "r9", "r1"},
		{"what the whole parent ran, and the child is behind", Record(aChild().observed(), nil), "whole", "whole"},
		{"what the whole parent ran, and the child has gone on since", Record(staged().observed(), nil), "whole", "r1"},
		{"nothing", Record(staged().observed(), nil), "", "r1"},
		{"the child protects nothing yet", Record(aChild().protecting("").observed(), nil), "r2", "r2"},
		{"the copy is forged as well", forgedCopy, "r9", "r9"},
	} {
		if got := Credible(tc.known, "whole", tc.kept); got != tc.want {
			t.Errorf("%s: want %s, have %s", tc.name, tc.want, got)
		}
	}
}

// A lower partition that somebody records, together with that in the spec, does not count: the one that United wrote
// last does, so that the change is noticed.
func TestRestorePartition(t *testing.T) {
	staged := func() *childBuilder { return aChild().on("r2").hashes("h1", "h2").recorded(2, "h1", 2).at(7).written() }
	kept := Record(staged().observed(), nil)
	for _, tc := range []struct {
		name  string
		child *childBuilder
		taken []string
		kept  *v1alpha1.ChildRecord
		want  int32
	}{
		{"an old manifest", staged().on("r1").with(v1alpha1.AnnotationPartition, "0").written().hashes("h1", "h9").at(9), []string{v1alpha1.AnnotationPartition}, kept, 2},
		{"a higher one", staged().with(v1alpha1.AnnotationPartition, "5").written().hashes("h1", "h9").at(9), []string{v1alpha1.AnnotationPartition}, kept, 5},
		{"it is ours", staged().with(v1alpha1.AnnotationPartition, "0").written(), nil, kept, 0},
		{"of another child", staged().with(v1alpha1.AnnotationPartition, "0").written().uid("s-9"), []string{v1alpha1.AnnotationPartition}, kept, 0},
	} {
		o := tc.child.observed()
		if Restore(o, Taken{Annotations: tc.taken}, tc.kept); RecordedPartition(o) != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, RecordedPartition(o), tc.want)
		}
	}
}

// The child's own name of its protected revision comes from the copy, if somebody has restored an earlier one with the
// right revision.
func TestRestoreHash(t *testing.T) {
	staged := func() *childBuilder { return aChild().on("r2").hashes("h1", "h2").recorded(2, "h1", 2).at(7).written() }
	hash, protected := v1alpha1.AnnotationProtectedHash, v1alpha1.AnnotationProtectedRevision
	kept := Record(staged().observed(), nil)
	for _, tc := range []struct {
		name  string
		child *childBuilder
		taken []string
		want  string
	}{
		{"an earlier one", staged().with(hash, "h0").hashes("h1", "h9").at(9), []string{hash, protected}, "h1"},
		{"none, of a child that was made again", staged().with(hash, "").hashes("h9", "h9").uid("s-9"), []string{hash, protected}, "h1"},
		{"it is ours", staged().with(hash, "h0").written(), nil, "h0"},
		{"of another revision", staged().with(hash, "h0", protected, "r0").without(v1alpha1.AnnotationRecordChecksum).hashes("h1", "h9").at(9), []string{hash}, "h0"},
	} {
		o := tc.child.observed()
		if Restore(o, Taken{Annotations: tc.taken}, kept); ProtectedHash(o) != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, ProtectedHash(o), tc.want)
		}
	}
}

// What was released comes from the copy too, if a child was created again and has the same recorded revisions: its
// replicas came up on the template, and none was released to it.
func TestRestoreReleased(t *testing.T) {
	staged := func() *childBuilder { return aChild().on("r2").hashes("h1", "h2").recorded(2, "h1", 2).at(7).written() }
	from := v1alpha1.AnnotationReleasedFrom
	bare := func() *childBuilder {
		return staged().hashes("h2", "h2").with(v1alpha1.AnnotationProtectedHash, "").without(from)
	}
	kept := Record(staged().observed(), nil)
	for _, tc := range []struct {
		name  string
		child *childBuilder
		taken []string
		want  int32
	}{
		{"made again", bare().uid("s-9"), adapters.RecordKeys(), 2},
		{"made again, from another template", bare().on("r3").uid("s-9"), adapters.RecordKeys(), 0},
		{"made again, said to protect another", bare().with(v1alpha1.AnnotationProtectedRevision, "r0").uid("s-9"), []string{from}, 0},
		{"made again, and it is ours", bare().with(from, "1").uid("s-9").written(), nil, 1},
	} {
		o := tc.child.observed()
		if Restore(o, Taken{Annotations: tc.taken}, kept); releasedFrom(o) != tc.want {
			t.Errorf("%s: %d, want %d", tc.name, releasedFrom(o), tc.want)
		}
	}
}

// If the copy may be from before the last write, the spec shows what that write released. That does not count if
// somebody else has changed the partition, who removed the annotations along with it.
func TestRestoreReleasedOfALoweredPartition(t *testing.T) {
	staged := func() *childBuilder { return aChild().on("r2").hashes("h1", "h2").recorded(2, "h1", 2).at(7).written() }
	kept := Record(staged().observed(), nil)
	for name, child := range map[string]*childBuilder{
		"stripped": staged().partition(0).at(9).without(adapters.RecordKeys()...).without(v1alpha1.AnnotationRecordChecksum),
		"forged":   staged().with(v1alpha1.AnnotationPartition, "0", v1alpha1.AnnotationReleasedFrom, "0").partition(0).at(9),
	} {
		for foreign, want := range map[bool]int32{true: 2, false: 0} {
			o := child.observed()
			if Restore(o, Taken{Annotations: adapters.RecordKeys(), Partition: foreign}, kept); releasedFrom(o) != want || RecordedPartition(o) != 2 {
				t.Errorf("%s, foreign %t: released from %d, partition %d; want %d and 2", name, foreign, releasedFrom(o), RecordedPartition(o), want)
			}
		}
	}
}

// If there is no copy, the replicas show the child's own name of its protected revision.
func TestDeduceHash(t *testing.T) {
	hash := v1alpha1.AnnotationProtectedHash
	child := func(hashes ...string) *childBuilder {
		b := aChild().on("r2").hashes("h2", "h2").recorded(2, "", 0).at(7).replicas(int32(len(hashes)))
		for i, h := range hashes {
			b.Pods = append(b.Pods, adapters.Replica{Position: int32(i), Hash: h})
		}
		return b
	}
	for _, tc := range []struct {
		name  string
		child *childBuilder
		taken []string
		want  string
	}{
		{"it protects what is not of the template", child("h1", "h1", "h2"), []string{hash}, "h1"},
		{"one of them has come up on the template", child("h2", "h1", "h2"), []string{hash}, "h1"},
		{"all have finished", child("h2", "h2", "h2"), []string{hash}, ""},
		{"another is above the partition", child("h2", "h2", "h1"), []string{hash}, ""},
		{"of two others", child("h0", "h1", "h2"), []string{hash}, ""},
		{"it has not settled", child("h1", "h1", "h2").hashes("h1", "h2"), []string{hash}, ""},
		{"nobody has taken it", child("h1", "h1", "h2"), nil, ""},
	} {
		o := tc.child.observed()
		if Restore(o, Taken{Annotations: tc.taken}, nil); ProtectedHash(o) != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, ProtectedHash(o), tc.want)
		}
	}
}
