// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"

	. "github.com/unitedworkloads/united/test/chart/env"
)

// TestRightsSuffice runs the manager through the scenario of the built-in kinds with the rights of the chart: nothing is
// refused, also while child workloads are left to it and the controllers, and only rights for other kinds are not used.
func TestRightsSuffice(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.NeedCRD()
	audit := StartAudit(t)
	s := NewScenario(t, audit, nil, RightsPrefix+"built-in", nil, ClassicInformers)
	s.LeaveChildren(s.Namespace)
	s.Expect(s.Run()).To(Succeed())
	s.Stop()
	unused := s.Unused(RightsOf(e.Render(RightsPrefix + "none")))
	s.Expect(unused).NotTo(BeEmpty(), "the control: those for other kinds")
	for _, r := range unused {
		s.Expect(r.Group).To(Or(Equal(KruiseGroup), Equal(LWSGroup)), "a right that the scenario does not use: %s", r)
	}
}
