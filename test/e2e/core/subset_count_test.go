// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestNoSubsets checks that a parent without subsets is not ready and reports that, and continues when
// it gets a subset.
func TestNoSubsets(t *testing.T) {
	t.Parallel()
	e := SoundEnv(t)
	w := e.Create(NewDraft("web", Replicas(4), Hold()))
	nowhere := func() { w.StallsWhole(v1alpha1.ReasonNoSubsets, "spec.topology.subsets is empty") }
	nowhere()
	e.Expect(w.Parent().Status.Replicas).To(BeZero())
	w.SetImage("v2")
	nowhere()
	w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets","value":[{"name":"a"},{"name":"b"}]}]`)
	w.Settle()
	e.Expect(w.Images()).To(Equal(Images{"a": "v2 v2", "b": "v2 v2"}), "there was never another revision that worked")
	for _, slip := range []string{`{"spec":{"topology":{"subsets":[]}}}`, `{"spec":{"topology":{"subsets":null}}}`, `{"spec":{"topology":null}}`} {
		e.Expect(w.TryPatch(types.MergePatchType, slip)).To(MatchError(ContainSubstring("the last subset cannot be removed while spec.replicas is above 0")))
	}
	w.Patch(`{"spec":{"replicas":0,"topology":{"subsets":null}}}`)
	e.Eventually(w.Pods).Should(BeEmpty())
	w.Scale(7)
	nowhere()
	w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets","value":[{"name":"a"}]}]`)
	w.Settle()
	e.Expect(w.Count("a")).To(Equal(7))
}
