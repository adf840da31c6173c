// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRelabelledPod checks a replica whose labels somebody changed. It no longer counts as a replica,
// and its StatefulSet cannot create another one with its name. The status names the pod and the cause.
func TestRelabelledPod(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]struct{ labels, lacks []string }{
		"a label of the selector": {[]string{"app=debug"}, []string{"app=web"}},
		"all that it is found by": {[]string{"app-", v1alpha1.LabelName + "-", v1alpha1.LabelSubset + "-"},
			[]string{"app=web", v1alpha1.LabelName + "=web", v1alpha1.LabelSubset + "=zone-b"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := SoundEnv(t)
			w := e.Create(NewDraft("web", Replicas(6), Zones("", "", "")))
			w.Settle()
			none := e.History.Forbid(AnyNewPod)
			e.Kubectl(append([]string{"label", "--overwrite", "pod", "web-zone-b-1"}, edit.labels...)...)
			e.Eventually(func() string { return w.Status("zone-b").Message }).Should(Equal(
				"waiting for web-zone-b-1 (missing; a pod with its name does not have the labels " + strings.Join(edit.lacks, ", ") + ": add them, or delete that pod)"))
			none.Holds()
			e.Kubectl("delete", "pod", "web-zone-b-1")
			// The StatefulSet controller has released the pod, and gets no event for it. The delay of
			// its next retry depends on the number of failures, up to minutes.
			w.PatchChild("zone-b", `{"metadata":{"annotations":{"example.com/look":"again"}}}`)
			w.Disturbed()
			w.Settle()
			none.Fires()
			e.Expect(w.Images()).To(HaveKeyWithValue("zone-b", "v1 v1"))
		})
	}
}
