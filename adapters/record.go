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

// RecordKeys are the annotations that tell what a child runs, in a fixed order. A child
// that United has written has all of them.
func RecordKeys() []string {
	return []string{
		v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision, v1alpha1.AnnotationParentGeneration,
		v1alpha1.AnnotationPartition, v1alpha1.AnnotationProtectedHash, v1alpha1.AnnotationReleasedFrom, v1alpha1.AnnotationSeeding,
	}
}

// Record is what is written on a child that is c: the annotations of RecordKeys, and their
// checksum. None of it makes a write of its own, but for another revision or partition, and
// the end of a seed. All of it is always there, empty where there is nothing to say, so
// that what somebody removes is missed.
func Record(c *Child) map[string]string {
	record := map[string]string{
		v1alpha1.AnnotationRevision:          c.Revision,
		v1alpha1.AnnotationProtectedRevision: c.ProtectedRevision,
		v1alpha1.AnnotationParentGeneration:  strconv.FormatInt(c.ParentGeneration, 10),
		v1alpha1.AnnotationPartition:         strconv.FormatInt(int64(c.Partition), 10),
		v1alpha1.AnnotationProtectedHash:     c.ProtectedHash,
		v1alpha1.AnnotationReleasedFrom:      ReleasedText(c.ReleasedFrom, c.ReleasedBefore),
		v1alpha1.AnnotationSeeding:           strconv.FormatBool(c.Seeding),
	}
	record[v1alpha1.AnnotationRecordChecksum] = RecordChecksum(c.Namespace, c.Name, record)
	return record
}

// ReleasedText is what is written of ReleasedFrom, and after a slash of ReleasedBefore where that
// is another.
func ReleasedText(from, before int32) string {
	text := strconv.FormatInt(int64(from), 10)
	if before < from {
		text += "/" + strconv.FormatInt(int64(before), 10)
	}
	return text
}

// ReadReleased reads a ReleasedText; ok is false of anything else.
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

// checksumVersion begins every checksum. Who adds a key to RecordKeys gives it another
// number: a checksum of another version tells nothing, and so no version of United takes
// what another has written for forged.
const checksumVersion = "1-"

// RecordChecksum is the checksum over the record of the child of that name. It is no
// signature: whoever knows how it is made can make another. It tells what somebody changed
// who did not mean to deceive.
func RecordChecksum(namespace, name string, annotations map[string]string) string {
	said := []string{namespace, name}
	for _, key := range RecordKeys() {
		value, there := annotations[key]
		said = append(said, key, strconv.FormatBool(there), value)
	}
	return checksumVersion + Checksum(said...)
}

// Checksum is a short hash of some texts.
func Checksum(texts ...string) string {
	length := 0
	for _, text := range texts {
		length += len(text) + len("12345:")
	}
	all := make([]byte, 0, length) // several in each pass, for each child
	for _, text := range texts {
		all = append(strconv.AppendInt(all, int64(len(text)), 10), ':')
		all = append(all, text...)
	}
	sum := sha256.Sum256(all)
	return hex.EncodeToString(sum[:8])
}

// Verdict is what the checksum of a child says of its record.
type Verdict int

// Verdicts.
const (
	// Unsaid: there is no checksum, or one that is made in another way.
	Unsaid Verdict = iota
	// Whole: the record is as it was written.
	Whole
	// Forged: it is not.
	Forged
)

// VerifyRecord reports whether the record of the child of that name is as it was written.
func VerifyRecord(namespace, name string, annotations map[string]string) Verdict {
	switch sum := annotations[v1alpha1.AnnotationRecordChecksum]; {
	case !strings.HasPrefix(sum, checksumVersion):
		return Unsaid
	case sum != RecordChecksum(namespace, name, annotations):
		return Forged
	}
	return Whole
}
