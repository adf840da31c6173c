// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// TestContestedRevisions: somebody removes something from the revisions again and again. It is restored less and less
// often, which is reported, and a rollout that could lose its protected revision does not continue; scaling does. The
// status stays the same all the time. In the end everything is as before.
func TestContestedRevisions(t *testing.T) {
	for name, tc := range map[string]struct {
		take func(*appsv1.ControllerRevision)
		says string
		// freezes: nothing is released meanwhile.
		freezes bool
	}{
		"the label":                           {func(cr *appsv1.ControllerRevision) { cr.Labels = nil }, "metadata.labels.united.dev/name was removed", true},
		"which subsets it knows":              {func(cr *appsv1.ControllerRevision) { annotate(cr, v1alpha1.AnnotationSubsets, "garbage") }, "metadata.annotations.united.dev/subsets was", true},
		"that it has been the current one":    {func(cr *appsv1.ControllerRevision) { annotate(cr, v1alpha1.AnnotationCurrent, "") }, "metadata.annotations.united.dev/current was", false},
		"the one that the spec asks for":      {nil, "the whole object was removed right after it was written", true},
		"a control: what is none of United's": {func(cr *appsv1.ControllerRevision) { annotate(cr, "example.com/x", "x") }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).settled().image("v2").partition("a", "1").settled()
			take := func() {
				if tc.take == nil {
					s.lose("v2")
					s.API.Refresh()
					return
				}
				for name, cr := range s.API.Live.Revisions {
					changed := cr.DeepCopy()
					if tc.take(changed); !cmp.Equal(changed, cr) {
						changed.ResourceVersion = s.API.Next()
						s.API.Live.Revisions[name] = changed
					}
				}
				s.API.Refresh()
			}
			writes := s.revisionWrites()
			said := map[string]bool{}
			for i := range 90 { // seconds
				take()
				s.pass()
				if i >= 60 {
					said[s.condition(v1alpha1.ConditionStalled)] = true
				}
			}
			const revisions = 2
			if n := writes(); tc.says != "" && (n < 10 || n > 40*revisions) || tc.says == "" && n > 0 {
				t.Errorf("%d writes in 90 seconds", n)
			}
			late := s.revisionWrites()
			for range 60 {
				take()
				s.pass()
			}
			if n := late(); n > 4*revisions {
				t.Errorf("%d writes in a minute, later", n)
			}
			if told := s.told(); !strings.Contains(told, tc.says) || len(said) > revisions {
				t.Errorf("it says %v\n%s", said, told)
			}
			s.partition("b", "0").replicas(6)
			for range 60 {
				take()
				s.pass()
				s.Everybody()
			}
			if moved := strings.Contains(s.contents("b"), "v2"); moved == tc.freezes {
				t.Errorf("b runs %s\n%s", s.contents("b"), s.told())
			}
			if n := s.asked(); n != 6 {
				t.Errorf("%d replicas\n%s", n, s.told())
			}

			s.later(undone.MaxRepeat).passes(3).later(undone.MaxRepeat).settled()
			if told := s.told(); strings.Contains(told, "Stalled") || strings.Contains(s.contents("b"), "v1") {
				t.Errorf("when it is over: b runs %s\n%s", s.contents("b"), told)
			}
			for _, cr := range s.API.Live.Revisions {
				if cr.Labels[v1alpha1.LabelName] != "web" || len(cr.OwnerReferences) != 1 {
					t.Errorf("%s has %v and %v", cr.Name, cr.Labels, cr.OwnerReferences)
				}
			}
		})
	}
}

// TestDeletedRevisions: somebody deletes the only revision again and again. It is created less and less often. Its
// content is in the spec, so scaling continues, and lost replicas are replaced.
func TestDeletedRevisions(t *testing.T) {
	s := newScene(t).settled()
	writes := s.revisionWrites()
	for range 90 {
		s.lose("v1").pass()
	}
	if n := writes(); n < 10 || n > 2*40 { // it is created, and the record that it was the current one is written
		t.Errorf("%d writes in 90 seconds", n)
	}
	if told := s.told(); !strings.Contains(told, "Stalled True Overridden") || !strings.Contains(told, "the whole object was removed") {
		t.Error(told)
	}
	s.replicas(6).delete("b", false)
	for range 60 {
		s.lose("v1")
		s.Everybody()
	}
	if a, b := s.contents("a"), s.contents("b"); a != "v1 v1 v1" || b != "v1 v1 v1" {
		t.Errorf("a runs %q, b %q\n%s", a, b, s.told())
	}
	s.later(undone.MaxRepeat).passes(3).later(undone.MaxRepeat).settled()
	if told := s.told(); strings.Contains(told, "Stalled") || len(s.API.Live.Revisions) != 1 {
		t.Errorf("when it is over: %s", told)
	}
}

func annotate(cr *appsv1.ControllerRevision, key, value string) {
	if cr.Annotations == nil {
		cr.Annotations = map[string]string{}
	}
	cr.Annotations[key] = value
}

// revisionWrites returns a function that counts the changes of revisions from now on.
func (s *scene) revisionWrites() func() int {
	count := func() int {
		writes := strings.Join(s.API.Writes, "\n")
		return strings.Count(writes, "patch revision") + strings.Count(writes, "create revision")
	}
	before := count()
	return func() int { return count() - before }
}
