// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"maps"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// strips removes a label from the child of a subset. A cache that selects by that label does not have the child then.
func (s *scene) strips(subset, label string) *scene {
	u := s.API.Live.Sets["web-"+subset].DeepCopy()
	labels := maps.Clone(u.GetLabels())
	delete(labels, label)
	u.SetLabels(labels)
	s.API.PutSet(u)
	return s
}

// written returns the partition of the child of a subset, and whether it has its labels.
func (s *scene) written(subset string) (partition int64, labelled bool) {
	u := s.API.Live.Sets["web-"+subset]
	partition, _, _ = unstructured.NestedInt64(u.Object, "spec", "updateStrategy", "rollingUpdate", "partition")
	return partition, u.GetLabels()[v1alpha1.LabelName] == "web" && u.GetLabels()[v1alpha1.LabelSubset] == subset
}

// A child that has lost a label gets it back together with its desired state. If this repeats, the writes are delayed;
// but a different write is not, and one that raises the partition never is.
func TestStrippedChildIsWrittenWhole(t *testing.T) {
	for _, label := range []string{v1alpha1.LabelName, v1alpha1.LabelSubset} {
		s := newScene(t).settled().image("v2").partition("a", "1").settled()
		s.strips("a", label).partition("a", "2").pass()
		if partition, labelled := s.written("a"); partition != 2 || !labelled {
			t.Errorf("%s: partition %d, labelled %v: it is written in one", label, partition, labelled)
		}
		writes := len(s.API.Writes)
		for range 100 {
			s.strips("a", label).later(100 * time.Millisecond).pass()
		}
		applied := strings.Count(strings.Join(s.API.Writes[writes:], "\n"), "apply web-a")
		if said := s.message("a"); applied < 10 || applied > 60 || !strings.Contains(said, label+`"] was removed right after it was written, repeatedly`) {
			t.Error(label, applied, said)
		}
		s.strips("a", label)
		if _, labelled := s.written("a"); labelled {
			t.Fatal("the scene is set wrong")
		}
		s.partition("a", "9").pass()
		if partition, labelled := s.written("a"); partition != 9 || !labelled {
			t.Errorf("%s: partition %d, labelled %v: it is put off", label, partition, labelled)
		}
		s.settled()
	}
}

// A child that has lost a label gets it back even if it gets no other write.
func TestStrippedChildThatWaits(t *testing.T) {
	for name, play := range map[string]func(*scene) *scene{
		"to be reminded": func(s *scene) *scene { return s.forgets("a") },
		"to be helped": func(s *scene) *scene {
			u := s.API.Live.Sets["web-a"].DeepCopy()
			annotations := u.GetAnnotations()
			delete(annotations, v1alpha1.AnnotationRevision)
			u.SetAnnotations(annotations)
			s.API.PutSet(u)
			for i := range s.status().Subsets {
				s.status().Subsets[i].ChildRecord = nil
			}
			return s
		},
		"to be observed": func(s *scene) *scene {
			s.image("v3").pass()
			return s.image("v4")
		},
	} {
		s := newScene(t).settled().image("v2").partition("a", "1").settled()
		s.Excuse()
		play(s).strips("a", v1alpha1.LabelName)
		writes := len(s.API.Writes)
		s.pass()
		if _, labelled := s.written("a"); !labelled || s.Wake <= 0 || s.Wake > time.Second {
			t.Error(name, s.API.Writes[writes:], s.Wake, s.told())
		}
	}
}
