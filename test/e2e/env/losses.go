// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
	"github.com/unitedworkloads/united/test/install"
)

// Losses collects the deletions of pods, by anyone, that the watch of all pods has seen since a moment.
type Losses struct {
	history History
	parent  string
	from    int
}

// Losses starts to collect deletions.
func (w *Workload) Losses() *Losses {
	w.T.Helper()
	return &Losses{history: w.History, parent: w.Name, from: len(w.History.Events(w.Name))}
}

// Names returns the names of the deleted pods in order, once for each deletion.
func (l *Losses) Names() []string {
	l.history.E.T.Helper()
	names, seen := []string{}, map[types.UID]bool{}
	for _, event := range l.history.Events(l.parent)[l.from:] {
		if (event.Gone || event.Terminating) && !seen[event.UID] {
			seen[event.UID] = true
			names = append(names, event.Name)
		}
	}
	return names
}

// DeletedBy returns the pods that a user deleted since a mark of AuditMark, according to the audit log.
func (e *Env) DeletedBy(since int64, user string) []string {
	e.T.Helper()
	writes, err := e.Cluster.Writes(e.Ctx, since, func(w cluster.Event) bool {
		return w.User == user && w.Namespace == e.Namespace && w.Resource == "pods" && w.Verb == "delete" && w.Code < 300
	})
	e.Expect(err).NotTo(HaveOccurred())
	names := []string{}
	for _, write := range writes {
		names = append(names, write.Name)
	}
	return names
}

// Deleted returns the pods that the manager itself deleted since a mark. Deletions by the StatefulSet
// controller do not count.
func (e *Env) Deleted(since int64) []string {
	e.T.Helper()
	return e.DeletedBy(since, "system:serviceaccount:"+install.Namespace+":"+install.ServiceAccount)
}

// Unreadies marks replicas unready, and waits until the status shows that and the manager has
// reconciled again and has nothing more to do.
func (w *Workload) Unreadies(subset string, ordinals ...int) {
	w.T.Helper()
	before := w.Status(subset).ReadyReplicas
	for _, ordinal := range ordinals {
		w.MarkUnready(subset, ordinal)
	}
	w.Eventually(func() int32 { return w.Status(subset).ReadyReplicas }).
		Should(BeNumerically("<=", before-int32(len(ordinals))))
	ComesToRest(w, subset)
}

// Readies marks the unready replicas that run an image as ready, and waits until the status shows that.
func (w *Workload) Readies(subset, tag string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		ready := int32(0)
		for _, p := range w.Pods() {
			switch {
			case p.Subset != subset || p.Terminating:
			case p.Ready:
				ready++
			case p.Image == tag && p.Running:
				w.MarkReady(subset, p.Ordinal)
			}
		}
		g.Expect(w.Status(subset).ReadyReplicas).To(Equal(ready))
		for _, p := range w.Pods() {
			g.Expect(p.Ready || p.Subset != subset || p.Image != tag).To(BeTrue(), p.Name)
		}
	}).Should(Succeed())
}

// Partition returns the partition of a child.
func (w *Workload) Partition(subset string) int32 {
	w.T.Helper()
	return *w.Child(subset).Spec.UpdateStrategy.RollingUpdate.Partition
}

// Asked returns the sum of spec.replicas over the children of these subsets.
func (w *Workload) Asked(subsets ...string) int32 {
	w.T.Helper()
	sum := int32(0)
	for _, subset := range subsets {
		sum += *w.Child(subset).Spec.Replicas
	}
	return sum
}

// ServerTime returns the time of the API server's clock.
func (e *Env) ServerTime() time.Time {
	e.T.Helper()
	probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, GenerateName: "clock-"}}
	e.Expect(e.Client.Create(e.Ctx, probe, client.DryRunAll)).To(Succeed())
	return probe.CreationTimestamp.Time
}

// AwaitServerTime waits until the clock of the API server is past a time, and calls look repeatedly in
// the meantime.
func (e *Env) AwaitServerTime(until time.Time, look func()) {
	e.T.Helper()
	e.Eventually(func() time.Time {
		look()
		return e.ServerTime()
	}).Should(BeTemporally(">", until))
}

// EmptyFor waits until a parent with 0 replicas has no pods, and the manager is done with it.
func (w *Workload) EmptyFor(current string) {
	w.T.Helper()
	w.Eventually(w.Pods).Should(BeEmpty())
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		g.Expect(fixtures.WhyNotReady(parent)).To(BeEmpty())
		g.Expect(parent.Status.Replicas).To(BeZero())
		g.Expect(parent.Status.CurrentRevision).To(Equal(current), "zero finishes nothing")
	}).Should(Succeed())
}

// CreatedAll checks the images that the pods of each of these replicas of a subset had, in order.
func (w *Workload) CreatedAll(subset, want string, ordinals ...int) {
	w.T.Helper()
	for _, ordinal := range ordinals {
		name := fmt.Sprintf("%s-%s-%d", w.Name, subset, ordinal)
		w.Expect(w.History.CreatedOn(name)).To(Equal(want), name)
	}
}

// StepWrites returns each status.rollout that the manager has written since a mark, and the time at
// which the API server received it.
func (w *Workload) StepWrites(mark int64) (list []v1alpha1.RolloutStatus, at []time.Time) {
	w.T.Helper()
	for _, write := range w.Writes(mark, Statuses) {
		status := StatusOf(w.Env, write)
		if write.Name == w.Name && write.Code < 300 && status.Rollout != nil {
			list, at = append(list, *status.Rollout), append(at, write.Time)
		}
	}
	return list, at
}

// PodIsAnother reports whether a patch with a uid has missed its pod: it is gone, or another pod has the name.
func PodIsAnother(err error) bool {
	return apierrors.IsNotFound(err) || apierrors.IsConflict(err) || apierrors.IsInvalid(err) && strings.Contains(err.Error(), "metadata.uid")
}

// Unavailable returns how many of the replicas that the spec asks for are missing or not ready.
func (w *Workload) Unavailable() int {
	w.T.Helper()
	missing := int(*w.Parent().Spec.Replicas)
	for _, p := range w.Pods() {
		if p.Ready && !p.Terminating {
			missing--
		}
	}
	return missing
}
