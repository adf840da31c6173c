// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestNoRevision changes everything that does not reach pods, with nothing held: any change that
// created a revision would restart pods.
func TestNoRevision(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("1", "50%", "")))
		w.Settle()
		first := w.Parent().Status.UpdateRevision
		restarts := e.History.Forbid(Remade(w.Pods()))
		noRevision := func() {
			e.T.Helper()
			w.Settle()
			restarts.Holds()
			status := w.Parent().Status
			e.Expect(w.Revisions()).To(Equal([]string{first}))
			e.Expect(status.UpdateRevision).To(Equal(first))
			e.Expect(status.CurrentRevision).To(Equal(first))
			e.Expect(status.UpdatedReadyReplicas).To(Equal(*w.Parent().Spec.Replicas))
		}

		for _, change := range []struct {
			name  string
			make  func()
			there func(*appsv1.StatefulSet) bool // in the child of zone-b, when the change has arrived
		}{
			{"replicas up", func() { w.Scale(9) }, func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas > 3 }},
			{"replicas down", func() { w.Scale(6) }, func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas == 3 }},
			{
				"the replicas of a subset",
				func() { w.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets/1/replicas","value":4}]`) },
				func(s *appsv1.StatefulSet) bool { return *s.Spec.Replicas == 4 },
			},
			{
				"the strategy of the parent",
				func() {
					w.Patch(`{"spec":{"updateStrategy":{"type":"Manual","manualUpdate":{"partitions":{"zone-b":2}}}}}`)
				},
				func(s *appsv1.StatefulSet) bool { return *s.Spec.UpdateStrategy.RollingUpdate.Partition == 2 },
			},
			{
				"no strategy again",
				func() {
					w.Patch(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":null,"defaultPartition":0}}}}`)
				},
				func(s *appsv1.StatefulSet) bool { return *s.Spec.UpdateStrategy.RollingUpdate.Partition == 0 },
			},
			{
				"the strategy of the template",
				func() {
					w.JSONPatch(`[{"op":"add","path":"%s/spec/updateStrategy","value":{"type":"RollingUpdate"}},
						{"op":"add","path":"%[1]s/spec/persistentVolumeClaimRetentionPolicy","value":{"whenScaled":"Delete"}},
						{"op":"add","path":"%[1]s/spec/revisionHistoryLimit","value":3}]`, TemplatePath)
				},
				func(s *appsv1.StatefulSet) bool {
					return *s.Spec.RevisionHistoryLimit == 3 &&
						s.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled == appsv1.DeletePersistentVolumeClaimRetentionPolicyType
				},
			},
			{
				"metadata of the child",
				func() {
					w.JSONPatch(`[{"op":"add","path":"%s/metadata/labels/team","value":"shop"},
						{"op":"add","path":"%[1]s/metadata/annotations","value":{"example.com/note":"x"}}]`, TemplatePath)
				},
				func(s *appsv1.StatefulSet) bool {
					return s.Labels["team"] == "shop" && s.Annotations["example.com/note"] == "x"
				},
			},
			{
				"metadata of one child, by its patch",
				func() {
					w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch","value":{"metadata":{"labels":{"team":null,"tier":"b"}}}}]`)
				},
				func(s *appsv1.StatefulSet) bool { return s.Labels["team"] == "" && s.Labels["tier"] == "b" },
			},
			{
				"minReadySeconds of the parent",
				func() { w.Patch(`{"spec":{"minReadySeconds":1}}`) },
				func(s *appsv1.StatefulSet) bool { return s.Spec.MinReadySeconds == 1 },
			},
			{
				"minReadySeconds of the template, which wins",
				func() { w.JSONPatch(`[{"op":"add","path":"%s/spec/minReadySeconds","value":0}]`, TemplatePath) },
				func(s *appsv1.StatefulSet) bool { return s.Spec.MinReadySeconds == 0 },
			},
			{
				"what concerns the controller alone",
				func() { w.Patch(`{"spec":{"revisionHistoryLimit":3,"progressDeadlineSeconds":60}}`) },
				func(*appsv1.StatefulSet) bool { return true },
			},
		} {
			e.Step(change.name, func() {
				change.make()
				noRevision()
				child := w.Child("zone-b")
				e.Expect(change.there(child)).To(BeTrue(), "the change has not arrived in the child: %v", child)
			})
		}

		e.Step("the addition of a patched subset", func() {
			w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-d","replicas":2,
				"tolerations":[{"key":"example.com/new","operator":"Exists"}],
				"patch":{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"SUBSET","value":"d"}]}]}}}}}},
				{"op":"replace","path":"/spec/replicas","value":8}]`)
			noRevision()
			spec := w.PodSpec("zone-d")
			e.Expect(spec.Containers[0].Env).To(Equal([]corev1.EnvVar{{Name: "SUBSET", Value: "d"}}))
			e.Expect(spec.Tolerations).To(HaveLen(1))
		})
		e.Step("its removal, and its return with another patch", func() {
			withD := w.Pods()
			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/3"},{"op":"replace","path":"/spec/replicas","value":6}]`)
			noRevision()
			again := e.History.Forbid(Remade(withD))
			w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-d","replicas":2,
				"patch":{"spec":{"template":{"spec":{"containers":[{"name":"web","env":[{"name":"SUBSET","value":"again"}]}]}}}}}},
				{"op":"replace","path":"/spec/replicas","value":8}]`)
			noRevision()
			again.Fires()
			e.Expect(w.PodSpec("zone-d").Containers[0].Env).To(Equal([]corev1.EnvVar{{Name: "SUBSET", Value: "again"}}))
		})

		moves := func(subset string, change func()) {
			e.T.Helper()
			before, others := w.Revisions(), e.History.Forbid(Outside(subset))
			update := w.Parent().Status.UpdateRevision
			all := e.History.Forbid(Remade(w.Pods()))
			change()
			w.Settle()
			others.Holds()
			e.Expect(all.Broken()).To(HaveLen(w.Count(subset)), "every replica of %s moved, once", subset)
			status := w.Parent().Status
			e.Expect(status.UpdateRevision).NotTo(Equal(update))
			e.Expect(w.Revisions()).To(ConsistOf(append(before, status.UpdateRevision)))
			e.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision), "the others run the same pods, so all is done")
		}
		var patchedB string
		e.Step("a changed patch makes one and moves its subset alone", func() {
			moves("zone-b", func() {
				w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch/spec","value":
					{"template":{"metadata":{"annotations":{"example.com/zone":"b"}}}}}]`)
			})
			restarts.Fires()
			patchedB = w.Parent().Status.UpdateRevision
			for _, p := range w.PodsOf("zone-b") {
				e.Expect(p.Annotations).To(HaveKeyWithValue("example.com/zone", "b"))
			}
		})
		e.Step("a changed toleration makes one and moves its subset alone", func() {
			moves("zone-a", func() {
				w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/0/tolerations","value":[{"key":"example.com/a","operator":"Exists"}]}]`)
			})
			for _, p := range w.PodsOf("zone-a") {
				e.Expect(p.Spec.Tolerations).To(ContainElement(corev1.Toleration{Key: "example.com/a", Operator: corev1.TolerationOpExists}))
			}
		})
		e.Step("the way back uses the revisions that are there", func() {
			before, others := w.Revisions(), e.History.Forbid(Outside("zone-a"))
			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/0/tolerations"}]`)
			w.Settle()
			others.Holds()
			e.Expect(w.Revisions()).To(ConsistOf(before))
			e.Expect(w.Parent().Status.UpdateRevision).To(Equal(patchedB))
		})
	})
}

// TestHeldPatch checks that a changed patch of a held subset waits for its release, like a template.
func TestHeldPatch(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Zones("", "", ""), Hold()))
	w.Settle()
	none := e.History.Forbid(AnyNewPod)
	w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch","value":
		{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}}]`, Image("b2"))
	w.Settle()
	none.Holds()
	e.Expect(w.Revisions()).To(HaveLen(2))
	e.Expect(w.Status("zone-b").Phase).To(Equal(v1alpha1.PhaseHeld))
	e.Expect(w.Status("zone-a").Phase).To(Equal(v1alpha1.PhaseComplete), "its pods are those of the new revision too")
	w.SetPartitions(Parts{"zone-b": 1})
	w.Settle()
	none.Fires()
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 b2", "zone-c": "v1 v1"}))
}
