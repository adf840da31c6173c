// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/test/install"
)

// TestRestart stops the manager in mid-canary.
func TestRestart(t *testing.T) {
	t.Parallel()
	e := newPlaneOf(t).newEnv(t)
	var all []*Workload
	for _, p := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
		w := e.Create(draft("web-"+map[appsv1.PodManagementPolicyType]string{
			appsv1.OrderedReadyPodManagement: "ordered", appsv1.ParallelPodManagement: "parallel",
		}[p], replicas(9), policy(p), zones("3", "4", ""), hold()))
		w.Settle()
		w.SetImage("v2")
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 2})
		w.Settle()
		w.SetPartitions(parts{"zone-a": nil})
		w.Settle()
		all = append(all, w)
	}
	canary := images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}
	line := e.History.Forbid(protect("zone-a", everything, "v2"), protect("zone-b", 2, "v1"), protect("zone-c", everything, "v1"))

	e.Step("at rest a new manager writes nothing", func() {
		mark := e.AuditMark()
		e.restartManager(func() {})
		for _, w := range all {
			expectRest(w, "zone-a", "zone-b", "zone-c")
		}
		e.Expect(e.Writes(mark)).To(HaveLen(2*len(all)), "those of expectRest")
	})

	e.Step("what happened meanwhile is put right", func() {
		e.restartManager(func() {
			for _, w := range all {
				w.Disturbed()
				w.Expect(w.Delete(w.ctx, w.Child("zone-b"), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
				w.Expect(w.Delete(w.ctx, w.Child("zone-a"), client.PropagationPolicy(metav1.DeletePropagationOrphan))).To(Succeed())
				w.Expect(w.Delete(w.ctx, w.Child("zone-c"), client.PropagationPolicy(metav1.DeletePropagationForeground))).To(Succeed())
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
			e.killManager()
			for _, w := range all {
				w.Settle()
				e.Expect(w.Images()).To(Equal(canary))
			}
			line.Holds()
		}
	})

	for _, w := range all {
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
		w.Settle()
		e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2 v2", "zone-c": "v2 v2"}))
	}
	line.Fires()
}

// restartManager stops the manager gracefully, calls meanwhile, and starts another one. It adds args to
// those of the chart.
func (e *env) restartManager(meanwhile func(), args ...string) *install.Deployed {
	e.t.Helper()
	e.Expect(e.manager.Stop()).To(Succeed())
	meanwhile()
	return e.startManager(args...)
}

// killManager kills the manager and starts another, which waits for the Lease.
func (e *env) killManager(args ...string) *install.Deployed {
	e.t.Helper()
	e.Expect(e.manager.Kill()).To(Succeed())
	return e.startManager(args...)
}

func (e *env) startManager(args ...string) *install.Deployed {
	e.t.Helper()
	began := time.Now()
	d, err := install.FromChart(e.ctx, e.cluster, install.Namespace, install.Deployment)
	e.Expect(err).NotTo(HaveOccurred())
	d.Args = append(d.Args, args...)
	e.manager, err = d.Start(e.ctx, e.cluster, "united-manager")
	e.Expect(err).NotTo(HaveOccurred())
	e.t.Logf("a manager works after %s", time.Since(began).Round(time.Millisecond))
	return d
}
