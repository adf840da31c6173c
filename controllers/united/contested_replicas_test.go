// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/unitedworkloads/united/controllers/united/undone"
)

// takesOver sets a number of a subset's child as somebody else, as kubectl patch does.
func (s *scene) takesOver(subset string, n int64, path ...string) *scene {
	elements := make([]any, 0, len(path))
	for _, p := range path {
		elements = append(elements, p)
	}
	return s.takesOwnership(subset, elements, func(u *unstructured.Unstructured) error {
		return unstructured.SetNestedField(u.Object, n, path...)
	})
}

// takesOwnership changes a child as somebody else, who owns the field at the path after that.
func (s *scene) takesOwnership(subset string, path []any, change func(*unstructured.Unstructured) error) *scene {
	u := s.API.Live.Sets["web-"+subset].DeepCopy()
	field := fieldpath.NewSet(fieldpath.MakePathOrDie(path...))
	ours, theirs := &fieldpath.Set{}, metav1.ManagedFieldsEntry{Manager: "other", Operation: metav1.ManagedFieldsOperationUpdate}
	managed := u.GetManagedFields()
	err := ours.FromJSON(managed[0].FieldsV1.GetRawReader())
	for entry, fields := range map[*metav1.ManagedFieldsEntry]*fieldpath.Set{&managed[0]: ours.Difference(field), &theirs: field} {
		raw, failed := fields.ToJSON()
		if failed != nil {
			err = failed
		}
		entry.FieldsV1 = metav1.NewFieldsV1(string(raw))
	}
	if err == nil {
		err = change(u)
	}
	if err != nil {
		s.Fail("%v", err)
	}
	u.SetManagedFields(append(managed[:1:1], theirs))
	u.SetGeneration(u.GetGeneration() + 1)
	s.API.PutSet(u)
	return s
}

// round changes the replicas of a child as somebody else, and runs the child's controller, which is faster than a pass.
func (s *scene) round(subset string, n int64) {
	s.takesOver(subset, n, "spec", "replicas").moves(subset)
	for range 3 {
		s.pass().moves(subset).kubelets(subset+"-0", subset+"-1", subset+"-2")
	}
}

// childWrites returns a function that counts the writes of a child from now on.
func (s *scene) childWrites(subset string) func() int {
	count := func() int { return strings.Count(strings.Join(s.API.Writes, "\n")+"\n", "apply web-"+subset+":") }
	before := count()
	return func() int { return count() - before }
}

// TestContestedReplicas: somebody scales a child again and again. The desired state is written less and less often,
// however many writes are needed to restore the replicas. The status reports it all the time, with the field and the
// author. Changes by the user are written at once, and in the end everything is as before.
func TestContestedReplicas(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(*scene) *scene
		want string
	}{
		"held":           {func(s *scene) *scene { return s }, "v1 v1"},
		"open":           {func(s *scene) *scene { return s.partition("a", "0") }, "v1 v1"},
		"canary":         {func(s *scene) *scene { return s.image("v2").partition("a", "1") }, "v1 v2"},
		"ordered canary": {func(s *scene) *scene { return s.ordered().image("v2").partition("a", "1") }, "v1 v2"},
		"released":       {func(s *scene) *scene { return s.image("v2").partition("a", "0") }, "v2 v2"},
		"rolled":         {func(s *scene) *scene { return s.rolling().settled().image("v2") }, "v2 v2"},
		"step":           {func(s *scene) *scene { return s.stepwise().settled().image("v2") }, "v1 v2"},
	} {
		for _, n := range []int64{0, 1, 5} {
			t.Run(fmt.Sprint(name, " to ", n), func(t *testing.T) {
				s := newScene(t).settled()
				tc.play(s).settled()
				s.Excuse()
				if got := s.contents("a"); got != tc.want {
					t.Fatal("the scene is set wrong:", got)
				}
				writes := s.childWrites("a")
				for range 50 {
					s.round("a", n)
				}
				if got := writes(); got < 10 || got > 60 {
					t.Error(got, "writes in 50 rounds")
				}
				late := s.childWrites("a")
				for i := range 50 {
					s.round("a", n)
					if told := s.told(); !strings.Contains(told, `web-a: spec.replicas was changed by "other" right after it was written, repeatedly`) || !strings.Contains(told, "Stalled True Overridden") {
						t.Fatalf("round %d:\n%s", i, told)
					}
				}
				if got := late(); got > 8 {
					t.Error(got, "writes in 50 rounds more")
				}
				s.replicas(6).pass()
				if got := replicasOf(s.API.Live.Sets["web-b"]); got != 3 {
					t.Error("the other subset has", got)
				}
				s.replicas(4).later(2 * undone.MaxRepeat).settled()
				if told := s.told(); s.contents("a") != tc.want || strings.Contains(told, "Overridden") {
					t.Errorf("when it is over: %s\n%s", s.contents("a"), told)
				}
			})
		}
	}
}

func replicasOf(u *unstructured.Unstructured) int64 {
	n, _, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	return n
}
