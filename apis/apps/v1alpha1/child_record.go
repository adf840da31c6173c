// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"strconv"
)

// A plain record has no methods, so it is marshalled field by field. An earlier version stored it like that.
type plainRecord ChildRecord

// recordKeys are the annotations that a record copies. A stored record has their values in this order: add another one at the end.
func recordKeys() []string {
	return []string{
		AnnotationRevision, AnnotationProtectedRevision, AnnotationPartition, AnnotationProtectedHash, AnnotationReleasedFrom, AnnotationSeeding,
		AnnotationAsked, AnnotationRecordChecksum,
	}
}

// MarshalJSON returns the record as one string, the base64 of its values as JSON: it is nothing to read, and takes few lines in
// what kubectl describe shows.
func (r ChildRecord) MarshalJSON() ([]byte, error) {
	generation, known := strconv.FormatInt(r.Generation, 10), 0
	values := []*string{&r.UID, &generation, &r.Hash, &r.Checksum}
	for _, key := range recordKeys() {
		value, there := r.Annotations[key]
		if !there {
			values = append(values, nil)
			continue
		}
		values, known = append(values, &value), known+1
	}
	var stored any = values
	if known < len(r.Annotations) {
		stored = plainRecord(r) // nothing is left out
	}
	raw, err := json.Marshal(stored)
	if err != nil {
		return nil, err
	}
	return json.Marshal(raw)
}

// UnmarshalJSON reads what MarshalJSON returns. Anything else, which somebody else has written, is a record of nothing:
// an object whose status cannot be decoded could not be read at all.
func (r *ChildRecord) UnmarshalJSON(data []byte) error {
	*r = ChildRecord{}
	var raw []byte
	if json.Unmarshal(data, &raw) != nil || r.read(raw) || json.Unmarshal(raw, (*plainRecord)(r)) == nil {
		return nil
	}
	*r = ChildRecord{}
	return nil
}

// read reads the values of a record; false if they are not that.
func (r *ChildRecord) read(raw []byte) bool {
	var values []*string
	keys := recordKeys()
	if json.Unmarshal(raw, &values) != nil || len(values) < 4 || len(values) > 4+len(keys) {
		return false
	}
	for _, value := range values[:4] {
		if value == nil {
			return false
		}
	}
	generation, err := strconv.ParseInt(*values[1], 10, 64)
	if err != nil {
		return false
	}
	*r = ChildRecord{UID: *values[0], Generation: generation, Hash: *values[2], Checksum: *values[3]}
	for i, value := range values[4:] {
		if value == nil {
			continue
		}
		if r.Annotations == nil {
			r.Annotations = map[string]string{}
		}
		r.Annotations[keys[i]] = *value
	}
	return true
}
