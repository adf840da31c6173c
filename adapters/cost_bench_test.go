// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
)

// BenchmarkBuild builds a child with one container with many environment variables, of which the subset patches 20.
// Twice as many must take about twice as long.
func BenchmarkBuild(b *testing.B) {
	pods := func(n int) map[string]any {
		env := make([]any, n)
		for i := range env {
			env[i] = map[string]any{"name": fmt.Sprintf("VARIABLE_%04d", i), "value": "v"}
		}
		return map[string]any{"spec": map[string]any{"containers": []any{map[string]any{"name": "web", "env": env}}}}
	}
	for _, n := range []int{1650, 3300, 6600} {
		child := &adapters.Child{
			Namespace: "ns", Name: "web-a", Parent: "web", Subset: "a", Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: map[string]any{}, Patch: map[string]any{}, RevisionTemplate: pods(n), RevisionPatch: pods(20),
		}
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := adapters.Build(statefulset.New(), child); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
