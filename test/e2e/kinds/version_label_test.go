// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"maps"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestContractVersionLabel checks what United promises for every kind about spec.versionLabel: all
// subsets and pods, including those of groups, have one value, so that a Service or a router selects a
// version across zones. The value changes with the template, is the same after going back, and depends
// on nothing but the template. Turning the label on or off is a rollout.
func TestContractVersionLabel(t *testing.T) {
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		w := &versioned{k.ContractOf(t, Replicas(4), Zones("", ""), Hold())}
		w.ComesTo("2 v1", "2 v1", "")
		w.Expect(w.versions()).To(Equal(zonesOf("", "")))
		w.turnOn()
		w.changes()
		w.isPatched()
		w.turnOff()
	})
}

// versioned is a UnitedDeployment with two zones.
type versioned struct{ *Contracted }

func zonesOf(a, b string) map[string]string { return map[string]string{"zone-a": a, "zone-b": b} }

// versions returns the values of the label in each zone; several values are separated by commas.
func (w *versioned) versions() map[string]string {
	w.T.Helper()
	versions := map[string]string{}
	for subset, values := range podLabels(w.Contracted, v1alpha1.LabelVersion) {
		versions[subset] = strings.Join(slices.Sorted(maps.Keys(values)), ",")
	}
	return versions
}

// selects returns the zones of the pods that a Service with the label in its selector would send
// requests to.
func (w *versioned) selects(version string) []string {
	w.T.Helper()
	pods := &corev1.PodList{}
	w.Expect(w.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{"app": "web", v1alpha1.LabelVersion: version})).To(Succeed())
	zones := map[string]bool{}
	for i := range pods.Items {
		zones[pods.Items[i].Labels[v1alpha1.LabelSubset]] = true
	}
	return slices.Sorted(maps.Keys(zones))
}

func (w *versioned) turnOn() {
	w.Step("turning it on is a rollout: what is held does not get it", func() {
		before, revision := w.Uids(), w.Parent().Status.UpdateRevision
		w.Patch(`{"spec":{"versionLabel":"TemplateHash"}}`)
		w.ComesTo("2 v1", "2 v1", "")
		w.Expect(w.Uids()).To(Equal(before))
		w.Expect(w.versions()).To(Equal(zonesOf("", "")))
		w.Expect(w.Parent().Status.UpdateRevision).NotTo(Equal(revision))
	})
	w.Step("and what is released does", func() {
		b := w.Uids("zone-b")
		w.SetPartitions(Parts{"zone-a": 0})
		w.Eventually(func() string { return w.versions()["zone-a"] }).Should(MatchRegexp("^[a-z0-9]{10}$"))
		w.ComesTo("2 v1", "2 v1", "")
		w.Expect(w.Uids("zone-b")).To(Equal(b))
		w.Expect(w.versions()["zone-b"]).To(BeEmpty())
		w.SetPartitions(Parts{"zone-b": 0})
		w.hasOne(w.versions()["zone-a"])
	})
}

// hasOne waits until every pod has this value and is ready. A subset that is held before that has not finished, and
// protects its earlier revision.
func (w *versioned) hasOne(version string) {
	w.T.Helper()
	w.Eventually(w.versions).Should(Equal(zonesOf(version, version)))
	w.Eventually(func() []string { return w.selects(version) }).Should(Equal([]string{"zone-a", "zone-b"}))
	w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).WithTimeout(RolloutTimeout).Should(BeEmpty())
	for _, zone := range []string{"zone-a", "zone-b"} {
		selected, _, err := unstructured.NestedStringMap(w.LiveChild(zone).Object, "spec", "selector", "matchLabels") // a LeaderWorkerSet has none
		w.Expect(err).NotTo(HaveOccurred())
		w.Expect(selected).NotTo(HaveKey(v1alpha1.LabelVersion), "selectors are not touched")
	}
}

func (w *versioned) changes() {
	first := w.versions()["zone-a"]
	w.Step("another template has another value", func() {
		w.SetPartitions(Parts{"zone-b": "100%"})
		w.SetImages("v2")
		w.ComesTo("2 v2", "2 v1", "")
		second := w.versions()["zone-a"]
		w.Expect(second).NotTo(Or(Equal(first), BeEmpty()))
		w.Expect(w.versions()["zone-b"]).To(Equal(first))
		w.Expect(w.selects(first)).To(Equal([]string{"zone-b"}))
		w.Expect(w.selects(second)).To(Equal([]string{"zone-a"}))
	})
	w.Step("what is protected comes back with its own", func() {
		w.DeletePods("zone-b")
		w.ComesTo("2 v2", "2 v1", "")
		w.Expect(w.versions()["zone-b"]).To(Equal(first))
	})
	w.Step("back is the same value again", func() {
		b := w.Uids("zone-b")
		w.SetImages("v1") // first, since otherwise v2 would be released in zone-b
		w.SetPartitions(Parts{"zone-b": 0})
		w.ComesTo("2 v1", "2 v1", "")
		w.hasOne(first)
		if !w.Whole { // a held Deployment had the template of v1 all the time
			w.Expect(w.Uids("zone-b")).To(Equal(b))
		}
	})
}

// isPatched checks that a subset's patch does not change the value, and does not touch the pods of
// another subset.
func (w *versioned) isPatched() {
	w.Step("a patch of one subset leaves the others alone", func() {
		first, a, b := w.versions()["zone-a"], w.Uids("zone-a"), w.Uids("zone-b")
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch","value":%s}]`, w.PodsPatch(`{"metadata":{"annotations":{"patched":"yes"}}}`))
		w.Eventually(func(g Gomega) {
			pods := w.PodsOf("zone-b")
			g.Expect(pods).NotTo(BeEmpty())
			for _, p := range pods {
				if p.Labels["leaderworkerset.sigs.k8s.io/worker-index"] == "1" {
					continue // the patch applies to the leaders
				}
				g.Expect(p.Annotations).To(HaveKeyWithValue("patched", "yes"))
			}
			g.Expect(w.Uids("zone-b")).NotTo(Equal(b))
		}).Should(Succeed())
		w.ComesTo("2 v1", "2 v1", "")
		w.hasOne(first)
		w.Expect(w.Uids("zone-a")).To(Equal(a))
	})
}

func (w *versioned) turnOff() {
	w.Step("turning it off is a rollout too", func() {
		version, b := w.versions()["zone-b"], w.Uids("zone-b")
		w.SetPartitions(Parts{"zone-b": "100%"})
		w.Patch(`{"spec":{"versionLabel":"None"}}`)
		w.Eventually(w.versions).Should(Equal(zonesOf("", version)))
		w.ComesTo("2 v1", "2 v1", "")
		w.Expect(w.Uids("zone-b")).To(Equal(b))
		w.SetPartitions(Parts{"zone-b": 0})
		w.Eventually(w.versions).Should(Equal(zonesOf("", "")))
		w.ComesTo("2 v1", "2 v1", "")
	})
}
