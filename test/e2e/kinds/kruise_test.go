// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestKindsAdmissionCloneSet checks what is refused for a CloneSet.
func TestKindsAdmissionCloneSet(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	const at = "spec.template.cloneSetTemplate.spec."
	coordinated := func(value any, path ...string) Edit {
		return func(d *Draft) {
			Rolling(`{}`)(d)
			TemplateField(value, path...)(d)
		}
	}
	for _, tc := range []struct {
		name string
		edit Edit
		want []string
	}{
		{"replicas", TemplateField(int64(3), "spec", "replicas"), []string{at + "replicas"}},
		{"a partition", TemplateField(int64(1), "spec", "updateStrategy", "partition"), []string{at + "updateStrategy.partition", "partitions"}},
		{"paused", TemplateField(true, "spec", "updateStrategy", "paused"), []string{at + "updateStrategy.paused", "spec.paused"}},
		{"a strategy without a partition", TemplateField("OnDelete", "spec", "updateStrategy", "type"), []string{at + "updateStrategy.type"}},
		{"pods to delete", TemplateField([]any{"x"}, "spec", "scaleStrategy", "podsToDelete"), []string{at + "scaleStrategy.podsToDelete"}},
		{"maxUnavailable in a coordinated rollout", coordinated(int64(2), "spec", "updateStrategy", "maxUnavailable"), []string{at + "updateStrategy.maxUnavailable"}},
		{"an order in a coordinated rollout", coordinated(map[string]any{}, "spec", "updateStrategy", "priorityStrategy"), []string{at + "updateStrategy", "priorityStrategy"}},
		{"another order in a coordinated rollout", coordinated([]any{}, "spec", "updateStrategy", "scatterStrategy"), []string{at + "updateStrategy", "scatterStrategy"}},
		{"another selector", TemplateField(map[string]any{"matchLabels": map[string]any{"app": "other"}}, "spec", "selector"), []string{at + "selector"}},
		{"a StatefulSet", func(d *Draft) { d.Template["kind"] = "StatefulSet" }, []string{"spec.template.cloneSetTemplate.kind", "apps.kruise.io/v1alpha1 CloneSet"}},
		{"too long a name", func(d *Draft) { d.Name = strings.Repeat("x", 48) }, []string{"52 characters"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := e.TryCreate(NewDraft("web", Zones("", ""), CloneSets, tc.edit))
			for _, word := range tc.want {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("want %q in: %v", word, err)
				}
			}
		})
	}
	// The control: valid specs, some of them under one strategy only.
	w := e.Create(NewDraft("well", Replicas(0), Zones("", ""), CloneSets, Partitions(Parts{"zone-a": "50%", "zone-b": 1}),
		TemplateField("InPlaceIfPossible", "spec", "updateStrategy", "type"),
		TemplateField(int64(2), "spec", "updateStrategy", "maxUnavailable"),
		func(d *Draft) { d.Template["apiVersion"], d.Template["kind"] = "apps.kruise.io/v1alpha1", "CloneSet" }))
	w.Expect(w.TryPatch(types.MergePatchType, `{"spec":{"template":{"cloneSetTemplate":null,"statefulSetTemplate":{}}}}`)).
		To(MatchError(ContainSubstring("the kind of the template is immutable")))
	w.Expect(w.TryPatch(types.MergePatchType, `{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{}}}}`)).
		To(MatchError(ContainSubstring("updateStrategy.maxUnavailable")), "another strategy has other rules")
}

// TestKindsAdmissionAdvancedStatefulSet checks what is refused for an Advanced StatefulSet.
func TestKindsAdmissionAdvancedStatefulSet(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	const at = "spec.template.advancedStatefulSetTemplate.spec."
	member := func(value any, name string) Edit {
		return TemplateField(value, "spec", "updateStrategy", "rollingUpdate", name)
	}
	for _, tc := range []struct {
		name string
		edit Edit
		want []string
	}{
		{"replicas", TemplateField(int64(3), "spec", "replicas"), []string{at + "replicas"}},
		{"a partition", member(int64(1), "partition"), []string{at + "updateStrategy.rollingUpdate.partition", "partitions"}},
		{"paused", member(true, "paused"), []string{at + "updateStrategy.rollingUpdate.paused", "spec.paused"}},
		{"the first ordinal", TemplateField(int64(2), "spec", "ordinals", "start"), []string{at + "ordinals.start: must be 0 or absent", "StatefulSetStartOrdinal"}},
		{"another order", member(map[string]any{}, "unorderedUpdate"), []string{at + "updateStrategy.rollingUpdate.unorderedUpdate"}},
		{"a strategy without a partition", TemplateField("OnDelete", "spec", "updateStrategy", "type"), []string{at + "updateStrategy.type"}},
		{"maxUnavailable in a coordinated rollout", func(d *Draft) {
			Rolling(`{}`)(d)
			member(int64(2), "maxUnavailable")(d)
		}, []string{at + "updateStrategy.rollingUpdate.maxUnavailable"}},
		{"a StatefulSet of Kubernetes", func(d *Draft) { d.Template["apiVersion"] = "apps/v1" }, []string{"spec.template.advancedStatefulSetTemplate.apiVersion", "apps.kruise.io/v1beta1 StatefulSet"}},
		{"too long a name", func(d *Draft) { d.Name = strings.Repeat("x", 48) }, []string{"52 characters"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := e.TryCreate(NewDraft("web", Zones("", ""), AdvancedStatefulSets, tc.edit))
			for _, word := range tc.want {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("want %q in: %v", word, err)
				}
			}
		})
	}
	// The control: valid specs, including those that are valid for a StatefulSet of Kubernetes.
	e.Create(NewDraft("well", Replicas(0), Zones("", ""), AdvancedStatefulSets, Partitions(Parts{"zone-a": "50%"}), member(int64(2), "maxUnavailable"),
		member("InPlaceIfPossible", "podUpdatePolicy"), TemplateField([]any{int64(1), "3-5"}, "spec", "reserveOrdinals"),
		func(d *Draft) { d.Template["apiVersion"], d.Template["kind"] = "apps.kruise.io/v1beta1", "StatefulSet" }))
	e.Create(NewDraft("other", Replicas(0), Zones("", ""), Rolling(`{}`), member(int64(2), "maxUnavailable")))
}

// TestKruiseShortName checks that every form of command in the documents finds our UnitedDeployment
// where OpenKruise's UnitedDeployment, of the same kind and in the same namespace, is installed too.
func TestKruiseShortName(t *testing.T) {
	t.Parallel()
	Shared.WithKruise(t)
	e := NewEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Partitions(Parts{"zone-a": "100%"})))
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
					"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": Image("v1")}}},
				}},
			}},
			"topology": map[string]any{"subsets": []any{map[string]any{"name": "other"}}},
		},
	}}
	e.Expect(e.Client.Create(e.Ctx, theirs)).To(Succeed())
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
	e.Expect(e.Client.Get(e.Ctx, client.ObjectKeyFromObject(theirs), theirs)).To(Succeed(), "theirs is still there")
}
