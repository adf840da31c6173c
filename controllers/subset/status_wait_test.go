// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/adapters"
)

func TestShouldWaitForStatus(t *testing.T) {
	release := Step{Action: ActionApply, Child: adapters.Child{Replicas: 4, Partition: 2, Revision: "r1"}}
	changed := func(at time.Time) *childBuilder {
		b := aChild().partition(3)
		b.StatusOutdated = true
		b.Pods = []adapters.Replica{{Created: epoch().Add(-time.Hour), Since: epoch().Add(-time.Hour)}, {ReadySince: at}}
		return b
	}
	just := func() *childBuilder { return changed(epoch().Add(-time.Second)) }
	step := func(change func(*Step)) Step { s := release; change(&s); return s }
	told := just()
	told.StatusOutdated = false
	for name, c := range map[string]struct {
		step  Step
		child *adapters.Observed
		want  bool
	}{
		"a release while a replica has just changed": {release, &just().Observed, true},
		"by a clock that is a little ahead":          {release, &changed(epoch().Add(time.Second)).Observed, true},
		"the status tells of it already":             {release, &told.Observed, false},
		"the status has had its time":                {release, &changed(epoch().Add(-statusWriteDelay)).Observed, false},
		"by a clock that is far ahead":               {release, &changed(epoch().Add(time.Hour)).Observed, false},
		"a partition that rises is urgent":           {step(func(s *Step) { s.Child.Partition = 4 }), &just().Observed, false},
		"nothing changes":                            {step(func(s *Step) { s.Child.Partition = 3 }), &just().Observed, false},
		"it is scaled along":                         {step(func(s *Step) { s.Child.Replicas = 5 }), &just().Observed, false},
		"it is staged along":                         {step(func(s *Step) { s.Child.Revision = "r2" }), &just().Observed, false},
		"it is seeded":                               {step(func(s *Step) { s.Action = ActionSeed }), &just().Observed, false},
		"there is no child":                          {release, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			NewWithT(t).Expect(ShouldWaitForStatus(c.step, c.child, epoch())).To(Equal(c.want))
		})
	}
}
