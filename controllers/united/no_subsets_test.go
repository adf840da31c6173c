// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestTheLastSubsetIsRemoved: where admission lets the list of subsets be emptied while there are replicas, the children
// stay, and the status says so. Scaled to 0, they go.
func TestTheLastSubsetIsRemoved(t *testing.T) {
	for name, change := range map[string]func(*scene) *scene{
		"Manual":        func(s *scene) *scene { return s },
		"RollingUpdate": func(s *scene) *scene { return s.rolling() },
		"paused":        func(s *scene) *scene { return s.paused(true) },
	} {
		t.Run(name, func(t *testing.T) {
			s := change(newScene(t)).settled()
			empty := func() {
				s.Edit("no subsets", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Topology.Subsets = nil })
			}
			empty()
			s.passes(3).settled()
			if n, pods := s.asked(), len(s.API.Live.Pods); n != 4 || pods != 4 {
				t.Fatalf("%d replicas are asked for, %d exist:\n%s", n, pods, s.told())
			}
			stalled := meta.FindStatusCondition(s.Parent().Status.Conditions, v1alpha1.ConditionStalled)
			if stalled.Reason != v1alpha1.ReasonNoSubsets || !strings.Contains(stalled.Message, "the existing child workloads stay as they are") {
				t.Errorf("Stalled is %s: %s", stalled.Reason, stalled.Message)
			}
			s.comeOrGo("a")
			s.passes(3).settled()
			if n := s.asked(); n != 4 || s.API.Live.Sets["web-b"] != nil {
				t.Fatalf("a control: with a subset, the other one goes: %d replicas:\n%s", n, s.told())
			}
			s.replicas(0)
			empty()
			s.passes(3).settled()
			if len(s.API.Live.Sets) > 0 {
				t.Errorf("with 0 replicas, all go:\n%s", s.told())
			}
		})
	}
}
