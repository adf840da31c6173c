// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package render_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters/render"
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

func statefulSetSchema(t testing.TB) strategicpatch.LookupPatchMeta {
	t.Helper()
	schema, err := strategicpatch.NewPatchMetaFromStruct(appsv1.StatefulSet{})
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

// pods returns a workload with a pod spec, which it indents.
func pods(podSpec string) string {
	return "spec:\n  template:\n    spec:\n" + indent(podSpec, "      ")
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.Trim(text, "\n"), "\n", "\n"+by)
}

// variables returns elements of an env.
func variables(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("{name: v%d}", i)
	}
	return strings.Join(names, ", ")
}

func TestMerge(t *testing.T) {
	for _, tc := range []struct{ name, base, patch, want string }{
		{
			"many are patched in many",
			pods("containers:\n- {name: a, env: [" + variables(800) + "]}"),
			pods("containers:\n- {name: a, env: [" + variables(200) + "]}"),
			pods("containers:\n- {name: a, env: [" + variables(800) + "]}"),
		},
		{
			"containers merge by name, others stay",
			pods("containers:\n- {name: a, image: x, args: [one]}\n- {name: b, image: q}"),
			pods("containers:\n- {name: b, image: z}"),
			pods("containers:\n- {name: a, image: x, args: [one]}\n- {name: b, image: z}"),
		},
		{
			"a new container comes first, as with kubectl patch",
			pods("containers:\n- {name: a}"),
			pods("containers:\n- {name: b}"),
			pods("containers:\n- {name: b}\n- {name: a}"),
		},
		{
			"env merges by name and ports by number, deep down",
			pods("containers:\n- {name: a, env: [{name: X, value: '1'}, {name: Y, value: '2'}], ports: [{containerPort: 80}]}"),
			pods("containers:\n- {name: a, env: [{name: Y, value: '3'}], ports: [{containerPort: 80, name: http}]}"),
			pods("containers:\n- {name: a, env: [{name: X, value: '1'}, {name: Y, value: '3'}], ports: [{containerPort: 80, name: http}]}"),
		},
		{
			"tolerations are replaced whole",
			pods("tolerations: [{key: a}, {key: b}]"),
			pods("tolerations: [{key: c}]"),
			pods("tolerations: [{key: c}]"),
		},
		{
			"volumeClaimTemplates are replaced whole",
			"spec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {a: 1}}]}",
			"spec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {b: 2}}]}",
			"spec: {volumeClaimTemplates: [{metadata: {name: data}, spec: {b: 2}}]}",
		},
		{
			"unknown fields merge as a JSON merge patch: objects by field, lists whole, null deletes",
			pods("future: {keep: 1, change: 1, go: 1, list: [{name: a}, {name: b}], deep: {er: {x: 1}}}"),
			pods("future: {change: 2, go: null, list: [{name: c}], deep: {er: {q: 2}}}"),
			pods("future: {keep: 1, change: 2, list: [{name: c}], deep: {er: {x: 1, q: 2}}}"),
		},
		{
			"an unknown field inside an element that is merged by key",
			pods("containers: [{name: a, future: {x: 1}}]"),
			pods("containers: [{name: a, future: {q: [1]}}]"),
			pods("containers: [{name: a, future: {x: 1, q: [1]}}]"),
		},
		{
			"an unknown field in the patch alone, its nulls dropped",
			pods("containers: []"),
			pods("future: {x: null, q: {z: null}}"),
			pods("containers: []\nfuture: {q: {}}"),
		},
		{
			"values in a map that should be strings",
			"metadata: {labels: {a: {b: 1}}}",
			"metadata: {labels: {a: {c: 2}}}",
			"metadata: {labels: {a: {b: 1, c: 2}}}",
		},
		{
			"another JSON type replaces",
			pods("containers: {a: 1}\nhostNetwork: true"),
			pods("containers: [{name: a}]\nhostNetwork: {}"),
			pods("containers: [{name: a}]\nhostNetwork: {}"),
		},
		{
			"quantities stay as written",
			pods("containers: [{name: a, resources: {limits: {memory: 1024Mi, cpu: 1}}}]"),
			pods("containers: [{name: a, resources: {limits: {cpu: 1000m}}}]"),
			pods("containers: [{name: a, resources: {limits: {memory: 1024Mi, cpu: 1000m}}}]"),
		},
		{
			"$patch: delete of an element",
			pods("containers: [{name: a}, {name: b}]"),
			pods("containers: [{name: a, $patch: delete}]"),
			pods("containers: [{name: b}]"),
		},
		{
			"$patch: delete and a new element of that name",
			pods("containers: [{name: a, image: x, env: [{name: X}]}]"),
			pods("containers: [{name: a, $patch: delete}, {name: a, image: q}]"),
			pods("containers: [{name: a, image: q}]"),
		},
		{
			"$patch: replace of a list",
			pods("containers: [{name: a, image: x}, {name: b}]"),
			pods("containers: [{$patch: replace}, {name: a, args: [one]}]"),
			pods("containers: [{name: a, args: [one]}]"),
		},
		{
			"$patch: replace of an object",
			pods("securityContext: {runAsUser: 1}"),
			pods("securityContext: {$patch: replace, fsGroup: 2}"),
			pods("securityContext: {fsGroup: 2}"),
		},
		{
			"$patch: replace of an object that is not there (stock strategicpatch drops it)",
			pods("containers: []"),
			pods("securityContext: {$patch: replace, fsGroup: 2}"),
			pods("containers: []\nsecurityContext: {fsGroup: 2}"),
		},
		{
			"$patch: delete of an object that is not there",
			pods("containers: []"),
			pods("securityContext: {$patch: delete}"),
			pods("containers: []"),
		},
		{
			"$patch: replace of the pod template itself",
			"spec: {template: {metadata: {labels: {a: b}}, spec: {x: 1}}, serviceName: web}",
			"spec: {template: {$patch: replace, spec: {q: 2}}}",
			"spec: {template: {spec: {q: 2}}, serviceName: web}",
		},
		{
			"$patch: replace in a list that is replaced anyway",
			pods("tolerations: [{key: a}]"),
			pods("tolerations: [{$patch: replace}, {key: b}]"),
			pods("tolerations: [{key: b}]"),
		},
		{
			"$retainKeys",
			pods("volumes: [{name: a, hostPath: {path: /x}}]"),
			pods("volumes: [{name: a, $retainKeys: [name, emptyDir], emptyDir: {}}]"),
			pods("volumes: [{name: a, emptyDir: {}}]"),
		},
		{
			"directives in what is new do not stay behind",
			pods("containers: []"),
			pods("volumes: [{name: a, $retainKeys: [name, emptyDir], emptyDir: {}}]\n$setElementOrder/volumes: [{name: a}]"),
			pods("containers: []\nvolumes: [{name: a, emptyDir: {}}]"),
		},
		{
			"$setElementOrder",
			pods("containers: [{name: a}, {name: b}]"),
			pods("$setElementOrder/containers: [{name: c}, {name: b}, {name: a}]\ncontainers: [{name: c}]"),
			pods("containers: [{name: c}, {name: b}, {name: a}]"),
		},
		{
			"$deleteFromPrimitiveList",
			"spec: {template: {metadata: {finalizers: [a, b]}}}",
			"spec: {template: {metadata: {$deleteFromPrimitiveList/finalizers: [a]}}}",
			"spec: {template: {metadata: {finalizers: [b]}}}",
		},
		{
			"null deletes, absent or not",
			pods("nodeSelector: {a: b}\nhostNetwork: true"),
			pods("nodeSelector: null\nrestartPolicy: null"),
			pods("hostNetwork: true"),
		},
		{
			"two ports of one number pass where nothing is merged",
			pods("containers: [{name: a}]"),
			pods("containers: [{name: a, ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}]"),
			pods("containers: [{name: a, ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}]"),
		},
		{"nothing into nothing", "{}", "{}", "{}"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			base, patch := object(t, tc.base), object(t, tc.patch)
			got, err := render.Merge(statefulSetSchema(t), base, patch)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(object(t, tc.want), got); diff != "" {
				t.Error("want -, have +\n", diff)
			}
			if diff := cmp.Diff(object(t, tc.base), base) + cmp.Diff(object(t, tc.patch), patch); diff != "" {
				t.Error("the input was changed\n", diff)
			}
		})
	}
}

// Stock strategicpatch panics on all of these, ignores them, or returns an error without a path.
func TestMergeRefuses(t *testing.T) {
	for _, tc := range []struct{ name, base, patch, want string }{
		{
			"null in a patch's list", pods("containers: [{name: a}]"), pods("containers: [null]"),
			"spec.template.spec.containers[0]: Invalid value: \"null\": must be an object in the patch",
		},
		{
			"null in the template's list", pods("containers: [null, {name: a}]"), pods("containers: [{name: a}]"),
			"spec.template.spec.containers[0]: Invalid value: \"null\": must be an object in the template's list",
		},
		{
			"scalar in a list of objects", pods("volumes: [{name: a}]"), pods("volumes: [5]"),
			"spec.template.spec.volumes[0]: Invalid value: \"number\": must be an object",
		},
		{
			"no merge key", pods("containers: [{name: a}]"), pods("containers: [{image: x}]"),
			"spec.template.spec.containers[0].name: Required value: the list is merged by name, and in the patch it is null",
		},
		{
			"no merge key in the template", pods("containers: [{image: a}]"), pods("containers: [{name: x}]"),
			"spec.template.spec.containers[0].name: Required value: the list is merged by name, and in the template's list it is null",
		},
		{
			"objects as merge keys", pods("containers: [{name: {}}]"), pods("containers: [{name: {}}]"),
			"spec.template.spec.containers[0].name: Required value",
		},
		{
			"two elements to merge into", pods("containers: [{name: a, ports: [{containerPort: 53, protocol: TCP}, {containerPort: 53, protocol: UDP}]}]"),
			pods("containers: [{name: a, ports: [{containerPort: 53, name: dns}]}]"),
			"spec.template.spec.containers[0].ports[0].containerPort: Invalid value: 53: must be unique in a list that a patch changes: the list is merged by",
		},
		{
			"two elements to merge", pods("containers: [{name: a}]"), pods("containers: [{name: a, image: x}, {name: a, image: q}]"),
			"spec.template.spec.containers[0].name: Invalid value: \"a\": must be unique in a list that a patch changes: the list is merged by",
		},
		{
			"null in a set", "metadata: {finalizers: [a]}", "metadata: {finalizers: [null]}",
			"metadata.finalizers[0]: Invalid value: \"null\"",
		},
		{
			"mixed set", "metadata: {finalizers: [a]}", "metadata: {finalizers: [1]}",
			"metadata.finalizers[0]: Invalid value: \"number\": all elements",
		},
		{
			"unknown directive", pods("securityContext: {}"), pods("securityContext: {$patch: merge}"),
			"spec.template.spec.securityContext.$patch: Unsupported value: \"merge\"",
		},
		{
			"directive that is no string", "{}", pods("securityContext: {$patch: {}}"),
			"spec.template.spec.securityContext.$patch: Unsupported value",
		},
		{
			"$retainKeys with an object", "{}", pods("volumes: [{name: a, $retainKeys: [{}]}]"),
			"spec.template.spec.volumes[0].$retainKeys[0]: Invalid value: \"object\"",
		},
		{
			"$retainKeys that leaves out what is set", "{}", pods("volumes: [{name: a, $retainKeys: [name], emptyDir: {}}]"),
			"spec.template.spec.volumes[0].$retainKeys: Invalid value: [\"name\"]: must hold every field that the patch sets here; emptyDir is missing",
		},
		{
			"$setElementOrder of a list without a merge key", pods("tolerations: [{key: a}]"), pods("$setElementOrder/tolerations: [{key: a}]"),
			"spec.template.spec.$setElementOrder/tolerations: Forbidden",
		},
		{
			"$setElementOrder with a list as key", pods("containers: [{name: a}]"), pods("$setElementOrder/containers: [{name: []}]"),
			"spec.template.spec.$setElementOrder/containers[0].name: Required value",
		},
		{
			"$setElementOrder without a name", "{}", pods("$setElementOrder: []"),
			"spec.template.spec.$setElementOrder: Invalid value: \"$setElementOrder\": must name a list",
		},
		{
			"$setElementOrder of what is no list", pods("containers: {}"), pods("$setElementOrder/containers: [{name: a}]"),
			"spec.template.spec.containers: Invalid value: \"object\": must be a list",
		},
		{
			"$setElementOrder of a list that is deleted", pods("containers: [{name: a}]"), pods("$setElementOrder/containers: [{name: a}]\ncontainers: null"),
			"spec.template.spec.containers: Invalid value: \"null\": must be a list",
		},
		{
			"$setElementOrder of nothing", pods("containers: []"), pods("$setElementOrder/containers: [{name: a}]"),
			"spec.template.spec.$setElementOrder/containers: Invalid value: [{\"name\":\"a\"}]: there are no elements to order",
		},
		{
			"$setElementOrder in another order than the list", pods("containers: [{name: a}]"), pods("$setElementOrder/containers: [{name: b}, {name: a}]\ncontainers: [{name: a}, {name: b}]"),
			"spec.template.spec.$setElementOrder/containers: Invalid value: [\"b\",\"a\"]: must have the elements of the patch's list, in their order",
		},
		{
			"$deleteFromPrimitiveList of objects", pods("containers: [{name: a}]"), pods("$deleteFromPrimitiveList/containers: [a]"),
			"spec.template.spec.$deleteFromPrimitiveList/containers: Forbidden: the list containers is not of scalars",
		},
		{
			"$deleteFromPrimitiveList beside the list", "metadata: {finalizers: [a]}", "metadata: {finalizers: [b], $deleteFromPrimitiveList/finalizers: [a]}",
			"metadata.$deleteFromPrimitiveList/finalizers: Forbidden: cannot be combined with finalizers",
		},
		{
			"$deleteFromPrimitiveList that is no list", "metadata: {finalizers: [a]}", "metadata: {$deleteFromPrimitiveList/finalizers: a}",
			"metadata.$deleteFromPrimitiveList/finalizers: Invalid value: \"string\": must be a list",
		},
		{
			"$patch: delete in a list that is replaced whole", pods("tolerations: [{key: a}, {key: b}]"), pods("tolerations: [{key: a, $patch: delete}]"),
			"spec.template.spec.tolerations[0].$patch: Forbidden: this list has no merge key and is replaced whole: list the elements to keep instead",
		},
		{
			"$setElementOrder without a key", pods("containers: [{name: a}]"), pods("$setElementOrder/containers: [{$patch: replace}]"),
			"spec.template.spec.$setElementOrder/containers[0].name: Required value: the list is ordered by it",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := render.Merge(statefulSetSchema(t), object(t, tc.base), object(t, tc.patch))
			if err == nil {
				t.Fatal("no error, but", got)
			}
			if !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("want %s...\nhave %s", tc.want, err)
			}
		})
	}
}

func TestCheckOutside(t *testing.T) {
	podPart := []string{"spec", "template"}
	for _, tc := range []struct{ name, patch, want string }{
		{"none", "{metadata: {labels: {a: b}}, spec: {template: {spec: {}}}}", ""},
		{"inside", "spec: {template: {$patch: replace, spec: {containers: [{name: a, $patch: delete}]}}}", ""},
		{"top", "$patch: replace", "$patch: Forbidden"},
		{"metadata", "metadata: {$deleteFromPrimitiveList/finalizers: [a]}", "metadata.$deleteFromPrimitiveList/finalizers: Forbidden"},
		{"spec", "spec: {$retainKeys: [serviceName]}", "spec.$retainKeys: Forbidden"},
		{"order in spec", "spec: {$setElementOrder/volumeClaimTemplates: []}", "spec.$setElementOrder/volumeClaimTemplates: Forbidden"},
		{"beside", "spec: {updateStrategy: {$patch: replace}}", "spec.updateStrategy.$patch: Forbidden"},
		{"in a list beside", "spec: {volumeClaimTemplates: [{a: 1}, {$patch: delete}]}", "spec.volumeClaimTemplates[1].$patch: Forbidden"},
		{"a template elsewhere", "template: {$patch: delete}", "template.$patch: Forbidden"},
		{"null pod part", "spec: {template: null}", "spec.template: Forbidden: a patch must not delete"},
		{"null above", "spec: null", "spec: Forbidden: a patch must not delete"},
		{"odd", "{metadata: x, spec: [1, [null]]}", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			err := render.CheckOutside(object(t, tc.patch), [][]string{podPart})
			if tc.want == "" && err == nil {
				return
			}
			if err == nil || tc.want == "" || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("want %q, have %v", tc.want, err)
			}
		})
	}
}

// A kind may have several parts that make pods.
func TestCheckOutsideOfSeveral(t *testing.T) {
	parts := [][]string{{"spec", "group", "leader"}, {"spec", "network"}}
	for text, want := range map[string]string{
		"spec: {group: {leader: {$patch: replace}, size: 3}, network: {$patch: replace}}": "",
		"spec: {group: {$patch: replace}}":                                                "spec.group.$patch: Forbidden",
		"spec: {group: null}":                                                             "spec.group: Forbidden: a patch must not delete",
		"spec: {network: null}":                                                           "spec.network: Forbidden: a patch must not delete",
		"spec: {network: [x]}":                                                            "spec.network: Invalid value",
		"spec: {worker: null, leader: {$patch: replace}}":                                 "spec.leader.$patch: Forbidden",
	} {
		err := render.CheckOutside(object(t, text), parts)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: want %q, have %v", text, want, err)
		}
	}
}

// FuzzMerge checks for any two JSON objects that Merge does not panic, always returns the same result or error, and does
// not change its input.
func FuzzMerge(f *testing.F) {
	for _, seed := range []struct{ base, patch string }{
		{`{"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}}}`},
		{`{"spec":{"template":{"spec":{"containers":[null]}}}}`, `{"spec":{"template":{"spec":{"containers":[{"name":{}}]}}}}`},
		{`{"metadata":{"finalizers":["a",null]}}`, `{"metadata":{"finalizers":[[]],"$deleteFromPrimitiveList/finalizers":[{}]}}`},
		{`{"spec":{"template":{"spec":{"volumes":[{"name":"a"}]}}}}`, `{"spec":{"template":{"spec":{"$setElementOrder/volumes":[{"name":"a"}],"volumes":[{"name":"a","$retainKeys":["name"]}]}}}}`},
		{`{"spec":{"template":{"spec":{"tolerations":[{}]}}}}`, `{"spec":{"template":{"spec":{"$setElementOrder/tolerations":[{"a":1}]}}}}`},
		{`{"a":{"b":[1]}}`, `{"a":{"$patch":"replace","b":[{"$patch":"x"}]}}`},
	} {
		f.Add([]byte(seed.base), []byte(seed.patch))
	}
	schema := statefulSetSchema(f)
	f.Fuzz(func(t *testing.T, rawBase, rawPatch []byte) {
		var base, patch map[string]any
		if json.Unmarshal(rawBase, &base) != nil || json.Unmarshal(rawPatch, &patch) != nil {
			return
		}
		baseBefore, patchBefore := runtime.DeepCopyJSON(base), runtime.DeepCopyJSON(patch)
		first, firstErr := render.Merge(schema, base, patch)
		if diff := cmp.Diff(baseBefore, base) + cmp.Diff(patchBefore, patch); diff != "" {
			t.Fatal("the input was changed\n", diff)
		}
		again, againErr := render.Merge(schema, base, patch)
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatal("two runs differ\n", diff)
		}
		if (firstErr == nil) != (againErr == nil) || firstErr != nil && firstErr.Error() != againErr.Error() {
			t.Fatalf("two runs err differently: %v, %v", firstErr, againErr)
		}
	})
}
