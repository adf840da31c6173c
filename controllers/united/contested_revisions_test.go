// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset/writer"
)

// TestContestedRevisions: somebody takes something from the revisions again and again. It is put back
// less and less often, which is said, and no rollout goes on that could lose what it protects;
// scaling does. The status says the same all the time. When it is over all is as before.
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
		"a control: what is none of United's": {func(cr *appsv1.ControllerRevision) { annotate(cr, "example.com/x", "x") }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).settled().image("v2").partition("a", "1").settled()
			take := func() {
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

			s.later(writer.MaxRepeat).passes(3).later(writer.MaxRepeat).settled()
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

func annotate(cr *appsv1.ControllerRevision, key, value string) {
	if cr.Annotations == nil {
		cr.Annotations = map[string]string{}
	}
	cr.Annotations[key] = value
}

// revisionWrites counts the changes of revisions from now on.
func (s *scene) revisionWrites() func() int {
	count := func() int { return strings.Count(strings.Join(s.API.Writes, "\n"), "patch revision") }
	before := count()
	return func() int { return count() - before }
}
