// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

// twoParts is a kind whose pods are made from two parts of a workload.
type twoParts struct{ Adapter }

func (twoParts) RevisionPaths() [][]string {
	return [][]string{{"spec", "group", "leader"}, {"spec", "network"}}
}

func decoded(t *testing.T, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := yaml.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// What makes pods is taken from one workload and put into another, and nothing else is.
func TestSeveralRevisionPaths(t *testing.T) {
	for _, tc := range []struct{ name, from, part, into, want string }{
		{
			name: "both", from: "{metadata: {a: 1}, spec: {group: {leader: {b: 2}, size: 3}, network: {c: 4}}}",
			part: "spec: {group: {leader: {b: 2}}, network: {c: 4}}",
			into: "spec: {group: {leader: {old: 1}, size: 5}, replicas: 6}",
			want: "spec: {group: {leader: {b: 2}, size: 5}, network: {c: 4}, replicas: 6}",
		},
		{
			name: "one", from: "spec: {network: {c: 4}}", part: "spec: {network: {c: 4}}",
			into: "spec: {group: {leader: {old: 1}, size: 5}}",
			want: "spec: {group: {size: 5}, network: {c: 4}}",
		},
		{
			name: "none", from: "spec: {group: {size: 3}}", part: "null",
			into: "spec: {group: {leader: {old: 1}}, network: {old: 1}}", want: "spec: {group: {}}",
		},
		{name: "nowhere to go", from: "spec: {group: {leader: {b: 2}}}", part: "spec: {group: {leader: {b: 2}}}", into: "{}", want: "spec: {group: {leader: {b: 2}}}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			from, into := decoded(t, tc.from), decoded(t, tc.into)
			part, err := RevisionData(twoParts{}, from)
			if diff := cmp.Diff(decoded(t, tc.part), part); err != nil || diff != "" {
				t.Fatal(err, diff)
			}
			got, err := WithRevisionData(twoParts{}, into, part, nil)
			if diff := cmp.Diff(decoded(t, tc.want), got); err != nil || diff != "" {
				t.Error(err, diff)
			}
			if diff := cmp.Diff([]any{decoded(t, tc.from), decoded(t, tc.into)}, []any{from, into}); diff != "" {
				t.Error("it changed what it was given:", diff)
			}
		})
	}
	if _, err := RevisionData(twoParts{}, decoded(t, "spec: {network: [x]}")); err == nil || err.Error() != `spec.network: Invalid value: "array": must be an object` {
		t.Error(err)
	}
	_, err := WithRevisionData(twoParts{}, decoded(t, "spec: {group: x}"), decoded(t, "spec: {group: {leader: {}}}"), field.NewPath("here"))
	if err == nil || err.Error() != `here.spec.group: Invalid value: "string": must be an object` {
		t.Error(err)
	}
}
