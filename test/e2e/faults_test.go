// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
)

// TestFaults checks that a canary survives faults around the managers, and in them. Whatever goes
// wrong: no protected ordinal is ever created on another revision, or moved to one, and the end equals
// that of an undisturbed run.
//
// Each test has two managers of its own (managerPair). The shared manager, which would work in their
// namespaces too, is stopped in the meantime, so the other tests do not run either.
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

// withManagerPair runs a test with both pod management policies, in parallel with others.
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
