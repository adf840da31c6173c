// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestScalingToTheReleasedSubset: while only a released subset has replicas, nothing finishes for the others, so scaling back
// releases nothing. Somebody who may only scale could release everything otherwise.
func TestScalingToTheReleasedSubset(t *testing.T) {
	for name, play := range map[string]func(*scene){
		"one by one": func(s *scene) { s.replicas(1).settled().replicas(2).settled().replicas(4).settled() },
		"at once":    func(s *scene) { s.replicas(1).settled().replicas(4).settled() },
		"paused": func(s *scene) {
			pause := func(paused bool) {
				s.Edit("pause", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Paused = paused })
			}
			s.replicas(1).settled()
			pause(true)
			s.settled().replicas(4).settled()
			pause(false)
			s.settled()
		},
		"bound": func(s *scene) {
			s.Edit("bound", func(spec *v1alpha1.UnitedDeploymentSpec) {
				spec.UpdateStrategy.ManualUpdate.Revision = s.status().UpdateRevision
			})
			s.settled().replicas(1).settled().replicas(4).settled()
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).settled().image("v2").partition("a", "0").settled()
			first := s.status().CurrentRevision
			play(s)
			if s.contents("a") != "v2 v2" || s.contents("b") != "v1 v1" || s.status().CurrentRevision != first {
				t.Errorf("a has %s, b has %s\n%s", s.contents("a"), s.contents("b"), s.told())
			}
			s.partition("b", "0").settled() // the positive control
			if s.contents("b") != "v2 v2" || s.status().CurrentRevision == first {
				t.Errorf("b has %s\n%s", s.contents("b"), s.told())
			}
		})
	}
}
