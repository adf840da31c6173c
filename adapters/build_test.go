// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// object parses YAML like a template: integers are int64.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// child returns a child with template and patch, and with their current pod parts. It is nil if the controller would
// not build it.
func child(template, patch map[string]any) *adapters.Child {
	a := statefulset.New()
	podPart, err := adapters.RevisionData(a, template)
	if err != nil {
		return nil
	}
	podPatch, err := adapters.RevisionData(a, patch)
	if err != nil {
		return nil
	}
	return &adapters.Child{
		Namespace: "shop", Name: "web-zone-a", Parent: "web", Subset: "zone-a",
		Owner: metav1.OwnerReference{
			APIVersion: "apps.united.dev/v1alpha1", Kind: "UnitedDeployment", Name: "web", UID: "u-1",
			Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		},
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: template, Patch: patch, RevisionTemplate: podPart, RevisionPatch: podPatch,
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}},
		}}},
		Tolerations: []corev1.Toleration{{Key: "dedicated", Operator: corev1.TolerationOpExists}},
		Replicas:    3, Partition: 2, Revision: "web-2", ProtectedRevision: "web-1", ParentGeneration: 7,
	}
}

func TestBuild(t *testing.T) {
	c := child(object(t, `
metadata:
  labels: {team: shop}
  annotations: {note: hi}
spec:
  serviceName: web
  podManagementPolicy: Parallel
  template:
    metadata: {labels: {app: web}, creationTimestamp: null}
    spec:
      future: {x: 1}
      containers:
      - {name: main, image: app:1, resources: {limits: {memory: 1024Mi}}}
`), object(t, `
metadata: {annotations: {zone: a}}
spec:
  template:
    spec:
      future: {q: 2}
      containers: [{name: main, image: app:2}]
`))
	want := object(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: web-zone-a
  namespace: shop
  labels: {team: shop, united.dev/name: web, united.dev/subset: zone-a}
  annotations:
    note: hi
    zone: a
    united.dev/revision: web-2
    united.dev/protected-revision: web-1
    united.dev/asked: ""
    united.dev/parent-generation: "7"
    united.dev/partition: "2"
    united.dev/protected-hash: ""
    united.dev/released-from: "0"
    united.dev/seeding: "false"
    united.dev/record-checksum: 2-03ac83ac02a7f425
    united.dev/placement: 9a47db0777b40023
  ownerReferences:
  - {apiVersion: apps.united.dev/v1alpha1, kind: UnitedDeployment, name: web, uid: u-1, controller: true, blockOwnerDeletion: true}
spec:
  serviceName: web
  podManagementPolicy: Parallel
  replicas: 3
  selector: {matchLabels: {app: web, united.dev/name: web, united.dev/subset: zone-a}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2, maxUnavailable: 1}}
  minReadySeconds: 0
  ordinals: {start: 0}
  template:
    metadata: {labels: {app: web, united.dev/name: web, united.dev/subset: zone-a}}
    spec:
      future: {x: 1, q: 2}
      affinity:
        nodeAffinity:
          requiredDuringSchedulingIgnoredDuringExecution:
            nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]
      tolerations: [{key: dedicated, operator: Exists}]
      containers:
      - {name: main, image: app:2, resources: {limits: {memory: 1024Mi}}}
`)
	got, err := adapters.Build(statefulset.New(), c)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Error("want -, have +\n", diff)
	}
}

// The record of a child has everything that is known.
func TestBuildRecords(t *testing.T) {
	c := child(object(t, "spec: {template: {metadata: {labels: {app: web}}}}"), nil)
	c.ProtectedHash, c.ReleasedFrom, c.ReleasedBefore, c.Seeding = "web-zone-a-5d4", 2, 2, true
	u, err := adapters.Build(statefulset.New(), c)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"united.dev/revision": "web-2", "united.dev/protected-revision": "web-1", "united.dev/parent-generation": "7", "united.dev/asked": "",
		"united.dev/partition": "2", "united.dev/protected-hash": "web-zone-a-5d4", "united.dev/released-from": "2", "united.dev/seeding": "true",
		"united.dev/record-checksum": "2-79b4407937323baf", "united.dev/placement": "9a47db0777b40023",
	}
	if diff := cmp.Diff(want, u.GetAnnotations()); diff != "" {
		t.Error("want -, have +\n", diff)
	}
}

// Fields that the controller owns override the template and the patch.
func TestBuildOwns(t *testing.T) {
	stolen := object(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: null
  creationTimestamp: null
  labels: {united.dev/name: other, united.dev/subset: other}
  annotations:
    united.dev/revision: other
    united.dev/protected-revision: other
    united.dev/parent-generation: "99"
    united.dev/partition: "99"
    united.dev/protected-hash: other
    united.dev/released-from: "99"
    united.dev/seeding: "true"
    united.dev/fingerprint: other
spec:
  replicas: 99
  selector: {matchLabels: {other: other}, matchExpressions: [{key: x, operator: Exists}]}
  updateStrategy: {type: OnDelete, rollingUpdate: {partition: 99, maxUnavailable: 2}}
  template: {metadata: {labels: {united.dev/name: other, united.dev/subset: other}}}
`)
	patch := object(t, "{}")
	patch["metadata"] = stolen["metadata"] // the spec of a patch must not set fields that the controller determines
	patch["spec"] = map[string]any{"template": stolen["spec"].(map[string]any)["template"]}
	c := child(stolen, patch)
	c.ProtectedRevision = ""
	got, err := adapters.Build(statefulset.New(), c)
	if err != nil {
		t.Fatal(err)
	}
	spec := got.Object["spec"].(map[string]any)
	delete(spec["template"].(map[string]any), "spec") // placement
	want := object(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: web-zone-a
  namespace: shop
  labels: {united.dev/name: web, united.dev/subset: zone-a}
  annotations:
    united.dev/revision: web-2
    united.dev/protected-revision: ""
    united.dev/asked: ""
    united.dev/parent-generation: "7"
    united.dev/partition: "2"
    united.dev/protected-hash: ""
    united.dev/released-from: "0"
    united.dev/seeding: "false"
    united.dev/record-checksum: 2-bd7a8c704026aef5
    united.dev/placement: 9a47db0777b40023
  ownerReferences:
  - {apiVersion: apps.united.dev/v1alpha1, kind: UnitedDeployment, name: web, uid: u-1, controller: true, blockOwnerDeletion: true}
spec:
  replicas: 3
  selector: {matchLabels: {app: web, united.dev/name: web, united.dev/subset: zone-a}}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 2, maxUnavailable: 2}}
  minReadySeconds: 0
  ordinals: {start: 0}
  template: {metadata: {labels: {united.dev/name: web, united.dev/subset: zone-a}}}
`)
	if diff := cmp.Diff(want, got.Object); diff != "" {
		t.Error("want -, have +\n", diff)
	}
}

// The pod part comes from the revision, everything else from the current template and patch.
func TestBuildTakesThePodPartOfTheRevision(t *testing.T) {
	c := child(
		object(t, "spec: {serviceName: today, template: {spec: {hostname: today, containers: [{name: today}]}}}"),
		object(t, "spec: {minReadySeconds: 3, template: {spec: {subdomain: today}}}"),
	)
	c.NodeSelector, c.Tolerations = nil, nil
	c.RevisionTemplate = object(t, "spec: {hostname: then, containers: [{name: then}]}")
	for _, tc := range []struct {
		name     string
		podPatch map[string]any
		want     string
	}{
		{"without a patch", nil, "{hostname: then, containers: [{name: then}]}"},
		{"with one", object(t, "spec: {subdomain: then}"), "{hostname: then, subdomain: then, containers: [{name: then}]}"},
		{"with one that replaces all", object(t, "$patch: replace\nspec: {subdomain: then}"), "{subdomain: then}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c.RevisionPatch = tc.podPatch
			got, err := adapters.Build(statefulset.New(), c)
			if err != nil {
				t.Fatal(err)
			}
			spec := got.Object["spec"].(map[string]any)
			pod := spec["template"].(map[string]any)["spec"]
			if diff := cmp.Diff(object(t, tc.want), pod); diff != "" {
				t.Error("want -, have +\n", diff)
			}
			if spec["serviceName"] != "today" || spec["minReadySeconds"] != int64(3) {
				t.Error("not of today:", spec)
			}
		})
	}
}

// What only the API server can judge is passed on unchanged.
func TestBuildPassesThrough(t *testing.T) {
	for _, tc := range []struct{ name, template, patch, at string }{
		{"misspelt spec", "spce: {a: 1}", "{}", "spce"},
		{"misspelt spec in the patch", "{}", "spce: {a: 1}", "spce"},
		{"misspelt field", "spec: {servceName: x}", "{}", "spec.servceName"},
		{"containers of an odd type", "spec: {template: {spec: {containers: {a: 1}}}}", "{}", "spec.template.spec.containers"},
		{"volumes: 5", "spec: {template: {spec: {volumes: 5}}}", "{}", "spec.template.spec.volumes"},
		{"null in a list", "spec: {template: {spec: {containers: [null]}}}", "{}", "spec.template.spec.containers"},
		{"directive in a template", "spec: {template: {spec: {$patch: delete}}}", "{}", "spec.template.spec.$patch"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			template, patch := object(t, tc.template), object(t, tc.patch)
			got, err := adapters.Build(statefulset.New(), child(template, patch))
			if err != nil {
				t.Fatal(err)
			}
			steps := strings.Split(tc.at, ".")
			want, ok, _ := unstructured.NestedFieldNoCopy(template, steps...)
			if !ok {
				want, _, _ = unstructured.NestedFieldNoCopy(patch, steps...)
			}
			have, _, _ := unstructured.NestedFieldNoCopy(got.Object, steps...)
			if diff := cmp.Diff(want, have); diff != "" {
				t.Error("want -, have +\n", diff)
			}
		})
	}
}

func TestBuildRefuses(t *testing.T) {
	const template, patch = "spec.template.statefulSetTemplate.", "spec.topology.subsets[zone-a].patch."
	for _, tc := range []struct{ name, template, patch, want string }{
		{"another kind", "kind: Deployment", "{}", template + "kind: Invalid value: \"Deployment\": must be StatefulSet"},
		{"another version", "apiVersion: apps/v2", "{}", template + "apiVersion: Invalid"},
		{"a kind that is no string", "kind: {}", "{}", template + "kind: Invalid"},
		{"another kind in the patch", "{}", "kind: Deployment", patch + "kind: Invalid"},
		{"status", "status: {}", "{}", template + "status: Forbidden"},
		{"status in the patch", "{}", "status: {replicas: 1}", patch + "status: Forbidden"},
		{"metadata is no object", "metadata: x", "{}", template + "metadata: Invalid value: \"string\": must be an object"},
		{"metadata of the patch is no object", "{}", "metadata: [x]", patch + "metadata: Invalid value: \"array\""},
		{"misspelt metadata", "metadata: {lables: {a: b}}", "{}", template + "metadata.lables: Forbidden: only labels and annotations may be set here"},
		{"a name", "metadata: {name: other}", "{}", template + "metadata.name: Forbidden"},
		{"finalizers", "metadata: {finalizers: [example.com/keep]}", "{}", template + "metadata.finalizers: Forbidden"},
		{"finalizers in the patch", "{}", "metadata: {finalizers: [example.com/keep]}", patch + "metadata.finalizers: Forbidden: only labels and annotations may be set here"},
		{"an owner in the patch", "{}", "metadata: {ownerReferences: [{uid: u-2}]}", patch + "metadata.ownerReferences: Forbidden"},
		{"a directive in the metadata of the patch", "{}", "metadata: {$patch: replace}", patch + "metadata.$patch: Forbidden: patch directives"},
		{"an annotation that rolls back", "metadata: {annotations: {deprecated.deployment.rollback.to: '0'}}", "{}", template + "metadata.annotations[deprecated.deployment.rollback.to]: Forbidden: the controller of Deployments would put another pod template"},
		{"an annotation that rolls back, in the patch", "{}", "metadata: {annotations: {deprecated.deployment.rollback.to: '77'}}", patch + "metadata.annotations[deprecated.deployment.rollback.to]: Forbidden"},
		{"labels are no object", "metadata: {labels: [a]}", "{}", template + "metadata.labels: Invalid"},
		{"a label is no string", "metadata: {labels: {a: 1}}", "{}", template + "metadata.labels[a]: Invalid value: \"number\": must be a string"},
		{"an annotation is no string", "{}", "metadata: {annotations: {a: true}}", patch + "metadata.annotations[a]: Invalid value: \"boolean\""},
		{"pod metadata is no object", "spec: {template: {metadata: 5}}", "{}", template + "spec.template.metadata: Invalid value: \"number\""},
		{"a pod label is no string", "spec: {template: {metadata: {labels: {a: 1}}}}", "{}", template + "spec.template.metadata.labels[a]: Invalid"},
		{"pod spec is no object", "spec: {template: {spec: x}}", "{}", template + "spec.template.spec: Invalid value: \"string\""},
		{"affinity is no object", "spec: {template: {spec: {affinity: x}}}", "{}", template + "spec.template.spec.affinity: Invalid"},
		{"strategy is no object", "spec: {updateStrategy: x}", "{}", template + "spec.updateStrategy: Invalid"},
		{"rollingUpdate is no object", "spec: {updateStrategy: {rollingUpdate: []}}", "{}", template + "spec.updateStrategy.rollingUpdate: Invalid"},
		{"a directive outside of the pod part", "{}", "spec: {$retainKeys: [template]}", patch + "spec.$retainKeys: Forbidden"},
		{"replicas in the patch", "{}", "spec: {replicas: 0}", patch + "spec.replicas: Forbidden"},
		{"a partition in the patch", "{}", "spec: {updateStrategy: {rollingUpdate: {partition: 0}}}", patch + "spec.updateStrategy.rollingUpdate.partition: Forbidden"},
		{"another strategy in the patch", "{}", "spec: {updateStrategy: {type: OnDelete}}", patch + "spec.updateStrategy.type: Unsupported value"},
		{"another selector in the patch", "{}", "spec: {selector: {matchLabels: {app: other}}}", patch + "spec.selector: Invalid value"},
		{"the label of the version", "spec: {template: {metadata: {labels: {united.dev/version: v1}}}}", "{}",
			template + "spec.template.metadata.labels[united.dev/version]: Forbidden: must not be set; set spec.versionLabel"},
		{"the label of the version in the patch", "{}", "spec: {template: {metadata: {labels: {united.dev/version: v1}}}}",
			patch + "spec.template.metadata.labels[united.dev/version]: Forbidden"},
		{"the label of the version removed by the patch", "{}", "spec: {template: {metadata: {labels: {united.dev/version: null}}}}",
			patch + "spec.template.metadata.labels[united.dev/version]: Forbidden"},
		{"a patch that deletes the pod template", "{}", "spec: {template: null}", patch + "spec.template: Forbidden"},
		{"a patch that cannot be merged", "spec: {template: {spec: {containers: [{name: a}]}}}", "spec: {template: {spec: {containers: [{image: b}]}}}",
			patch + "spec.template.spec.containers[0].name: Required"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := adapters.Build(statefulset.New(), child(object(t, tc.template), object(t, tc.patch)))
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("want %s\nhave %v", tc.want, err)
			}
		})
	}
	for name, spec := range map[string]string{"list": "spec: []", "scalar": "spec: x"} {
		t.Run("spec is a "+name, func(t *testing.T) {
			c := child(map[string]any{}, nil)
			c.Template = object(t, spec)
			if _, err := adapters.Build(statefulset.New(), c); err == nil || !strings.HasPrefix(err.Error(), template+"spec: Invalid") {
				t.Error(err)
			}
			c.Template, c.Patch = nil, object(t, spec)
			if _, err := adapters.Build(statefulset.New(), c); err == nil || !strings.HasPrefix(err.Error(), patch+"spec: Invalid") {
				t.Error(err)
			}
		})
	}
	for name, selector := range map[string]*corev1.NodeSelector{
		"no terms": {}, "only empty terms": {NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 2)},
	} {
		t.Run("node selector with "+name, func(t *testing.T) {
			c := child(object(t, "spec: {template: {}}"), nil)
			c.NodeSelector = selector
			_, err := adapters.Build(statefulset.New(), c)
			if err == nil || !strings.HasPrefix(err.Error(), "spec.topology.subsets[zone-a].nodeSelector.nodeSelectorTerms: Required") {
				t.Error(err)
			}
		})
	}
}

// checkBuild checks for any child that Build does not panic, is deterministic, does not change its input, overrides
// the controller's fields, and leaves no nulls in objects.
func checkBuild(t interface{ Fatal(args ...any) }, template, patch map[string]any) (built bool) {
	c := child(template, patch)
	if c == nil {
		return false
	}
	before := *c
	before.Template, before.Patch = deepCopy(c.Template), deepCopy(c.Patch)
	before.RevisionTemplate, before.RevisionPatch = deepCopy(c.RevisionTemplate), deepCopy(c.RevisionPatch)
	a := statefulset.New()
	a.Validate(&v1alpha1.UnitedDeploymentSpec{Selector: c.Selector}, template, nil)
	got, err := adapters.Build(a, c)
	again, againErr := adapters.Build(a, c)
	if diff := cmp.Diff(&before, c); diff != "" {
		t.Fatal("the input was changed\n", diff)
	}
	if (err == nil) != (againErr == nil) || err != nil && err.Error() != againErr.Error() {
		t.Fatal("two runs err differently:", err, againErr)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Fatal("two runs differ\n", diff)
	}
	if err != nil {
		return false
	}
	checkOwned(t, got)
	if at := nullIn(got.Object); at != "" {
		t.Fatal("null at", at, got.Object)
	}
	if _, err := a.Observe(got, adapters.Dependents{}); err != nil && !strings.HasPrefix(err.Error(), "StatefulSet shop/web-zone-a: ") {
		t.Fatal(err)
	}
	a.Orphans(got, []corev1.Pod{{}})
	return true
}

func checkOwned(t interface{ Fatal(args ...any) }, got *unstructured.Unstructured) {
	labels := map[string]any{"united.dev/name": "web", "united.dev/subset": "zone-a"}
	want := map[string]any{
		"metadata.name": "web-zone-a", "metadata.namespace": "shop",
		"metadata.annotations.united.dev/revision": "web-2",
		"spec.replicas": int64(3), "spec.updateStrategy.type": "RollingUpdate", "spec.updateStrategy.rollingUpdate.partition": int64(2),
		"spec.selector.matchLabels": map[string]any{"app": "web", "united.dev/name": "web", "united.dev/subset": "zone-a"},
	}
	for at, value := range want {
		steps := strings.Split(strings.ReplaceAll(at, "united.dev", "united,dev"), ".")
		for i := range steps {
			steps[i] = strings.ReplaceAll(steps[i], ",", ".")
		}
		have, _, err := unstructured.NestedFieldNoCopy(got.Object, steps...)
		if diff := cmp.Diff(value, have); err != nil || diff != "" {
			t.Fatal(at, err, diff)
		}
	}
	if got.GetKind() != "StatefulSet" || len(got.GetOwnerReferences()) != 1 || got.GetUID() != "" || got.GetResourceVersion() != "" {
		t.Fatal("kind, owner or identity:", got.Object)
	}
	for _, at := range [][]string{{"metadata", "labels"}, {"spec", "template", "metadata", "labels"}} {
		have, found, err := unstructured.NestedStringMap(got.Object, at...)
		if err != nil || (!found && len(at) == 2) {
			t.Fatal(at, err)
		}
		for key, value := range labels {
			if found && any(have[key]) != value {
				t.Fatal(at, have)
			}
		}
	}
}

func nullIn(v any) string {
	switch v := v.(type) {
	case map[string]any:
		for key, child := range v {
			if child == nil {
				return key
			}
			if at := nullIn(child); at != "" {
				return key + "." + at
			}
		}
	case []any:
		for _, child := range v {
			if at := nullIn(child); at != "" {
				return "[]." + at
			}
		}
	}
	return ""
}

func deepCopy(m map[string]any) map[string]any { return runtime.DeepCopyJSON(m) }

func FuzzBuild(f *testing.F) {
	for _, seed := range []struct{ template, patch string }{
		{`{"metadata":{"labels":{"a":"b"}},"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"a"}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"x"}]}}}}`},
		{`{"metadata":"x"}`, `{"spec":[]}`},
		{`{"metadata":{"labels":{"a":1},"finalizers":[null]}}`, `{"metadata":{"labels":null,"finalizers":["a"]}}`},
		{`{"spec":{"template":{"spec":{"containers":null,"volumes":5}}}}`, `{"spec":{"template":null}}`},
		{`{"spec":{"selector":{"matchLabels":{"app":"web"}},"updateStrategy":{"type":"OnDelete","rollingUpdate":{"partition":1}},"replicas":3}}`, `{"spec":{"replicas":5,"updateStrategy":{"rollingUpdate":null}}}`},
		{`{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchFields":[{}]},{}]}}},"tolerations":[null]}}}}`, `{"spec":{"template":{"$patch":"replace"}}}`},
		{`{"apiVersion":"apps/v1","kind":"StatefulSet","status":null,"spec":{"ordinals":{"start":"x"}}}`, `{"spec":{"selector":5}}`},
	} {
		f.Add([]byte(seed.template), []byte(seed.patch))
	}
	f.Fuzz(func(t *testing.T, rawTemplate, rawPatch []byte) {
		template, err := adapters.Decode(&runtime.RawExtension{Raw: rawTemplate}, nil)
		if err != nil {
			return
		}
		patch, err := adapters.Decode(&runtime.RawExtension{Raw: rawPatch}, nil)
		if err != nil {
			return
		}
		checkBuild(t, template, patch)
	})
}

// TestBuildProperties is FuzzBuild with objects that look like workloads.
func TestBuildProperties(t *testing.T) {
	built := 0
	rapid.Check(t, func(t *rapid.T) {
		if checkBuild(t, workload().Draw(t, "template"), workload().Draw(t, "patch")) {
			built++
		}
	})
	if built == 0 {
		t.Error("nothing was ever built")
	}
}

// workload generates for each field something valid, something odd, or nothing.
func workload() *rapid.Generator[map[string]any] {
	leaf := rapid.SampledFrom([]any{nil, int64(5), "x", true, []any{}, []any{nil}, map[string]any{}})
	labels := rapid.SampledFrom([]any{nil, map[string]any{"app": "web"}, map[string]any{"a": int64(1)}, map[string]any{"united.dev/name": "x"}, "x"})
	terms := rapid.SampledFrom([]any{nil, []any{}, []any{map[string]any{"matchFields": []any{map[string]any{"key": "a"}}}}, []any{nil, "x"}, []any{map[string]any{"x": "q"}}})
	containers := rapid.SampledFrom([]any{nil, []any{map[string]any{"name": "a", "image": "x"}}, []any{map[string]any{"name": "a", "$patch": "delete"}}, []any{map[string]any{"image": "x"}}})
	type fields = map[string]*rapid.Generator[any]
	object := func(of fields) *rapid.Generator[any] {
		return rapid.Custom(func(t *rapid.T) any {
			if rapid.IntRange(0, 15).Draw(t, "odd") == 0 {
				return leaf.Draw(t, "leaf")
			}
			out := map[string]any{}
			for _, key := range sortedKeys(of) {
				if rapid.Bool().Draw(t, "has "+key) {
					if v := of[key].Draw(t, key); v != nil {
						out[key] = runtime.DeepCopyJSONValue(v)
					}
				}
			}
			return out
		})
	}
	metadata := object(fields{"labels": labels, "annotations": labels})
	podMetadata := object(fields{"labels": labels, "annotations": labels, "name": leaf, "uid": leaf, "ownerReferences": leaf, "finalizers": leaf, "future": leaf})
	affinity := object(fields{"nodeAffinity": object(fields{"requiredDuringSchedulingIgnoredDuringExecution": object(fields{"nodeSelectorTerms": terms})})})
	pods := object(fields{"metadata": podMetadata, "spec": object(fields{"containers": containers, "affinity": affinity, "tolerations": leaf, "future": leaf})})
	strategy := object(fields{"type": leaf, "rollingUpdate": object(fields{"partition": leaf, "maxUnavailable": leaf})})
	spec := object(fields{"template": pods, "replicas": leaf, "selector": leaf, "updateStrategy": strategy, "minReadySeconds": leaf, "ordinals": leaf})
	whole := object(fields{"metadata": metadata, "spec": spec, "spce": leaf})
	return rapid.Custom(func(t *rapid.T) map[string]any {
		m, _ := whole.Draw(t, "workload").(map[string]any)
		return m
	})
}
