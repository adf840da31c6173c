// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// RecordOf returns the number of the annotations of a built child, without those that differ with each write.
func (w *World) RecordOf(u *unstructured.Unstructured) uint32 {
	record := u.GetAnnotations()
	delete(record, v1alpha1.AnnotationParentGeneration)
	delete(record, v1alpha1.AnnotationRecordChecksum)
	return w.recordID(record)
}

// recordID returns the number of annotations.
func (w *World) recordID(record map[string]string) uint32 {
	text := func(compared bool) string {
		var b strings.Builder
		for _, key := range slices.Sorted(maps.Keys(record)) {
			if compared && !wroteFor[key] {
				continue
			}
			b.WriteString(key + "=" + record[key] + "\n")
		}
		return b.String()
	}
	id := w.records.id(text(false), func() map[string]string { return maps.Clone(record) })
	if int(id) == len(w.compared) {
		w.compared = append(w.compared, text(true))
	}
	return id
}

// Annotations returns the annotations with a number, as an object has them.
func (w *World) Annotations(id uint32, generation uint8) map[string]any {
	annotations := map[string]any{v1alpha1.AnnotationParentGeneration: strconv.Itoa(int(generation))}
	for key, v := range w.records.values[id] {
		annotations[key] = v
	}
	return annotations
}

// wroteFor are the annotations whose change is a reason to write a child: the revision of its template, the partition, what
// was asked, and the end of a seed (see adapters.Record).
var wroteFor = map[string]bool{v1alpha1.AnnotationRevision: true, v1alpha1.AnnotationPartition: true, v1alpha1.AnnotationSeeding: true, v1alpha1.AnnotationAsked: true}
