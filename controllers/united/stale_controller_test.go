// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// A controller whose caches are outdated to different degrees does not create a revision again that another controller
// has deleted since.
func TestStaleControllerMakesNoRevision(t *testing.T) {
	for _, stale := range []bool{true, false} {
		s := newScene(t).settled().partition("", "0")
		s.Edit("limit", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.RevisionHistoryLimit = ptr.To[int32](0) })
		s.image("v2").settled()
		old := s.API.Live.Clone()
		s.image("v3").settled().image("v4").settled()
		if got := s.kept(); got != "v3 v4" {
			t.Fatal(got)
		}
		s.Restart()
		s.API.Refresh()
		if stale {
			s.API.Cached.Parents, s.API.Cached.Sets, s.API.Cached.Pods = old.Parents, old.Sets, old.Pods
		} else {
			s.image("v2").API.Refresh()
		}
		writes := len(s.API.Writes)
		result, err := s.Reconciler.Reconcile(t.Context(), requestFor(s.Parent()))
		if err != nil || (stale && result.RequeueAfter != time.Second) {
			t.Error(result, err)
		}
		if wrote := len(s.API.Writes) > writes; wrote == stale {
			t.Errorf("stale %v, and it wrote %v", stale, s.API.Writes[writes:])
		}
	}
}

// Nor does it remove replicas or the child from a subset that was removed and added back.
func TestStaleControllerRemovesNoSubset(t *testing.T) {
	for _, back := range []bool{true, false} {
		s := newScene(t).settled()
		with := s.Parent().DeepCopy()
		s.comeOrGo("b").API.Crash = 3 // before the delete
		s.pass().API.Refresh()
		if s.API.Crash != 0 || s.API.Live.Sets["web-b"] == nil {
			t.Fatal(s.API.Writes)
		}
		if back {
			parent := s.Parent().DeepCopy()
			parent.Spec = with.Spec
			s.API.Live.Parents["web"] = parent
		}
		s.Reconcile()
		if gone := s.API.Live.Sets["web-b"] == nil; gone == back {
			t.Errorf("the subset is back %v, and its child is gone %v", back, gone)
		}
	}
}

// A controller that was suspended, and continues after another one has led, does not revert anything: neither a child
// nor the status.
func TestStaleController(t *testing.T) {
	s := newScene(t).settled().image("v2").partition("", "0")
	stale := s.API.Live.Clone()
	s.settled().partition("", "100%").image("v3").settled()
	before, writes := s.API.Live.Clone(), len(s.API.Writes)

	s.Restart() // it does not remember anything, but sees the children
	s.heard()
	s.API.Cached = stale
	if _, err := s.Reconciler.Reconcile(t.Context(), requestFor(stale.Parents["web"])); err != nil {
		t.Error(err)
	}
	if late := s.API.Writes[writes:]; len(late) > 0 {
		t.Error("it wrote", late)
	}
	if diff := cmp.Diff(before.Parents["web"].Status, s.Parent().Status); diff != "" {
		t.Error("it moved the status back", diff)
	}
	if len(s.Recorded.Events) > 0 {
		t.Error("it told", s.Recorded.Events)
	}
	// Its own history must not prevent it from writing.
	s.image("v2").settled()
	if len(s.API.Writes) == writes {
		t.Error("positive control: nothing was written")
	}
}
