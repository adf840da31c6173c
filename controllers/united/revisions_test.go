// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/undone"
	"github.com/unitedworkloads/united/test/simulation"
)

// Changes that do not affect the pods do not create a revision.
func TestWhatMakesARevision(t *testing.T) {
	for _, tc := range []struct {
		name string
		play func(*scene)
		want int // additional revisions
	}{
		{"replicas", func(s *scene) { s.replicas(6) }, 0},
		{"partition", func(s *scene) { s.partition("a", "1") }, 0},
		{"minReadySeconds", func(s *scene) { s.minReady(3) }, 0},
		{"a patched subset comes", func(s *scene) {
			s.Edit("c", func(spec *v1alpha1.UnitedDeploymentSpec) {
				spec.Topology.Subsets = append(spec.Topology.Subsets, v1alpha1.Subset{Name: "c", Patch: simulation.PatchOf("x")})
			})
		}, 0},
		{"a subset goes", func(s *scene) { s.comeOrGo("b") }, 0},
		{"a patch outside of the pods", func(s *scene) {
			s.EditSubset("patch", "a", func(sub *v1alpha1.Subset) {
				sub.Patch = simulation.PatchOf("")
				sub.Patch = ptr.To(*simulation.TemplateOf("x", "Parallel").StatefulSetTemplate)
				sub.Patch.Raw = []byte(`{"metadata": {"labels": {"x": "y"}}, "spec": {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Retain"}}}`)
			})
		}, 0},
		{"another template", func(s *scene) { s.image("v2") }, 1},
		{"a patch", func(s *scene) {
			s.EditSubset("patch", "a", func(sub *v1alpha1.Subset) { sub.Patch = simulation.PatchOf("x") })
		}, 1},
		{"a toleration", func(s *scene) {
			s.EditSubset("toleration", "a", func(sub *v1alpha1.Subset) { sub.Tolerations = []corev1.Toleration{{Key: "k"}} })
		}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t).settled()
			s.Parent().Spec.RevisionHistoryLimit = ptr.To[int32](9)
			uids := s.uids()
			tc.play(s)
			s.Settle()
			if got := len(s.API.Live.Revisions) - 1; got != tc.want {
				t.Errorf("want %d more revisions, have %d", tc.want, got)
			}
			for name, uid := range s.uids() {
				if was, ok := uids[name]; ok && was != uid {
					t.Error(name, "was restarted")
				}
			}
		})
	}
}

func (s *scene) uids() map[string]string {
	uids := map[string]string{}
	for name, p := range s.API.Live.Pods {
		uids[name] = string(p.UID)
	}
	return uids
}

// Revisions are truncated to the limit, but never one that is in use, even while a partition is held; and a rollback
// finds the stored one.
func TestRevisionsAreTruncated(t *testing.T) {
	for limit, want := range map[int32]string{0: "v1 v5", 2: "v1 v3 v4 v5", 9: "v1 v2 v3 v4 v5"} {
		s := newScene(t).settled()
		s.Edit("limit", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.RevisionHistoryLimit = &limit })
		for _, image := range []string{"v2", "v3", "v4", "v5"} {
			s.image(image).settled()
		}
		if got := s.kept(); got != want {
			t.Errorf("limit %d: want %s, have %s", limit, want, got)
		}
		uids := s.uids()
		s.image("v1").settled()
		if diff := cmp.Diff(uids, s.uids()); diff != "" {
			t.Error("going back restarts what matches:", diff)
		}
		if got := s.words(s.status().UpdateRevision); got != "v1" || kstatus(s.Parent()) != "Current" {
			t.Error(got, s.told())
		}
	}
}

// A controller that does not know yet that another one leads may have outdated children in its cache: it reads them
// past the cache before it deletes a revision.
func TestNoRevisionIsDeletedThatAChildNamesByNow(t *testing.T) {
	for _, named := range []bool{true, false} {
		s := newScene(t).settled().partition("", "0")
		s.Parent().Spec.RevisionHistoryLimit = ptr.To[int32](9)
		s.image("v2").settled().image("v3").settled()
		var v1 string
		for name := range s.API.Live.Revisions {
			if s.words(name) == "v1" {
				v1 = name
			}
		}
		s.Edit("limit", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.RevisionHistoryLimit = ptr.To[int32](0) })
		s.API.Refresh()
		if named {
			child := s.API.Live.Sets["web-b"].DeepCopy()
			annotations := child.GetAnnotations()
			annotations[v1alpha1.AnnotationProtectedRevision] = v1
			child.SetAnnotations(annotations)
			s.API.PutSet(child) // by the other controller, and not in the cache yet
		}
		s.Reconcile()
		if kept := s.API.Live.Revisions[v1] != nil; kept != named {
			t.Errorf("a child names it %v, and it is kept %v", named, kept)
		}
	}
}

func (s *scene) kept() string {
	var list []string
	for name := range s.API.Live.Revisions {
		list = append(list, s.words(name))
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// liveReads counts the reads past the cache by name.
type liveReads struct {
	client.Reader
	names map[string]int
}

func (r liveReads) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	r.names[key.Name]++
	return r.Reader.Get(ctx, key, o, opts...)
}

// If a revision that a child names is gone, it is looked up less and less often. It is found when it exists again,
// although no watch reports one without its label.
func TestARevisionThatIsGoneIsLookedForLessOften(t *testing.T) {
	s := newScene(t).settled().image("v2").partition("a", "1").settled()
	reads := liveReads{s.Reconciler.Live, map[string]int{}}
	s.Reconciler.Live = reads
	v1 := s.status().CurrentRevision
	gone := s.API.Live.Revisions[v1].DeepCopy()
	delete(s.API.Live.Revisions, v1)
	s.API.Refresh()
	for range 100 {
		s.pass() // one second each
	}
	if n := reads.names[v1]; n < 2 || n > 9 { // 1, 2, 4, 8, 16, 30, 30 seconds apart
		t.Errorf("looked for %d times in 100 seconds", n)
	}
	labels := gone.Labels
	gone.Labels = nil
	s.API.Live.Revisions[v1] = gone
	s.API.Refresh()
	s.later(undone.MaxBackOff).pass().pass()
	if back := s.API.Live.Revisions[v1]; !maps.Equal(back.Labels, labels) {
		t.Errorf("it has %v\n%s", back.Labels, s.told())
	}
}
