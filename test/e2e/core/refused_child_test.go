// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// immutable returns the API server's error for a changed value of an immutable StatefulSet field. Since
// Kubernetes 1.37 the error names the field.
func immutable(t *testing.T, field, value string) string {
	t.Helper()
	if IsKubernetes136(t) {
		return "spec: Forbidden: updates to statefulset spec for fields other than"
	}
	return fmt.Sprintf("spec.%s: Invalid value: %q: field is immutable", field, value)
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
			e := SoundEnv(t)
			w := e.Create(NewDraft("web", Replicas(6), Zones("", "", "")))
			w.Settle()
			kept := e.History.Forbid(Outside("zone-a", "zone-c"))
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"/spec/topology/subsets/1/patch","value":%s}]`,
				ImagePath, Image("v2"), refused.patch)
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, refused.words)
			w.Runs(Images{"zone-a": "v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2"})
			w.Scale(9)
			w.Runs(Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2 v2"})
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, refused.words)
			e.Eventually(func() v1alpha1.SubsetPhase { return w.Status("zone-c").Phase }).Should(Equal(v1alpha1.PhaseComplete))
			kept.Holds()

			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch"}]`)
			w.Settle()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2 v2"}))
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
			e := SoundEnv(t)
			w := e.Create(NewDraft("web", Replicas(3), Zones("", "", "")))
			w.Settle()
			none := e.History.Forbid(AnyNewPod)
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"%s%s","value":%s}]`,
				ImagePath, Image("v2"), TemplatePath, refused.field, refused.value)
			w.StallsWhole(v1alpha1.ReasonApplyRefused, "All subsets: ", refused.words)
			w.JSONPatch(`[{"op":"replace","path":%q,"value":%q},{"op":"replace","path":"%s/spec/podManagementPolicy","value":"OrderedReady"}]`,
				ImagePath, Image("v1"), TemplatePath)
			if refused.field != "/spec/podManagementPolicy" {
				w.JSONPatch(`[{"op":"remove","path":"%s%s"}]`, TemplatePath, refused.field)
			}
			w.Settle()
			none.Holds()
			w.SetImage("v3")
			w.Settle()
			none.Fires()
		})
	}
}
