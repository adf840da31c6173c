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
			record.Annotations[annotationPrefix+rapid.StringMatching(`[a-z-]{1,8}`).Draw(t, "key")] = text.Draw(t, "value")
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

// What others write is a record of nothing, and what earlier versions wrote is still read.
func TestChildRecordOfOthers(t *testing.T) {
	for text, want := range map[string]ChildRecord{
		`{"uid":"u","generation":3,"annotations":{"united.dev/revision":"r"}}`: {UID: "u", Generation: 3, Annotations: map[string]string{"united.dev/revision": "r"}},
		`"?"`: {}, `""`: {}, `7`: {}, `[]`: {}, `{"uid":7}`: {}, `"WyJ1Il0"`: {}, `"WyJ1IiwieCIsIiIsIiJd"`: {},
	} {
		read := ChildRecord{UID: "before"}
		if err := json.Unmarshal([]byte(text), &read); err != nil || !reflect.DeepEqual(read, want) {
			t.Errorf("%s: %+v, %v", text, read, err)
		}
	}
}
