// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// TestUnlessOverridden: a stale result is nevertheless reported as overridden, because otherwise the status would
// change back and forth; another failure takes precedence.
func TestUnlessOverridden(t *testing.T) {
	e := &undone.OverriddenError{Object: "StatefulSet web-zone-a", Override: undone.Override{Field: "spec.replicas", Admission: true}}
	refused := &subset.Failure{Reason: v1alpha1.ReasonApplyRefused}
	for name, tc := range map[string]struct {
		before planner.Result
		e      *undone.OverriddenError
		want   string
	}{
		"all is well":     {planner.Result{}, nil, ""},
		"undone":          {planner.Result{}, e, v1alpha1.ReasonOverridden},
		"undone at once":  {planner.Result{Stale: true, WaitReason: "waits: x"}, e, v1alpha1.ReasonOverridden},
		"refused":         {planner.Result{Failure: refused}, e, v1alpha1.ReasonApplyRefused},
		"stale, no fight": {planner.Result{Stale: true}, nil, ""},
	} {
		o := tc.before
		if got := orOverridden(&o, tc.e); got.Stale != tc.before.Stale || got.Failure == nil && tc.want != "" || got.Failure != nil && got.Failure.Reason != tc.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}
