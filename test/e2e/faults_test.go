// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
)

// TestFaults lets things go wrong around the managers, and in them, while a
// canary is under way. Whatever goes wrong: no protected ordinal is ever created
// on, or moved to, another revision, and the end is that of a run in which
// nothing goes wrong.
//
// Each test has two managers of its own (managerPair). The shared one, which would work
// in their namespaces too, rests meanwhile, and so do the other tests.
func TestFaults(t *testing.T) {
	e := newEnv(t)
	e.Expect(shared.manager.Stop()).To(Succeed())
	t.Run("beside each other", func(t *testing.T) {
		t.Run("killed at a point", killedAtAPoint)
		t.Run("killed at random", killedAtRandom)
		t.Run("bad server", badServer)
		t.Run("stale leader", staleLeader)
	})
	t.Run("API server killed", apiServerKilled)
	e.startManager()
}

// withManagerPair runs a test with both pod management policies, beside others.
func withManagerPair(t *testing.T, run func(k *managerPair, p appsv1.PodManagementPolicyType, want []end)) {
	t.Helper()
	for _, p := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			want := endsUndisturbed(t, p)
			run(newManagerPair(t), p, want)
		})
	}
}
