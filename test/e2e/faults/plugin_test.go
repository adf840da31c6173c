// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"sync"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestPluginWithoutManager asks the plugin while no manager runs: it never takes an earlier status for an answer.
func TestPluginWithoutManager(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	rest := e.Create(NewDraft("rest", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	changed := e.Create(NewDraft("changed", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), Hold()))
	waiting := e.Create(NewDraft("waiting", Replicas(2), Policy(appsv1.ParallelPodManagement), Zones("", ""), Rolling(`{steps: [{subsets: [zone-a], partition: "0%", pause: {}}]}`)))
	for _, w := range []*Workload{rest, changed, waiting} {
		w.Settle()
	}
	waiting.SetImage("v2")
	waiting.AwaitApproval(0)
	for _, name := range []string{"rest", "changed", "waiting"} {
		e.Does("wait", name)
	}

	e.RestartManager(func() {
		changed.Disturbed()
		changed.Patch(`{"spec":{"minReadySeconds":1}}`)
		e.Does("approve", "waiting") // the last status still says what to approve
		var wg sync.WaitGroup
		for name, unanswered := range map[string]string{
			"rest": "renewed the Lease united-system/united-manager", "changed": "observed generation 2", "waiting": "observed the annotation united.dev/approved",
		} {
			wg.Go(func() {
				said := e.Plugin("wait", name, "--timeout=2m")
				e.Expect(said.Code).To(Equal(3), "%s: %s%s", name, said.Out, said.Err)
				e.Expect(said.Err).To(ContainSubstring("no manager has "+unanswered+" for 30s: see kubectl get pods -n united-system"), name)
			})
		}
		late := make(chan cluster.Said, 1)
		wg.Go(func() { late <- e.Plugin("wait", "changed", "--timeout=2s") })
		e.Expect(e.Does("status", "changed")).To(ContainSubstring("no manager has seen generation 2 yet"))
		e.Expect(e.Does("why", "changed")).To(And(ContainSubstring("no manager leads"), ContainSubstring("no manager has observed generation 2; the last one is 1")))
		e.Refuses("no manager has seen the last change of changed yet", "release", "changed", "zone-a")
		wg.Wait()
		e.Expect((<-late).Code).To(Equal(2))
	})
	for _, name := range []string{"rest", "changed", "waiting"} {
		e.Does("wait", name)
	}
	e.Does("wait", "waiting", "--for=complete")
}
