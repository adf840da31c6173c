// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"bytes"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/unitedworkloads/united/cmd/kubectl-united/command"
	"github.com/unitedworkloads/united/controllers/united/known"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// plugin runs the plugin, and returns what it prints.
func plugin(w *Contracted, args ...string) string {
	w.T.Helper()
	out, errs := &bytes.Buffer{}, &bytes.Buffer{}
	code := command.Run(w.Ctx, append(args, "--kubeconfig", w.Cluster.Kubeconfig(), "--namespace", w.Namespace),
		genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errs})
	w.Expect(code).To(BeZero(), errs.String())
	return out.String()
}

// TestPluginUndo restarts, sets images, and goes back, at rest and in mid-rollout, for every kind, patches and tolerations of
// subsets included.
func TestPluginUndo(t *testing.T) {
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		w := k.ContractOf(t, Replicas(2), Zones("1", "1"), Rolling(`{maxUnavailable: 2}`))
		w.ComesTo("1 v1", "1 v1", "")
		observed := func() (current string) {
			w.Eventually(func(g Gomega) {
				parent := w.Parent()
				g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
				g.Expect(parent.Status.CurrentRevision).To(Equal(parent.Status.UpdateRevision))
				current = parent.Status.CurrentRevision
			}).Should(Succeed())
			return current
		}
		pods, graced := "template", `{"spec":{"terminationGracePeriodSeconds":2}}`
		if k.Title == "LeaderWorkerSet" {
			pods, graced = "leaderWorkerTemplate", `{"workerTemplate":`+graced+`}`
		}
		first := observed()
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch","value":{"metadata":{"annotations":{"kept":"yes"}},"spec":{%q:%s}}},
			{"op":"add","path":"/spec/topology/subsets/0/tolerations","value":[{"key":"a","operator":"Exists"}]}]`, pods, graced)
		w.Eventually(observed).ShouldNot(Equal(first))
		patched := observed()
		was := w.Parent().Spec

		w.Expect(plugin(w, "undo", w.Name, "--to-revision", "1")).To(ContainSubstring("goes back to " + known.Short(first)))
		w.Eventually(observed).Should(Equal(first), "the same revision, and no new one")
		w.Expect(string(w.Parent().Spec.Topology.Subsets[1].Patch.Raw)).To(MatchJSON(`{"metadata":{"annotations":{"kept":"yes"}}}`))
		w.Expect(w.Parent().Spec.Topology.Subsets[0].Tolerations).To(BeEmpty())

		plugin(w, "undo", w.Name)
		w.Eventually(observed).Should(Equal(patched))
		w.Expect(w.Parent().Spec).To(Equal(was))

		// In mid-rollout, which pauses before a replica moves, so that it is one.
		w.JSONPatch(`[{"op":"add","path":"/spec/paused","value":true}]`)
		w.Expect(observed()).To(Equal(patched))
		w.Expect(plugin(w, "restart", w.Name)).To(ContainSubstring("is paused"))
		w.Eventually(func() string { return w.Parent().Status.UpdateRevision }).ShouldNot(Equal(patched))
		w.Expect(w.Parent().Status.CurrentRevision).To(Equal(patched))
		w.Expect(plugin(w, "diff", w.Name)).To(ContainSubstring("restartedAt"))
		w.Expect(plugin(w, "undo", w.Name)).To(ContainSubstring("goes back to " + known.Short(patched)))
		w.Eventually(observed).Should(Equal(patched))
		w.JSONPatch(`[{"op":"replace","path":"/spec/paused","value":false}]`)
		w.ComesTo("1 v1", "1 v1", "")
	})
}
