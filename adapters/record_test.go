// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
	"maps"
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
