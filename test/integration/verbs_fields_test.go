// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
)

// The states in which fields are changed: what docs/operations.md says of a field decides in which of them that needs the verb
// release.
var strategies = []struct{ name, strategy string }{
	{"held", `{type: Manual}`},
	{"bound", `{type: Manual, manualUpdate: {revision: web-1, partitions: {zone-a: 0}}}`},
	{"unbound", `{type: Manual, manualUpdate: {partitions: {zone-a: "50%"}}}`},
	{"rolling", `{type: RollingUpdate, rollingUpdate: {maxUnavailable: 2, steps: [{subsets: [zone-a], partition: 0, pause: {}}]}}`},
}

// needed are the states in which a cell of the column Manual asks for the verb.
var needed = map[string][]string{
	"no": {}, "unbound": {"unbound"}, "open": {"bound", "unbound"}, "yes": {"held", "bound", "unbound"}, "immutable": {},
}

// fieldChange changes a field of spec as somebody would who wants to release without the right to.
type fieldChange struct {
	edit
	// before is how the object is before; nil for the sample.
	before edit
	// says is a part of the message; "" for the name of the field.
	says string
}

func fieldChanges() map[string]fieldChange {
	patch := put(`{spec: {template: {spec: {containers: [{name: web, image: "example.com/web:mine"}]}}}}`, inSubset(2, "patch")...)
	subset := func(field, value string) edit { return put(value, inSubset(2, field)...) }
	bounded := all(drop(inSubset(0, "replicas")...), drop(inSubset(1, "replicas")...), put(`1`, inSubset(0, "minReplicas")...), put(`2`, inSubset(0, "maxReplicas")...))
	grouped := put(`{topologyKey: kubernetes.io/hostname, ratios: {zone-c: 2}}`, "spec", "topology", "colocation")
	one := "spec.topology.subsets[zone-c]"
	return map[string]fieldChange{
		"replicas":                            {edit: put(`9`, "spec", "replicas")},
		"template":                            {edit: put(`[{name: web, image: "example.com/web:mine"}]`, inTemplate("spec", "template", "spec", "containers")...)},
		"versionLabel":                        {edit: put(`TemplateHash`, "spec", "versionLabel")},
		"topology.subsets[].patch":            {edit: patch, says: "the patch or the tolerations of " + one},
		"topology.subsets[].tolerations":      {edit: subset("tolerations", `[{operator: Exists}]`), says: "the patch or the tolerations of " + one},
		"topology.subsets[].name":             {edit: all(patch, subset("name", `zone-x`)), says: "add or remove spec.topology.subsets[zone-x]"},
		"topology.subsets[].replicas":         {edit: subset("replicas", `5`), says: one + ".replicas"},
		"topology.subsets[].minReplicas":      {edit: subset("minReplicas", `5`), before: bounded, says: one + ".minReplicas"},
		"topology.subsets[].maxReplicas":      {edit: put(`1`, inSubset(0, "maxReplicas")...), before: bounded, says: "subsets[zone-a].maxReplicas"},
		"topology.scheduleStrategy":           {edit: scheduled(`{type: Adaptive}`), before: bounded},
		"topology.colocation":                 {edit: grouped},
		"selector":                            {edit: put(`{matchLabels: {app: web, more: web}}`, "spec", "selector")},
		"topology.subsets[].nodeSelector":     {edit: subset("nodeSelector", `{nodeSelectorTerms: [{}]}`)},
		"updateStrategy":                      {edit: put(`{type: RollingUpdate, rollingUpdate: {}}`, "spec", "updateStrategy")},
		"paused":                              {edit: put(`false`, "spec", "paused"), before: put(`true`, "spec", "paused")},
		"minReadySeconds":                     {edit: put(`1`, "spec", "minReadySeconds")},
		"progressDeadlineSeconds":             {edit: put(`1`, "spec", "progressDeadlineSeconds")},
		"revisionHistoryLimit":                {edit: put(`0`, "spec", "revisionHistoryLimit")},
		"topology.subsets[] in another order": {edit: reversed, says: "the order of spec.topology.subsets"},
	}
}

// verbTable returns the rows of the table of docs/operations.md, by field of spec: the cells for Manual and for RollingUpdate.
func verbTable(g *WithT) map[string][2]string {
	root, err := cluster.Root()
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "docs", "operations.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, table, found := strings.Cut(string(text), "\n| change of | `Manual` | `RollingUpdate` |\n| --- | --- | --- |\n")
	g.Expect(found).To(BeTrue(), "the header of the table")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := map[string][2]string{}
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "| "), " | ")
		g.Expect(cells).To(HaveLen(3), line)
		for field := range strings.SplitSeq(strings.ReplaceAll(cells[0], "`", ""), "; ") {
			rows[field] = [2]string{cells[1], cells[2]}
		}
	}
	return rows
}

// TestVerbOfEveryField changes every field of spec that docs/operations.md has a row for, in each state of the strategy, by
// somebody who may edit and by somebody who may release too. Each row has a test, and each field of the
// CustomResourceDefinition a row.
func TestVerbOfEveryField(t *testing.T) {
	g := NewWithT(t)
	rows, changes := verbTable(g), fieldChanges()
	g.Expect(slices.Sorted(maps.Keys(changes))).To(Equal(slices.Sorted(maps.Keys(rows))), "the rows, and the tests")
	for _, field := range fieldsOfSpec(g) {
		g.Expect(slices.ContainsFunc(slices.Collect(maps.Keys(rows)), func(row string) bool {
			below, found := strings.CutPrefix(field, row)
			return found && (below == "" || strings.ContainsAny(below[:1], ".[{"))
		})).To(BeTrue(), "no row has spec.%s", field)
	}

	w := withVerbs(t, "fields", "release")
	for field, change := range changes {
		for _, s := range strategies {
			t.Run(field+", "+s.name, func(t *testing.T) {
				g := NewWithT(t)
				cells := rows[field]
				needs := cells[1] == "yes"
				if s.name != "rolling" {
					g.Expect(needed).To(HaveKey(cells[0]))
					needs = slices.Contains(needed[cells[0]], s.name)
				}
				before := change.before
				if before == nil {
					before = all()
				}
				w.store(t, g, all(put(s.strategy, "spec", "updateStrategy"), before))
				after := all(change.edit)
				if strings.HasSuffix(field, ".name") {
					after = all(after, func(object map[string]any) { // a partition of a subset that has gone is refused
						unstructured.RemoveNestedField(object, "spec", "updateStrategy", "manualUpdate", "partitions", "zone-c")
					})
				}
				err := w.update(t, g, "edit", after)
				if cells[0] == "immutable" {
					g.Expect(err).To(MatchError(ContainSubstring("immutable")))
					return
				}
				if !needs {
					g.Expect(err).NotTo(HaveOccurred())
					return
				}
				says := change.says
				if says == "" {
					says = "spec." + field
				}
				g.Expect(err).To(MatchError(And(ContainSubstring(" denied request: you need the verb release on uniteddeployments to "), ContainSubstring(says))))
				g.Expect(w.update(t, g, "release", after)).To(Succeed())
			})
		}
	}
}

// fieldsOfSpec returns the paths of the fields below spec, down to what is in no schema.
func fieldsOfSpec(g *WithT) (paths []string) {
	root, err := cluster.Root()
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "config", "crd", "apps.united.dev_uniteddeployments.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	crd := &apiextensionsv1.CustomResourceDefinition{}
	g.Expect(yaml.Unmarshal(text, crd)).To(Succeed())
	all := map[string]*apiextensionsv1.JSONSchemaProps{}
	spec := crd.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties["spec"]
	collect(all, "", &spec)
	for path, schema := range all {
		if len(schema.Properties) == 0 && schema.Items == nil {
			paths = append(paths, strings.TrimPrefix(path, "."))
		}
	}
	g.Expect(len(paths)).To(BeNumerically(">", 50))
	return paths
}

// verbsWorld has the clients of a namespace in which the policy of verbs is in force.
type verbsWorld struct {
	namespace string
	by        map[string]author
	admin     author
}

// store replaces the object by the sample with an edit.
func (w *verbsWorld) store(t *testing.T, g *WithT, e edit) {
	t.Helper()
	_ = w.admin.Delete(context.WithoutCancel(t.Context()), "web", metav1.DeleteOptions{})
	object := with(t, "web", e)
	object.SetNamespace(w.namespace)
	_, err := w.admin.Create(t.Context(), object, metav1.CreateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

// observed writes a status as the manager would.
func (w *verbsWorld) observed(t *testing.T, g *WithT, status string) {
	t.Helper()
	object, err := w.admin.Get(t.Context(), "web", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	put(status, "status")(object.Object)
	_, err = w.admin.UpdateStatus(t.Context(), object, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())
}

func (w *verbsWorld) update(t *testing.T, g *WithT, by string, e edit) error {
	t.Helper()
	object, err := w.admin.Get(t.Context(), "web", metav1.GetOptions{})
	g.Expect(err).NotTo(HaveOccurred())
	e(object.Object)
	_, err = w.by[by].Update(t.Context(), object, metav1.UpdateOptions{DryRun: dryRun})
	return err
}

// TestVerbsOfTheWayAround has what no single field shows: what the status says, what comes and goes as a whole, and the other
// ways to create and to delete.
func TestVerbsOfTheWayAround(t *testing.T) {
	g := NewWithT(t)
	w := withVerbs(t, "around", "release")
	needs := func(what string) OmegaMatcher {
		return MatchError(ContainSubstring(" denied request: you need the verb release on uniteddeployments to " + what))
	}
	const held, open = `{type: Manual}`, `{type: Manual, manualUpdate: {partitions: {zone-a: 0}}}`
	strategy := func(text string) edit { return put(text, "spec", "updateStrategy") }
	moved, patch := put(`6`, inSubset(2, "replicas")...), put(`{spec: {template: {metadata: {labels: {a: b}}}}}`, inSubset(2, "patch")...)

	t.Run("subsets that protect different revisions", func(t *testing.T) {
		g := NewWithT(t)
		w.store(t, g, strategy(held))
		g.Expect(w.update(t, g, "edit", moved)).To(Succeed())
		w.observed(t, g, `{observedGeneration: 1, subsets: [{name: zone-a, currentRevision: web-2}, {name: zone-b, currentRevision: web-1}, {name: zone-c}]}`)
		g.Expect(w.update(t, g, "edit", moved)).To(needs("change spec.topology.subsets[zone-c].replicas while the subsets protect different revisions"))
		g.Expect(w.update(t, g, "release", moved)).To(Succeed())
		w.observed(t, g, `{observedGeneration: 1, subsets: [{name: zone-a, currentRevision: web-2}, {name: zone-b, currentRevision: web-2}, {name: zone-c}]}`)
		g.Expect(w.update(t, g, "edit", moved)).To(Succeed())
	})
	t.Run("a subset that the manager has not seen", func(t *testing.T) {
		g := NewWithT(t)
		w.store(t, g, strategy(held))
		g.Expect(w.update(t, g, "edit", patch)).To(Succeed(), "of an object that it has not seen either")
		w.observed(t, g, `{observedGeneration: 1, subsets: [{name: zone-a}, {name: zone-b}]}`)
		g.Expect(w.update(t, g, "edit", patch)).To(needs("change the patch or the tolerations of spec.topology.subsets[zone-c] before status.subsets has it"))
		g.Expect(w.update(t, g, "release", patch)).To(Succeed())
		w.observed(t, g, `{observedGeneration: 1, subsets: [{name: zone-a}, {name: zone-b}, {name: zone-c}]}`)
		g.Expect(w.update(t, g, "edit", patch)).To(Succeed())
	})
	t.Run("a subset more, and one less", func(t *testing.T) {
		g := NewWithT(t)
		w.store(t, g, strategy(held))
		more := func(object map[string]any) {
			list, _, _ := unstructured.NestedSlice(object, "spec", "topology", "subsets")
			set(append(list, parse(`{name: zone-x, patch: {spec: {template: {metadata: {labels: {a: b}}}}}}`)), "spec", "topology", "subsets")(object)
		}
		g.Expect(w.update(t, g, "edit", more)).To(needs("add or remove spec.topology.subsets[zone-x]"))
		g.Expect(w.update(t, g, "edit", setSubsets(0, 1))).To(needs("add or remove spec.topology.subsets[zone-c]"))
		g.Expect(w.update(t, g, "release", all(more))).To(Succeed())
	})
	t.Run("hold", func(t *testing.T) {
		g := NewWithT(t)
		w.store(t, g, strategy(`{type: Manual, manualUpdate: {revision: web-1, partitions: {zone-a: 0}}}`))
		g.Expect(w.update(t, g, "edit", strategy(`{type: Manual, manualUpdate: {}}`))).To(Succeed(), "all of it, without the revision")
		g.Expect(w.update(t, g, "edit", strategy(`{type: Manual}`))).To(Succeed())
		g.Expect(w.update(t, g, "edit", strategy(`{type: Manual, manualUpdate: {partitions: {zone-a: 0}}}`))).To(needs("change spec.updateStrategy"))
		g.Expect(w.update(t, g, "edit", put(`true`, "spec", "paused"))).To(Succeed())
	})
	t.Run("every field of rollingUpdate", func(t *testing.T) {
		g := NewWithT(t)
		for field, value := range map[string]string{
			"maxUnavailable": `"50%"`, "maxUnavailablePerSubset": `2`, "maxSkew": `"10%"`, "order": `Sequential`, "rollbackRevisions": `3`,
			"steps": `[]`, "checks": `[{name: c, prometheus: {server: s, query: q, max: "1"}}]`, "onFailure": `Rollback`, "partition": `1`,
		} {
			w.store(t, g, strategy(`{type: RollingUpdate, rollingUpdate: {steps: [{subsets: [zone-a], partition: 0, pause: {}}]}}`))
			change := put(value, "spec", "updateStrategy", "rollingUpdate", field)
			g.Expect(w.update(t, g, "edit", change)).To(needs("change spec.updateStrategy"), field)
			g.Expect(w.update(t, g, "release", change)).To(Succeed(), field)
		}
	})
	t.Run("create", func(t *testing.T) {
		g := NewWithT(t)
		_ = w.admin.Delete(t.Context(), "web", metav1.DeleteOptions{})
		create := func(by string, e edit) error {
			object := with(t, "web", e)
			object.SetNamespace(w.namespace)
			_, created := w.by[by].Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
			_, applied := w.by[by].Apply(t.Context(), "web", object, metav1.ApplyOptions{DryRun: dryRun, FieldManager: "test"})
			object.SetName("")
			object.SetGenerateName("web-")
			_, generated := w.by[by].Create(t.Context(), object, metav1.CreateOptions{DryRun: dryRun})
			g.Expect([]bool{applied == nil, generated == nil}).To(HaveEach(created == nil), "%v, %v, %v", created, applied, generated)
			return created
		}
		annotated := func(key string) edit { return put(`"x"`, "metadata", "annotations", key) }
		owned := put(`[{apiVersion: v1, kind: ConfigMap, name: mine, uid: mine}]`, "metadata", "ownerReferences")
		g.Expect(create("edit", strategy(held))).To(Succeed())
		g.Expect(create("edit", strategy(open))).To(needs("create one that is not held"))
		g.Expect(create("release", strategy(open))).To(Succeed())
		g.Expect(create("edit", all(strategy(held), owned))).To(needs("set metadata.ownerReferences"))
		g.Expect(create("edit", all(strategy(held), annotated("united.dev/leave")))).To(needs("set the annotation united.dev/leave"))
		for _, key := range []string{v1alpha1.AnnotationApproved, v1alpha1.AnnotationPromote, v1alpha1.AnnotationRetry} {
			g.Expect(create("edit", all(strategy(held), annotated(key)))).To(MatchError(ContainSubstring("you need the verb approve on uniteddeployments to set the annotation " + key)))
		}
		g.Expect(create("edit", all(strategy(held), annotated(v1alpha1.AnnotationForceUpdate)))).To(MatchError(ContainSubstring("you need the verb force")))
	})
	t.Run("delete", func(t *testing.T) {
		g := NewWithT(t)
		w.store(t, g, strategy(held))
		dry := metav1.DeleteOptions{DryRun: dryRun}
		refused := needs("delete one: created again, it would run its template at once")
		g.Expect(w.by["edit"].Delete(t.Context(), "web", dry)).To(refused)
		g.Expect(w.by["edit"].DeleteCollection(t.Context(), dry, metav1.ListOptions{})).To(refused)
		g.Expect(w.by["release"].Delete(t.Context(), "web", dry)).To(Succeed())
		g.Expect(w.by["release"].DeleteCollection(t.Context(), dry, metav1.ListOptions{})).To(Succeed())
		_, err := w.by["edit"].Patch(t.Context(), "web", types.MergePatchType, []byte(`{"metadata":{"annotations":{"united.dev/leave":""}}}`), metav1.PatchOptions{DryRun: dryRun})
		g.Expect(err).To(needs("set the annotation united.dev/leave"))
	})
	t.Run("an owner", func(t *testing.T) {
		g := NewWithT(t)
		uids := map[string]string{} // of objects that are there: otherwise the garbage collector deletes this one
		for _, name := range []string{"a", "b", "c"} {
			configMap := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
			configMap.SetName(name)
			made, err := fixture.client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(w.namespace).Create(t.Context(), configMap, metav1.CreateOptions{})
			g.Expect(err).NotTo(HaveOccurred())
			uids[name] = string(made.GetUID())
		}
		owners := func(names ...string) edit {
			var list []any
			for _, name := range names {
				list = append(list, map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uids[name]})
			}
			return set(list, "metadata", "ownerReferences")
		}
		w.store(t, g, all(strategy(held), owners("a", "b")))
		g.Expect(w.update(t, g, "edit", owners("a"))).To(Succeed())
		g.Expect(w.update(t, g, "edit", owners("a", "c"))).To(needs("set metadata.ownerReferences: the object is deleted with its owners"))
		g.Expect(w.update(t, g, "release", owners("a", "c"))).To(Succeed())
		another := set([]any{map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": uids["a"]}}, "metadata", "ownerReferences")
		g.Expect(w.update(t, g, "edit", another)).To(needs("set metadata.ownerReferences"), "the garbage collector looks for the name")
	})
	t.Run("the namespace goes", func(t *testing.T) {
		g := NewWithT(t)
		w.store(t, g, strategy(held))
		for _, controller := range []string{"namespace-controller", "generic-garbage-collector"} {
			g.Expect(as(g, "system:serviceaccount:kube-system:"+controller, w.namespace).Delete(t.Context(), "web", metav1.DeleteOptions{DryRun: dryRun})).To(Succeed())
		}
	})
	// A list of 100 subsets, each with a patch, a partition and a status, all in another order with other patches: within the budget.
	large := func(value string) edit {
		return func(object map[string]any) {
			list := subsets(100, "a-zone-with-a-name-that-is-rather-long-")
			partitions := map[string]any{}
			for _, s := range list {
				subset := s.(map[string]any)
				partitions[subset["name"].(string)] = "50%"
				subset["minReplicas"] = int64(len(value))
				subset["patch"] = parse(fmt.Sprintf(`{spec: {template: {metadata: {labels: {a: %s}}}}}`, value))
			}
			if value != "b" {
				slices.Reverse(list)
			}
			all(set(list, "spec", "topology", "subsets"), set(map[string]any{"type": "Manual", "manualUpdate": map[string]any{"partitions": partitions}}, "spec", "updateStrategy"))(object)
		}
	}
	w.store(t, g, large("b"))
	var seen []string
	for _, s := range subsets(100, "a-zone-with-a-name-that-is-rather-long-") {
		seen = append(seen, fmt.Sprintf(`{name: %s, currentRevision: web-1}`, s.(map[string]any)["name"]))
	}
	w.observed(t, g, `{observedGeneration: 1, subsets: [`+strings.Join(seen, ", ")+`]}`)
	g.Expect(w.update(t, g, "edit", large("cc"))).To(needs("change the order of spec.topology.subsets"))
	g.Expect(w.update(t, g, "release", large("cc"))).To(Succeed())
}
