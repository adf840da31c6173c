// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	. "github.com/onsi/gomega"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// SetFinalizers replaces the finalizers of an object by those of a JSON list, or null.
func (e *Env) SetFinalizers(o client.Object, finalizers string) {
	e.T.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":`+finalizers+`}}`))
	e.Expect(e.Client.Patch(e.Ctx, o, patch)).To(Succeed())
}

// contest simulates somebody who makes the same change to a child over and over.
type contest struct {
	Rounds func() int64
	Stop   func()
}

// Contest patches a child at an interval until it is stopped.
func (w *Workload) Contest(subset string, every time.Duration, patch string) contest {
	w.T.Helper()
	return w.Repeatedly(every, func(ctx context.Context) error {
		child := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name + "-" + subset}}
		return w.Client.Patch(ctx, child, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner("kubectl-fighter"))
	})
}

// Repeatedly calls do at an interval until it is stopped.
func (w *Workload) Repeatedly(every time.Duration, do func(context.Context) error) contest {
	w.T.Helper()
	ctx, cancel := context.WithCancel(w.Ctx)
	done, rounds := make(chan struct{}), &atomic.Int64{}
	go func() {
		defer close(done)
		_ = wait.PollUntilContextCancel(ctx, every, true, func(ctx context.Context) (bool, error) {
			if do(ctx) == nil {
				rounds.Add(1)
			}
			return false, nil
		})
	}()
	stop := func() { cancel(); <-done }
	w.T.Cleanup(stop)
	return contest{Rounds: rounds.Load, Stop: stop}
}

// Promptly bounds how long an action without backoff takes on a busy machine. An action with backoff
// can take minutes.
const Promptly = 20 * time.Second

// PolicyTakes creates a policy that removes a label from the children as they are written.
func (w *Workload) PolicyTakes(label string) (end func()) {
	w.T.Helper()
	end = w.Override(Children, "", fmt.Sprintf(`has(object.metadata.labels) && %q in object.metadata.labels ?
		[JSONPatch{op: "remove", path: "/metadata/labels/%s"}] : []`, label, strings.ReplaceAll(label, "/", "~1")),
		w.ChildComesOut(func(child *appsv1.StatefulSet) bool { return child.Labels[label] == "" }))
	w.PatchChild("zone-a", `{"metadata":{"annotations":{"example.com/touched":"x"}}}`)
	return end
}

// LoopTakes removes a label from the child of zone-a over and over, as another client.
func (w *Workload) LoopTakes(label string) (end func()) {
	w.T.Helper()
	return w.Contest("zone-a", 150*time.Millisecond, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, label)).Stop
}

// RevisionComesOut reports whether the policy already changes writes of a revision of the parent.
func (w *Workload) RevisionComesOut() bool {
	w.T.Helper()
	cr := &appsv1.ControllerRevision{}
	w.Expect(w.Get(w.Ctx, w.Key(w.Parent().Status.UpdateRevision), cr)).To(Succeed())
	labels, annotations := cr.Labels[v1alpha1.LabelName], cr.Annotations[v1alpha1.AnnotationSubsets]
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/probe":"x"}}}`))
	w.Expect(w.Client.Patch(w.Ctx, cr, patch, client.DryRunAll)).To(Succeed())
	return cr.Labels[v1alpha1.LabelName] != labels || cr.Annotations[v1alpha1.AnnotationSubsets] != annotations
}

// ParentRevisions returns the revisions of the parent, regardless of their labels.
func (w *Workload) ParentRevisions() (found []appsv1.ControllerRevision) {
	list := &appsv1.ControllerRevisionList{}
	_ = w.List(w.Ctx, list, client.InNamespace(w.Namespace)) // finds none once the test is over
	for i := range list.Items {
		if !strings.Contains(list.Items[i].Name, "-zone-") {
			found = append(found, list.Items[i])
		}
	}
	return found
}

// ForeignSet returns a StatefulSet of somebody else with one replica.
func ForeignSet(namespace, name string) *unstructured.Unstructured {
	labels := map[string]any{"app": "foreign"}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet",
		"metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{
			"serviceName": "foreign",
			"selector":    map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"terminationGracePeriodSeconds": int64(1),
					"containers":                    []any{map[string]any{"name": "foreign", "image": Image("foreign")}},
				},
			},
		},
	}}
}

// CreateForeign creates a StatefulSet and waits until it no longer changes by itself.
func (e *Env) CreateForeign(set *unstructured.Unstructured) {
	e.T.Helper()
	e.Expect(e.Client.Create(e.Ctx, set)).To(Succeed())
	e.Eventually(func(g Gomega) {
		now := &appsv1.StatefulSet{}
		g.Expect(e.Get(e.Ctx, e.Key(set.GetName()), now)).To(Succeed())
		g.Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
		g.Expect(now.Status.AvailableReplicas).To(BeEquivalentTo(1))
		g.Expect(now.Status.CurrentReplicas).To(BeEquivalentTo(1))
		g.Expect(now.Status.UpdatedReplicas).To(BeEquivalentTo(1))
	}).Should(Succeed())
}

// OwnRevisions returns the ControllerRevisions of the child of a subset. It finds them by name, because
// they may have nothing else that identifies them.
func (w *Workload) OwnRevisions(subset string) (found []appsv1.ControllerRevision) {
	w.T.Helper()
	list := &appsv1.ControllerRevisionList{}
	w.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace))).To(Succeed())
	for _, cr := range list.Items {
		if strings.HasPrefix(cr.Name, w.Name+"-"+subset+"-") {
			found = append(found, cr)
		}
	}
	return found
}

// Spaced bounds the number of writes until the status reports that a policy overrides what United
// writes: some writes at once, then one per second for half a minute, and a few that the spec asks for.
const Spaced = 45

// ChildComesOut reports whether a change of the child of zone-a already gets the result that so checks
// for.
func (w *Workload) ChildComesOut(so func(*appsv1.StatefulSet) bool) func() bool {
	return func() bool {
		w.T.Helper()
		child := w.Child("zone-a")
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/probe":"x"}}}`))
		w.Expect(w.Client.Patch(w.Ctx, child, patch, client.DryRunAll)).To(Succeed())
		return so(child)
	}
}

// Override makes the API server change each update of a resource in the namespace until lift is called,
// as a mutating policy of the cluster's owner can. inForce reports whether the policy already changes
// updates.
func (e *Env) Override(resource, subresource, patches string, inForce func() bool) (lift func()) {
	e.T.Helper()
	return e.OverrideOn([]admissionv1.OperationType{admissionv1.Update}, resource, subresource, patches, inForce)
}

// OverrideOn is Override for some operations.
func (e *Env) OverrideOn(operations []admissionv1.OperationType, resource, subresource, patches string, inForce func() bool) (lift func()) {
	e.T.Helper()
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
	e.Expect(e.Client.Create(e.Ctx, policy)).To(Succeed())
	e.Expect(e.Client.Create(e.Ctx, binding)).To(Succeed())
	e.Eventually(inForce).Should(BeTrue())
	return func() {
		e.T.Helper()
		e.Expect(e.Client.Delete(e.Ctx, binding)).To(Succeed())
		e.Expect(e.Client.Delete(e.Ctx, policy)).To(Succeed())
	}
}

// Revisions returns the sorted names of the kept revisions.
func (w *Workload) Revisions() []string {
	w.T.Helper()
	list := &appsv1.ControllerRevisionList{}
	w.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
	var names []string
	for _, r := range list.Items {
		if _, ofChild := r.Labels[v1alpha1.LabelSubset]; !ofChild {
			names = append(names, r.Name)
		}
	}
	slices.Sort(names)
	return names
}

// NoMoreRevisions creates a quota that allows only the existing ControllerRevisions, until lift is
// called.
func (e *Env) NoMoreRevisions() (lift func()) {
	e.T.Helper()
	const resourceName = "count/controllerrevisions.apps"
	list := &appsv1.ControllerRevisionList{}
	e.Expect(e.List(e.Ctx, list, client.InNamespace(e.Namespace))).To(Succeed())
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "revisions"},
		Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{
			resourceName: *resource.NewQuantity(int64(len(list.Items)), resource.DecimalSI),
		}},
	}
	e.Expect(e.Client.Create(e.Ctx, quota)).To(Succeed())
	e.Eventually(func(g Gomega) {
		g.Expect(e.Get(e.Ctx, e.Key("revisions"), quota)).To(Succeed())
		used := quota.Status.Used[resourceName]
		g.Expect(used.Value()).To(BeEquivalentTo(len(list.Items)), "it is in force")
	}).Should(Succeed())
	return func() {
		e.T.Helper()
		e.Expect(e.Delete(e.Ctx, quota)).To(Succeed())
	}
}
