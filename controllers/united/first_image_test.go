// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Before the first replica was ready, an image that cannot be pulled is a failure, under both strategies. A container
// that crashes is not one yet: it may be waiting for something that is installed together with it.
func TestFirstImageCannotBePulled(t *testing.T) {
	for name, strategy := range map[string]func(*scene) *scene{
		"Manual":        func(s *scene) *scene { return s },
		"RollingUpdate": (*scene).rolling,
	} {
		for failure, reason := range map[string]string{"ImagePullBackOff": v1alpha1.ReasonReplicaFailed, "CrashLoopBackOff": v1alpha1.ReasonReplicasUnavailable} {
			t.Run(name+"/"+failure, func(t *testing.T) {
				s := strategy(newScene(t).image("broken1")).settled()
				s.Sets.SetFailure(s.API.Live.Pods["web-a-1"], failure)
				s.pass()
				ready := meta.FindStatusCondition(s.status().Conditions, v1alpha1.ConditionReady)
				if ready.Reason != reason || !strings.Contains(ready.Message, "web-a-1 ("+failure) {
					t.Errorf("%s: %s", ready.Reason, ready.Message)
				}
				if strings.Contains(ready.Message, "previous") {
					t.Error("there is none to go back to:", ready.Message)
				}
				stalled := meta.IsStatusConditionTrue(s.status().Conditions, v1alpha1.ConditionStalled)
				warned := slices.ContainsFunc(s.Recorded.Events, func(e string) bool { return strings.HasPrefix(e, "Warning ReplicaFailed: web-a-1") })
				if failed := reason == v1alpha1.ReasonReplicaFailed; stalled != failed || warned != failed {
					t.Error("stalled:", stalled, s.Recorded.Events)
				}

				// A corrected template replaces it everywhere.
				if s.image("v1").settled(); s.contents("a") != "v1 v1" || !meta.IsStatusConditionPresentAndEqual(s.status().Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue) {
					t.Error(s.told())
				}
			})
		}
	}
}
