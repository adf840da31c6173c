// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"os"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/install"
)

// TestLeader checks which manager leads: the process of these tests, run with the chart's arguments,
// not the simulated pods of the chart's Deployment, which are Ready all the same.
func TestLeader(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	// Trap: if another test restarted the API server while a pod was unready, kwok does not make the
	// pod ready again.
	e.Expect(e.DeleteAllOf(e.Ctx, &corev1.Pod{}, client.InNamespace(install.Namespace))).To(Succeed())
	deployment, pods := &appsv1.Deployment{}, &corev1.PodList{}
	e.Eventually(func(g Gomega) {
		g.Expect(e.List(e.Ctx, pods, client.InNamespace(install.Namespace))).To(Succeed())
		g.Expect(pods.Items).To(HaveLen(2))
		g.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: install.Namespace, Name: install.Deployment}, deployment)).To(Succeed())
		g.Expect(deployment.Status.ReadyReplicas).To(BeEquivalentTo(2))
	}).Should(Succeed())
	e.Expect(deployment.Spec.Template.Spec.ServiceAccountName).To(Equal(install.ServiceAccount))

	e.Expect(e.Manager.Leads()).To(BeTrue())
	lease := &coordinationv1.Lease{}
	e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: install.Namespace, Name: install.Lease}, lease)).To(Succeed())
	e.Expect(lease.Spec.HolderIdentity).To(HaveValue(Equal(e.Manager.Identity)))
	host, err := os.Hostname()
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(e.Manager.Identity).To(HavePrefix(host + "_"))
	for _, p := range pods.Items {
		e.Expect(e.Manager.Identity).NotTo(HavePrefix(p.Name))
	}
	e.Expect(deployment.Spec.Template.Spec.Containers[0].Args).To(ContainElement("--leader-election-lease-duration=15s"))
	e.Expect(lease.Spec.LeaseDurationSeconds).To(HaveValue(BeEquivalentTo(15)), "an argument of the chart's Deployment")
}
