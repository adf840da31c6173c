// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// Settle waits until the manager reports that the cluster matches the spec (Ready=True for this
// generation), and checks that it does: every controller has observed its child, every replica exists
// and is ready, and every released replica runs the child's template.
//
// After a change of the spec alone, a premature Ready=True is an error, and fails the test. After a
// change of pods or children (DeletePod and similar, or Disturbed), the status may be older than the
// change.
func (w *Workload) Settle() {
	w.t.Helper()
	unobserved := map[string]time.Time{}
	w.Eventually(func(g Gomega) {
		w.wakeBackedOff(g, unobserved)
		parent := &v1alpha1.UnitedDeployment{}
		g.Expect(w.Get(w.ctx, w.key(w.Name), parent)).To(Succeed())
		g.Expect(fixtures.WhyNotReady(parent)).To(BeEmpty())
		if w.disturbed {
			g.Expect(w.unsettled(g, parent)).To(BeEmpty())
			return
		}
		w.Expect(w.unsettled(w, parent)).To(BeEmpty(), "the status says Ready=True, but:")
	}).WithTimeout(rolloutTimeout).Should(Succeed())
	w.disturbed = false
}

// Disturbed informs Settle that a test changed pods or children.
func (w *Workload) Disturbed() { w.disturbed = true }

// unsettled describes how the cluster differs from the spec and the children; it reads everything from
// the API server.
func (w *Workload) unsettled(g Gomega, parent *v1alpha1.UnitedDeployment) string {
	list := &appsv1.StatefulSetList{}
	g.Expect(w.List(w.ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
	sets := map[string]*appsv1.StatefulSet{}
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], parent) {
			sets[list.Items[i].Name] = &list.Items[i]
		}
	}
	pods := map[string][]pod{}
	for _, p := range w.Pods() {
		pods[p.Subset] = append(pods[p.Subset], p)
	}
	total := int32(0)
	for _, s := range parent.Spec.Topology.Subsets {
		name := adapters.ChildName(w.Name, s.Name)
		set := sets[name]
		if set == nil {
			return name + " does not exist"
		}
		if why := unsettledChild(set, pods[s.Name], parent.Spec.Paused); why != "" {
			return why
		}
		total += ptr.Deref(set.Spec.Replicas, 1)
	}
	switch {
	case len(sets) != len(parent.Spec.Topology.Subsets):
		return fmt.Sprintf("%d children, %d subsets", len(sets), len(parent.Spec.Topology.Subsets))
	case len(sets) > 0 && total != ptr.Deref(parent.Spec.Replicas, 1):
		return fmt.Sprintf("the children have %d replicas together, the parent %d", total, ptr.Deref(parent.Spec.Replicas, 1))
	}
	return ""
}

func unsettledChild(set *appsv1.StatefulSet, pods []pod, paused bool) string {
	first, partition := 0, 0
	if set.Spec.Ordinals != nil {
		first = int(set.Spec.Ordinals.Start)
	}
	if rolling := set.Spec.UpdateStrategy.RollingUpdate; rolling != nil {
		partition = int(ptr.Deref(rolling.Partition, 0))
	}
	switch {
	case set.Status.ObservedGeneration != set.Generation:
		return set.Name + " has not been observed"
	case len(pods) != int(ptr.Deref(set.Spec.Replicas, 1)):
		return fmt.Sprintf("%s has %d of %d replicas", set.Name, len(pods), ptr.Deref(set.Spec.Replicas, 1))
	}
	for i, p := range pods {
		switch {
		case p.Ordinal != first+i:
			return fmt.Sprintf("%s has no replica %d", set.Name, first+i)
		case !p.Ready || p.Terminating:
			return p.Name + " is not ready"
		case i >= partition && p.Hash != set.Status.UpdateRevision && !paused:
			return p.Name + " is released and has not moved"
		}
	}
	return ""
}

// AwaitObserved waits until the StatefulSets of all subsets have reported the state of all of their
// pods. They do that a moment after the fact, and the manager's Ready=True does not wait for it.
func (w *Workload) AwaitObserved() {
	w.t.Helper()
	w.Eventually(func(g Gomega) { g.Expect(w.notObserved()).To(BeEmpty()) }).Should(Succeed())
}

// notObserved describes what a StatefulSet has not reported about its pods yet.
func (w *Workload) notObserved() string {
	w.t.Helper()
	pods := map[string][]pod{}
	for _, p := range w.Pods() {
		pods[p.Subset] = append(pods[p.Subset], p)
	}
	for _, s := range w.Parent().Spec.Topology.Subsets {
		if why := notObservedChild(w.Child(s.Name), pods[s.Name]); why != "" {
			return why
		}
	}
	return ""
}

// notSettledInStatus returns a subset whose replicas are all ready on the update revision, but whose
// StatefulSet has not settled on it yet according to the status.
func notSettledInStatus(parent *v1alpha1.UnitedDeployment) string {
	for _, s := range parent.Status.Subsets {
		if s.DesiredReplicas > 0 && s.UpdatedReadyReplicas == s.DesiredReplicas && s.CurrentRevision != s.UpdateRevision {
			return s.Name + " is complete and still protects " + s.CurrentRevision
		}
	}
	return ""
}

func notObservedChild(set *appsv1.StatefulSet, pods []pod) string {
	told, wanted := set.Status, ptr.Deref(set.Spec.Replicas, 1)
	is := appsv1.StatefulSetStatus{Replicas: int32(len(pods))}
	for _, p := range pods {
		if p.Ready && p.Running {
			is.ReadyReplicas++
		}
		if p.Hash == told.UpdateRevision && !p.Terminating {
			is.UpdatedReplicas++
		}
		if p.Hash == told.CurrentRevision && !p.Terminating {
			is.CurrentReplicas++
		}
	}
	finished := is.Replicas == wanted && is.ReadyReplicas == wanted && is.UpdatedReplicas == wanted
	switch {
	case told.ObservedGeneration != set.Generation:
		return set.Name + " has not been observed"
	case told.Replicas != is.Replicas, told.ReadyReplicas != is.ReadyReplicas,
		told.UpdatedReplicas != is.UpdatedReplicas, told.CurrentReplicas != is.CurrentReplicas,
		set.Spec.MinReadySeconds == 0 && told.AvailableReplicas != is.ReadyReplicas:
		return fmt.Sprintf("the status of %s is %s, its pods are %s", set.Name, asJSON(told), asJSON(is))
	case finished && told.CurrentRevision != told.UpdateRevision:
		return set.Name + " has not settled on its update revision"
	}
	return ""
}

func asJSON(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("as JSON: %v", err))
	}
	return string(raw)
}
