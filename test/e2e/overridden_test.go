// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// spaced bounds the number of writes until the status reports that a policy overrides what United
// writes: some writes at once, then one per second for half a minute, and a few that the spec asks for.
const spaced = 45

// TestOverriddenChild checks a policy that overrides the replicas of each child on each write, and
// counts. United reports that and writes less and less often. It still writes what the spec asks for at
// once, and others do not wait.
func TestOverriddenChild(t *testing.T) {
	t.Parallel()
	control := newEnv(t).Create(draft("control", replicas(4), zones("", ""), hold()))
	control.Settle()
	e := newEnv(t)
	w := e.Create(draft("web", replicas(6), policy(appsv1.ParallelPodManagement), zones("", ""), hold()))
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	still := e.History.Forbid(protect("zone-a", 3, "v1"), protect("zone-b", 3, "v1"))

	mark := e.AuditMark()
	lift := e.Override(children, "", `[
		JSONPatch{op: "replace", path: "/spec/replicas", value: 5},
		JSONPatch{op: "add", path: "/metadata/labels/example.com~1written", value: oldObject.metadata.resourceVersion}]`, w.childComesOut(func(child *appsv1.StatefulSet) bool { return *child.Spec.Replicas == 5 }))
	w.SetPartitions(parts{"zone-a": 4}) // the first write is overridden
	w.Stalls("zone-a", v1alpha1.ReasonOverridden, "StatefulSet web-zone-a: spec.replicas was changed by admission")
	e.Expect(*w.Child("zone-a").Spec.Replicas).To(BeEquivalentTo(5))
	e.Expect(w.Child("zone-a").Labels).To(HaveKey("example.com/written"))
	e.Expect(e.Writes(mark, children)).To(HaveEach(HaveField("Name", "web-zone-a")))
	e.Expect(len(e.Writes(mark, children))).To(And(BeNumerically(">", 5), BeNumerically("<=", spaced)))
	e.Expect(len(e.Writes(mark, statuses))).To(BeNumerically("<=", spaced))
	control.reacts()

	e.Step("another write is made at once", func() {
		for _, partition := range []int32{5, 3, 5} {
			w.SetPartitions(parts{"zone-a": partition})
			e.Eventually(func() int32 { return w.Partition("zone-a") }).Should(Equal(partition))
		}
		still.Holds()
	})
	e.Step("without the policy all is well", func() {
		lift()
		w.Disturbed()
		w.Settle()
		e.Expect(*w.Child("zone-a").Spec.Replicas).To(BeEquivalentTo(3))
	})
	w.SetPartitions(parts{"zone-a": 0})
	w.Settle()
	still.Fires()
}

// TestOverriddenByOther checks that the status names a controller which sets the replicas of a child
// each time they change.
func TestOverriddenByOther(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.Create(draft("web", replicas(4), policy(appsv1.ParallelPodManagement), zones("", ""), hold()))
	w.Settle()
	mark := e.AuditMark()
	stop := w.otherScales("zone-a", 3)
	w.Stalls("zone-a", v1alpha1.ReasonOverridden, `spec.replicas was changed by "other-scaler" right after it was written`)
	// On a busy machine many writes meet one of the other client, or of the child's controller: a conflict changes nothing.
	e.Expect(len(w.childWrites(mark))).To(And(BeNumerically(">", 5), BeNumerically("<=", spaced)))
	stop()
	w.Disturbed()
	w.Settle()
	e.Expect(w.Images()).To(Equal(images{"zone-a": "v1 v1", "zone-b": "v1 v1"}))
}

// TestOverriddenStatus checks a policy that overrides a field of the status, and counts.
func TestOverriddenStatus(t *testing.T) {
	t.Parallel()
	control := newEnv(t).Create(draft("control", replicas(4), zones("", ""), hold()))
	control.Settle()
	e := newEnv(t)
	w := e.Create(draft("web", replicas(4), policy(appsv1.ParallelPodManagement), zones("", ""), hold()))
	w.Settle()
	mark := e.AuditMark()
	lift := e.Override("uniteddeployments", "status", `[
		JSONPatch{op: "replace", path: "/status/selector", value: "app=x" + oldObject.metadata.resourceVersion}]`, w.selectorComesOut("app=x"))
	w.SetImage("v2") // the first write is overridden
	w.StallsWhole(v1alpha1.ReasonOverridden, "status: status.selector was changed by admission")
	e.Expect(len(e.Writes(mark, statuses))).To(And(BeNumerically(">", 5), BeNumerically("<=", spaced)))
	control.reacts()
	e.Step("partitions work", func() {
		w.SetPartitions(parts{"zone-a": 0})
		w.Runs(images{"zone-a": "v2 v2", "zone-b": "v1 v1"})
	})
	lift()
	w.Disturbed()
	w.Settle()
}

// otherScales scales a child, as another client, whenever its replicas differ, until stop is called.
func (w *Workload) otherScales(subset string, replicas int32) (stop func()) {
	ctx, cancel := context.WithCancel(w.ctx)
	done := make(chan struct{})
	key := w.key(w.Name + "-" + subset)
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true, func(ctx context.Context) (bool, error) {
			child := &appsv1.StatefulSet{}
			if err := w.Get(ctx, key, child); err == nil && *child.Spec.Replicas != replicas {
				patch := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
				_ = w.Client.Patch(ctx, child, patch, client.FieldOwner("other-scaler"))
			}
			return false, nil
		})
	}()
	return func() {
		cancel()
		<-done
	}
}

// childComesOut reports whether a change of the child of zone-a already gets the result that so checks
// for.
func (w *Workload) childComesOut(so func(*appsv1.StatefulSet) bool) func() bool {
	return func() bool {
		w.t.Helper()
		child := w.Child("zone-a")
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/probe":"x"}}}`))
		w.Expect(w.Client.Patch(w.ctx, child, patch, client.DryRunAll)).To(Succeed())
		return so(child)
	}
}

// selectorComesOut reports whether a change of the status already gets a selector with the prefix.
func (w *Workload) selectorComesOut(prefix string) func() bool {
	return func() bool {
		w.t.Helper()
		return strings.HasPrefix(w.statusAsWritten().Selector, prefix)
	}
}

// Override makes the API server change each update of a resource in the namespace until lift is called,
// as a mutating policy of the cluster's owner can. inForce reports whether the policy already changes
// updates.
func (e *env) Override(resource, subresource, patches string, inForce func() bool) (lift func()) {
	e.t.Helper()
	return e.overrideOn([]admissionv1.OperationType{admissionv1.Update}, resource, subresource, patches, inForce)
}

// overrideOn is Override for some operations.
func (e *env) overrideOn(operations []admissionv1.OperationType, resource, subresource, patches string, inForce func() bool) (lift func()) {
	e.t.Helper()
	matches := resource
	if subresource != "" {
		matches += "/" + subresource
	}
	policy := &admissionv1.MutatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "override-" + e.Namespace}}
	policy.Spec.MatchConstraints = &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
		RuleWithOperations: admissionv1.RuleWithOperations{
			Operations: operations,
			Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{matches}},
		},
	}}}
	policy.Spec.ReinvocationPolicy = admissionv1.NeverReinvocationPolicy
	policy.Spec.Mutations = []admissionv1.Mutation{{PatchType: admissionv1.PatchTypeJSONPatch, JSONPatch: &admissionv1.JSONPatch{Expression: patches}}}
	binding := &admissionv1.MutatingAdmissionPolicyBinding{ObjectMeta: policy.ObjectMeta}
	binding.Spec.PolicyName = policy.Name
	binding.Spec.MatchResources = &admissionv1.MatchResources{
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: e.Namespace}},
	}
	e.Expect(e.Client.Create(e.ctx, policy)).To(Succeed())
	e.Expect(e.Client.Create(e.ctx, binding)).To(Succeed())
	e.Eventually(inForce).Should(BeTrue())
	return func() {
		e.t.Helper()
		e.Expect(e.Client.Delete(e.ctx, binding)).To(Succeed())
		e.Expect(e.Client.Delete(e.ctx, policy)).To(Succeed())
	}
}
