// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
)

// apiServerKilled kills kube-apiserver with SIGKILL, and restarts it, while a manager is between two
// writes. No other test may use the control plane meanwhile.
func apiServerKilled(t *testing.T, c *plane) {
	const p = appsv1.OrderedReadyPodManagement
	want := c.endsUndisturbed(t, p)
	k := c.newManagerPair(t)
	w := k.canary(p)
	at := map[string]point{
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
		point := k.ActAt(p, func(*call) {
			close(reached)
			select {
			case <-restarted:
			case <-k.ctx.Done():
			}
		})
		return func() {
			k.Eventually(reached).Should(BeClosed(), "nobody came to the point: %s", p.name)
			k.restartAPIServer()
			restarts++
			close(restarted)
			point.AwaitActed(k.env)
		}
	})
	k.Expect(restarts).To(Equal(len(at)))
}
