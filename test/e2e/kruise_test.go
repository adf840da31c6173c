// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// withKruise ensures that kruise-manager runs. It starts on the first call: until then the tests run without
// its kinds.
func (p *plane) withKruise(t testing.TB) {
	t.Helper()
	if err := p.startKruise(); err != nil {
		t.Fatal(err)
	}
}

// cloneSets makes the children CloneSets.
func cloneSets(d *Draft) {
	deployments(d)
	d.Member = "cloneSetTemplate"
}

// advancedStatefulSets makes the children Advanced StatefulSets.
func advancedStatefulSets(d *Draft) {
	d.Member = "advancedStatefulSetTemplate"
	d.Template["spec"].(map[string]any)["podManagementPolicy"] = "Parallel"
}

// deleteOrphans deletes the pods of a subset that have no controller.
func (w *contracted) deleteOrphans(subset string) {
	w.t.Helper()
	w.Disturbed()
	for _, p := range w.podsOf(subset) {
		if metav1.GetControllerOf(&p) == nil {
			w.Expect(client.IgnoreNotFound(w.Delete(w.ctx, &p))).To(Succeed())
		}
	}
}

// TestKindsAdmissionCloneSet checks what is refused for a CloneSet.
func TestKindsAdmissionCloneSet(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const at = "spec.template.cloneSetTemplate.spec."
	coordinated := func(value any, path ...string) edit {
		return func(d *Draft) {
			rolling(`{}`)(d)
			templateField(value, path...)(d)
		}
	}
	for _, tc := range []struct {
		name string
		edit edit
		want []string
	}{
		{"replicas", templateField(int64(3), "spec", "replicas"), []string{at + "replicas"}},
		{"a partition", templateField(int64(1), "spec", "updateStrategy", "partition"), []string{at + "updateStrategy.partition", "partitions"}},
		{"paused", templateField(true, "spec", "updateStrategy", "paused"), []string{at + "updateStrategy.paused", "spec.paused"}},
		{"a strategy without a partition", templateField("OnDelete", "spec", "updateStrategy", "type"), []string{at + "updateStrategy.type"}},
		{"pods to delete", templateField([]any{"x"}, "spec", "scaleStrategy", "podsToDelete"), []string{at + "scaleStrategy.podsToDelete"}},
		{"maxUnavailable in a coordinated rollout", coordinated(int64(2), "spec", "updateStrategy", "maxUnavailable"), []string{at + "updateStrategy.maxUnavailable"}},
		{"an order in a coordinated rollout", coordinated(map[string]any{}, "spec", "updateStrategy", "priorityStrategy"), []string{at + "updateStrategy", "priorityStrategy"}},
		{"another order in a coordinated rollout", coordinated([]any{}, "spec", "updateStrategy", "scatterStrategy"), []string{at + "updateStrategy", "scatterStrategy"}},
		{"another selector", templateField(map[string]any{"matchLabels": map[string]any{"app": "other"}}, "spec", "selector"), []string{at + "selector"}},
		{"a StatefulSet", func(d *Draft) { d.Template["kind"] = "StatefulSet" }, []string{"spec.template.cloneSetTemplate.kind", "apps.kruise.io/v1alpha1 CloneSet"}},
		{"too long a name", func(d *Draft) { d.Name = strings.Repeat("x", 48) }, []string{"52 characters"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := e.TryCreate(draft("web", zones("", ""), cloneSets, tc.edit))
			for _, word := range tc.want {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("want %q in: %v", word, err)
				}
			}
		})
	}
	// The control: valid specs, some of them under one strategy only.
	w := e.Create(draft("well", replicas(0), zones("", ""), cloneSets, partitions(parts{"zone-a": "50%", "zone-b": 1}),
		templateField("InPlaceIfPossible", "spec", "updateStrategy", "type"),
		templateField(int64(2), "spec", "updateStrategy", "maxUnavailable"),
		func(d *Draft) { d.Template["apiVersion"], d.Template["kind"] = "apps.kruise.io/v1alpha1", "CloneSet" }))
	w.Expect(w.TryPatch(types.MergePatchType, `{"spec":{"template":{"cloneSetTemplate":null,"statefulSetTemplate":{}}}}`)).
		To(MatchError(ContainSubstring("the kind of the template is immutable")))
	w.Expect(w.TryPatch(types.MergePatchType, `{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null}}}`)).
		To(MatchError(ContainSubstring("updateStrategy.maxUnavailable")), "another strategy has other rules")
}

// TestKindsAdmissionAdvancedStatefulSet checks what is refused for an Advanced StatefulSet.
func TestKindsAdmissionAdvancedStatefulSet(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	const at = "spec.template.advancedStatefulSetTemplate.spec."
	member := func(value any, name string) edit {
		return templateField(value, "spec", "updateStrategy", "rollingUpdate", name)
	}
	for _, tc := range []struct {
		name string
		edit edit
		want []string
	}{
		{"replicas", templateField(int64(3), "spec", "replicas"), []string{at + "replicas"}},
		{"a partition", member(int64(1), "partition"), []string{at + "updateStrategy.rollingUpdate.partition", "partitions"}},
		{"paused", member(true, "paused"), []string{at + "updateStrategy.rollingUpdate.paused", "spec.paused"}},
		{"the first ordinal", templateField(int64(2), "spec", "ordinals", "start"), []string{at + "ordinals.start: must be 0 or absent", "StatefulSetStartOrdinal"}},
		{"another order", member(map[string]any{}, "unorderedUpdate"), []string{at + "updateStrategy.rollingUpdate.unorderedUpdate"}},
		{"a strategy without a partition", templateField("OnDelete", "spec", "updateStrategy", "type"), []string{at + "updateStrategy.type"}},
		{"maxUnavailable in a coordinated rollout", func(d *Draft) {
			rolling(`{}`)(d)
			member(int64(2), "maxUnavailable")(d)
		}, []string{at + "updateStrategy.rollingUpdate.maxUnavailable"}},
		{"a StatefulSet of Kubernetes", func(d *Draft) { d.Template["apiVersion"] = "apps/v1" }, []string{"spec.template.advancedStatefulSetTemplate.apiVersion", "apps.kruise.io/v1beta1 StatefulSet"}},
		{"too long a name", func(d *Draft) { d.Name = strings.Repeat("x", 48) }, []string{"52 characters"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := e.TryCreate(draft("web", zones("", ""), advancedStatefulSets, tc.edit))
			for _, word := range tc.want {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("want %q in: %v", word, err)
				}
			}
		})
	}
	// The control: valid specs, including those that are valid for a StatefulSet of Kubernetes.
	e.Create(draft("well", replicas(0), zones("", ""), advancedStatefulSets, partitions(parts{"zone-a": "50%"}), member(int64(2), "maxUnavailable"),
		member("InPlaceIfPossible", "podUpdatePolicy"), templateField([]any{int64(1), "3-5"}, "spec", "reserveOrdinals"),
		func(d *Draft) { d.Template["apiVersion"], d.Template["kind"] = "apps.kruise.io/v1beta1", "StatefulSet" }))
	e.Create(draft("other", replicas(0), zones("", ""), rolling(`{}`), member(int64(2), "maxUnavailable")))
}

// TestKruiseShortName checks that every form of command in the documents finds our UnitedDeployment
// where OpenKruise's UnitedDeployment, of the same kind and in the same namespace, is installed too.
func TestKruiseShortName(t *testing.T) {
	t.Parallel()
	shared.withKruise(t)
	e := newEnv(t)
	w := e.Create(draft("web", replicas(4), zones("", ""), partitions(parts{"zone-a": "100%"})))
	w.Settle()
	theirs := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "UnitedDeployment",
		"metadata": map[string]any{"namespace": e.Namespace, "name": "web"},
		"spec": map[string]any{
			"replicas": int64(0),
			"selector": map[string]any{"matchLabels": map[string]any{"of": "theirs"}},
			"template": map[string]any{"statefulSetTemplate": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"of": "theirs"}},
				"spec": map[string]any{"serviceName": "web", "template": map[string]any{
					"metadata": map[string]any{"labels": map[string]any{"of": "theirs"}},
					"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": image("v1")}}},
				}},
			}},
			"topology": map[string]any{"subsets": []any{map[string]any{"name": "other"}}},
		},
	}}
	e.Expect(e.Client.Create(e.ctx, theirs)).To(Succeed())
	e.Expect(e.Kubectl("get", "ud", "web", "-o", "jsonpath={.apiVersion}")).To(Equal("apps.kruise.io/v1alpha1"), "the control: ud is theirs")

	e.Expect(e.Kubectl("get", "united", "web", "-o", "jsonpath={.apiVersion}")).To(Equal(v1alpha1.GroupVersion.String()))
	e.Expect(e.Kubectl("get", "united,sts", "-o", "wide")).To(ContainSubstring("uniteddeployment.apps.united.dev/web"))
	e.Kubectl("patch", "united", "web", "--type=merge", "-p", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":0}}}}}`)
	e.Kubectl("scale", "united/web", "--replicas=6")
	e.Kubectl("annotate", "--overwrite", "united", "web", "example.com/a=b")
	e.Kubectl("wait", "--for=condition=Ready", "united/web", "--timeout=60s")
	e.Expect(e.Kubectl("describe", "united", "web")).To(ContainSubstring("RolloutComplete"))
	e.Expect(w.Asked("zone-a", "zone-b")).To(Equal(int32(6)))
	e.Kubectl("delete", "united", "web")
	e.Expect(e.Client.Get(e.ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed(), "theirs is still there")
}
