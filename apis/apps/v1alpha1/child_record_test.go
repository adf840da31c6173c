// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestChildRecordIsOneString(t *testing.T) {
	text := rapid.String()
	rapid.Check(t, func(t *rapid.T) {
		record := ChildRecord{UID: text.Draw(t, "uid"), Generation: rapid.Int64().Draw(t, "generation"), Hash: text.Draw(t, "hash"), Checksum: text.Draw(t, "checksum")}
		for range rapid.IntRange(0, 4).Draw(t, "annotations") {
			if record.Annotations == nil {
				record.Annotations = map[string]string{}
			}
			record.Annotations["united.dev/"+rapid.StringMatching(`[a-z-]{1,8}`).Draw(t, "key")] = text.Draw(t, "value")
		}
		if rapid.Bool().Draw(t, "ours") {
			record.Annotations = nil
			for _, key := range rapid.SliceOf(rapid.SampledFrom(recordKeys())).Draw(t, "keys") {
				if record.Annotations == nil {
					record.Annotations = map[string]string{}
				}
				record.Annotations[key] = text.Draw(t, "value")
			}
		}
		raw, err := json.Marshal(record)
		if err != nil || !strings.HasPrefix(string(raw), `"`) || strings.Contains(string(raw), "uid") {
			t.Fatalf("%s, %v", raw, err)
		}
		var read ChildRecord
		if err := json.Unmarshal(raw, &read); err != nil || !reflect.DeepEqual(read, record) {
			t.Fatalf("%+v, %v, want %+v", read, err, record)
		}
	})
}

// A record is as short as it can be while it says all by itself, and one of an earlier version, with the names of everything, is read.
func TestChildRecordIsShort(t *testing.T) {
	record := ChildRecord{UID: "0b4a7e9c-5d1e-4f0b-8c52-3a8f6f0d9c11", Generation: 12, Hash: "web-zone-a-5f6b7c8d9f", Checksum: "855ec279f2d36efa", Annotations: map[string]string{
		AnnotationRevision: "web-a2bs7zqp1pqynx82k9zf1gbgww", AnnotationProtectedRevision: "web-k0tcrzwmpetnx9dxgc9v7cjgs8", AnnotationPartition: "1",
		AnnotationProtectedHash: "web-zone-a-6c9d8f7b5c", AnnotationReleasedFrom: "1", AnnotationSeeding: "false",
		AnnotationAsked: "1 of 2 is 1 for web-a2bs7zqp1pqynx82k9zf1gbgww", AnnotationRecordChecksum: "",
	}}
	raw, err := json.Marshal(record)
	if err != nil || len(raw) > 370 {
		t.Errorf("%d: %s, %v", len(raw), raw, err)
	}
	plain, err := json.Marshal(plainRecord(record))
	if err != nil {
		t.Fatal(err)
	}
	earlier, err := json.Marshal(plain)
	if err != nil || len(earlier) < 600 {
		t.Fatalf("%d, %v", len(earlier), err)
	}
	for _, stored := range [][]byte{raw, earlier} {
		var read ChildRecord
		if err := json.Unmarshal(stored, &read); err != nil || !reflect.DeepEqual(read, record) {
			t.Errorf("%+v, %v", read, err)
		}
	}
}

// What others write is a record of nothing.
func TestChildRecordOfOthers(t *testing.T) {
	for _, text := range []string{`{"uid":"u","generation":3}`, `"?"`, `""`, `7`, `[]`, `"WyJ1Il0="`, `"WyJ1IiwieCIsImgiLCJjIl0="`, `"WyJ1IiwiMSIsbnVsbCwiYyJd"`, `"WyJ1IiwiMSIsImgiLCJjIiwxXQ=="`, `"eyJ1aWQiOjd9"`} {
		read := ChildRecord{UID: "before"}
		if err := json.Unmarshal([]byte(text), &read); err != nil || !reflect.DeepEqual(read, ChildRecord{}) {
			t.Errorf("%s: %+v, %v", text, read, err)
		}
	}
}
