// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
)

// killedAtAPoint kills the leading manager with SIGKILL at chosen points of its work. The other manager
// takes over, and a new one is started in place of the killed one.
func killedAtAPoint(t *testing.T, c *plane) {
	t.Parallel()
	for _, run := range []struct {
		seeding  point // in the situations in which it seeds
		revising point // in those with a new revision
		other    point
	}{
		{seeding: seedWritten, revising: revisionWritten, other: childBeforeStatus},
		{seeding: seedBeforeRelease, revising: revisionBeforeChild, other: childBeforeStatus},
		{seeding: childBeforeStatus, revising: childBeforeStatus, other: childBeforeStatus},
	} {
		at := map[string]point{
			"a canary": run.revising, "a finished zone is held": run.other, "a deleted child": run.seeding,
			"a new subset": run.seeding, "no replicas": run.other, "back from 0": run.seeding, "another image": run.revising, "the end": run.other,
		}
		t.Run(run.seeding.name, func(t *testing.T) {
			t.Parallel()
			c.withManagerPair(t, func(k *managerPair, p appsv1.PodManagementPolicyType, want []end) {
				w := k.canary(p)
				playScenario(w, want, func(s situation) func() {
					point := k.KillAt(at[s.name])
					return func() { point.AwaitActed(k.env) }
				})
				k.Expect(k.Kills()).To(Equal(len(situations)))
			})
		})
	}
}
