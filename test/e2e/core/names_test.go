// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestSelectorOfExpressions checks a selector without matchLabels.
func TestSelectorOfExpressions(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	w := e.Create(NewDraft("web", Replicas(5), Zones("1", "50%", ""), Hold(), func(d *Draft) {
		d.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "shop"}},
			{Key: "legacy", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}
	}))
	w.Settle()
	w.SetImage("v2")
	w.SetPartitions(Parts{"zone-b": 1})
	w.Settle()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v2 v2", "zone-c": "v1"}))
	selected := e.Kubectl("get", "pods", "-l", w.Parent().Status.Selector, "-o", "name")
	e.Expect(strings.Fields(selected)).To(HaveLen(5), "the selector of the scale subresource selects all pods")
}

// TestNamesAtTheLimit checks names of the maximum length.
func TestNamesAtTheLimit(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("a", 49) + "z"
	e := SoundEnv(t)
	for _, name := range []struct{ parent, subset string }{{long, "b"}, {"c", long}, {long[:25] + "z", long[:24] + "z"}} {
		e.Expect(len(name.parent) + 1 + len(name.subset)).To(Equal(52))
		w := e.Create(NewDraft(name.parent, Replicas(11), Policy(appsv1.ParallelPodManagement), Plain(name.subset, ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.Settle()
		w.SetPartitions(Parts{name.subset: 9})
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{name.subset: strings.Repeat("v1 ", 9) + "v2 v2"}))
		_, err := e.TryCreate(NewDraft(name.parent+"x", Plain(name.subset, "")))
		e.Expect(err).To(MatchError(Or(ContainSubstring("at most 52 characters"), ContainSubstring("at most 50 characters"))))
	}
}
