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

// RecordOf gives the annotations of a built child a number, less those that each write has another of.
func (w *World) RecordOf(u *unstructured.Unstructured) uint32 {
	record := u.GetAnnotations()
	delete(record, v1alpha1.AnnotationParentGeneration)
	delete(record, v1alpha1.AnnotationRecordChecksum)
	return w.recordID(record)
}

// recordID gives annotations a number.
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

// Annotations are those with a number, as an object has them.
func (w *World) Annotations(id uint32, generation uint8) map[string]any {
	annotations := map[string]any{v1alpha1.AnnotationParentGeneration: strconv.Itoa(int(generation))}
	for key, v := range w.records.values[id] {
		annotations[key] = v
	}
	return annotations
}

// wroteFor are the annotations for which a child is written: the revision of its template, the partition, and the end of a seed
// (adapters.Record: "None of it makes a write of its own, but for another revision or partition, and the end of a seed").
var wroteFor = map[string]bool{v1alpha1.AnnotationRevision: true, v1alpha1.AnnotationPartition: true, v1alpha1.AnnotationSeeding: true}
