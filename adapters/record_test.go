// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// recorded returns a child with all that a record can have.
func recorded() *adapters.Child {
	return &adapters.Child{
		Namespace: "shop", Name: "web-zone-a", Replicas: 4, Partition: 3, Revision: "web-2", ProtectedRevision: "web-1",
		ProtectedHash: "h1", ReleasedFrom: 3, ReleasedBefore: 3, ParentGeneration: 5,
	}
}

// The copy in the status has all of the record except the generation of its parent, and stores it without the names of the annotations.
func TestTheCopyIsShort(t *testing.T) {
	copied := v1alpha1.ChildRecord{UID: "u", Annotations: map[string]string{v1alpha1.AnnotationRecordChecksum: ""}}
	for _, key := range adapters.RecordKeys() {
		if key != v1alpha1.AnnotationParentGeneration {
			copied.Annotations[key] = "x"
		}
	}
	short := func() bool {
		var stored []byte
		raw, err := json.Marshal(copied)
		if err != nil || json.Unmarshal(raw, &stored) != nil {
			t.Fatal(err)
		}
		return !strings.Contains(string(stored), "united.dev/")
	}
	if !short() {
		t.Error("an annotation of the record has no place in what is stored of the copy")
	}
	if copied.Annotations["united.dev/another"] = "x"; short() {
		t.Error("this one is left out")
	}
}

func TestVerifyRecord(t *testing.T) {
	sum := v1alpha1.AnnotationRecordChecksum
	whole := adapters.Record(recorded())
	for _, tc := range []struct {
		name, namespace, child string
		change                 func(map[string]string)
		want                   adapters.Verdict
	}{
		{"as it was written", "shop", "web-zone-a", nil, adapters.Whole},
		{"with others' annotations", "shop", "web-zone-a", func(a map[string]string) { a["example.com/a"] = "b" }, adapters.Whole},
		{"of an earlier version", "shop", "web-zone-a", func(a map[string]string) { delete(a, sum) }, adapters.Unsaid},
		{"of a later version", "shop", "web-zone-a", func(a map[string]string) { a[sum] = "3-0000000000000000" }, adapters.Unsaid},
		{"of another child", "shop", "web-zone-b", nil, adapters.Forged},
		{"of another namespace", "store", "web-zone-a", nil, adapters.Forged},
		{"another checksum", "shop", "web-zone-a", func(a map[string]string) { a[sum] = "2-0000000000000000" }, adapters.Forged},
		{"two values swapped", "shop", "web-zone-a", func(a map[string]string) {
			a[v1alpha1.AnnotationRevision], a[v1alpha1.AnnotationProtectedRevision] = a[v1alpha1.AnnotationProtectedRevision], a[v1alpha1.AnnotationRevision]
		}, adapters.Forged},
	} {
		annotations := maps.Clone(whole)
		if tc.change != nil {
			tc.change(annotations)
		}
		if have := adapters.VerifyRecord(tc.namespace, tc.child, annotations); have != tc.want {
			t.Error(tc.name, "want", tc.want, "have", have)
		}
	}
	for _, key := range adapters.RecordKeys() {
		for name, change := range map[string]func(map[string]string){
			"changed": func(a map[string]string) { a[key] += "0" },
			"emptied": func(a map[string]string) { a[key] = "" },
			"removed": func(a map[string]string) { delete(a, key) },
		} {
			annotations := maps.Clone(whole)
			change(annotations)
			if have := adapters.VerifyRecord("shop", "web-zone-a", annotations); have != adapters.Forged && annotations[key] != whole[key] {
				t.Error(key, name, have)
			}
		}
	}
}

// Lists of texts that differ only in where one text ends and the next begins have different checksums.
func TestChecksum(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[0-9:a]{0,4}`), 0, 4)
		a, b := texts.Draw(t, "a"), texts.Draw(t, "b")
		same := len(a) == len(b)
		for i := range a {
			same = same && a[i] == b[i]
		}
		if (adapters.Checksum(a...) == adapters.Checksum(b...)) != same {
			t.Fatal(a, b)
		}
	})
}
