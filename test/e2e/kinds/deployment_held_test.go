// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// holdMidway lets zone-a run one replica of quiet and two of v1, and holds it there.
func holdMidway(w *Contracted) {
	w.T.Helper()
	w.ComesTo("3 v1", "", "")
	w.SetImages("quiet")
	w.SetPartitions(Parts{"zone-a": 0})
	w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 quiet?, 2 v1"}))
	w.SetPartitions(Parts{"zone-a": "100%"})
	awaitPaused(w, "zone-a", true)
	w.BecomeReady("quiet")
	w.ComesTo("1 quiet, 2 v1", "", "")
}

// awaitPaused waits until a Deployment is paused, or is not, and its controller has observed that.
func awaitPaused(w *Contracted, subset string, want bool) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		d := &appsv1.Deployment{}
		g.Expect(w.Get(w.Ctx, w.Key("web-"+subset), d)).To(Succeed())
		g.Expect(d.Spec.Paused).To(Equal(want))
		g.Expect(d.Status.ObservedGeneration).To(Equal(d.Generation))
	}).Should(Succeed())
}

// patchChild changes a child behind the manager's back.
func patchChild(w *Contracted, subset, patch string) {
	w.T.Helper()
	w.Disturbed()
	w.Expect(w.Client.Patch(w.Ctx, w.Object(subset), client.RawPatch(types.MergePatchType, []byte(patch)))).To(Succeed())
}

// deleteReplicaSet deletes the ReplicaSet of an image in a subset, and waits until its pods are gone.
func deleteReplicaSet(w *Contracted, subset, tag string) {
	w.T.Helper()
	w.Disturbed()
	list := &appsv1.ReplicaSetList{}
	w.Expect(w.List(w.Ctx, list, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelSubset: subset})).To(Succeed())
	for i := range list.Items {
		set := &list.Items[i]
		if TagOf(set.Spec.Template.Spec.Containers[0].Image) != tag {
			continue
		}
		w.Expect(w.Delete(w.Ctx, set, client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
		w.Eventually(func() bool {
			return !slices.ContainsFunc(w.PodsOf(subset), func(p corev1.Pod) bool { return metav1.IsControlledBy(&p, set) })
		}).Should(BeTrue(), "its pods are gone")
		return
	}
	w.T.Fatalf("%s has no ReplicaSet of %s", subset, tag)
}

// TestDeploymentHeldMix checks what happens to a Deployment that is held in the middle of an update
// (docs/workloads.md), and that the next release completes the update in any case.
func TestDeploymentHeldMix(t *testing.T) {
	t.Parallel()
	for name, does := range map[string]func(w *Contracted){
		"to zero and back, it is what it protects": func(w *Contracted) {
			w.Scale(0)
			w.ComesTo("", "", "")
			w.Scale(3)
			w.ComesTo("3 v1", "", "")
		},
		"deleted, it comes back as what it protects": func(w *Contracted) {
			w.Remake("zone-a", metav1.DeletePropagationBackground)
			w.ComesTo("3 v1", "", "")
		},
		"orphaned, it is made on what it protects, and its controller replaces the others": func(w *Contracted) {
			w.Remake("zone-a", metav1.DeletePropagationOrphan)
			w.ComesTo("3 v1", "", "")
		},
		"its old ReplicaSet is deleted: its controller makes the rest on the new one": func(w *Contracted) {
			deleteReplicaSet(w, "zone-a", "v1")
			w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 quiet, 2 quiet?"}))
			w.BecomeReady("quiet")
			w.ComesTo("3 quiet", "", "")
		},
		"its new ReplicaSet is deleted: its controller makes the rest on the old one": func(w *Contracted) {
			deleteReplicaSet(w, "zone-a", "quiet")
			w.ComesTo("3 v1", "", "")
		},
		"its pods are deleted, and come back as they were": func(w *Contracted) {
			w.DeletePods("zone-a")
			w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 quiet?, 2 v1"}))
			w.BecomeReady("quiet")
			w.ComesTo("1 quiet, 2 v1", "", "")
		},
		"scaled, both versions grow and shrink": func(w *Contracted) {
			w.Scale(6)
			w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "1 quiet, 1 quiet?, 4 v1"}))
			w.BecomeReady("quiet")
			w.ComesTo("2 quiet, 4 v1", "", "")
			w.Scale(3)
			w.ComesTo("1 quiet, 2 v1", "", "")
		},
		"another template moves nothing": func(w *Contracted) {
			before := w.Uids()
			w.SetImages("v3")
			w.ComesTo("1 quiet, 2 v1", "", "")
			w.Expect(w.Uids()).To(Equal(before))
		},
		"somebody lets it go: it is stopped again": func(w *Contracted) {
			patchChild(w, "zone-a", `{"spec":{"paused":false}}`)
			awaitPaused(w, "zone-a", true)
			w.Expect(w.Mix()["zone-a"]).To(MatchRegexp("[12] v1"))
		},
		"its annotations are taken, and put back": func(w *Contracted) {
			before := w.Uids()
			patchChild(w, "zone-a", `{"metadata":{"annotations":{"united.dev/revision":null,"united.dev/protected-revision":null,"united.dev/partition":null}}}`)
			w.Eventually(func() map[string]string { return w.LiveChild("zone-a").GetAnnotations() }).Should(HaveKey(v1alpha1.AnnotationProtectedRevision))
			w.ComesTo("1 quiet, 2 v1", "", "")
			w.Expect(w.Uids()).To(Equal(before))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.DeploymentsOf(Replicas(3), Zones(""), Hold(), Slowly())
			holdMidway(w)
			does(w)
			w.SetImages("v5")
			w.SetPartitions(Parts{"zone-a": 0})
			w.ComesTo("3 v5", "", "")
		})
	}
}

// TestDeploymentPaused checks that spec.paused freezes Deployments, while scaling and repair continue.
func TestDeploymentPaused(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.DeploymentsOf(Replicas(3), Zones(""), Hold(), Slowly(), func(d *Draft) { d.Spec.Paused = true })
	w.Step("from the start, it comes up", func() { w.ComesTo("3 v1", "", "") })
	w.Step("a new version and a release move nothing", func() {
		before := w.Uids()
		w.SetImages("v2")
		w.SetPartitions(Parts{"zone-a": 0})
		w.ComesTo("3 v1", "", "")
		w.Expect(w.Uids()).To(Equal(before))
	})
	w.Step("the ReplicaSet is deleted", func() {
		deleteReplicaSet(w, "zone-a", "v1")
		w.ComesTo("3 v1", "", "")
	})
	w.Step("the child is deleted", func() {
		w.Remake("zone-a", metav1.DeletePropagationBackground)
		w.ComesTo("3 v1", "", "")
	})
	w.Step("the child is orphaned", func() {
		before := w.Uids()
		w.Remake("zone-a", metav1.DeletePropagationOrphan)
		w.ComesTo("3 v1", "", "")
		w.Expect(w.Uids()).To(Equal(before))
	})
	w.Step("to zero and back, and up", func() {
		w.Scale(0)
		w.ComesTo("", "", "")
		w.Scale(4)
		w.ComesTo("4 v1", "", "")
	})
	w.Step("a new subset", func() {
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-b"}}]`)
		w.ComesTo("2 v1", "2 v1", "")
	})
	w.Step("resumed, what is released moves", func() {
		w.Patch(`{"spec":{"paused":false}}`)
		w.ComesTo("2 v2", "2 v1", "")
	})
}

// TestDeploymentMeddledWith checks that United repairs changes by others to a held Deployment, and that
// the next release respects its bound.
func TestDeploymentMeddledWith(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		edits   []Edit
		release func(w *Contracted)
	}{
		"Manual": {[]Edit{Hold(), Slowly()}, func(w *Contracted) { w.SetPartitions(Parts{"zone-a": 0}) }},
		"RollingUpdate": {[]Edit{Rolling(`{maxUnavailable: 1, partition: "100%"}`)}, func(w *Contracted) {
			w.SetRolling(`{"partition":0}`)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			w := e.DeploymentsOf(append(tc.edits, Replicas(3), Zones(""))...)
			w.SetImages("v2")
			w.ComesTo("3 v1", "", "")
			field := func(path ...string) func() string {
				return func() string {
					value, _, err := unstructured.NestedFieldNoCopy(w.LiveChild("zone-a").Object, path...)
					w.Expect(err).NotTo(HaveOccurred())
					return fmt.Sprint(value)
				}
			}
			for _, m := range []struct {
				what, patch, want string
				path              []string
			}{
				{"image", fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"web","image":%q}]}}}}`, Image("other")), "v1",
					[]string{"spec", "template", "spec", "containers"}},
				{"paused", `{"spec":{"paused":true}}`, "<nil>", []string{"spec", "paused"}},
				{"strategy", `{"spec":{"strategy":{"type":"Recreate","rollingUpdate":null}}}`, "RollingUpdate", []string{"spec", "strategy", "type"}},
				{"labels", `{"metadata":{"labels":{"united.dev/name":null,"united.dev/subset":null}}}`, "zone-a", []string{"metadata", "labels", v1alpha1.LabelSubset}},
				{"annotations", `{"metadata":{"annotations":{"united.dev/revision":null,"united.dev/protected-revision":null,"united.dev/partition":null,
					"united.dev/parent-generation":null,"united.dev/record-checksum":null}}}`, "web-", []string{"metadata", "annotations", v1alpha1.AnnotationProtectedRevision}},
			} {
				w.Step(m.what, func() {
					before := field(m.path...)()
					patchChild(w, "zone-a", m.patch)
					w.Eventually(field(m.path...)).Should(And(ContainSubstring(m.want), Equal(before)))
					w.ComesTo("3 v1", "", "")
				})
			}
			ledger := w.Ledger(3)
			tc.release(w)
			w.ComesTo("3 v2", "", "")
			ledger.Within(1)
		})
	}
}

// TestDeploymentRecreate checks that a Deployment with the strategy Recreate is held and released like
// any other. A replacement that has begun cannot be held back.
func TestDeploymentRecreate(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := e.DeploymentsOf(Replicas(3), Zones(""), Hold(), TemplateField("Recreate", "spec", "strategy", "type"))
	w.SetImages("quiet2")
	w.ComesTo("3 v1", "", "")
	w.SetPartitions(Parts{"zone-a": 0})
	w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "3 quiet2?"}))
	w.SetImages("v1")
	w.ComesTo("3 v1", "", "")
	w.SetImages("broken2")
	w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "3 broken2?"}))
	w.SetImages("v3")
	w.ComesTo("3 v3", "", "")
}

// TestDeploymentImpossibleStrategy checks that the API server refuses a strategy with which no replica
// could ever be replaced, and that the status reports the refusal.
func TestDeploymentImpossibleStrategy(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	impossible := map[string]any{"type": "RollingUpdate", "rollingUpdate": map[string]any{"maxUnavailable": int64(0), "maxSurge": int64(0)}}
	w := e.Create(NewDraft("web", Deployments, Replicas(3), Zones(""), Hold(), TemplateField(impossible, "spec", "strategy"))).Of(KindNamed("Deployment"))
	w.StallsWhole(v1alpha1.ReasonApplyRefused, "maxUnavailable")
	w.JSONPatch(`[{"op":"replace","path":"/spec/template/deploymentTemplate/spec/strategy/rollingUpdate/maxUnavailable","value":1}]`)
	w.ComesTo("3 v1", "", "")
	w.Expect(w.TryPatch(types.MergePatchType, `{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{"maxUnavailable":1}}}}`)).
		To(MatchError(ContainSubstring("maxUnavailable")), "that of the template is not for a coordinated rollout")
	w.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
}
