// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// apiServerKilled kills kube-apiserver with SIGKILL, and restarts it, while a manager is between two
// writes. No other test may use the control plane meanwhile.
func apiServerKilled(t *testing.T, c *Plane) {
	const p = appsv1.OrderedReadyPodManagement
	want := endsUndisturbed(c, t, p)
	k := c.NewManagerPair(t)
	w := canary(k, p)
	at := map[string]Point{
		"a deleted child": seedBeforeRelease,
		"back from 0":     seedWritten,
		"another image":   revisionBeforeChild,
	}
	restarts := 0
	playScenario(w, want, func(s situation) func() {
		p, wanted := at[s.name]
		if !wanted {
			return func() {}
		}
		reached, restarted := make(chan struct{}), make(chan struct{})
		point := k.ActAt(p, func(*Call) {
			close(reached)
			select {
			case <-restarted:
			case <-k.Ctx.Done():
			}
		})
		return func() {
			k.Eventually(reached).Should(BeClosed(), "nobody came to the point: %s", p.Name)
			restartAPIServer(k.Env)
			restarts++
			close(restarted)
			point.AwaitActed(k.Env)
			w.Disturbed()
			w.Eventually(func() string {
				remindKubelets(w)
				return fixtures.WhyNotReady(w.Parent())
			}).WithTimeout(RolloutTimeout).Should(BeEmpty())
		}
	})
	k.Expect(restarts).To(Equal(len(at)))
}
