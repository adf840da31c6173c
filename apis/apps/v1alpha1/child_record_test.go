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

// What others write is a record of nothing.
func TestChildRecordOfOthers(t *testing.T) {
	for _, text := range []string{`{"uid":"u","generation":3}`, `"?"`, `""`, `7`, `[]`, `"WyJ1Il0="`, `"eyJ1aWQiOjd9"`} {
		read := ChildRecord{UID: "before"}
		if err := json.Unmarshal([]byte(text), &read); err != nil || !reflect.DeepEqual(read, ChildRecord{}) {
			t.Errorf("%s: %+v, %v", text, read, err)
		}
	}
}
