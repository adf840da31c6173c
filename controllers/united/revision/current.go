// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// LastCurrent returns the revision of the parent that became the current one last, and its number, as
// its annotation records them; nil and 0 if no revision has such a record.
func LastCurrent(revisions []*Revision, parent types.UID) (*Revision, int64) {
	last, number := (*Revision)(nil), int64(0)
	for _, r := range revisions {
		if n := currentNumber(r.Object.Annotations[v1alpha1.AnnotationCurrent], parent); n > number {
			last, number = r, n
		}
	}
	return last, number
}

// WasCurrent reports whether the revision records that it became the parent's current one.
func (r *Revision) WasCurrent(parent types.UID) bool {
	return currentNumber(r.Object.Annotations[v1alpha1.AnnotationCurrent], parent) > 0
}

// RanBefore returns the revisions of the parent that were the current one before current, the last one first, and at most
// so many.
func RanBefore(revisions []*Revision, parent types.UID, current string, most int) []*Revision {
	number := func(r *Revision) int64 {
		return currentNumber(r.Object.Annotations[v1alpha1.AnnotationCurrent], parent)
	}
	before := slices.DeleteFunc(slices.Clone(revisions), func(r *Revision) bool { return number(r) == 0 || r.Name == current })
	slices.SortFunc(before, func(a, b *Revision) int { return cmp.Compare(number(b), number(a)) })
	return before[:min(len(before), most)]
}

// Left returns the record that the revision was left (v1alpha1.AnnotationLeft); "" if there is none, or the revision was rolled
// out again since.
func (r *Revision) Left() string { return r.Object.Annotations[v1alpha1.AnnotationLeft] }

// LeftForward begins the record of a revision that was left, though not on the way back from it.
const LeftForward = "forward"

// WentBack reports whether the rollout was on the way back from the revision, and the revision was not rolled out again since.
func (r *Revision) WentBack() bool {
	return r.Left() != "" && !strings.HasPrefix(r.Left(), LeftForward+",")
}

// Rejected returns why the revision was rejected (v1alpha1.AnnotationRejected); "" if it was not.
func (r *Revision) Rejected() string { return r.Object.Annotations[v1alpha1.AnnotationRejected] }

// CurrentRecord returns the annotation for a revision that becomes the current one after the revision
// with the number last.
func CurrentRecord(parent types.UID, last int64) string {
	return fmt.Sprintf("%s/%d", parent, last+1)
}

// currentNumber parses what CurrentRecord returns. It is 0 if the record cannot be parsed, or is that
// of another parent, for example if revisions outlived their parent.
func currentNumber(record string, parent types.UID) int64 {
	uid, text, _ := strings.Cut(record, "/")
	if uid != string(parent) {
		return 0
	}
	number, err := strconv.ParseInt(text, 10, 64)
	if err != nil || number == math.MaxInt64 { // no number is higher
		return 0
	}
	return number
}
