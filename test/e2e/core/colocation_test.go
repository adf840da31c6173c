// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"maps"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestColocation checks the groups of prefill and decode, with the real scheduler: which replicas they
// have, that each is in one domain, and that they come and go as a whole.
func TestColocation(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Policy(appsv1.ParallelPodManagement), Replicas(9), Colocated(), Plain(Prefill, ""), Plain(Decode, "")))
	all := map[int]string{0: "decode-0 prefill-0 prefill-1", 1: "decode-1 prefill-2 prefill-3", 2: "decode-2 prefill-4 prefill-5"}
	e.Step("three groups", func() {
		w.ComeTo("6,3")
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(Equal(all))
		e.Expect(w.Parent().Status.Replicas).To(BeEquivalentTo(9))
	})
	e.Step("a remainder is an incomplete group", func() {
		w.ScaleTo(11, "8,3")
		w.Settle()
		more := maps.Clone(all)
		more[3] = "prefill-6 prefill-7"
		e.Expect(w.Groups(OnNode)).To(Equal(more))
		w.ScaleTo(12, "8,4")
		w.Settle()
		more[3] = "decode-3 prefill-6 prefill-7"
		e.Expect(w.Groups(OnNode)).To(Equal(more))
	})
	e.Step("from the top", func() {
		gone := w.Uids()
		w.ScaleTo(9, "6,3")
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(Equal(all))
		for uid := range w.Uids() {
			e.Expect(gone).To(HaveKey(uid), "nothing that stays is replaced")
		}
		w.ScaleTo(4, "3,1")
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(Equal(map[int]string{0: all[0], 1: "prefill-2"}))
		w.ScaleTo(0, "0,0")
		w.ScaleTo(9, "6,3")
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(Equal(all))
	})
	e.Step("a rollout keeps the groups, and a deleted pod returns to its own", func() {
		w.SetImage("v2")
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(Equal(all))
		before := map[string]string{}
		for _, p := range w.Pods() {
			before[p.Name] = p.Node
		}
		w.DeletePod(Prefill, 3)
		w.Settle()
		e.Expect(w.Groups(OnNode)).To(Equal(all))
		for _, p := range w.Pods() {
			e.Expect(p.Node).To(Equal(before[p.Name]), p.Name)
		}
	})
}

// TestColocationZones checks groups in one zone each, of two parents at once, one of which numbers its
// pods from 5; a third subset is no member.
func TestColocationZones(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	zoned := Colocated(func(c *v1alpha1.Colocation) { c.TopologyKey = corev1.LabelTopologyZone }, InParallel)
	first := e.Create(NewDraft("first", Policy(appsv1.ParallelPodManagement), Replicas(30), zoned, Plain(Prefill, ""), Plain(Decode, "")))
	second := e.Create(NewDraft("second", Policy(appsv1.ParallelPodManagement), Replicas(31), zoned, Plain(Prefill, ""), Plain("router", "1"), Plain(Decode, "")))
	first.ComeTo("20,10")
	first.Settle()
	second.ComeTo("20,1,10")
	second.Settle()
	for _, w := range []*Workload{first, second} {
		groups := w.Groups(w.ZoneOf)
		e.Expect(groups).To(HaveLen(10))
		e.Expect(groups[9]).To(Equal("decode-9 prefill-18 prefill-19"))
	}
	third := e.Create(NewDraft("third", Policy(appsv1.ParallelPodManagement), Replicas(3), zoned, Plain(Prefill, ""), Plain(Decode, ""),
		TemplateField(map[string]any{"start": int64(5)}, "spec", "ordinals")))
	third.Settle()
	labels := map[string]string{}
	pods := &corev1.PodList{}
	e.Expect(e.List(e.Ctx, pods, client.InNamespace(e.Namespace), client.MatchingLabels{v1alpha1.LabelName: "third"})).To(Succeed())
	for _, p := range pods.Items {
		labels[p.Name] = p.Labels[v1alpha1.LabelColocationGroup]
	}
	e.Expect(labels).To(Equal(map[string]string{"third-prefill-5": "0", "third-prefill-6": "0", "third-decode-5": "0"}))
}
