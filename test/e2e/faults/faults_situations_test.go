// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// situation is a part of the scenario in which all faults happen.
type situation struct {
	name string
	do   func(w *Workload)
	// runs are the images that run in the end.
	runs Images
}

// situations of a canary: zone-a has finished v2 and is held on it, zone-b protects v1 below 2, zone-c
// is held on v1. All except the first and the last move no protected ordinal, and three of them make
// the controller seed children.
var situations = []situation{
	{"a canary", func(w *Workload) {
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 2})
	}, Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}},
	{"a finished zone is held", func(w *Workload) {
		w.SetPartitions(Parts{"zone-a": nil})
	}, Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}},
	{"a deleted child", deleteZoneB, Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1"}},
	{"a new subset", func(w *Workload) {
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-d","replicas":2}},{"op":"replace","path":"/spec/replicas","value":11}]`)
	}, Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1", "zone-d": "v1 v1"}},
	{"no replicas", func(w *Workload) { w.Scale(0) }, Images{}},
	{"back from 0", func(w *Workload) {
		w.Scale(11)
	}, Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1", "zone-d": "v1 v1"}},
	{"another image", func(w *Workload) {
		w.SetImage("v3")
	}, Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1 v3 v3", "zone-c": "v1 v1", "zone-d": "v1 v1"}},
	{"the end", func(w *Workload) {
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0, "zone-d": 0})
	}, Images{"zone-a": "v3 v3 v3", "zone-b": "v3 v3 v3 v3", "zone-c": "v3 v3", "zone-d": "v3 v3"}},
}

func deleteZoneB(w *Workload) {
	w.Disturbed()
	w.Expect(w.Delete(w.Ctx, w.Child("zone-b"), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
}

// canary creates the workload of the scenario.
func canary(k *ManagerPair, p appsv1.PodManagementPolicyType) *Workload {
	k.T.Helper()
	w := k.Create(NewDraft("web", Replicas(9), Policy(p), Zones("3", "4", ""), Hold()))
	w.Settle()
	return w
}

// playScenario brings the workload through all situations. disturb prepares the fault of a situation,
// and returns a function that waits for the fault before the end is checked. The ends must equal those
// of an undisturbed run.
func playScenario(w *Workload, want []End, disturb func(s situation) func()) {
	w.T.Helper()
	eachSituation(w, disturb, func(i int) {
		w.Eventually(func() string { return cmp.Diff(want[i], w.End()) }).Should(BeEmpty(), "the end of: %s", situations[i].name)
	})
}

func eachSituation(w *Workload, disturb func(s situation) func(), look func(i int)) {
	w.T.Helper()
	protected := w.History.Forbid(Protect("zone-b", 2, "v1"), Protect("zone-c", Everything, "v1"), Protect("zone-d", Everything, "v1"))
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
			finished = w.History.Forbid(Protect("zone-a", Everything, "v2"))
		}
		if !last {
			protected.Holds()
			finished.Holds()
		}
	}
	protected.Fires()
	finished.Fires()
}

// undisturbed are the ends of an undisturbed run.
var undisturbed = struct {
	sync.Mutex
	ends map[appsv1.PodManagementPolicyType][]End
}{ends: map[appsv1.PodManagementPolicyType][]End{}}

// endsUndisturbed runs the scenario once for each policy, on the first call.
func endsUndisturbed(c *Plane, t *testing.T, p appsv1.PodManagementPolicyType) []End {
	t.Helper()
	undisturbed.Lock()
	defer undisturbed.Unlock()
	if _, tried := undisturbed.ends[p]; !tried {
		undisturbed.ends[p] = nil
		t.Run("undisturbed", func(t *testing.T) {
			w := canary(c.NewManagerPair(t), p)
			var ends []End
			eachSituation(w, wellBehaved, func(int) { ends = append(ends, w.EndAtRest()) })
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
