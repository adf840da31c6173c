// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestAdaptiveKinds checks that replicas without a node are created elsewhere, for every kind of child.
func TestAdaptiveKinds(t *testing.T) {
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		a := &NodePool{Label: "pool.example.com/" + strings.ToLower(k.Title)}
		w := k.ContractOf(t, Policy(appsv1.ParallelPodManagement), Replicas(3), Adaptive(12, 5), Between("a", "", a), Between("b", "", nil))
		a.Env = w.Env
		w.ComeTo("3(3),0")
		w.ComeTo("0,3")
		w.IsContent()
		w.CapsAreOver()
		w.StaysAt("0,3", 2)
		a.Open()
		w.ScaleTo(4, "1,3")
		w.IsContent()
		w.ScaleTo(2, "1,1")
		w.IsContent()
	})
}
