// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	kinds "github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// inGroups replaces the subsets of the sample by prefill and decode, and sets spec.topology.colocation.
func inGroups(colocation string, more ...edit) edit {
	return all(append([]edit{
		put(`[{name: prefill}, {name: decode}]`, "spec", "topology", "subsets"), drop("spec", "updateStrategy"),
		put(colocation, "spec", "topology", "colocation"),
	}, more...)...)
}

// TestColocation checks spec.topology.colocation at admission, and in the controller, which repeats the
// checks.
func TestColocation(t *testing.T) {
	const field, good = "spec.topology.colocation", `{topologyKey: kubernetes.io/hostname, ratios: {prefill: 2, decode: 1}}`
	subsets := func(text string) edit { return put(text, "spec", "topology", "subsets") }
	kind := func(text string) edit { return put(text, "spec", "template") }
	required := `{requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: zone, labelSelector: {matchLabels: {a: b}}}]}`
	const affinity = ".spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution: "
	const lws = `{leaderWorkerSetTemplate: {spec: {leaderWorkerTemplate: {workerTemplate: {metadata: {labels: {app: web}}, spec: {}}, leaderTemplate: {metadata: {labels: {app: web}}, spec: `
	for _, r := range []struct {
		refusal
		// by says who refuses it, if not both.
		by string
	}{
		{refusal{"an unknown subset", inGroups(`{topologyKey: zone, ratios: {prefill: 2, router: 1}}`), []string{field + ".ratios", "there is no"}}, ""},
		{refusal{"no subset", inGroups(`{topologyKey: zone, ratios: {}}`), []string{field + ".ratios"}}, ""},
		{refusal{"a ratio of 0", inGroups(`{topologyKey: zone, ratios: {prefill: 2, decode: 0}}`), []string{field + ".ratios", "1"}}, ""},
		{refusal{"no key", inGroups(`{topologyKey: "", ratios: {prefill: 2}}`, subsets(`[{name: prefill}]`)), []string{field + ".topologyKey"}}, ""},
		{refusal{"a key that is none", inGroups(`{topologyKey: "a b", ratios: {prefill: 2}}`, subsets(`[{name: prefill}]`)), []string{field + ".topologyKey"}}, "schema"},
		{refusal{"another order", inGroups(`{topologyKey: zone, ratios: {prefill: 2, decode: 1}, order: Random}`), []string{field + ".order"}}, ""},
		{refusal{"no time", inGroups(`{topologyKey: zone, ratios: {prefill: 2, decode: 1}, timeoutSeconds: 0}`), []string{field + ".timeoutSeconds"}}, "schema"},
		{refusal{"Adaptive", inGroups(good, scheduled(`{type: Adaptive}`)), []string{field, "cannot be used with scheduleStrategy Adaptive"}}, ""},
		{refusal{"replicas of a member", inGroups(good, subsets(`[{name: prefill, replicas: 2}, {name: decode}]`)), []string{"spec.topology.subsets", "whole groups"}}, ""},
		{refusal{"a minimum of a member", inGroups(good, subsets(`[{name: prefill}, {name: decode, minReplicas: 1}]`)), []string{"spec.topology.subsets", "whole groups"}}, ""},
		{refusal{"a maximum of a member", inGroups(good, subsets(`[{name: prefill}, {name: decode, maxReplicas: 1}]`)), []string{"spec.topology.subsets", "whole groups"}}, ""},
		{refusal{"another subset that takes the rest", inGroups(good, subsets(`[{name: prefill}, {name: decode}, {name: router}]`)), []string{"spec.topology.subsets", "must have replicas or maxReplicas"}}, ""},
		{refusal{"Deployments", inGroups(good, kind(`{deploymentTemplate: {spec: {template: {metadata: {labels: {app: web}}}}}}`)), []string{field, "is only for kinds whose pods have ordinals"}}, ""},
		{refusal{"CloneSets", inGroups(good, kind(`{cloneSetTemplate: {spec: {template: {metadata: {labels: {app: web}}}}}}`)), []string{field, "is only for kinds whose pods have ordinals"}}, ""},
		{refusal{"reserved ordinals", inGroups(good, kind(`{advancedStatefulSetTemplate: {spec: {reserveOrdinals: [1], template: {metadata: {labels: {app: web}}}}}}`)),
			[]string{"spec.template.advancedStatefulSetTemplate.spec.reserveOrdinals: "}}, ""},
		{refusal{"an affinity of the template", inGroups(good, put(required, inTemplate("spec", "template", "spec", "affinity", "podAffinity")...)),
			[]string{"spec.template.statefulSetTemplate.spec.template" + affinity}}, ""},
		{refusal{"an affinity of a member", inGroups(good, subsets(`[{name: prefill}, {name: decode, patch: {spec: {template: {spec: {affinity: {podAffinity: `+required+`}}}}}}]`)),
			[]string{"spec.topology.subsets[decode].patch.spec.template" + affinity}}, ""},
		{refusal{"an affinity of leaders", inGroups(good, kind(lws+`{affinity: {podAffinity: `+required+`}}}}}}}`)),
			[]string{"spec.template.leaderWorkerSetTemplate.spec.leaderWorkerTemplate.leaderTemplate" + affinity}}, ""},
		{refusal{"exclusive placement", inGroups(good, kind(lws+`{}}}}}}`), put(`{leaderworkerset.sigs.k8s.io/exclusive-topology: zone}`, "spec", "template", "leaderWorkerSetTemplate", "metadata", "annotations")),
			[]string{"spec.template.leaderWorkerSetTemplate.metadata.annotations", "cannot be used with spec.topology.colocation"}}, ""},
		{refusal{"exclusive placement of leaders", inGroups(good, kind(lws+`{}}}}}}`),
			put(`{leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology: zone}`, "spec", "template", "leaderWorkerSetTemplate", "spec", "leaderWorkerTemplate", "leaderTemplate", "metadata", "annotations")),
			[]string{"spec.template.leaderWorkerSetTemplate.spec.leaderWorkerTemplate.leaderTemplate.metadata.annotations", "cannot be used with spec.topology.colocation"}}, ""},
		{refusal{"exclusive placement of a member", inGroups(good, kind(lws+`{}}}}}}`),
			subsets(`[{name: prefill}, {name: decode, patch: {metadata: {annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: zone}}}}]`)),
			[]string{"spec.topology.subsets[decode].patch.metadata.annotations", "cannot be used with spec.topology.colocation"}}, ""},
		{refusal{"two schedulers", inGroups(good, subsets(`[{name: prefill}, {name: decode, patch: {spec: {template: {spec: {schedulerName: mine}}}}}]`)),
			[]string{"spec.topology.subsets[decode].patch.spec.template.spec.schedulerName: ", "the same scheduler"}}, ""},
		{refusal{"leaders with another scheduler", inGroups(good, kind(lws+`{schedulerName: mine}}}}}}`)), []string{"schedulerName: ", "the same scheduler"}}, "controller"},
		{refusal{"node pools that are disjoint", inGroups(good, subsets(`[{name: prefill, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]}},
			{name: decode, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [b, c]}]}]}}]`)),
			[]string{"spec.topology.subsets[decode].nodeSelector: ", "contradicts that of subset prefill"}}, "controller"},
		{refusal{"the label of the group", inGroups(good, set("1", templateLabels("united.dev/colocation-group")...)), []string{podLabelsPath + "[united.dev/colocation-group]: must not be set"}}, "policy"},
		{refusal{"the label of the colocation", inGroups(good, set("1", templateLabels("united.dev/colocation")...)), []string{podLabelsPath + "[united.dev/colocation]: must not be set"}}, "policy"},
		{refusal{"the label of the ratio", inGroups(good, set("1", templateLabels("united.dev/colocation-ratio")...)), []string{podLabelsPath + "[united.dev/colocation-ratio]: must not be set"}}, "policy"},
		{refusal{"a selector of groups", inGroups(good, put(`{matchLabels: {app: web, united.dev/colocation-group: "1"}}`, "spec", "selector")),
			[]string{"spec.selector", "must not have the labels of spec.topology.colocation"}}, ""},
		{refusal{"a selector without groups", inGroups(good, put(`{matchExpressions: [{key: app, operator: Exists}, {key: united.dev/colocation-group, operator: DoesNotExist}]}`, "spec", "selector")),
			[]string{"spec.selector", "must not have the labels of spec.topology.colocation"}}, ""},
	} {
		t.Run(r.title, func(t *testing.T) {
			if r.by != "controller" {
				expectRefused(t, "", r.refusal)
			}
			if r.by == "schema" || r.by == "policy" {
				return
			}
			g := NewWithT(t)
			_, err := readSpec(g, with(t, "refused", r.edit))
			g.Expect(err).To(MatchError(ContainSubstring("spec.")))
			if r.by == "controller" {
				for _, words := range r.want {
					g.Expect(err).To(MatchError(ContainSubstring(words)))
				}
			}
		})
	}
	for title, e := range map[string]edit{
		"the example":   inGroups(good),
		"all fields":    inGroups(`{topologyKey: topology.kubernetes.io/zone, ratios: {prefill: 2}, order: Parallel, exclusive: true, timeoutSeconds: 1}`, subsets(`[{name: prefill}, {name: router, replicas: 1}]`)),
		"bounds":        inGroups(`{topologyKey: zone, ratios: {prefill: 2}}`, subsets(`[{name: prefill}, {name: router, minReplicas: 1, maxReplicas: "50%"}]`)),
		"one scheduler": inGroups(good, subsets(`[{name: prefill, patch: {spec: {template: {spec: {schedulerName: mine}}}}}, {name: decode, patch: {spec: {template: {spec: {schedulerName: mine}}}}}]`)),
		"an affinity of another subset": inGroups(`{topologyKey: zone, ratios: {prefill: 2}}`,
			subsets(`[{name: prefill}, {name: router, replicas: 1, patch: {spec: {template: {spec: {affinity: {podAffinity: `+required+`}}}}}}]`)),
		"an anti-affinity":                     inGroups(good, put(required, inTemplate("spec", "template", "spec", "affinity", "podAntiAffinity")...)),
		"exclusive placement of a StatefulSet": inGroups(good, put(`{leaderworkerset.sigs.k8s.io/exclusive-topology: zone}`, inTemplate("metadata", "annotations")...)),
		"exclusive placement of another subset": inGroups(`{topologyKey: zone, ratios: {prefill: 2}}`, kind(lws+`{}}}}}}`),
			subsets(`[{name: prefill}, {name: router, replicas: 1, patch: {metadata: {annotations: {leaderworkerset.sigs.k8s.io/exclusive-topology: zone}}}}]`)),
		"LeaderWorkerSets": inGroups(good, kind(lws+`{}}}}}}`)),
		"pools in one zone": inGroups(`{topologyKey: topology.kubernetes.io/zone, ratios: {prefill: 2, decode: 1}}`, subsets(`[
			{name: prefill, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [a]}]}]}},
			{name: decode, nodeSelector: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: In, values: [b]}]}]}}]`)),
	} {
		t.Run("a control: "+title, func(t *testing.T) {
			g := NewWithT(t)
			object := with(t, "accepted", e)
			_, err := readSpec(g, object)
			g.Expect(err).NotTo(HaveOccurred())
			_, err = deployments().Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun, FieldValidation: "Strict"})
			g.Expect(err).NotTo(HaveOccurred())
		})
	}
	t.Run("defaults", func(t *testing.T) {
		g := NewWithT(t)
		made, err := deployments().Create(t.Context(), with(t, "accepted", inGroups(good)), metav1.CreateOptions{DryRun: dryRun})
		g.Expect(err).NotTo(HaveOccurred())
		got, _, _ := unstructured.NestedMap(made.Object, "spec", "topology", "colocation")
		g.Expect(got).To(And(HaveKeyWithValue("order", "Sequential"), HaveKeyWithValue("timeoutSeconds", int64(60)), Not(HaveKey("exclusive"))))
	})
}

func readSpec(g *WithT, object *unstructured.Unstructured) (*spec.Spec, error) {
	return spec.Read(decode(g, object), kinds.Registry())
}

// TestColocationUpdates checks what may change: the ratios are immutable, everything else is not.
func TestColocationUpdates(t *testing.T) {
	g := NewWithT(t)
	const good = `{topologyKey: kubernetes.io/hostname, ratios: {prefill: 2, decode: 1}}`
	made, err := deployments().Create(t.Context(), with(t, "grouped", inGroups(good)), metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	t.Cleanup(func() {
		g.Expect(deployments().Delete(context.WithoutCancel(t.Context()), made.GetName(), metav1.DeleteOptions{})).To(Succeed())
	})
	update := func(e edit) error {
		object := made.DeepCopy()
		e(object.Object)
		_, err := deployments().Update(t.Context(), object, metav1.UpdateOptions{DryRun: dryRun})
		return err
	}
	g.Expect(update(put(`{prefill: 3, decode: 1}`, "spec", "topology", "colocation", "ratios"))).To(MatchError(
		And(ContainSubstring("spec.topology.colocation.ratios: "), ContainSubstring("is immutable"))))
	for _, e := range []edit{
		put(`topology.kubernetes.io/zone`, "spec", "topology", "colocation", "topologyKey"),
		put(`Parallel`, "spec", "topology", "colocation", "order"),
		drop("spec", "topology", "colocation"),
	} {
		g.Expect(update(e)).To(Succeed())
	}
	affinity := put(`[{topologyKey: zone, labelSelector: {matchLabels: {a: b}}}]`,
		inTemplate("spec", "template", "spec", "affinity", "podAffinity", "requiredDuringSchedulingIgnoredDuringExecution")...)
	g.Expect(update(affinity)).To(MatchError(ContainSubstring("cannot be used with spec.topology.colocation")))
	g.Expect(update(all(affinity, drop("spec", "topology", "colocation")))).To(Succeed())
}

// TestColocationOrdinals checks that the first ordinals stay as long as there are groups.
func TestColocationOrdinals(t *testing.T) {
	g := NewWithT(t)
	const good = `{topologyKey: kubernetes.io/hostname, ratios: {prefill: 2, decode: 1}}`
	const refusal = ".spec.ordinals: cannot be changed with spec.topology.colocation"
	made := func(name string, e edit) *unstructured.Unstructured {
		made, err := deployments().Create(t.Context(), with(t, name, e), metav1.CreateOptions{})
		g.Expect(err).NotTo(HaveOccurred())
		t.Cleanup(func() {
			g.Expect(deployments().Delete(context.WithoutCancel(t.Context()), name, metav1.DeleteOptions{})).To(Succeed())
		})
		return made
	}
	update := func(object *unstructured.Unstructured, e edit) error {
		object = object.DeepCopy()
		e(object.Object)
		_, err := deployments().Update(t.Context(), object, metav1.UpdateOptions{DryRun: dryRun})
		return err
	}
	start := func(text string) edit { return put(text, inTemplate("spec", "ordinals")...) }
	patched := func(prefill, router string) edit {
		return put(`[{name: prefill, patch: {spec: `+prefill+`}}, {name: decode}, {name: router, replicas: 1, patch: {spec: `+router+`}}]`, "spec", "topology", "subsets")
	}
	grouped := made("ordinals", all(inGroups(good), patched(`{}`, `{}`), start(`{start: 5}`)))
	for _, e := range []edit{start(`{start: 0}`), drop(inTemplate("spec", "ordinals")...), start(`{start: 6}`)} {
		g.Expect(update(grouped, e)).To(MatchError(ContainSubstring("spec.template.statefulSetTemplate" + refusal)))
		g.Expect(update(grouped, all(e, drop("spec", "topology", "colocation")))).To(MatchError(ContainSubstring(refusal)), "protected pods still have a group")
	}
	for _, patch := range []string{`{ordinals: {start: 7}}`, `{ordinals: null}`, `{ordinals: {start: null}}`} {
		g.Expect(update(grouped, patched(patch, `{}`))).To(MatchError(ContainSubstring("spec.topology.subsets[prefill].patch"+refusal)), patch)
		g.Expect(update(grouped, patched(`{}`, patch))).To(Succeed(), "it is no member")
	}
	g.Expect(update(grouped, patched(`{podManagementPolicy: Parallel}`, `{}`))).To(Succeed())
	g.Expect(update(grouped, put(`7`, "spec", "replicas"))).To(Succeed())
	plain := made("no-ordinals", all(inGroups(good), drop("spec", "topology", "colocation")))
	g.Expect(update(plain, all(put(good, "spec", "topology", "colocation"), start(`{start: 5}`)))).To(Succeed())

	// As many members as there may be.
	ratios := map[string]any{}
	for _, sub := range subsets(100, "s") {
		ratios[sub.(map[string]any)["name"].(string)] = int64(1)
	}
	most := all(inGroups(good), set(subsets(100, "s"), "spec", "topology", "subsets"), set(ratios, "spec", "topology", "colocation", "ratios"), start(`{start: 5}`))
	many := made("many-ordinals", most)
	g.Expect(update(many, put(`v2`, inTemplate("metadata", "labels", "app")...))).To(Succeed())
	g.Expect(update(many, start(`{start: 4}`))).To(MatchError(ContainSubstring(refusal)))
	first := put(`{spec: {ordinals: {start: 3}}}`, inSubset(99, "patch")...)
	g.Expect(update(many, first)).To(MatchError(ContainSubstring(refusal)))
}
