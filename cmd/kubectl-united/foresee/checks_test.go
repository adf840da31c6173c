// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"slices"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// TestAssumesChecks: a check is taken for met, unless it is on record that it is not.
func TestAssumesChecks(t *testing.T) {
	const sts = "statefulSetTemplate"
	w := after(t, started(t, sts, 4), rolling(`{checks: [{name: mysql, objectCondition: {apiVersion: v1, kind: Pod, name: db, type: Ready}}]}`))
	p, err := Of(changed(t, w, image(sts, "v2")), Options{})
	if err != nil || told(p) != "restart a-1; restart b-1; restart a-0; restart b-0; complete" || !slices.Contains(p.Assumed, "these checks are met: mysql") {
		t.Errorf("%v, %q", err, p.Assumed)
	}
	if p, err = Of(changed(t, w, replicas(4)), Options{}); err != nil || len(p.Assumed) != 0 {
		t.Errorf("no rollout: %v, %q", err, p.Assumed)
	}
	held := changed(t, w, image(sts, "v2"))
	check := &held.Parent.Spec.UpdateStrategy.RollingUpdate.Checks[0]
	held.Parent.Status.Rollout = &v1alpha1.RolloutStatus{Revision: held.Update.Name, Phase: v1alpha1.RolloutProgressing, Checks: []v1alpha1.CheckStatus{
		{Name: "mysql", Key: coordination.CheckKey(check), State: v1alpha1.CheckIsNotMet, Message: "Pod db is not Ready (False)"},
	}}
	p, err = Of(held, Options{})
	if err != nil || told(p) != "waiting" || !strings.Contains(p.End.Message, "aiting for check mysql: Pod db is not Ready (False)") ||
		!slices.Contains(p.Assumed, "check mysql holds the rollout, as it does now: Pod db is not Ready (False)") {
		t.Errorf("%v: %s, %q, %+v", err, told(p), p.Assumed, p.End)
	}
}
