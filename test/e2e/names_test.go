// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSelectorOfExpressions checks a selector without matchLabels.
func TestSelectorOfExpressions(t *testing.T) {
	t.Parallel()
	e := soundEnv(t)
	w := e.Create(draft("web", replicas(5), zones("1", "50%", ""), hold(), func(d *Draft) {
		d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "shop"}},
			{Key: "legacy", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
	}))
	w.Settle()
	w.SetImage("v2")
	w.SetPartitions(parts{"zone-b": 1})
	w.Settle()
	e.Expect(w.Images()).To(Equal(images{"zone-a": "v1", "zone-b": "v1 v2 v2", "zone-c": "v1"}))
	selected := e.Kubectl("get", "pods", "-l", w.Parent().Status.Selector, "-o", "name")
	e.Expect(strings.Fields(selected)).To(HaveLen(5), "the selector of the scale subresource selects all pods")
}

// TestNamesAtTheLimit checks names of the maximum length.
func TestNamesAtTheLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 49) + "z"
	e := soundEnv(t)
	for _, name := range []struct{ parent, subset string }{{long, "b"}, {"c", long}, {long[:25] + "z", long[:24] + "z"}} {
		e.Expect(len(name.parent) + 1 + len(name.subset)).To(Equal(52))
		w := e.Create(draft(name.parent, replicas(11), policy(appsv1.ParallelPodManagement), plain(name.subset, ""), hold()))
		w.Settle()
		w.SetImage("v2")
		w.Settle()
		w.SetPartitions(parts{name.subset: 9})
		w.Settle()
		e.Expect(w.Images()).To(Equal(images{name.subset: strings.Repeat("v1 ", 9) + "v2 v2"}))
		_, err := e.TryCreate(draft(name.parent+"x", plain(name.subset, "")))
		e.Expect(err).To(MatchError(Or(ContainSubstring("at most 52 characters"), ContainSubstring("at most 50 characters"))))
	}
}
