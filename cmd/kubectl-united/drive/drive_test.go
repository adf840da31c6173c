// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package drive

import (
	"errors"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

func TestForbidden(t *testing.T) {
	g := NewWithT(t)
	of := func(text string) string {
		return Forbidden(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New(text)))
	}
	g.Expect(of(`User "x" cannot watch resource "pods" in API group "" in the namespace "default"`)).To(Equal("you have no right to watch pods"))
	g.Expect(of("a policy says no")).To(Equal("you have no right to list pods"))
}

func TestChosen(t *testing.T) {
	g := NewWithT(t)
	parent := &v1alpha1.UnitedDeployment{}
	parent.Name = "web"
	revisions := []*revision.Revision{{Name: "web-z4vb847424", Number: 3}, {Name: "web-d2w24xfx77", Number: 12}}
	for asked, want := range map[string]string{"3": "web-z4vb847424", "12": "web-d2w24xfx77", "web-z4vb847424": "web-z4vb847424"} {
		got, err := Chosen(parent, revisions, asked)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Name).To(Equal(want))
	}
	for asked, want := range map[string]string{
		"4":              "web has no revision 4; there is 3, 12",
		"web-d2w24xfx7x": "web has no revision web-d2w24xfx7x; did you mean web-d2w24xfx77?",
		"v1":             "web has no revision v1; there is web-d2w24xfx77, web-z4vb847424",
	} {
		_, err := Chosen(parent, revisions, asked)
		g.Expect(err).To(MatchError(want))
	}
	name := "web-" + known.Digest([]byte("v3"))
	revisions = append(revisions, &revision.Revision{Name: name, Number: 13})
	for asked, shown := range map[string]string{known.Short(name): name, name[:20]: name, "13": name, "web-z4vb847424": "web-z4vb847424"} {
		got, err := Shown(parent, revisions, asked)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(got.Name).To(Equal(shown))
	}
	_, err := Shown(parent, revisions, "web-")
	g.Expect(err).To(HaveOccurred(), "too short")
	_, err = Chosen(parent, revisions, known.Short(name))
	g.Expect(err).To(MatchError(known.Short(name) + " is only the beginning of a name: give the whole one, " + name + ", or the number 13"))
	_, err = Chosen(parent, nil, "1")
	g.Expect(err).To(MatchError("web has no revisions yet"))
}

// TestMove: whatever is there, the value is one that was never there before. Force is asked about with what is forced already.
func TestMove(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)
	for _, m := range []Move{Force, Promote} {
		for _, set := range []string{"", "web-1", "web-2", "web-2/1"} {
			parent := &v1alpha1.UnitedDeployment{}
			parent.Name, parent.Namespace, parent.Annotations = "web", "shop", map[string]string{m.Annotation: set}
			parent.Spec.UpdateStrategy.Type = v1alpha1.RollingUpdateStrategy
			parent.Status.CurrentRevision, parent.Status.UpdateRevision = "web-1", "web-2"
			parent.Status.Rollout = &v1alpha1.RolloutStatus{Revision: "web-2", Phase: v1alpha1.RolloutBlocked}
			deed, err := m.Of(parent, now)
			if err != nil || len(deed.Operations) != 1 || deed.Operations[0].Value != "web-2/20260102T030405.006Z" {
				t.Errorf("%s %q: %+v, %v", m.Verb, set, deed, err)
			}
			for _, forced := range []bool{false, true} {
				parent.Status.Rollout.Forced = forced
				if got := Promote.Question(parent); strings.Contains(got, "because it is forced") != forced {
					t.Errorf("%s", got)
				}
			}
			// approve refuses during a timed pause, and while the spec is paused.
			parent.Status.Rollout.Forced, parent.Status.Rollout.ApprovalKey = false, "key"
			for _, phase := range []v1alpha1.RolloutPhase{v1alpha1.RolloutPaused, v1alpha1.RolloutAwaitingApproval} {
				parent.Status.Rollout.Phase = phase
				if got := Promote.Question(parent); strings.HasSuffix(got, " To pass only one step: kubectl united approve web.") != (phase == v1alpha1.RolloutAwaitingApproval) {
					t.Errorf("%s: %s", phase, got)
				}
			}
		}
	}
}

// An event of events.k8s.io, as those of the LeaderWorkerSet controller are, has no lastTimestamp.
func TestLastSeen(t *testing.T) {
	g := NewWithT(t)
	at := func(minute int) time.Time { return time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC) }
	g.Expect(lastSeen(&corev1.Event{LastTimestamp: metav1.NewTime(at(1))})).To(Equal(at(1)))
	event := &corev1.Event{EventTime: metav1.NewMicroTime(at(2))}
	g.Expect(lastSeen(event)).To(Equal(at(2)))
	event.Series = &corev1.EventSeries{LastObservedTime: metav1.NewMicroTime(at(3))}
	g.Expect(lastSeen(event)).To(Equal(at(3)))
}
