// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestFaults checks that a canary survives faults around the managers, and in them. Whatever goes
// wrong: no protected ordinal is ever created on another revision, or moved to one, and the end equals
// that of an undisturbed run.
//
// Each test has two managers of its own (managerPair). The manager of the control plane, which would work
// in their namespaces too, is stopped in the meantime.
func TestFaults(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	e.Expect(e.Manager.Stop()).To(Succeed())
	// It comes first: those that run in parallel wait for all other tests to start, and would leave it for a time when
	// nothing else runs.
	t.Run("API server killed", func(t *testing.T) { apiServerKilled(t, e.Plane) })
	t.Run("beside each other", func(t *testing.T) {
		t.Run("killed at a point", func(t *testing.T) { killedAtAPoint(t, e.Plane) })
		t.Run("killed at random", func(t *testing.T) { killedAtRandom(t, e.Plane) })
		t.Run("relocated", func(t *testing.T) { relocated(t, e.Plane) })
		t.Run("bad server", func(t *testing.T) { badServer(t, e.Plane) })
		t.Run("stale leader", func(t *testing.T) { staleLeader(t, e.Plane) })
	})
	e.StartManager()
}

// withManagerPair runs a test with both pod management policies, in parallel with others.
func withManagerPair(c *Plane, t *testing.T, run func(k *ManagerPair, p appsv1.PodManagementPolicyType, want []End)) {
	t.Helper()
	for _, p := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		t.Run(string(p), func(t *testing.T) {
			t.Parallel()
			want := endsUndisturbed(c, t, p)
			run(c.NewManagerPair(t), p, want)
		})
	}
}
