// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// overruled is a field of the child of zone-a that a policy sets to another value, whoever writes it.
type overruled struct {
	kind  int // index into kinds
	patch string
	// says is the name of the field in the status. to is the value that the policy sets.
	says, to string
	// fixed: the field can only be set when the child is created.
	fixed bool
}

func overruledFields() map[string]overruled {
	return map[string]overruled{
		"minReadySeconds":     {0, `{op: "add", path: "/spec/minReadySeconds", value: 3}`, "spec.minReadySeconds", "3", false},
		"serviceName":         {0, `{op: "add", path: "/spec/serviceName", value: "other"}`, "spec.serviceName", "other", true},
		"podManagementPolicy": {0, `{op: "add", path: "/spec/podManagementPolicy", value: "Parallel"}`, "spec.podManagementPolicy", "Parallel", true},
		"selector": {
			0, `{op: "remove", path: "/spec/selector/matchLabels/united.dev~1subset"}`, `spec.selector.matchLabels["united.dev/subset"]`,
			"map[app:web united.dev/name:web]", true,
		},
		"strategy": {1, `{op: "add", path: "/spec/strategy", value: Object.spec.strategy{type: "Recreate"}}`, "spec.strategy.type", "Recreate", false},
	}
}

// fieldOf returns the value of the field in a child.
func (o overruled) fieldOf(w *Contracted, child *unstructured.Unstructured) string {
	path, _, _ := strings.Cut(o.says, "[")
	value, _, err := unstructured.NestedFieldNoCopy(child.Object, strings.Split(path, ".")...)
	w.Expect(err).NotTo(HaveOccurred())
	return fmt.Sprint(value)
}

// impose creates the policy, and waits until it changes objects on creation.
func (o overruled) impose(e *Env, k Kind, operations ...admissionv1.OperationType) (lift func()) {
	w := e.Workload("web").Of(k)
	return e.OverrideOn(operations, k.Resource, "", `object.metadata.name == "web-zone-b" ? [] : [JSONPatch`+o.patch+"]", func() bool {
		probe := o.probe(w)
		e.Expect(e.Client.Create(e.Ctx, probe, client.DryRunAll)).To(Succeed())
		return o.fieldOf(w, probe) == o.to
	})
}

// probe returns a workload of the kind to create.
func (o overruled) probe(w *Contracted) *unstructured.Unstructured {
	labels := map[string]any{"app": "web", "united.dev/name": "web", "united.dev/subset": "zone-a"}
	u := w.Object("probe")
	u.Object["spec"] = map[string]any{
		"selector": map[string]any{"matchLabels": labels},
		"template": map[string]any{
			"metadata": map[string]any{"labels": labels},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "x"}}},
		},
	}
	return u
}

// TestOverruledFields checks a policy that sets a field of a child to another value, whoever writes it.
// Before, United did not report it at all. Now the status names the field, nothing is written without
// end, and everything else continues.
func TestOverruledFields(t *testing.T) {
	t.Parallel()
	for name, o := range overruledFields() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, k := NewEnv(t), Kinds()[o.kind]
			lift := o.impose(e, k, admissionv1.Create, admissionv1.Update)
			mark := e.AuditMark()
			w := e.Create(NewDraft("web", Replicas(4), k.Draft, Zones("", ""), Hold())).Of(k)
			w.Stalls("zone-a", v1alpha1.ReasonOverridden, o.says+" was changed by admission")
			e.Expect(o.fieldOf(w, w.LiveChild("zone-a"))).To(Equal(o.to), "positive control")
			e.Expect(len(e.Writes(mark, k.Resource))).To(BeNumerically("<=", Spaced))
			e.Step("it keeps nothing from being released", func() {
				w.SetImages("v2")
				w.SetPartitions(Parts{"zone-a": 0})
				w.Eventually(w.Mix, 2*time.Minute).Should(Equal(map[string]string{"zone-a": "2 v2", "zone-b": "2 v1"}))
			})
			lift()
			if o.fixed {
				return
			}
			w.SetPartitions(Parts{"zone-b": 0})
			w.Disturbed()
			w.Eventually(func(g Gomega) {
				g.Expect(w.Mix()).To(Equal(map[string]string{"zone-a": "2 v2", "zone-b": "2 v2"}))
				g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
				g.Expect(o.fieldOf(w, w.LiveChild("zone-a"))).NotTo(Equal(o.to))
			}).Should(Succeed())
		})
	}
}

// TestOverruledWhenCreated checks a policy that does so only when the child is created. United repairs
// what can be changed.
func TestOverruledWhenCreated(t *testing.T) {
	t.Parallel()
	for name, o := range overruledFields() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e, k := NewEnv(t), Kinds()[o.kind]
			o.impose(e, k, admissionv1.Create)
			mark := e.AuditMark()
			w := e.Create(NewDraft("web", Replicas(4), k.Draft, Zones("", ""), Hold())).Of(k)
			if !o.fixed {
				w.Disturbed()
				w.ComesTo("2 v1", "2 v1", "")
				e.Expect(o.fieldOf(w, w.LiveChild("zone-a"))).NotTo(Equal(o.to))
				return
			}
			w.Stalls("zone-a", v1alpha1.ReasonOverridden, o.says+" was changed by admission (a policy or webhook) when it was written, and the API server rejects a correction: ")
			e.Expect(o.fieldOf(w, w.LiveChild("zone-a"))).To(Equal(o.to), "positive control")
			e.Step("nothing is tried again", func() {
				w.Eventually(func() int { return len(w.Pods()) }).Should(Equal(4))
				before := len(e.Writes(mark, k.Resource))
				w.Consistently(func() int { return len(e.Writes(mark, k.Resource)) }, 10*time.Second).Should(BeNumerically("<=", before+1))
			})
		})
	}
}
