// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"context"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestEverySampleComesUp applies all samples in a cluster that has what the playground has. It is not parallel: its nodes are
// also for the pods of others.
func TestEverySampleComesUp(t *testing.T) {
	for _, kind := range []string{"CloneSet", "LeaderWorkerSet"} {
		KindNamed(kind).Manager(Shared, t)
	}
	e := NewEnv(t)
	e.Rollouts()
	e.Expect(e.Cluster.Furnish(e.Ctx, 3)).To(Succeed())
	t.Cleanup(func() {
		for _, name := range []string{"on-demand-1", "spot-1"} {
			e.Expect(e.Client.Delete(context.WithoutCancel(e.Ctx), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})).To(Succeed())
		}
	})
	files, err := filepath.Glob(filepath.Join(SamplesDir(t), "*.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(len(files)).To(BeNumerically(">", 10))
	t.Run("", func(t *testing.T) {
		for _, file := range files {
			t.Run(filepath.Base(file), func(t *testing.T) {
				t.Parallel()
				e := NewEnv(t)
				e.Kubectl("apply", "-f", file)
				e.Eventually(func(g Gomega) {
					all := &v1alpha1.UnitedDeploymentList{}
					g.Expect(e.Client.List(e.Ctx, all, client.InNamespace(e.Namespace))).To(Succeed())
					g.Expect(all.Items).NotTo(BeEmpty())
					for _, u := range all.Items {
						g.Expect(u.Status.AvailableReplicas).To(Equal(ptr.Deref(u.Spec.Replicas, -1)), u.Status.Summary)
						g.Expect(u.Status.ObservedGeneration).To(Equal(u.Generation))
					}
				}).Should(Succeed())
			})
		}
	})
}
