// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// RecordKeys returns the annotations that record what a child runs, in a fixed order. A child that United has written
// has all of them.
func RecordKeys() []string {
	return []string{
		v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision, v1alpha1.AnnotationParentGeneration,
		v1alpha1.AnnotationPartition, v1alpha1.AnnotationProtectedHash, v1alpha1.AnnotationReleasedFrom, v1alpha1.AnnotationSeeding,
		v1alpha1.AnnotationAsked,
	}
}

// Record returns the record for a child: the annotations of RecordKeys, their checksum, and its placement. A difference is no reason
// to write the child, except in the revision, the partition or what was asked, or at the end of seeding. All annotations always
// exist, empty if there is nothing to record, so that a removed one is noticed.
func Record(c *Child) map[string]string {
	record := map[string]string{
		v1alpha1.AnnotationRevision:          c.Revision,
		v1alpha1.AnnotationProtectedRevision: c.ProtectedRevision,
		v1alpha1.AnnotationParentGeneration:  strconv.FormatInt(c.ParentGeneration, 10),
		v1alpha1.AnnotationPartition:         strconv.FormatInt(int64(c.Partition), 10),
		v1alpha1.AnnotationProtectedHash:     c.ProtectedHash,
		v1alpha1.AnnotationReleasedFrom:      ReleasedText(c.ReleasedFrom, c.ReleasedBefore),
		v1alpha1.AnnotationSeeding:           strconv.FormatBool(c.Seeding),
		v1alpha1.AnnotationAsked:             c.Asked,
	}
	record[v1alpha1.AnnotationRecordChecksum] = RecordChecksum(c.Namespace, c.Name, record)
	record[v1alpha1.AnnotationPlacement] = placementHash(c)
	return record
}

// ReleasedText formats ReleasedFrom, followed by a slash and ReleasedBefore if that differs.
func ReleasedText(from, before int32) string {
	text := strconv.FormatInt(int64(from), 10)
	if before < from {
		text += "/" + strconv.FormatInt(int64(before), 10)
	}
	return text
}

// ReadReleased parses a ReleasedText; ok is false for anything else.
func ReadReleased(text string) (from, before int32, ok bool) {
	one, other, two := strings.Cut(text, "/")
	from, ok = position(one)
	before = from
	if two && ok {
		before, ok = position(other)
	}
	if !ok || before > from {
		return 0, 0, false
	}
	return from, before, true
}

func position(text string) (n int32, ok bool) {
	v, err := strconv.ParseInt(text, 10, 32)
	return int32(v), err == nil && v >= 0
}

// checksumVersion is the prefix of every checksum. If you add a key to RecordKeys, change the number: a checksum of
// another version is ignored, so no version of United considers a record of another version as forged.
const checksumVersion = "2-"

// RecordChecksum returns the checksum of the record of the named child. It is not a signature: it detects changes by
// somebody who does not intend to deceive.
func RecordChecksum(namespace, name string, annotations map[string]string) string {
	said := []string{namespace, name}
	for _, key := range RecordKeys() {
		value, there := annotations[key]
		said = append(said, key, strconv.FormatBool(there), value)
	}
	return checksumVersion + Checksum(said...)
}

// Checksum returns a short hash of texts.
func Checksum(texts ...string) string {
	length := 0
	for _, text := range texts {
		length += len(text) + len("12345:")
	}
	all := make([]byte, 0, length) // one allocation, because each pass needs several for each child
	for _, text := range texts {
		all = append(strconv.AppendInt(all, int64(len(text)), 10), ':')
		all = append(all, text...)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:8])
}

// Verdict is the result of checking a record against its checksum.
type Verdict int

// The verdicts.
const (
	// Unsaid: there is no checksum, or one of another version.
	Unsaid Verdict = iota
	// Whole: the record is as United wrote it.
	Whole
	// Forged: it is not.
	Forged
)

// VerifyRecord checks the record of the named child against its checksum.
func VerifyRecord(namespace, name string, annotations map[string]string) Verdict {
	switch sum := annotations[v1alpha1.AnnotationRecordChecksum]; {
	case !strings.HasPrefix(sum, checksumVersion):
		return Unsaid
	case sum != RecordChecksum(namespace, name, annotations):
		return Forged
	}
	return Whole
}
