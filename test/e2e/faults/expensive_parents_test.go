// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// The size of the expensive parents. A child could hold three times as many variables, but then
// everybody waits for the API server of a small machine, which needs seconds to apply one child.
const (
	crowd          = 10
	crowdSubsets   = 30
	crowdVariables = 2000
	crowdPatched   = 20
)

// variables returns n environment variables.
func variables(n int, value string) []any {
	env := make([]any, n)
	for i := range env {
		env[i] = map[string]any{"name": fmt.Sprintf("VARIABLE_%04d", i), "value": value}
	}
	return env
}

// expensive returns a parent without pods that takes as much time as possible: many subsets that each
// patch a few of very many variables.
func expensive(name string) *Draft {
	return NewDraft(name, Replicas(0), func(d *Draft) {
		containers := []any{map[string]any{"name": "web", "image": Image("v1"), "env": variables(crowdVariables, "")}}
		TemplateField(containers, "spec", "template", "spec", "containers")(d)
		patch := AsJSON(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
			"containers": []any{map[string]any{"name": "web", "env": variables(crowdPatched, "patched")}},
		}}}})
		for i := range crowdSubsets {
			d.Spec.Topology.Subsets = append(d.Spec.Topology.Subsets,
				v1alpha1.Subset{Name: fmt.Sprintf("s%02d", i), Patch: &runtime.RawExtension{Raw: []byte(patch)}})
		}
	})
}

// TestExpensiveParents checks that ten parents that take as long as possible delay nobody else, and
// that all work on them ends when they are deleted. Other tests would wait for the
// API server.
func TestExpensiveParents(t *testing.T) {
	t.Parallel()
	p := NewPlaneOf(t)
	e := p.SoundEnv(t)
	w := e.Create(NewDraft("web", Replicas(6), Policy(appsv1.ParallelPodManagement), Zones("", "", ""), Hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	held := e.History.Forbid(Protect("zone-a", 2, "v1"), Protect("zone-c", 2, "v1"))

	theirs := p.NewEnv(t)
	made := func() int {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSetList"))
		theirs.Expect(theirs.List(theirs.Ctx, list, client.InNamespace(theirs.Namespace))).To(Succeed())
		return len(list.Items)
	}
	for i := range crowd {
		theirs.Create(expensive(fmt.Sprintf("crowd-%d", i)))
	}
	e.Eventually(made).Should(BeNumerically(">=", crowd), "they are being worked on")

	e.Step("a partition reaches its child", func() {
		for _, partition := range []int{1, 2, 0} {
			begun := time.Now()
			w.SetPartitions(Parts{"zone-b": partition})
			asked := time.Since(begun).Round(time.Millisecond)
			e.Eventually(func() int32 {
				return *w.Child("zone-b").Spec.UpdateStrategy.RollingUpdate.Partition
			}).Should(BeEquivalentTo(partition))
			t.Log("partition", partition, "asked for in", asked, "there after", time.Since(begun).Round(time.Millisecond), "children of the crowd:", made())
		}
		e.Expect(made()).To(BeNumerically("<", crowd*crowdSubsets), "the crowd was at it all the time")
	})

	e.Step("the deleted ones are dropped", func() {
		theirs.Expect(theirs.DeleteAllOf(theirs.Ctx, &v1alpha1.UnitedDeployment{}, client.InNamespace(theirs.Namespace))).To(Succeed())
		mark := theirs.AuditMark()
		e.Eventually(made).WithTimeout(5*time.Minute).Should(BeZero(), "the garbage collector has them all")
		w.SetPartitions(Parts{"zone-b": 1})
		w.SetPartitions(Parts{"zone-b": 0})
		w.Settle()
		e.Expect(len(theirs.Writes(mark, Children))).To(BeNumerically("<=", crowd), "one that was under way for each, at most")
		held.Holds()
	})
}

// TestHugeQuantities checks that a quantity with an exponent of millions is refused by name before
// anybody parses it: otherwise the API server would take seconds for each child, and United for each
// change of it.
func TestHugeQuantities(t *testing.T) {
	t.Parallel()
	control := NewEnv(t).Create(NewDraft("control", Replicas(4), Zones("", ""), Hold()))
	control.Settle()
	e := NewEnv(t)
	mark := e.AuditMark()
	for i := range crowd {
		e.Create(NewDraft(fmt.Sprintf("crowd-%d", i), Replicas(0), Zones(""), func(d *Draft) {
			container := map[string]any{"name": "web", "image": Image("v1"), "resources": map[string]any{"requests": map[string]any{"memory": "1e-30000000"}}}
			TemplateField([]any{container}, "spec", "template", "spec", "containers")(d)
		}))
	}
	for i := range crowd {
		e.Workload(fmt.Sprintf("crowd-%d", i)).StallsWhole(v1alpha1.ReasonInvalidSpec, "resources.requests[memory]", "1e-30000000")
	}
	e.Expect(e.Writes(mark, Children)).To(BeEmpty())
	control.Reacts()
}
