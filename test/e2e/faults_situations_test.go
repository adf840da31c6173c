// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// situation is a part of the scenario in which all faults happen.
type situation struct {
	name string
	do   func(w *Workload)
	// runs are the images that run in the end.
	runs images
}

// situations of a canary: zone-a has finished v2 and is held on it, zone-b protects v1 below 2, zone-c
// is held on v1. All except the first and the last move no protected ordinal, and three of them make
// the controller seed children.
var situations = []situation{
	{"a canary", func(w *Workload) {
		w.SetImage("v2")
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 2})
	}, images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}},
	{"a finished zone is held", func(w *Workload) {
		w.SetPartitions(parts{"zone-a": nil})
	}, images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}},
	{"a deleted child", deleteZoneB, images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}},
	{"a new subset", func(w *Workload) {
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-d","replicas":2}},{"op":"replace","path":"/spec/replicas","value":11}]`)
	}, images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1", "zone-d": "v1 v1"}},
	{"no replicas", func(w *Workload) { w.Scale(0) }, images{}},
	{"back from 0", func(w *Workload) {
		w.Scale(11)
	}, images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1", "zone-d": "v1 v1"}},
	{"another image", func(w *Workload) {
		w.SetImage("v3")
	}, images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v3 v3", "zone-c": "v1 v1", "zone-d": "v1 v1"}},
	{"the end", func(w *Workload) {
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 0, "zone-c": 0, "zone-d": 0})
	}, images{"zone-a": "v3 v3 v3", "zone-b": "v3 v3 v3 v3", "zone-c": "v3 v3", "zone-d": "v3 v3"}},
}

func deleteZoneB(w *Workload) {
	w.Disturbed()
	w.Expect(w.Delete(w.ctx, w.Child("zone-b"), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
}

// canary creates the workload of the scenario.
func (k *managerPair) canary(p appsv1.PodManagementPolicyType) *Workload {
	k.t.Helper()
	w := k.Create(draft("web", replicas(9), policy(p), zones("3", "4", ""), hold()))
	w.Settle()
	return w
}

// playScenario brings the workload through all situations. disturb prepares the fault of a situation,
// and returns a function that waits for the fault before the end is checked. The ends must equal those
// of an undisturbed run.
func playScenario(w *Workload, want []end, disturb func(s situation) func()) {
	w.t.Helper()
	eachSituation(w, disturb, func(i int) {
		w.Eventually(func() string { return cmp.Diff(want[i], w.end()) }).Should(BeEmpty(), "the end of: %s", situations[i].name)
	})
}

func eachSituation(w *Workload, disturb func(s situation) func(), look func(i int)) {
	w.t.Helper()
	protected := w.History.Forbid(protect("zone-b", 2, "v1"), protect("zone-c", everything, "v1"), protect("zone-d", everything, "v1"))
	var finished *Ban
	for i, s := range situations {
		last := i == len(situations)-1
		if last {
			protected.Holds()
			finished.Holds()
		}
		happened := disturb(s)
		s.do(w)
		happened()
		w.Settle()
		w.Expect(w.Images()).To(Equal(s.runs), s.name)
		look(i)
		if i == 0 {
			finished = w.History.Forbid(protect("zone-a", everything, "v2"))
		}
		if !last {
			protected.Holds()
			finished.Holds()
		}
	}
	protected.Fires()
	finished.Fires()
}

// end is the final state of a workload, without values that differ between two equivalent runs, such as
// times and UIDs.
type end struct {
	Children map[string]childEnd
	Status   v1alpha1.UnitedDeploymentStatus
}

type childEnd struct {
	Replicas, Partition int32
	Image               string
	Revision            string
	Current, Update     string // its own revisions
}

func (w *Workload) end() end {
	w.t.Helper()
	parent := w.Parent()
	e := end{Children: map[string]childEnd{}, Status: parent.Status}
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
			Image:    tagOf(child.Spec.Template.Spec.Containers[0].Image),
			Revision: child.Annotations[v1alpha1.AnnotationRevision],
			Current:  child.Status.CurrentRevision, Update: child.Status.UpdateRevision,
		}
	}
	return e
}

// endAtRest returns the end after the StatefulSets have reported all of their pods, and nothing has
// changed for half a second. After Ready=True only these reports, and the manager's reaction to them,
// can still follow.
func (w *Workload) endAtRest() end {
	w.t.Helper()
	last, quiet := end{}, 0
	w.Eventually(func(g Gomega) {
		quiet++
		if now := w.end(); cmp.Diff(last, now) != "" {
			last, quiet = now, 0
		}
		why := w.notObserved() + notSettledInStatus(w.Parent())
		if why != "" {
			quiet = 0
		}
		g.Expect(why).To(BeEmpty())
		g.Expect(quiet).To(BeNumerically(">=", 5))
	}).Should(Succeed())
	return last
}

// undisturbed are the ends of an undisturbed run.
var undisturbed = struct {
	sync.Mutex
	ends map[appsv1.PodManagementPolicyType][]end
}{ends: map[appsv1.PodManagementPolicyType][]end{}}

// endsUndisturbed runs the scenario once for each policy, on the first call.
func (c *plane) endsUndisturbed(t *testing.T, p appsv1.PodManagementPolicyType) []end {
	t.Helper()
	undisturbed.Lock()
	defer undisturbed.Unlock()
	if _, tried := undisturbed.ends[p]; !tried {
		undisturbed.ends[p] = nil
		t.Run("undisturbed", func(t *testing.T) {
			w := c.newManagerPair(t).canary(p)
			var ends []end
			eachSituation(w, wellBehaved, func(int) { ends = append(ends, w.endAtRest()) })
			undisturbed.ends[p] = ends
		})
	}
	if undisturbed.ends[p] == nil {
		t.Fatal("the undisturbed run failed")
	}
	return undisturbed.ends[p]
}

// wellBehaved disturbs nothing.
func wellBehaved(situation) func() { return func() {} }
