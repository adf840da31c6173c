// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

func TestStripped(t *testing.T) {
	for _, tc := range []struct {
		name  string
		there *appsv1.StatefulSet
		found bool
	}{
		{"it has all", set(), false},
		{"without labels", set(func(s *appsv1.StatefulSet) { s.Labels = nil }), true},
		{"without one", set(func(s *appsv1.StatefulSet) { delete(s.Labels, v1alpha1.LabelSubset) }), true},
		{"with another's", set(func(s *appsv1.StatefulSet) { s.Labels[v1alpha1.LabelName] = "other" }), true},
		{"another's", set(func(s *appsv1.StatefulSet) { s.Labels, s.OwnerReferences[0].UID = nil, "u-2" }), false},
		{"nobody's", set(func(s *appsv1.StatefulSet) { s.Labels, s.OwnerReferences = nil, nil }), false},
		{"being deleted", set(func(s *appsv1.StatefulSet) {
			s.Labels, s.DeletionTimestamp, s.Finalizers = nil, ptr.To(metav1.NewTime(epoch())), []string{"example.com/keep"}
		}), false},
		{"it is gone", set(func(s *appsv1.StatefulSet) { s.Name, s.Labels = "another", nil }), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b, c := newBench(t, tc.there), childSpec()
			child, err := b.Stripped(t.Context(), &c)
			if err != nil || (child != nil) != tc.found || child != nil && child.GetUID() != "s-1" {
				t.Error(child, err)
			}
		})
	}
}

// strip removes a label from a child, as admission does: according to managedFields it is still ours.
func strip(label string) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		labels := maps.Clone(u.GetLabels())
		delete(labels, label)
		u.SetLabels(labels)
	}
}

// A child that lost a label is written completely, and no read waits for that. If this repeats, the writes are delayed,
// except those that raise the partition.
func TestStrippedIsWrittenWhole(t *testing.T) {
	for _, label := range []string{v1alpha1.LabelName, v1alpha1.LabelSubset} {
		b, now := overriding(t, strip(label))
		current := b.asStored(childSpec(), nil)
		strip(label)(current)
		_, err := b.fight(childSpec(), current, 50)
		e := (*undone.OverriddenError)(nil)
		if !errors.As(err, &e) || len(b.applied) != undone.RepeatsAtOnce+1 || e.Until != now.Add(time.Second) ||
			!strings.Contains(e.Error(), label+`"] was changed by admission`) {
			t.Fatal(label, err, len(b.applied))
		}
		for i, options := range b.options {
			if !options.DisableReadYourWritesConsistency || b.applied[i].GetLabels()[label] == "" || b.applied[i].GetUID() != "s-1" {
				t.Error(label, options, b.applied[i].GetLabels())
			}
		}
		low := b.asStored(childSpec(), nil)
		strip(label)(low)
		setNumber(low, 1, "spec", "updateStrategy", "rollingUpdate", "partition")
		c := childSpec()
		if _, _, err := b.update(t.Context(), &c, low); err != nil {
			t.Error(label, "the same write is put off where it raises the partition", err)
		}
	}
	b, c := newBench(t), childSpec()
	lower := b.asStored(c, nil)
	setNumber(lower, 1, "spec", "updateStrategy", "rollingUpdate", "partition")
	if _, _, err := b.update(t.Context(), &c, lower); err != nil || b.options[0].DisableReadYourWritesConsistency {
		t.Error("the control: a child that is in the cache is read as it was written", err)
	}
}
