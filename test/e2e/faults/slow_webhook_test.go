// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestSlowWebhook checks a webhook of one namespace that is slow for each child there. The passes over
// its parents wait for that, and used to occupy all workers.
func TestSlowWebhook(t *testing.T) {
	t.Parallel()
	control := NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
	control.Settle()
	theirs := NewEnv(t)
	webhook := theirs.DelayChildren(20 * time.Second)
	for i := range 12 {
		theirs.Create(NewDraft(fmt.Sprintf("slow-%02d", i), Replicas(0), Zones("", ""), Hold()))
	}
	theirs.Eventually(webhook.Asked.Load).Should(BeNumerically(">=", 2), "positive control: several wait at once; how many workers they get depends on the other tests")
	for range 3 {
		began := time.Now()
		control.Reacts()
		control.Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second))
		control.Expect(webhook.Asked.Load()).To(BeNumerically(">", 0), "positive control: they wait all the time")
	}
	webhook.End()
	for i := range 12 {
		theirs.Workload(fmt.Sprintf("slow-%02d", i)).Settle()
	}
}

// TestSlowNamespaces checks webhooks that are slow in more namespaces than it takes to use all workers,
// half of the rest each. The last worker is for namespaces whose passes are short. Other tests
// would have that worker only.
func TestSlowNamespaces(t *testing.T) {
	t.Parallel()
	p := NewPlaneOf(t)
	control := p.NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
	control.Settle()
	var webhooks []SlowWebhook
	var slow []*Workload
	for range 5 {
		e := p.NewEnv(t)
		webhooks = append(webhooks, e.DelayChildren(20*time.Second))
		for i := range 4 {
			slow = append(slow, e.Create(NewDraft(fmt.Sprintf("slow-%d", i), Replicas(0), Zones("", ""), Hold())))
		}
	}
	asked := func() (n int32) {
		for _, w := range webhooks {
			n += w.Asked.Load()
		}
		return n
	}
	control.Eventually(asked).Should(BeNumerically(">=", 7), "positive control: they have all workers that they can get")
	for range 5 {
		began := time.Now()
		control.Reacts()
		control.Expect(time.Since(began)).To(BeNumerically("<", 5*time.Second))
		control.Expect(asked()).To(BeNumerically(">", 0), "positive control: they wait all the time")
	}
	for _, w := range webhooks {
		w.End()
	}
	for _, w := range slow {
		w.Settle()
	}
}

// TestSlowPass checks a pass with many writes of children, each of which takes a second. The status
// used to be written only after all of them.
func TestSlowPass(t *testing.T) {
	t.Parallel()
	const many = 60
	e := NewEnv(t)
	webhook := e.DelayChildren(time.Second)
	w := e.Create(NewDraft("web", Replicas(0), Hold(), func(d *Draft) {
		for i := range many {
			Plain(fmt.Sprintf("pool-%02d", i), "")(d)
		}
	}))
	made := func() int {
		list := &appsv1.StatefulSetList{}
		e.Expect(e.List(e.Ctx, list, client.InNamespace(e.Namespace))).To(Succeed())
		return len(list.Items)
	}
	e.Eventually(func() int64 { return w.Parent().Status.ObservedGeneration }, Promptly).Should(BeEquivalentTo(1))
	e.Expect(made()).To(BeNumerically("<", many/2), "positive control: they are slow")
	e.Step("it continues", func() {
		before := made()
		e.Eventually(made).Should(BeNumerically(">", before+4), "how soon it gets its next turn depends on the other tests")
	})
	webhook.End()
	w.Settle()
	e.Expect(made()).To(Equal(many))
}

// TestSlowlyRefused checks a parent whose new subsets are refused, each after a second, and are so many
// that the first ones are due again before the last ones were tried. A partition of another subset used
// to wait for them forever.
func TestSlowlyRefused(t *testing.T) {
	t.Parallel()
	const many = 40
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Plain("zone-a", "2"), Plain("zone-b", "2"), Hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	refused := &atomic.Int32{}
	webhook := e.ReviewSlowly(time.Second, func(r *admissionv1.AdmissionRequest) bool {
		if r.Operation == admissionv1.Create {
			refused.Add(1)
		}
		return r.Operation != admissionv1.Create
	})
	e.Eventually(func() error {
		probe := &appsv1.StatefulSet{}
		w.Child("zone-a").DeepCopyInto(probe)
		probe.ObjectMeta = metav1.ObjectMeta{Namespace: e.Namespace, Name: "probe"}
		return e.Client.Create(e.Ctx, probe, client.DryRunAll)
	}).ShouldNot(Succeed())
	var more []string
	for i := range many {
		more = append(more, fmt.Sprintf(`{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"pool-%02d","replicas":0}}`, i))
	}
	w.JSONPatch("[%s]", strings.Join(more, ","))
	e.Eventually(refused.Load).Should(BeNumerically(">", 10), "positive control")
	w.SetPartitions(Parts{"zone-a": 0})
	w.Runs(Images{"zone-a": "v2 v2", "zone-b": "v1 v1"})
	webhook.End()
}
