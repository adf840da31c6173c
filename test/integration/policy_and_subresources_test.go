// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

var (
	admission       = schema.GroupVersion{Group: "admissionregistration.k8s.io", Version: "v1"}
	policyResource  = admission.WithResource("validatingadmissionpolicies")
	bindingResource = admission.WithResource("validatingadmissionpolicybindings")
)

// TestPolicyHasNoWarnings reads the warnings of the control plane, which checks the types of the
// policy's expressions against the CRD and finds, for example, fields that do not exist. The test uses
// a copy of the policy without a binding, in which the variables and conditions are validations too,
// and the last validation is an error. Without that error the test would also pass if the policy had
// not been checked at all, because it existed before the schema of the CRD was published.
func TestPolicyHasNoWarnings(t *testing.T) { hasNoWarnings(t, "united-templates") }

func hasNoWarnings(t *testing.T, policy string) {
	t.Helper()
	name := policy + "-type-checked"
	g := NewWithT(t)
	policies := fixture.client.Resource(policyResource)
	installed, err := policies.Get(t.Context(), policy, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	copied := &unstructured.Unstructured{Object: map[string]any{"spec": installed.Object["spec"]}}
	copied.SetGroupVersionKind(installed.GroupVersionKind())
	copied.SetName(name)
	// The types of a wildcard are not checked.
	put(`[`+v1alpha1.GroupVersion.Version+`]`, "spec", "matchConstraints", "resourceRules", 0, "apiVersions")(copied.Object)
	checks := append(validationsOf(g, copied), map[string]any{"expression": "object.spec.nothing == 1", "message": "the control"})
	set(checks, "spec", "validations")(copied.Object)
	_, err = policies.Create(t.Context(), copied, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() { g.Expect(policies.Delete(context.Background(), name, metav1.DeleteOptions{})).To(Succeed()) })

	const control = "object.spec.nothing"
	round := int64(0)
	g.Eventually(func(g Gomega) {
		warnings, checked := warningsOf(t.Context(), g, name)
		g.Expect(checked).To(BeTrue(), "the current version has yet to be checked")
		if len(warnings) != 1 {
			round++ // a changed policy is checked again
			patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/validations/%d/message","value":"round %d"}]`, len(checks)-1, round)
			_, err := policies.Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{})
			g.Expect(err).NotTo(HaveOccurred())
		}
		g.Expect(warnings).To(ConsistOf(ContainSubstring(control)))
	}, startTimeout, 100*time.Millisecond).Should(Succeed())
}

// validationsOf returns the validations of a policy, and its variables and conditions in the form of
// validations.
func validationsOf(g Gomega, policy *unstructured.Unstructured) []any {
	lists := map[string][]any{}
	for _, field := range []string{"validations", "variables", "matchConditions"} {
		list, _, err := unstructured.NestedSlice(policy.Object, "spec", field)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(list).NotTo(BeEmpty(), field)
		lists[field] = list
	}
	checks := lists["validations"]
	for _, part := range append(lists["variables"], lists["matchConditions"]...) {
		expression := part.(map[string]any)["expression"]
		checks = append(checks, map[string]any{"expression": fmt.Sprintf("[%s] != []", expression)})
	}
	return checks
}

// warningsOf returns the warnings, and reports whether the current version of the policy has been checked.
func warningsOf(ctx context.Context, g Gomega, name string) (warnings []string, checked bool) {
	object, err := fixture.client.Resource(policyResource).Get(ctx, name, metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	var policy admissionregistrationv1.ValidatingAdmissionPolicy
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &policy)).To(Succeed())
	if policy.Status.ObservedGeneration != policy.Generation {
		return nil, false
	}
	for _, w := range policy.Status.TypeChecking.ExpressionWarnings {
		warnings = append(warnings, w.FieldRef+": "+w.Warning)
	}
	return warnings, true
}

func TestScale(t *testing.T) {
	const name = "scaled"
	g := NewWithT(t)
	store(t, with(t, name))
	status := get(t, name)
	set(parse(`{observedGeneration: 1, replicas: 5, readyReplicas: 5, availableReplicas: 5, updatedReplicas: 5,
		updatedReadyReplicas: 5, selector: app=web}`), "status")(status.Object)
	_, err := deployments().UpdateStatus(t.Context(), status, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	object, err := deployments().Get(t.Context(), name, metav1.GetOptions{}, "scale")
	g.Expect(err).NotTo(HaveOccurred())
	var scale autoscalingv1.Scale
	g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &scale)).To(Succeed())
	g.Expect(scale.Spec.Replicas).To(Equal(int32(6)))
	g.Expect(scale.Status).To(Equal(autoscalingv1.ScaleStatus{Replicas: 5, Selector: "app=web"}))

	set(int64(9), "spec", "replicas")(object.Object)
	_, err = deployments().Update(t.Context(), object, metav1.UpdateOptions{}, "scale")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*decode(g, get(t, name)).Spec.Replicas).To(Equal(int32(9)))

	_, err = fixture.cluster.Kubectl(t.Context(), "scale", "united/"+name, "--replicas=0")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(*decode(g, get(t, name)).Spec.Replicas).To(BeZero())

	object = get(t, name)
	set(int64(-1), "spec", "replicas")(object.Object)
	_, err = deployments().Update(t.Context(), object, metav1.UpdateOptions{}, "scale")
	g.Expect(err).To(HaveOccurred())
}

// TestSubresources checks that spec and status are written separately.
func TestSubresources(t *testing.T) {
	const name = "apart"
	g := NewWithT(t)
	store(t, with(t, name))
	object := get(t, name)
	set(int64(7), "spec", "replicas")(object.Object)
	set(int64(7), "status", "replicas")(object.Object)
	_, err := deployments().UpdateStatus(t.Context(), object.DeepCopy(), metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	stored := decode(g, get(t, name))
	g.Expect(*stored.Spec.Replicas).To(Equal(int32(6)))
	g.Expect(stored.Status.Replicas).To(Equal(int32(7)))
	g.Expect(stored.Generation).To(Equal(int64(1)))

	object = get(t, name)
	set(int64(8), "spec", "replicas")(object.Object)
	set(int64(8), "status", "replicas")(object.Object)
	_, err = deployments().Update(t.Context(), object, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	stored = decode(g, get(t, name))
	g.Expect(*stored.Spec.Replicas).To(Equal(int32(8)))
	g.Expect(stored.Status.Replicas).To(Equal(int32(7)))
	g.Expect(stored.Generation).To(Equal(int64(2)))
}

func TestColumns(t *testing.T) {
	const name = "columns"
	g := NewWithT(t)
	store(t, with(t, name))
	object := get(t, name)
	set(parse(`{observedGeneration: 1, replicas: 5, readyReplicas: 4, updatedReplicas: 3, availableReplicas: 2,
		updatedReadyReplicas: 1, conditions: [{type: Ready, status: "False", reason: RollingOut,
		message: "waiting for web-zone-b-2 (not ready since 2026-01-01T00:00:00Z)", lastTransitionTime: "2026-01-01T00:00:00Z"}]}`), "status")(object.Object)
	_, err := deployments().UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	table := tableOf(t, name)
	var columns []string
	for _, c := range table.ColumnDefinitions {
		columns = append(columns, fmt.Sprintf("%s/%d", c.Name, c.Priority))
	}
	g.Expect(columns).To(Equal([]string{"Name/0", "Desired/0", "Ready/0", "Updated/0", "Available/0", "Status/0", "Age/0", "Subsets/1", "Message/1"}))
	cells := table.Rows[0].Cells
	g.Expect(fmt.Sprint(cells[:6]...)).To(Equal(fmt.Sprint("columns", 6, 4, 3, 2, "RollingOut")))
	g.Expect(cells[8]).To(Equal("waiting for web-zone-b-2 (not ready since 2026-01-01T00:00:00Z)"))

	for _, resource := range []string{"united", "uniteddeployments", "uniteddeployment", "uniteddeployments.apps.united.dev"} {
		out, err := fixture.cluster.Kubectl(t.Context(), "get", resource, name)
		g.Expect(err).NotTo(HaveOccurred())
		lines := strings.Split(out, "\n")
		g.Expect(strings.Fields(lines[0])).To(Equal([]string{"NAME", "DESIRED", "READY", "UPDATED", "AVAILABLE", "STATUS", "AGE"}))
		g.Expect(strings.Fields(lines[1])[:6]).To(Equal([]string{name, "6", "4", "3", "2", "RollingOut"}))
	}
	out, err := fixture.cluster.Kubectl(t.Context(), "get", "united", name, "-o", "wide")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(And(ContainSubstring("MESSAGE"), ContainSubstring("waiting for web-zone-b-2 (not ready since 2026-01-01T00:00:00Z)")))
	out, err = fixture.cluster.Kubectl(t.Context(), "get", "all", "-o", "name")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(out).To(ContainSubstring("uniteddeployment.apps.united.dev/" + name))
}

func tableOf(t *testing.T, name string) *metav1.Table {
	t.Helper()
	g := NewWithT(t)
	client, err := kubernetes.NewForConfig(fixture.cluster.Config())
	g.Expect(err).NotTo(HaveOccurred())
	path := "/apis/" + v1alpha1.GroupVersion.String() + "/namespaces/default/uniteddeployments/" + name
	data, err := client.RESTClient().Get().AbsPath(path).SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	table := &metav1.Table{}
	g.Expect(json.Unmarshal(data, table)).To(Succeed())
	return table
}

// TestApplyTwice checks that the API server stores what is applied, so that a second apply changes
// nothing.
func TestApplyTwice(t *testing.T) {
	g := NewWithT(t)
	kubectl := func(args ...string) string {
		out, err := fixture.cluster.Kubectl(t.Context(), args...)
		g.Expect(err).NotTo(HaveOccurred())
		return out
	}
	for name, flags := range map[string][]string{"applied": nil, "server-applied": {"--server-side"}} {
		data, err := json.Marshal(with(t, name))
		g.Expect(err).NotTo(HaveOccurred())
		file := filepath.Join(t.TempDir(), "web.json")
		g.Expect(os.WriteFile(file, data, 0o600)).To(Succeed())
		apply := append([]string{"apply", "-f", file}, flags...)

		kubectl(apply...)
		// This is what the controller does. Before that, the first update of any kind stores the
		// default of the status.
		object := get(t, name)
		_, err = deployments().UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		first := get(t, name)
		again := kubectl(apply...)
		if flags == nil {
			g.Expect(again).To(ContainSubstring("unchanged"))
		}
		g.Expect(get(t, name).GetResourceVersion()).To(Equal(first.GetResourceVersion()))
		g.Expect(kubectl(append([]string{"diff", "-f", file}, flags...)...)).To(BeEmpty())

		kubectl("patch", "united", name, "--type=merge", "-p",
			`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":"50%","zone-c":null}}}}}`)
		partitions := decode(g, get(t, name)).Spec.UpdateStrategy.ManualUpdate.Partitions
		g.Expect(partitions).To(HaveLen(2))
		g.Expect(partitions["zone-b"].StrVal).To(Equal("50%"))
		kubectl("delete", "united", name)
	}
}
