// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// killedAtAPoint kills the leading manager with SIGKILL at chosen points of its work. The other manager
// takes over, and a new one is started in place of the killed one.
func killedAtAPoint(t *testing.T, c *Plane) {
	t.Parallel()
	for _, run := range []struct {
		seeding  Point // in the situations in which it seeds
		revising Point // in those with a new revision
		other    Point
	}{
		{seeding: seedWritten, revising: revisionWritten, other: childBeforeStatus},
		{seeding: seedBeforeRelease, revising: revisionBeforeChild, other: childBeforeStatus},
		{seeding: childBeforeStatus, revising: childBeforeStatus, other: childBeforeStatus},
	} {
		at := map[string]Point{
			"a canary": run.revising, "a finished zone is held": run.other, "a deleted child": run.seeding,
			"a new subset": run.seeding, "no replicas": run.other, "back from 0": run.seeding, "another image": run.revising, "the end": run.other,
		}
		t.Run(run.seeding.Name, func(t *testing.T) {
			t.Parallel()
			withManagerPair(c, t, func(k *ManagerPair, p appsv1.PodManagementPolicyType, want []End) {
				w := canary(k, p)
				playScenario(w, want, func(s situation) func() {
					point := k.KillAt(at[s.name])
					return func() { point.AwaitActed(k.Env) }
				})
				k.Expect(k.Kills()).To(Equal(len(situations)))
			})
		})
	}
}
