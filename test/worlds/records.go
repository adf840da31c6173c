// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"maps"
	"slices"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// RecordID gives the annotations of a child a number.
func (w *World) RecordID(record map[string]string) uint32 {
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

// Record are the annotations with a number.
func (w *World) Record(id uint32) map[string]string {
	record := map[string]string{}
	maps.Copy(record, w.records.values[id])
	return record
}

// RecordsDiffer reports whether annotations differ by what a child is written for.
func (w *World) RecordsDiffer(a, b uint32) bool { return w.compared[a] != w.compared[b] }

// wroteFor are the annotations for which a child is written: the revision of its template, the partition, and the end of a seed
// (adapters.Record: "None of it makes a write of its own, but for another revision or partition, and the end of a seed").
var wroteFor = map[string]bool{v1alpha1.AnnotationRevision: true, v1alpha1.AnnotationPartition: true, v1alpha1.AnnotationSeeding: true}
