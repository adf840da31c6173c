// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"errors"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func TestReconcileWithoutAParent(t *testing.T) {
	s := newScene(t).settled()
	gone := s.Parent()
	writes := len(s.API.Writes)
	deleted := gone.DeepCopy()
	deleted.DeletionTimestamp = ptr.To(s.API.Now())
	for _, parent := range []*v1alpha1.UnitedDeployment{deleted, nil} {
		s.API.Cached.Parents["web"] = parent
		if _, err := s.Reconciler.Reconcile(t.Context(), requestFor(gone)); err != nil {
			t.Error(err)
		}
	}
	if rest := s.API.Writes[writes:]; len(rest) > 0 {
		t.Error(rest)
	}
}

// A status that cannot be written is an error, and no event is told of it.
func TestStatusThatCannotBeWritten(t *testing.T) {
	kind := schema.GroupResource{Group: "apps.united.dev", Resource: "uniteddeployments"}
	for _, tc := range []struct {
		name   string
		answer error
		fails  bool
		again  time.Duration
	}{
		{"the server is away", errAway, true, 0},
		{"the parent is gone", apierrors.NewNotFound(kind, "web"), false, time.Second},
		// It need not have: then no watch tells, and the status would stay as it is.
		{"the parent has changed", apierrors.NewConflict(kind, "web", errors.New("resourceVersion")), false, time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t).settled().ready("a-0", false)
			s.heard()
			s.API.Refresh()
			s.API.Fail = tc.answer
			result, err := s.Reconciler.Reconcile(t.Context(), requestFor(s.Parent()))
			if (err != nil) != tc.fails || result.RequeueAfter != tc.again {
				t.Error(result, err)
			}
			if len(s.Recorded.Events) > 0 {
				t.Error(s.Recorded.Events)
			}
		})
	}
}

// Whoever edits the spec in the middle of a pass does not keep its status from being
// written, nor does a status with a field in it that is not known here: that stays.
func TestTheStatusIsFencedByTheStatusAlone(t *testing.T) {
	for _, tc := range []struct {
		name      string
		meanwhile func(s *scene)
		written   bool
	}{
		{"nothing", func(*scene) {}, true},
		{"an edit", func(s *scene) { s.partition("", "9") }, true},
		{"another parent", func(s *scene) { s.Parent().UID = "another" }, false},
		{"another status", func(s *scene) { s.Parent().Status.Replicas = 77 }, false},
		{"another way to write it", func(s *scene) { s.API.Foreign = `{"status":{"later":{"a":1}}}` }, true},
		{"another status, in another way", func(s *scene) {
			s.Parent().Status.Replicas, s.API.Foreign = 77, `{"status":{"later":{"a":1}}}`
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newScene(t).settled().ready("a-0", false)
			s.API.Refresh()
			s.API.Live.Parents["web"] = s.Parent().DeepCopy()
			tc.meanwhile(s)
			s.Reconcile()
			if written := s.Parent().Status.ReadyReplicas == s.Parent().Status.Replicas-1; written != tc.written {
				t.Error(s.Parent().Status)
			}
		})
	}
}

// TestStatusCollects: a status in which nothing but counters changed waits for the next one, and
// is written in time; one that somebody may wait for is not kept back.
func TestStatusCollects(t *testing.T) {
	s := newScene(t).settled()
	s.CollectFor = 10 * time.Second
	s.Restart()
	statuses := func() int {
		n := 0
		for _, write := range s.API.Writes {
			if write == "status" {
				n++
			}
		}
		return n
	}
	s.pass()
	before := statuses()
	expect := func(what string, n int) {
		t.Helper()
		if got := statuses() - before; got != n {
			t.Errorf("%s: %d status writes, want %d\n%s", what, got, n, s.told())
		}
	}
	s.image("v2").pass()
	expect("a new revision", 1)
	s.partition("a", "0").pass()
	expect("a partition", 2)
	s.settled() // the partition is there, replicas move, and all of a is done
	s.partition("b", "0").pass()
	before = statuses()
	s.ready("a-0", false).pass()
	if statuses() == before {
		t.Error("what is not as it should be any more is not told:", s.told())
	}
	before = statuses()
	s.ready("a-1", false).pass()
	expect("one more is not ready", 0)
	if s.Wake <= 0 || s.Wake > s.CollectFor {
		t.Error("it is looked at again in", s.Wake)
	}
	s.later(4 * time.Second).pass()
	expect("still collecting", 0)
	s.later(7 * time.Second).pass()
	expect("it has waited long enough", 1)
	s.later(time.Minute).pass().pass()
	expect("nothing more", 1)
}
