// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/simulation"
)

// A StatefulSet of Kubernetes 1.37 with Parallel replaces at once all released replicas that are not available, also ready ones:
// under Manual an undo, or a release, that raises minReadySeconds too would leave a subset without a ready replica.
func TestReadyReplicasGoInTurn(t *testing.T) {
	zero := intstr.FromInt32(0)
	for name, change := range map[string]struct {
		before, with func(*v1alpha1.UnitedDeploymentSpec)
		least        int
		want         string
	}{
		"an undo": {
			func(spec *v1alpha1.UnitedDeploymentSpec) { simulation.SetPartition(spec, "a", zero) },
			func(spec *v1alpha1.UnitedDeploymentSpec) {
				spec.MinReadySeconds = 600
				spec.Template = simulation.TemplateOf("v1", "Parallel")
			}, 2, "v1 v1 v1",
		},
		"a release": {
			func(*v1alpha1.UnitedDeploymentSpec) {},
			func(spec *v1alpha1.UnitedDeploymentSpec) {
				spec.MinReadySeconds = 600
				simulation.SetPartition(spec, "a", zero)
			}, 2, "v2 v2 v2",
		},
		"maxUnavailable of the template": {
			func(*v1alpha1.UnitedDeploymentSpec) {},
			func(spec *v1alpha1.UnitedDeploymentSpec) {
				raw := string(simulation.TemplateOf("v2", "Parallel").StatefulSetTemplate.Raw)
				spec.Template.StatefulSetTemplate.Raw = []byte(strings.Replace(raw, `"podManagementPolicy"`,
					`"minReadySeconds":600,"updateStrategy":{"rollingUpdate":{"maxUnavailable":"67%"}},"podManagementPolicy"`, 1))
				simulation.SetPartition(spec, "a", zero)
			}, 1, "v2 v2 v2",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).replicas(6).settled()
			s.Edit("before", change.before)
			s.image("v2").settled().Edit("with", change.with)
			least, at := 3, s.Clock.Now()
			for range 300 {
				s.pass().moves("a")
				ready := 0
				for _, p := range s.API.Live.Pods {
					if strings.HasPrefix(p.Name, "web-a-") && simulation.IsReady(p) {
						ready++
					}
				}
				least = min(least, ready)
				s.kubelets("a-0", "a-1", "a-2")
				if s.later(10*time.Second).contents("a") == change.want {
					break
				}
			}
			if got := s.contents("a"); least != change.least || got != change.want {
				t.Errorf("%d of 3 are ready at least, want %d; %s after %v\n%s", least, change.least, got, s.Clock.Now().Sub(at), s.told())
			}
			if s.settled().contents("a") != change.want {
				t.Error(s.told())
			}
		})
	}
}
