// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// immutable returns the API server's error for a changed value of an immutable StatefulSet field. Since
// Kubernetes 1.37 the error names the field.
func immutable(t *testing.T, field, value string) string {
	t.Helper()
	if isKubernetes136(t) {
		return "spec: Forbidden: updates to statefulset spec for fields other than"
	}
	return fmt.Sprintf("spec.%s: Invalid value: %q: field is immutable", field, value)
}

// isKubernetes136 reports whether the tests run on the oldest Kubernetes.
func isKubernetes136(t *testing.T) bool {
	t.Helper()
	server, err := shared.cluster.ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	return server.Major == "1" && server.Minor == "36"
}

// TestRefusedPatch checks a patch of zone-b that results in an invalid child. The others continue,
// zone-b stays as it was, and follows when the patch is corrected.
func TestRefusedPatch(t *testing.T) {
	t.Parallel()
	const at = "spec.topology.subsets[zone-b].patch."
	const pods = `{"spec":{"template":{"spec":%s}}}`
	const container = `{"spec":{"template":{"spec":{"containers":[%s]}}}}`
	for _, refused := range []struct {
		name, patch string
		words       string // of the API server or, if the patch cannot be merged, of the controller
	}{
		{"immutable field", `{"spec":{"serviceName":"other"}}`, immutable(t, "serviceName", "other")},
		{"another immutable field", `{"spec":{"podManagementPolicy":"Parallel"}}`, immutable(t, "podManagementPolicy", "Parallel")},
		{"misspelt field", fmt.Sprintf(container, `{"name":"web","imag":"x"}`), `.spec.template.spec.containers[name="web"].imag: field not declared in schema`},
		{"misspelt field outside of pods", `{"spec":{"minReadySecond":5}}`, `.spec.minReadySecond: field not declared in schema`},
		{"bad pod spec", fmt.Sprintf(pods, `{"restartPolicy":"Never"}`), `spec.template.spec.restartPolicy: Unsupported value: "Never"`},
		{"bad label", `{"metadata":{"labels":{"not a key":"x"}}}`, `metadata.labels: Invalid value: "not a key"`},
		{"not a list", fmt.Sprintf(pods, `{"containers":"x"}`), `.spec.template.spec.containers: expected list`},
		{"not a string", fmt.Sprintf(pods, `{"nodeSelector":{"disk":5}}`), `.spec.template.spec.nodeSelector.disk: expected string`},
		{"the same key twice", fmt.Sprintf(container, `{"name":"web","env":[{"name":"A"},{"name":"A"}]}`), `duplicate entries for key [name="A"]`},
		{"no quantity", fmt.Sprintf(container, `{"name":"web","resources":{"requests":{"cpu":"much"}}}`), `quantities must match the regular expression`},
		{"no merge key", fmt.Sprintf(container, `{"image":"x"}`), at + "spec.template.spec.containers[0].name: Required value"},
		{"null in a list", fmt.Sprintf(container, `null`), at + "spec.template.spec.containers[0]"},
		{"unknown directive", fmt.Sprintf(container, `{"name":"web","$patch":"merge"}`), at + "spec.template.spec.containers[0].$patch: Unsupported value"},
	} {
		t.Run(refused.name, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			w := e.Create(draft("web", replicas(6), zones("", "", "")))
			w.Settle()
			kept := e.History.Forbid(outside("zone-a", "zone-c"))
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"/spec/topology/subsets/1/patch","value":%s}]`,
				imagePath, image("v2"), refused.patch)
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, refused.words)
			w.Runs(images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2"})
			w.Scale(9)
			w.Runs(images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2 v2"})
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, refused.words)
			e.Eventually(func() v1alpha1.SubsetPhase { return w.Status("zone-c").Phase }).Should(Equal(v1alpha1.PhaseComplete))
			kept.Holds()

			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch"}]`)
			w.Settle()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2 v2"}))
			kept.Fires()
		})
	}
}

// TestRefusedOverruledPatch checks a patch that sets a field which the controller decides. The API
// server refuses it. If it was stored before the policy existed, it stalls its subset, which stays
// unchanged to the last byte.
func TestRefusedOverruledPatch(t *testing.T) {
	t.Parallel()
	for field, patch := range map[string]string{
		"spec.replicas": `{"spec":{"replicas":9}}`,
		"spec.updateStrategy.rollingUpdate.partition": `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":0}}}}`,
		"spec.updateStrategy.type":                    `{"spec":{"updateStrategy":{"type":"OnDelete"}}}`,
		"spec.selector":                               `{"spec":{"selector":{"matchLabels":{"app":"other"}}}}`,
	} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			w := e.Create(draft("web", replicas(6), zones("", "", "")))
			w.Settle()
			w.AwaitObserved()
			kept := e.History.Forbid(outside("zone-a", "zone-c"))
			edit := fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"/spec/topology/subsets/1/patch","value":%s}]`,
				imagePath, image("v2"), patch)
			path := "spec.topology.subsets[zone-b].patch." + field + ": "
			err := w.TryPatch(types.JSONPatchType, edit)
			e.Expect(err).To(MatchError(ContainSubstring(path)))
			e.Expect(apierrors.IsInvalid(err)).To(BeTrue())
			e.Unchecked()
			before := e.Raw(children, "web-zone-b")
			w.JSONPatch("%s", edit)
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, path)
			w.Scale(9)
			w.Runs(images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2 v2"})
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, path)
			e.Expect(e.Raw(children, "web-zone-b")).To(Equal(before))
			kept.Holds()

			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch"}]`)
			w.Settle()
			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2 v2"}))
			e.Expect(e.Raw(children, "web-zone-b")).NotTo(Equal(before), "positive control: a change would have been seen")
			kept.Fires()
		})
	}
}

// TestRefusedTemplate checks a template that is refused for all children. Nothing moves, and a revert
// is enough to recover.
func TestRefusedTemplate(t *testing.T) {
	t.Parallel()
	for _, refused := range []struct{ name, field, value, words string }{
		{"immutable field", "/spec/podManagementPolicy", `"Parallel"`, immutable(t, "podManagementPolicy", "Parallel")},
		{"misspelt field", "/spec/template/spec/nodeSelectors", `{}`, ".spec.template.spec.nodeSelectors: field not declared in schema"},
	} {
		t.Run(refused.name, func(t *testing.T) {
			t.Parallel()
			e := soundEnv(t)
			w := e.Create(draft("web", replicas(3), zones("", "", "")))
			w.Settle()
			none := e.History.Forbid(anyNewPod)
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"%s%s","value":%s}]`,
				imagePath, image("v2"), templatePath, refused.field, refused.value)
			w.StallsWhole(v1alpha1.ReasonApplyRefused, "All subsets: ", refused.words)
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"%s/spec/podManagementPolicy","value":"OrderedReady"}]`,
				imagePath, image("v1"), templatePath)
			if refused.field != "/spec/podManagementPolicy" {
				w.JSONPatch(`[{"op":"remove","path":"%s%s"}]`, templatePath, refused.field)
			}
			w.Settle()
			none.Holds()
			w.SetImage("v3")
			w.Settle()
			none.Fires()
		})
	}
}
