// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/install"
)

// hoard is how many large objects of a kind a tenant has: a third of the quota of SECURITY.md, because a small machine takes three
// seconds for each. As objects they would take 600 MiB.
const hoard = 18

// crowd is how many children the largest parent has.
const crowd = 50

// tolerations returns n tolerations that are different.
func tolerations(n int) []any {
	list, random := make([]any, n), rand.New(rand.NewPCG(1, 2))
	for i := range list {
		list[i] = map[string]any{"key": fmt.Sprintf("k%08x", random.Uint32()), "operator": "Exists"}
	}
	return list
}

// large returns a workload as large as the API server stores it, without pods.
func large(kind, name string, list []any, spec map[string]any) *unstructured.Unstructured {
	labels := map[string]any{v1alpha1.LabelName: "hoard", "app": name}
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": kind, "metadata": map[string]any{"name": name, "labels": labels},
		"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{
				"containers": []any{map[string]any{"name": "main", "image": Image("v1")}}, "tolerations": list,
			}},
		},
	}}
	for key, value := range spec {
		u.Object["spec"].(map[string]any)[key] = value
	}
	return u
}

// largest returns a parent that is as large as admission and the controller accept, of as many children as the quota allows.
func largest(name string) *Draft {
	return NewDraft(name, Replicas(0), func(d *Draft) {
		containers := []any{}
		for i := range 9 {
			args := make([]any, 5000)
			for j := range args {
				args[j] = "a"
			}
			containers = append(containers, map[string]any{"name": fmt.Sprintf("c%d", i), "image": Image("v1"), "args": args})
		}
		TemplateField(containers, "spec", "template", "spec", "containers")(d)
		TemplateField(tolerations(1000), "spec", "template", "spec", "tolerations")(d)
		for i := range crowd {
			Plain(fmt.Sprintf("s%02d", i), "")(d)
		}
	})
}

// peak returns the most memory that the manager has used, in bytes.
func peak(e *Env) int64 {
	e.T.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.Manager.Pid()))
	e.Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(status)) {
		if text, found := strings.CutPrefix(line, "VmHWM:"); found {
			kibi, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			e.Expect(err).NotTo(HaveOccurred())
			return kibi << 10
		}
	}
	e.T.Fatal("the kernel does not say how much memory the manager has used")
	return 0
}

// TestMemory lets tenants fill the memory of the manager, within the quota: with children as large as etcd stores them,
// with a check on a kind of which there are many large objects, and with a parent that is as large as may be. The manager stays below
// the memory limit of the chart, also if it starts while they are there, and the canary of somebody else goes on.
func TestMemory(t *testing.T) {
	t.Parallel()
	p := NewPlaneOf(t)
	e := p.SoundEnv(t)
	chart := &appsv1.Deployment{}
	e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: install.Namespace, Name: install.Deployment}, chart)).To(Succeed())
	limit := chart.Spec.Template.Spec.Containers[0].Resources.Limits.Memory().Value()
	e.Expect(limit).To(BeNumerically(">", 0))
	e.RestartManager(func() {}) // the control plane may have been that of another test
	w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Hold()))
	w.Settle()
	goesOn := func(image string) {
		w.SetImage(image)
		w.SetPartitions(Parts{"zone-a": 0})
		e.Eventually(func() string { return w.Images()["zone-a"] }).Should(Equal(image + " " + image))
	}
	below := func(when string) {
		used := peak(e)
		t.Logf("%s, the manager has used up to %d MiB of %d", when, used>>20, limit>>20)
		e.Expect(used).To(BeNumerically("<", limit))
	}
	theirs, others := p.NewEnv(t), p.NewEnv(t)
	theirs.MayRead(appsv1.GroupName, "replicasets")
	t.Cleanup(func() { // another test may get the control plane
		for _, large := range []client.Object{&appsv1.StatefulSet{}, &appsv1.ReplicaSet{}} {
			if err := e.DeleteAllOf(context.WithoutCancel(t.Context()), large, client.InNamespace(theirs.Namespace)); err != nil {
				t.Error(err)
			}
		}
	})

	e.Step("large objects", func() {
		began, list := time.Now(), tolerations(41_000)
		create := func(u *unstructured.Unstructured) {
			u.SetNamespace(theirs.Namespace)
			e.Expect(e.Client.Create(e.Ctx, u)).To(Succeed())
		}
		for i := range hoard {
			create(large("StatefulSet", fmt.Sprintf("hoard-%d", i), list, map[string]any{"serviceName": "hoard"}))
			create(large("ReplicaSet", fmt.Sprintf("big-%d", i), list, nil))
		}
		t.Log("created within", time.Since(began).Round(time.Second))
		goesOn("v2")
		below("with large children")
	})
	e.Step("a check on one of them", func() {
		checked := theirs.Create(NewDraft("checked", Replicas(2), Zones("", ""),
			Rolling(`{checks: [{name: big, objectCondition: {apiVersion: apps/v1, kind: ReplicaSet, name: big-7, type: Unheard}}]}`)))
		checked.IsReady(v1alpha1.ReasonRolloutComplete)
		checked.SetImage("v2")
		checked.AwaitCheck("big", v1alpha1.CheckIsNotMet, "ReplicaSet big-7 has no condition Unheard")
		goesOn("v3")
		below("with the check")
	})
	e.Step("the largest parent", func() {
		others.Create(largest("most"))
		made := &metav1.PartialObjectMetadataList{}
		made.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("StatefulSetList"))
		e.Eventually(func(g Gomega) {
			g.Expect(others.List(others.Ctx, made, client.InNamespace(others.Namespace))).To(Succeed())
			g.Expect(made.Items).To(HaveLen(crowd))
		}).WithTimeout(3 * time.Minute).Should(Succeed())
		goesOn("v4")
		below("with the largest parent")
	})
	e.Step("it starts", func() {
		e.RestartManager(func() {})
		goesOn("v5")
		theirs.Workload("checked").AwaitCheck("big", v1alpha1.CheckIsNotMet, "ReplicaSet big-7 has no condition Unheard")
		below("after a start")
	})
}
