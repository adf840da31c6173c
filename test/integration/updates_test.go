// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/test/cluster"
)

const waitTimeout = 30 * time.Second

var dryRun = []string{metav1.DryRunAll}

func TestRefusedUpdates(t *testing.T) {
	immutable := func(subset string) []string {
		return []string{"spec.topology.subsets: ", "the nodeSelector of the existing subset " + subset + " is immutable"}
	}
	terms := inSubset(0, "nodeSelector", "nodeSelectorTerms")
	refusals := []refusal{
		{"label of the selector", set("api", "spec", "selector", "matchLabels", "app"), []string{"spec.selector: ", "is immutable"}},
		{"selector extended", put(`[{key: app, operator: Exists}]`, "spec", "selector", "matchExpressions"),
			[]string{"spec.selector: ", "is immutable"}},
		{"selector written otherwise", put(`{matchExpressions: [{key: app, operator: In, values: [web]}]}`, "spec", "selector"),
			[]string{"spec.selector: ", "is immutable"}},
		{"template removed", put(`{}`, "spec", "template"), []string{"spec.template: ", "the kind of the template is immutable"}},
		{"nodeSelector changed", put(`[{matchExpressions: [{key: zone, operator: Exists}]}]`, terms...),
			immutable("zone-a")},
		{"nodeSelector changed deep down", set("zone-x", at(terms...)(0, "matchExpressions", 0, "values", 0)...),
			immutable("zone-a")},
		{"nodeSelector with a further term", put(`[{matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: [zone-a]}]}, {}]`,
			terms...), immutable("zone-a")},
		{"nodeSelector removed", drop(inSubset(1, "nodeSelector")...), immutable("zone-b")},
		{"nodeSelector added", put(`{nodeSelectorTerms: [{}]}`, inSubset(2, "nodeSelector")...),
			immutable("zone-c")},
		{"nodeSelector changed and subsets in another order", all(drop(inSubset(0, "nodeSelector")...), reversed),
			immutable("zone-a")},
		{"subset renamed, not its partition", set("zone-x", inSubset(0, "name")...),
			[]string{partitionsPath + ": ", "there is no subset zone-a in spec.topology.subsets, which has zone-x, zone-b, zone-c; to remove a subset, set its partition to null in the same patch"}},
		{"duplicate subset", set("zone-a", inSubset(1, "name")...), []string{"spec.topology.subsets[1]: Duplicate value"}},
		{"template replicas", put(`1`, inTemplate("spec", "replicas")...), []string{templatePath + ".spec.replicas: must not be set"}},
		{"pod label", set("api", templateLabels("app")...), []string{podLabelsPath + ": must match spec.selector"}},
		{"patched pod label", set("api", inPatch("spec", "template", "metadata", "labels", "app")...),
			[]string{patchPath + ".spec.template.metadata.labels: must match spec.selector"}},
	}
	for title, e := range map[string]edit{
		"last subset removed":        put(`[]`, "spec", "topology", "subsets"),
		"last subset null":           put(`null`, "spec", "topology", "subsets"),
		"topology removed":           drop("spec", "topology"),
		"topology null":              put(`null`, "spec", "topology"),
		"removed with the replicas":  all(drop("spec", "topology"), drop("spec", "replicas")),
		"removed, and scaled to one": all(drop("spec", "topology"), put(`1`, "spec", "replicas")),
	} {
		refusals = append(refusals, refusal{title, all(drop(inManual("partitions")...), e),
			[]string{"spec.topology.subsets: ", "the last subset cannot be removed while spec.replicas is above 0", "set spec.replicas to 0, or delete the UnitedDeployment"}})
	}
	store(t, with(t, "living"))
	t.Run("duplicate subset with another nodeSelector", func(t *testing.T) {
		g := NewWithT(t)
		err := update(t, "living", set("zone-a", inSubset(1, "name")...))
		g.Expect(err).To(MatchError(ContainSubstring("spec.topology.subsets[1]: Duplicate value")))
		g.Expect(err).NotTo(MatchError(ContainSubstring("immutable")), "nothing was changed: it is there twice")
	})
	for _, r := range refusals {
		t.Run(r.title, func(t *testing.T) { expectInvalid(NewWithT(t), update(t, "living", r.edit), "", r.want) })
	}
}

func TestAcceptedUpdates(t *testing.T) {
	store(t, with(t, "growing"))
	for title, e := range map[string]edit{
		"nothing":            all(),
		"subset removed":     all(drop(inManual("partitions", "zone-a")...), setSubsets(1, 2)),
		"all removed":        all(drop(inManual("partitions")...), drop("spec", "topology"), put(`0`, "spec", "replicas")),
		"subset replaced":    all(drop(inManual("partitions", "zone-a")...), put(`{name: zone-x, nodeSelector: {nodeSelectorTerms: [{}]}}`, inSubset(0)...)),
		"subsets reversed":   reversed,
		"toleration removed": drop(inSubset(0, "tolerations")...),
		"patch changed":      put(`{spec: {template: {spec: {hostNetwork: true}}}}`, inPatch()...),
		"new image":          put(`[{name: web, image: "example.com/web:v2"}]`, inTemplate("spec", "template", "spec", "containers")...),
		"released":           put(`{zone-a: 0, zone-b: 0, zone-c: "0%"}`, inManual("partitions")...),
		"no manualUpdate":    drop(inManual()...),
	} {
		t.Run(title, func(t *testing.T) { NewWithT(t).Expect(update(t, "growing", e)).To(Succeed()) })
	}
}

// TestOlderThanThePolicy stores an object that the policy refuses while the policy does not exist, and
// checks that changes of other fields are still accepted.
func TestOlderThanThePolicy(t *testing.T) {
	const name = "older"
	g := NewWithT(t)
	ctx := t.Context()
	bindings := fixture.client.Resource(bindingResource)
	bad := all(put(`3`, inTemplate("spec", "replicas")...), put(`3`, inPatch("spec", "replicas")...))
	refused := func() (bool, error) {
		_, err := deployments().Create(context.WithoutCancel(ctx), with(t, "probe", bad), metav1.CreateOptions{DryRun: dryRun})
		if apierrors.IsInvalid(err) {
			return true, nil
		}
		return false, err
	}
	restore := func() {
		installPolicy(t)
		g.Eventually(refused, waitTimeout).Should(BeTrue())
	}
	t.Cleanup(restore)
	g.Expect(bindings.Delete(ctx, "united-templates", metav1.DeleteOptions{})).To(Succeed())
	g.Eventually(refused, waitTimeout).Should(BeFalse())
	store(t, with(t, name, bad, set([]any{"example.com/hold"}, "metadata", "finalizers")))
	restore()

	g.Expect(update(t, name, put(`9`, "spec", "replicas"))).To(Succeed(), "scaling")
	g.Expect(update(t, name, put(`{zone-b: "50%"}`, inManual("partitions")...))).To(Succeed(), "a partition")
	g.Expect(update(t, name, put(`2`, inSubset(0, "replicas")...))).To(Succeed(), "replicas of a subset")
	g.Expect(update(t, name, put(`true`, "spec", "paused"))).To(Succeed(), "pausing")
	g.Expect(update(t, name, put(`{a: b}`, "metadata", "labels"))).To(Succeed(), "a label")
	g.Expect(update(t, name, all(drop(inTemplate("spec", "replicas")...), drop(inPatch("spec", "replicas")...)))).To(Succeed(), "the repair")
	status := get(t, name)
	set(int64(1), "status", "observedGeneration")(status.Object)
	_, err := deployments().UpdateStatus(ctx, status, metav1.UpdateOptions{})
	g.Expect(err).NotTo(HaveOccurred())

	expectInvalid(g, update(t, name, put(`{a: b}`, inTemplate("metadata", "labels")...)), "",
		[]string{templatePath + ".spec.replicas: must not be set"})
	expectInvalid(g, update(t, name, put(`{name: zone-d}`, inSubset(2)...)), "",
		[]string{templatePath + ".spec.replicas: must not be set"})
	expectInvalid(g, update(t, name, drop(inTemplate("spec", "replicas")...)), "",
		[]string{patchPath + ".spec.replicas: must not be set"})

	_, err = deployments().Patch(ctx, name, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	g.Expect(err).NotTo(HaveOccurred(), "removing a finalizer")
}

func installPolicy(t *testing.T) {
	t.Helper()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	// Use another context, because this also runs at the end of a test, when the test's context has
	// ended.
	if err := fixture.cluster.Apply(context.Background(), filepath.Join(root, "config", "admission")); err != nil {
		t.Fatal(err)
	}
}

// update changes a stored object in a dry run.
func update(t *testing.T, name string, e edit) error {
	t.Helper()
	for {
		object := get(t, name)
		e(object.Object)
		_, err := deployments().Update(t.Context(), object, metav1.UpdateOptions{DryRun: dryRun, FieldValidation: "Strict"})
		if !apierrors.IsConflict(err) {
			return err
		}
	}
}

func get(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	object, err := deployments().Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return object
}

// reversed reverses the order of the subsets.
func reversed(object map[string]any) { setSubsets(2, 1, 0)(object) }

// setSubsets keeps the subsets with these indexes, in this order.
func setSubsets(indexes ...int) edit {
	return func(object map[string]any) {
		topology := object["spec"].(map[string]any)["topology"].(map[string]any)
		all := topology["subsets"].([]any)
		var list []any
		for _, i := range indexes {
			list = append(list, all[i])
		}
		topology["subsets"] = list
	}
}
