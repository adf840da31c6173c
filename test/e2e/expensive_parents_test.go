// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

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
	return draft(name, replicas(0), func(d *Draft) {
		containers := []any{map[string]any{"name": "web", "image": image("v1"), "env": variables(crowdVariables, "")}}
		templateField(containers, "spec", "template", "spec", "containers")(d)
		patch := asJSON(map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
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
	p := newPlaneOf(t)
	e := p.soundEnv(t)
	w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", "", ""), hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	held := e.History.Forbid(protect("zone-a", 2, "v1"), protect("zone-c", 2, "v1"))

	theirs := p.newEnv(t)
	made := func() int {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSetList"))
		theirs.Expect(theirs.List(theirs.ctx, list, client.InNamespace(theirs.Namespace))).To(Succeed())
		return len(list.Items)
	}
	for i := range crowd {
		theirs.Create(expensive(fmt.Sprintf("crowd-%d", i)))
	}
	e.Eventually(made).Should(BeNumerically(">=", crowd), "they are being worked on")

	e.Step("a partition reaches its child", func() {
		for _, partition := range []int{1, 2, 0} {
			begun := time.Now()
			w.SetPartitions(parts{"zone-b": partition})
			asked := time.Since(begun).Round(time.Millisecond)
			e.Eventually(func() int32 {
				return *w.Child("zone-b").Spec.UpdateStrategy.RollingUpdate.Partition
			}).Should(BeEquivalentTo(partition))
			t.Log("partition", partition, "asked for in", asked, "there after", time.Since(begun).Round(time.Millisecond), "children of the crowd:", made())
		}
		e.Expect(made()).To(BeNumerically("<", crowd*crowdSubsets), "the crowd was at it all the time")
	})

	e.Step("the deleted ones are dropped", func() {
		theirs.Expect(theirs.DeleteAllOf(theirs.ctx, &v1alpha1.UnitedDeployment{}, client.InNamespace(theirs.Namespace))).To(Succeed())
		mark := theirs.AuditMark()
		e.Eventually(made).WithTimeout(5*time.Minute).Should(BeZero(), "the garbage collector has them all")
		w.SetPartitions(parts{"zone-b": 1})
		w.SetPartitions(parts{"zone-b": 0})
		w.Settle()
		e.Expect(len(theirs.Writes(mark, children))).To(BeNumerically("<=", crowd), "one that was under way for each, at most")
		held.Holds()
	})
}

// TestHugeQuantities checks that a quantity with an exponent of millions is refused by name before
// anybody parses it: otherwise the API server would take seconds for each child, and United for each
// change of it.
func TestHugeQuantities(t *testing.T) {
	t.Parallel()
	control := newEnv(t).Create(draft("control", replicas(4), zones("", ""), hold()))
	control.Settle()
	e := newEnv(t)
	mark := e.AuditMark()
	for i := range crowd {
		e.Create(draft(fmt.Sprintf("crowd-%d", i), replicas(0), zones(""), func(d *Draft) {
			container := map[string]any{"name": "web", "image": image("v1"), "resources": map[string]any{"requests": map[string]any{"memory": "1e-30000000"}}}
			templateField([]any{container}, "spec", "template", "spec", "containers")(d)
		}))
	}
	for i := range crowd {
		e.Workload(fmt.Sprintf("crowd-%d", i)).StallsWhole(v1alpha1.ReasonInvalidSpec, "resources.requests[memory]", "1e-30000000")
	}
	e.Expect(e.Writes(mark, children)).To(BeEmpty())
	control.reacts()
}
