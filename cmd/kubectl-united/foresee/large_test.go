// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"fmt"
	"strings"
	"testing"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// A plan of 100 subsets with 100 replicas each, one at a time, has an end, and takes seconds.
func TestLarge(t *testing.T) {
	const sts = "statefulSetTemplate"
	w := after(t, started(t, sts, 2), func(s *v1alpha1.UnitedDeploymentSpec) {
		s.Topology.Subsets = nil
		for i := range 100 {
			s.Topology.Subsets = append(s.Topology.Subsets, v1alpha1.Subset{Name: fmt.Sprintf("s%02d", i)})
		}
		replicas(10000)(s)
	})
	p, err := Of(changed(t, after(t, w, rolling(`{maxUnavailable: 1}`)), image(sts, "v2")), Options{CountsUnavailable: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if n := p.Waves[i].Changes[0].Count; len(p.Waves[i].Changes) != 1 || n != 1 {
			t.Errorf("wave %d: %+v", i, p.Waves[i])
		}
	}
	for _, s := range p.Subsets {
		if len(s.Restarts) != 1 || s.Restarts[0].Count != 100 {
			t.Errorf("%s: %+v", s.Name, s.Restarts)
		}
	}
	if p.End.State != Complete || !strings.HasPrefix(p.Assumed[0], "after 100 waves") {
		t.Errorf("%+v %v", p.End, p.Assumed)
	}
}
