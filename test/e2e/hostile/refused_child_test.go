// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

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
			e := SoundEnv(t)
			w := e.Create(NewDraft("web", Replicas(6), Zones("", "", "")))
			w.Settle()
			w.AwaitObserved()
			kept := e.History.Forbid(Outside("zone-a", "zone-c"))
			edit := fmt.Sprintf(`[{"op":"replace","path":%q,"value":%q},{"op":"add","path":"/spec/topology/subsets/1/patch","value":%s}]`,
				ImagePath, Image("v2"), patch)
			path := "spec.topology.subsets[zone-b].patch." + field + ": "
			err := w.TryPatch(types.JSONPatchType, edit)
			e.Expect(err).To(MatchError(ContainSubstring(path)))
			e.Expect(apierrors.IsInvalid(err)).To(BeTrue())
			e.Unfinished()
			before := e.Raw(Children, "web-zone-b")
			w.JSONPatch("%s", edit)
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, path)
			w.Scale(9)
			w.Runs(Images{"zone-a": "v2 v2 v2", "zone-b": "v1 v1", "zone-c": "v2 v2 v2"})
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, path)
			e.Expect(e.Raw(Children, "web-zone-b")).To(Equal(before))
			kept.Holds()

			w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch"}]`)
			w.Settle()
			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2 v2 v2", "zone-b": "v2 v2 v2", "zone-c": "v2 v2 v2"}))
			e.Expect(e.Raw(Children, "web-zone-b")).NotTo(Equal(before), "positive control: a change would have been seen")
			kept.Fires()
		})
	}
}
