// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/install"
)

// TestRestart stops the manager in mid-canary.
func TestRestart(t *testing.T) {
	t.Parallel()
	e := NewPlaneOf(t).NewEnv(t)
	var all []*Workload
	for _, p := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		w := e.Create(NewDraft("web-"+map[appsv1.PodManagementPolicyType]string{
			appsv1.OrderedReadyPodManagement: "ordered", appsv1.ParallelPodManagement: "parallel",
		}[p], Replicas(9), Policy(p), Zones("3", "4", ""), Hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 2})
		w.Settle()
		w.SetPartitions(Parts{"zone-a": nil})
		w.Settle()
		all = append(all, w)
	}
	canary := Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}
	line := e.History.Forbid(Protect("zone-a", Everything, "v2"), Protect("zone-b", 2, "v1"), Protect("zone-c", Everything, "v1"))

	e.Step("at rest a new manager writes nothing", func() {
		mark := e.AuditMark()
		e.RestartManager(func() {})
		for _, w := range all {
			ExpectRest(w, "zone-a", "zone-b", "zone-c")
		}
		e.Expect(e.Writes(mark)).To(HaveLen(2*len(all)), "those of expectRest")
	})

	e.Step("kubectl wait does not return because of an earlier status", func() { // docs/ci.md
		wait := func(condition string) error {
			_, err := e.Cluster.Kubectl(e.Ctx, "-n", e.Namespace, "wait", "--for=condition="+condition, "united/"+all[0].Name, "--timeout=3s")
			return err
		}
		held := func() {
			e.Expect(wait("Ready")).To(Succeed())
			e.Expect(wait("Complete")).To(MatchError(ContainSubstring("timed out")))
			e.Expect(wait("Stalled")).To(MatchError(ContainSubstring("timed out")))
		}
		held()
		e.RestartManager(func() {
			all[0].Disturbed()
			all[0].Patch(`{"spec":{"minReadySeconds":1}}`)
			e.Expect(wait("Ready")).To(MatchError(ContainSubstring("timed out")), "the status is of an earlier spec")
		})
		all[0].Settle()
		held()
		all[0].Patch(`{"spec":{"minReadySeconds":0}}`)
		all[0].Settle()
	})

	e.Step("what happened meanwhile is put right", func() {
		e.RestartManager(func() {
			for _, w := range all {
				w.Disturbed()
				w.Expect(w.Delete(w.Ctx, w.Child("zone-b"), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
				w.Expect(w.Delete(w.Ctx, w.Child("zone-a"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
				w.Expect(w.Delete(w.Ctx, w.Child("zone-c"), client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
				w.Scale(0)
				w.SetImage("v3")
				w.SetImage("v2")
				w.Scale(9)
			}
		})
		for _, w := range all {
			w.Settle()
			e.Expect(w.Images()).To(Equal(canary))
		}
		line.Holds()
	})

	e.Step("killed in the middle of its work", func() {
		for range 2 {
			for _, w := range all {
				w.DeleteChild("zone-b", metav1.DeletePropagationBackground) // the child is seeded now
			}
			killManager(e)
			for _, w := range all {
				w.Settle()
				e.Expect(w.Images()).To(Equal(canary))
			}
			line.Holds()
		}
	})

	for _, w := range all {
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2 v2", "zone-c": "v2 v2"}))
	}
	line.Fires()
}

// killManager kills the manager and starts another, which waits for the Lease.
func killManager(e *Env, args ...string) *install.Deployed {
	e.T.Helper()
	e.Expect(e.Manager.Kill()).To(Succeed())
	return e.StartManager(args...)
}
