// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// End is the final state of a workload, without values that differ between two equivalent runs, such as
// times and UIDs.
type End struct {
	Children map[string]childEnd
	Status   v1alpha1.UnitedDeploymentStatus
}

type childEnd struct {
	Replicas, Partition int32
	Image               string
	Revision            string
	Current, Update     string // its own revisions
}

func (w *Workload) End() End {
	w.T.Helper()
	parent := w.Parent()
	e := End{Children: map[string]childEnd{}, Status: parent.Status}
	for i := range e.Status.Conditions {
		e.Status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	e.Status.LastProgressTime = nil
	for i := range e.Status.Subsets {
		e.Status.Subsets[i].ChildRecord = nil // the test compares the children themselves
	}
	for _, s := range parent.Spec.Topology.Subsets {
		child := w.Child(s.Name)
		e.Children[s.Name] = childEnd{
			Replicas: ptr.Deref(child.Spec.Replicas, 1), Partition: ptr.Deref(child.Spec.UpdateStrategy.RollingUpdate.Partition, 0),
			Image:    TagOf(child.Spec.Template.Spec.Containers[0].Image),
			Revision: child.Annotations[v1alpha1.AnnotationRevision],
			Current:  child.Status.CurrentRevision, Update: child.Status.UpdateRevision,
		}
	}
	return e
}

// EndAtRest returns the end after the StatefulSets have reported all of their pods, and nothing has
// changed for half a second. After Ready=True only these reports, and the manager's reaction to them,
// can still follow.
func (w *Workload) EndAtRest() End {
	w.T.Helper()
	last, quiet := End{}, 0
	w.Eventually(func(g Gomega) {
		quiet++
		if now := w.End(); cmp.Diff(last, now) != "" {
			last, quiet = now, 0
		}
		why := w.notObserved() + NotSettledInStatus(w.Parent())
		if why != "" {
			quiet = 0
		}
		g.Expect(why).To(BeEmpty())
		g.Expect(quiet).To(BeNumerically(">=", 5))
	}).Should(Succeed())
	return last
}
