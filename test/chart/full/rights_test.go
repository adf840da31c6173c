// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"errors"
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	. "github.com/unitedworkloads/united/test/chart/env"
	"github.com/unitedworkloads/united/test/install"
)

// TestEveryRightIsNeeded removes every verb on every resource in turn, runs the manager in a separate
// namespace through the scenario, and checks that the API server refuses exactly that. Two runs with
// all rights are the control: nothing is refused, and every right is used.
func TestEveryRightIsNeeded(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.NeedCRD()
	e.Expect(errors.Join(Shared.Cluster.StartKruise(e.Ctx), Shared.Cluster.StartLWS(e.Ctx))).To(Succeed())
	audit := StartAudit(t)
	all := RightsOf(e.Render(RightsPrefix + "none"))
	e.Expect(len(all)).To(BeNumerically(">", 20), "%v", all)
	for _, r := range all {
		e.Expect(r.Verb+r.Group+r.Resource).NotTo(Or(ContainSubstring("*"), ContainSubstring("secrets"), ContainSubstring("exec")), r.String())
	}

	for i, env := range []string{"", ClassicInformers} {
		t.Run("complete "+env, func(t *testing.T) {
			t.Parallel()
			s := NewScenario(t, audit, foreignKinds(), fmt.Sprintf("%scomplete-%d", RightsPrefix, i), nil, env)
			s.LeaveChildren(s.Namespace)
			s.Expect(s.Run()).To(Succeed())
			s.Stop()
			if unused := s.Unused(all); env != "" {
				s.Expect(unused).To(BeEmpty(), "rights that the scenario does not use")
			}
		})
	}
	for i, r := range all {
		t.Run("without "+r.String(), func(t *testing.T) {
			t.Parallel()
			env := ""
			if r.Verb == "list" {
				env = ClassicInformers
			}
			s := NewScenario(t, audit, foreignKinds(), fmt.Sprintf("%s%d", RightsPrefix, i), &all[i], env)
			s.Expect(s.Run()).To(MatchError(ErrRefused))
			events, err := audit.Of(s.Namespace, install.ServiceAccount)
			s.Expect(err).NotTo(HaveOccurred())
			for _, event := range Refusals(events) {
				s.Expect(r.RefusedBy(event)).To(BeTrue(), "refused for another reason: %s: %s", event, event.Message)
			}
		})
	}
}
