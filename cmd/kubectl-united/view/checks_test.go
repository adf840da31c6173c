// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// notMet sees a check that is not met.
type notMet struct{}

func (notMet) Ask(types.NamespacedName, []known.CheckAsk) {}

func (notMet) Results(types.NamespacedName) map[string]known.CheckResult {
	return map[string]known.CheckResult{"mysql": {Round: known.AnyRound, Seen: true, Message: "MySQLCluster shop is not Healthy (False, Failover)"}}
}

func (notMet) Forget(types.NamespacedName) {}

func TestShowsChecks(t *testing.T) {
	s := newScene(t)
	s.Reconciler.Checks = notMet{}
	s.rolling(func(r *v1alpha1.RollingUpdate) {
		r.Checks = []v1alpha1.RolloutCheck{{Name: "mysql", ObjectCondition: &v1alpha1.ObjectCondition{APIVersion: "moco.cybozu.com/v1beta2", Kind: "MySQLCluster", Name: "shop", Type: "Healthy"}}}
	})
	s.image("v2")
	for range 5 {
		s.Clock.SetTime(s.Clock.Now().Add(time.Second))
		s.passes(1).moves()
	}
	const finding = "passing check mysql NotMet: MySQLCluster shop is not Healthy (False, Failover)"
	if got := told(s.why()); strings.Count(got, finding) != 1 || strings.Contains(got, "waiting for check") {
		t.Error(got)
	}
	var out bytes.Buffer
	view.Style{Width: 200}.Print(&out, view.StatusOf(s.Parent(), nil, ""), false)
	if got := clockTime.ReplaceAllString(out.String(), "then"); !strings.Contains(got, "Check     mysql NotMet since then\n") {
		t.Error(got)
	}
	parent := s.Parent().DeepCopy()
	parent.Status.Rollout.Checks = []v1alpha1.CheckStatus{{Name: "mysql", State: v1alpha1.CheckIsNotMet, Run: "analysisrun/web-rate-1", Message: "AnalysisRun web-rate-1 is inconclusive"}}
	if got := told(view.WhyOf(parent, nil, &s.seen, s.Clock.Now())); !strings.Contains(got, "fault check mysql NotMet: AnalysisRun web-rate-1 is inconclusive") || !strings.Contains(got, "kubectl united retry web -n shop") {
		t.Error(got)
	}
	parent = s.Parent().DeepCopy()
	parent.Status.Rollout.Phase, parent.Status.Rollout.Message = v1alpha1.RolloutCheckFailed, "check mysql failed"
	if got := told(view.WhyOf(parent, nil, &s.seen, s.Clock.Now())); !strings.Contains(got, "fault web CheckFailed: check mysql failed") || strings.Contains(got, "for more") {
		t.Error(got)
	}
	for run, more := range map[string]string{"job/web-smoke-1": "kubectl logs -n shop job/web-smoke-1", "analysisrun/web-rate-1": "kubectl describe -n shop analysisrun/web-rate-1"} {
		parent.Status.Rollout.Checks = []v1alpha1.CheckStatus{{Name: "mysql", State: v1alpha1.CheckHasFailed, Run: run}}
		if got := told(view.WhyOf(parent, nil, &s.seen, s.Clock.Now())); !strings.Contains(got, "check mysql failed; for more, run: "+more) {
			t.Error(got)
		}
	}
}
