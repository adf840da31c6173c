// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func TestAccepted(t *testing.T) {
	accepted := map[string]edit{
		"the sample": all(),
		"the least": all(drop("spec", "replicas"), drop("spec", "topology"), drop("spec", "updateStrategy"),
			put(`{labels: {app: web}}`, inTemplate("spec", "template", "metadata")...)),
		"empty topology": all(put(`{}`, "spec", "topology"), drop(inManual("partitions")...)),
		"no subsets":     all(put(`{subsets: []}`, "spec", "topology"), drop(inManual("partitions")...)),
		"nulls where there is a default": all(put(`null`, "spec", "topology"), put(`null`, "spec", "updateStrategy"),
			put(`null`, "spec", "replicas"), put(`null`, "spec", "revisionHistoryLimit")),
		"nulls in a subset": put(`{name: zone-c, replicas: null, nodeSelector: null, tolerations: null, patch: null}`, inSubset(2)...),
		"empty strategy":    put(`{}`, "spec", "updateStrategy"),
		"zeros": all(put(`0`, "spec", "replicas"), put(`0`, "spec", "revisionHistoryLimit"), put(`0`, "spec", "minReadySeconds"),
			put(`0`, inSubset(0, "replicas")...), put(`0`, inManual("defaultPartition")...), put(`0`, inManual("partitions", "zone-b")...)),
		"largest numbers": all(put(`2147483647`, "spec", "replicas"), put(`2147483647`, "spec", "revisionHistoryLimit"),
			put(`2147483647`, "spec", "minReadySeconds"), put(`2147483647`, "spec", "progressDeadlineSeconds"),
			put(`2147483647`, inSubset(0, "replicas")...), put(`2147483647`, inManual("defaultPartition")...),
			put(`2147483647`, inManual("partitions", "zone-b")...)),
		"paused": put(`true`, "spec", "paused"),

		"selector In":                  expression(`In, values: [api, web]`),
		"selector NotIn":               expression(`NotIn, values: [api]`),
		"selector Exists":              expression(`Exists`),
		"selector NotIn, label absent": put(`{matchExpressions: [{key: none, operator: NotIn, values: [a]}]}`, "spec", "selector"),
		"selector DoesNotExist":        put(`{matchExpressions: [{key: none, operator: DoesNotExist}]}`, "spec", "selector"),
		"selector on the controller's labels": put(`{matchLabels: {united.dev/name: accepted},
			matchExpressions: [{key: united.dev/subset, operator: Exists}, {key: united.dev/name, operator: In, values: [accepted]}]}`,
			"spec", "selector"),
		"selector on all subsets": put(`{matchExpressions: [{key: united.dev/subset, operator: In, values: [zone-c, zone-b, zone-a]}]}`,
			"spec", "selector"),
		"selector on a subset to come": all(drop("spec", "topology"), drop("spec", "updateStrategy"),
			put(`{matchLabels: {united.dev/subset: zone-a}}`, "spec", "selector"), drop(templateLabels()...)),
		"a label from patches": all(setSubsets(1), drop(inManual("partitions")...), drop(templateLabels()...),
			put(`{spec: {template: {metadata: {labels: {app: web}}}}}`, inSubset(0, "patch")...)),

		"a copied StatefulSet": all(set("apps/v1", inTemplate("apiVersion")...), set("StatefulSet", inTemplate("kind")...),
			put(`{matchLabels: {app: web}}`, inTemplate("spec", "selector")...),
			put(`{name: null, creationTimestamp: null, labels: {a: b}, annotations: {a: b}}`, inTemplate("metadata")...),
			put(`{type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}`, inTemplate("spec", "updateStrategy")...)),
		"a copied selector in another order": all(
			put(`{matchExpressions: [{key: app, operator: Exists}, {key: b, operator: DoesNotExist}]}`, "spec", "selector"),
			put(`{matchExpressions: [{key: b, operator: DoesNotExist}, {key: app, operator: Exists}]}`, inTemplate("spec", "selector")...)),
		"nulls in the template": all(put(`null`, inTemplate("metadata")...), put(`null`, inTemplate("spec", "replicas")...),
			put(`null`, inTemplate("spec", "selector")...), put(`{type: null, rollingUpdate: {partition: null}}`, inTemplate("spec", "updateStrategy")...)),
		"null strategy":        put(`null`, inTemplate("spec", "updateStrategy")...),
		"null rolling update":  put(`{rollingUpdate: null}`, inTemplate("spec", "updateStrategy")...),
		"fields nobody knows":  put(`{a: [1, {b: null}]}`, inTemplate("spec", "someday")...),
		"a pod without a spec": drop(inTemplate("spec", "template", "spec")...), // the API server refuses it later, in the child

		"empty patch":                  put(`{}`, inPatch()...),
		"patch of metadata alone":      put(`{metadata: {labels: {a: b}}}`, inPatch()...),
		"patch that removes":           put(`{metadata: null, spec: {minReadySeconds: null, template: {metadata: {annotations: null}}}}`, inPatch()...),
		"patch with a kind":            put(`{apiVersion: apps/v1, kind: StatefulSet, spec: {serviceName: other}}`, inPatch()...),
		"patch of metadata with nulls": put(`{metadata: {name: null, creationTimestamp: null, labels: {a: b}, annotations: null}}`, inPatch()...),
		"patch with the selector, and nulls for what the controller decides": put(`{spec: {replicas: null, selector: {matchLabels: {app: web}},
			updateStrategy: {type: null, rollingUpdate: {partition: null, maxUnavailable: 2}}}}`, inPatch()...),
		"null selector and rolling update in a patch": put(`{spec: {selector: null, updateStrategy: {type: RollingUpdate, rollingUpdate: null}}}`, inPatch()...),
		"directives in the pod template": put(`{spec: {template: {spec: {$retainKeys: [containers], containers: [
			{name: old, $patch: delete}], $setElementOrder/containers: [{name: web}]}}}}`, inPatch()...),
		"labels replaced":             put(`{spec: {template: {metadata: {labels: {$patch: replace, app: web}}}}}`, inPatch()...),
		"directives among the labels": put(`{spec: {template: {metadata: {labels: {$retainKeys: [app], $setElementOrder/x: [], app: web}}}}}`, inPatch()...),
		"nulls in another place": all(put(`null`, inTemplate("status")...), put(`null`, inPatch("spec", "updateStrategy")...),
			put(`null`, inTemplate("metadata", "annotations", "a")...)),
		"labels removed by a null, for the controller to judge": put(`{spec: {template: {metadata: {labels: null}}}}`, inPatch()...),

		"nodeSelector of every kind": put(`{nodeSelectorTerms: [{matchExpressions: [{key: a, operator: In, values: [b, c]},
			{key: a, operator: NotIn, values: [d]}, {key: a, operator: Exists}, {key: f, operator: DoesNotExist},
			{key: g, operator: Gt, values: ["1"]}, {key: g, operator: Lt, values: ["9"]}]},
			{matchFields: [{key: metadata.name, operator: In, values: [node]}]}, {}]}`, inSubset(2, "nodeSelector")...),
		"tolerations of every kind": put(`[{operator: Exists}, {key: a, operator: Exists, effect: NoSchedule},
			{key: a, operator: Equal, value: b, effect: NoExecute, tolerationSeconds: 9007199254740993}, {key: a, value: b}]`,
			inSubset(0, "tolerations")...),

		"the longest name":         all(set(strings.Repeat("x", 50), "metadata", "name"), onlySubset("y")),
		"the longest subset name":  all(set("x", "metadata", "name"), onlySubset(strings.Repeat("y", 50))),
		"names that fill the room": all(set(strings.Repeat("x", 25), "metadata", "name"), onlySubset(strings.Repeat("y", 26))),
		"names of digits":          all(set("1", "metadata", "name"), onlySubset("0")),
		"the largest":              largest,
	}
	for _, value := range []string{`"0%"`, `"5%"`, `"10%"`, `"99%"`, `"100%"`, `0`, `1`, `1000`} {
		accepted["replicas and partitions "+value] = all(put(value, inSubset(0, "replicas")...),
			put(value, inManual("defaultPartition")...), put(value, inManual("partitions", "zone-b")...))
	}
	for title, e := range accepted {
		t.Run(title, func(t *testing.T) {
			g := NewWithT(t)
			object := with(t, "accepted", e)
			for _, validation := range []string{"Strict", "Ignore"} {
				stored, err := deployments().Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun, FieldValidation: validation})
				g.Expect(err).NotTo(HaveOccurred())
				decode(g, stored)
			}
		})
	}
}

// TestEveryPercentage checks the three rules that list all percentages.
func TestEveryPercentage(t *testing.T) {
	g := NewWithT(t)
	for p := 0; p <= 100; p++ {
		value := fmt.Sprintf("%d%%", p)
		object := with(t, "percent", set(value, inSubset(0, "replicas")...), set(value, inManual("defaultPartition")...),
			set(value, inManual("partitions", "zone-b")...))
		_, err := deployments().Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
		g.Expect(err).NotTo(HaveOccurred(), value)
	}
}

// largest makes everything as large as allowed, so that the object would exceed a budget at run time if
// any object could.
func largest(object map[string]any) {
	list := subsets(100, strings.Repeat("s", 40))
	partitions := map[string]any{}
	labels := map[string]any{}
	var expressions []any
	for i := range 40 {
		key := fmt.Sprintf("%s/%s-%02d", strings.Repeat("k", 63), strings.Repeat("l", 60), i)
		labels[key] = "value"
		expressions = append(expressions, map[string]any{"key": key, "operator": "In", "values": []any{"other", "value"}})
	}
	for i := range list {
		subset := list[i].(map[string]any)
		partitions[subset["name"].(string)] = "99%"
		subset["replicas"] = "1%"
		put(`{nodeSelectorTerms: [{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [a, b, c, d]}]}]}`,
			"nodeSelector")(subset)
		set(maps.Clone(labels), "patch", "spec", "template", "metadata", "labels")(subset)
	}
	all(set("largest", "metadata", "name"), set(list, "spec", "topology", "subsets"), set(partitions, inManual("partitions")...),
		set(expressions, "spec", "selector", "matchExpressions"), set(int64(1000), "spec", "replicas"))(object)
}

func TestTheLargestIsUpdated(t *testing.T) {
	store(t, with(t, "largest", largest))
	g := NewWithT(t)
	g.Expect(update(t, "largest", put(`{a: b}`, inTemplate("metadata", "labels")...))).To(Succeed())
	expectInvalid(g, update(t, "largest", drop(inSubset(99, "nodeSelector")...)), "",
		[]string{"spec.topology.subsets: ", "the nodeSelector of the existing subset " + strings.Repeat("s", 40) + "99 is immutable"})
}

// onlySubset removes all other subsets.
func onlySubset(name string) edit {
	return all(set([]any{map[string]any{"name": name}}, "spec", "topology", "subsets"), set(map[string]any{name: int64(0)}, inManual("partitions")...))
}

// decode decodes an object as the cache of the controller does: an object that does not decode would
// stop the controller for everybody.
func decode(g *WithT, object *unstructured.Unstructured) *v1alpha1.UnitedDeployment {
	data, err := json.Marshal(object)
	g.Expect(err).NotTo(HaveOccurred())
	typed := &v1alpha1.UnitedDeployment{}
	g.Expect(json.Unmarshal(data, typed)).To(Succeed())
	return typed
}

func TestDefaults(t *testing.T) {
	g := NewWithT(t)
	created := store(t, with(t, "defaults", put(`{manualUpdate: {}}`, "spec", "updateStrategy"), drop("spec", "replicas"),
		drop("spec", "topology")))
	for _, object := range []*unstructured.Unstructured{created, get(t, "defaults")} {
		spec := object.Object["spec"].(map[string]any)
		delete(spec, "template")
		delete(spec, "selector")
		g.Expect(spec).To(Equal(parse(`{replicas: 1, revisionHistoryLimit: 10, progressDeadlineSeconds: 600, versionLabel: None, topology: {subsets: []},
			updateStrategy: {type: Manual, manualUpdate: {defaultPartition: "100%"}}}`)))
		// kstatus regards an object without a status as finished.
		g.Expect(object.Object["status"]).To(Equal(map[string]any{"observedGeneration": int64(-1)}))
	}
	without, err := deployments().Create(t.Context(), with(t, "none", drop("spec", "updateStrategy")), metav1.CreateOptions{DryRun: dryRun})
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(without.Object["spec"].(map[string]any)["updateStrategy"]).To(Equal(map[string]any{"type": "Manual"}))
}

func TestTemplatesAreKept(t *testing.T) {
	g := NewWithT(t)
	raw := `{"kind":"StatefulSet","metadata":{"annotations":{"a":"\u003cb\u003e"},"labels":{}},"spec":{"later":{"deep":[1,1.5,-0.25,` +
		`9007199254740993,"1",true,null,{"n":null}],"empty":{},"list":[]},"template":{"metadata":{"creationTimestamp":null,` +
		`"labels":{"app":"web"}},"spec":{"containers":[{"image":"web","name":"web","resources":{"limits":{"cpu":"1000m",` +
		`"memory":"1024Mi"}},"someday":"x"}],"terminationGracePeriodSeconds":30}}}}`
	patch := `{"metadata":null,"spec":{"template":{"spec":{"$retainKeys":["a"],"containers":[{"$patch":"delete","name":"b"}]}}}}`
	store(t, with(t, "kept", set(decodeJSON(g, raw), inTemplate()...), set(decodeJSON(g, patch), inPatch()...)))
	typed := decode(g, get(t, "kept"))
	g.Expect(string(typed.Spec.Template.StatefulSetTemplate.Raw)).To(Equal(raw))
	g.Expect(string(typed.Spec.Topology.Subsets[1].Patch.Raw)).To(Equal(patch))
}

func decodeJSON(g *WithT, text string) any {
	object := &unstructured.Unstructured{}
	g.Expect(object.UnmarshalJSON([]byte(`{"apiVersion":"v1","kind":"x","value":` + text + `}`))).To(Succeed())
	return object.Object["value"]
}
