// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// Contract checks what United promises for every kind of child, on a real control plane: held
// replicas do not move and come back as they were, whatever happens to them; released replicas move;
// subsets do not depend on each other; at rest nothing is written.
func Contract(t *testing.T, k Kind) {
	w := k.ContractOf(t, Replicas(6), Zones("", "", ""), Hold())
	held := w.holds()
	w.rests()
	w.isMadeAgain(held)
	w.moves()
	held.Fires()
	w.failsAlone()
}

// holds checks that a release goes zone by zone, and does not move held replicas, not even for a moment.
// It returns a ban of everything that the subsets, in the state that it leaves, must not run.
func (w *Contracted) holds() (held *Ban) {
	var unreleased *Ban
	w.Step("comes up", func() {
		w.ComesTo("2 v1", "2 v1", "2 v1")
		for _, p := range w.Pods() {
			w.Expect(p.Zone).To(Equal(p.Subset))
		}
	})
	w.Step("a held revision moves nothing", func() {
		before, none := w.Uids(), w.History.Forbid(AnyNewPod)
		unreleased = w.History.Forbid(Protect("zone-a", Everything, "v1"))
		w.SetImages("v2")
		w.ComesTo("2 v1", "2 v1", "2 v1")
		w.Expect(w.Uids()).To(Equal(before))
		none.Holds()
		w.Expect(w.Parent().Status.UpdatedReplicas).To(BeZero())
	})
	w.Step("one zone is released", func() {
		unreleased.Holds()
		before, others := w.Uids("zone-b", "zone-c"), w.History.Forbid(Outside("zone-a"))
		w.SetPartitions(Parts{"zone-a": 0})
		w.ComesTo("2 v2", "2 v1", "2 v1")
		w.Expect(w.Uids("zone-b", "zone-c")).To(Equal(before))
		others.Holds()
		unreleased.Fires()
		w.Expect(w.Parent().Status.UpdatedReplicas).To(Equal(int32(2)))
		// Its controller makes that the current one a moment after all of its replicas are ready.
		w.Eventually(func() string { return NotSettledInStatus(w.Parent()) }).Should(BeEmpty(), "it has finished")
		w.Expect(w.Status("zone-a").CurrentRevision).To(Equal(w.Parent().Status.UpdateRevision))
		w.Expect(w.Status("zone-b").CurrentRevision).To(Equal(w.Parent().Status.CurrentRevision))
		held = w.History.Forbid(Protect("zone-a", Everything, "v2"),
			Protect("zone-b", Everything, "v1"), Protect("zone-c", Everything, "v1"), Protect("zone-d", Everything, "v1"))
	})
	return held
}

// isMadeAgain checks that held replicas come back as they were, and were nothing else in between.
func (w *Contracted) isMadeAgain(held *Ban) {
	w.Step("held pods that are deleted", func() {
		w.DeletePods("zone-b")
		w.ComesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("a held child that is deleted", func() {
		w.Remake("zone-b", metav1.DeletePropagationBackground)
		w.ComesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("a held child that is orphaned", func() {
		before := w.Uids()
		w.Remake("zone-c", metav1.DeletePropagationOrphan)
		if w.LeavesOrphans {
			w.ComesTo("2 v2", "2 v1", "4 v1")
			after := w.Uids()
			for uid := range before {
				w.Expect(after).To(HaveKey(uid), "what was orphaned stays beside the new ones")
			}
			w.DeleteOrphans("zone-c")
			w.ComesTo("2 v2", "2 v1", "2 v1")
			held.Holds()
			return
		}
		w.ComesTo("2 v2", "2 v1", "2 v1")
		w.Expect(w.Uids()).To(Equal(before), "its pods are adopted")
		held.Holds()
	})
	w.Step("to zero and back", func() {
		w.Scale(0)
		w.ComesTo("", "", "")
		w.Scale(6)
		w.ComesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("scaled up", func() {
		w.Scale(9)
		w.ComesTo("3 v2", "3 v1", "3 v1")
		w.Scale(6)
		w.ComesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("a new subset", func() {
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-d"}},{"op":"replace","path":"/spec/replicas","value":8}]`)
		w.ComesTo("2 v2", "2 v1", "2 v1", "2 v1")
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/3"},{"op":"replace","path":"/spec/replicas","value":6}]`)
		w.ComesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("each zone protects what it finished", func() {
		w.SetPartitions(Parts{"zone-a": "100%"})
		w.SetImages("v3")
		w.ComesTo("2 v2", "2 v1", "2 v1")
		w.DeletePods("zone-a")
		w.DeletePods("zone-b")
		w.ComesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
}

// moves checks a rollout forward, back, and to the end.
func (w *Contracted) moves() {
	w.Step("back", func() {
		before := w.Uids("zone-b", "zone-c")
		w.SetImages("v1")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
		w.ComesTo("2 v1", "2 v1", "2 v1")
		w.Expect(w.Uids("zone-b", "zone-c")).To(Equal(before), "they run it already")
	})
	w.Step("on", func() {
		w.SetImages("v4")
		w.ComesTo("2 v4", "2 v4", "2 v4")
		status := w.Parent().Status
		w.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
		w.Expect(status.UpdatedReadyReplicas).To(Equal(int32(6)))
	})
	w.Step("what somebody changes is put right", func() {
		child := w.Object("zone-a")
		w.Expect(w.Client.Patch(w.Ctx, child, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`)))).To(Succeed())
		w.Disturbed()
		w.Eventually(func(g Gomega) {
			replicas, _, err := unstructured.NestedInt64(w.LiveChild("zone-a").Object, "spec", "replicas")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(replicas).To(Equal(int64(2)))
		}).Should(Succeed())
		w.ComesTo("2 v4", "2 v4", "2 v4")
	})
}

// failsAlone checks that a revision which does not come up costs the subset that it is released to no
// more than its own controller risks, and costs the others nothing.
func (w *Contracted) failsAlone() {
	w.Step("a broken revision", func() {
		before := w.Uids("zone-b", "zone-c")
		w.SetPartitions(Parts{"zone-a": 0, "zone-b": "100%", "zone-c": "100%"})
		w.SetImages("broken")
		w.Eventually(func(g Gomega) {
			g.Expect(slices.ContainsFunc(w.Pods(), func(p Pod) bool { return p.Image == "broken" && p.Crashing })).To(BeTrue())
			g.Expect(Condition(w.Parent(), v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionFalse))
		}).Should(Succeed())
		w.Expect(w.Mix()["zone-a"]).To(MatchRegexp("[12] v4"))
		w.Expect(w.Uids("zone-b", "zone-c")).To(Equal(before))
	})
	w.Step("held where it is", func() {
		w.SetPartitions(Parts{"zone-a": "100%"})
		w.Eventually(func(g Gomega) { g.Expect(w.Status("zone-a").Partition).To(Equal(int32(2))) }).Should(Succeed())
		w.Expect(w.Mix()["zone-a"]).To(MatchRegexp("[12] v4"))
	})
	w.Step("corrected", func() {
		w.SetPartitions(Parts{"zone-a": 0})
		w.SetImages("v5")
		w.ComesTo("2 v5", "2 v4", "2 v4")
	})
	w.Step("a parent that is broken elsewhere", func() {
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch","value":%s}]`,
			w.PodsPatch(`{"spec":{"containers":[{"name":"web","imagePullPolicy":"Sometimes"}]}}`))
		w.SetPartitions(Parts{"zone-b": 0, "zone-c": 0})
		switch {
		case w.waitsForAny:
			w.Eventually(func(g Gomega) {
				g.Expect(w.Mix()["zone-c"]).To(Equal("2 v5"))
				g.Expect(w.Status("zone-b").Message).To(ContainSubstring("kubectl describe leaderworkerset.leaderworkerset.x-k8s.io -n " + w.Namespace + " web-zone-b"))
			}).Should(Succeed())
			w.Expect(w.Mix()["zone-b"]).To(Equal("2 v4"))
		case w.admitsAny:
			w.Eventually(func(g Gomega) { g.Expect(w.Status("zone-b").Message).To(ContainSubstring("(missing")) }).Should(Succeed())
			w.Eventually(func(g Gomega) {
				g.Expect(w.Mix()).To(Equal(map[string]string{"zone-a": "2 v5", "zone-b": "1 v4", "zone-c": "2 v5"}))
			}).Should(Succeed())
		default:
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, "imagePullPolicy")
			w.Eventually(func(g Gomega) { g.Expect(w.Mix()["zone-c"]).To(Equal("2 v5")) }).Should(Succeed())
			w.Expect(w.Mix()["zone-b"]).To(Equal("2 v4"))
		}
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch"}]`)
		w.ComesTo("2 v5", "2 v5", "2 v5")
	})
}

// rests checks that nothing is written when there is nothing to do, in mid-canary: not to the children,
// nor to anything else of this workload, whatever somebody touches.
func (w *Contracted) rests() {
	w.Step("at rest", func() {
		runs, before := w.Mix(), w.Uids()
		mark := w.untilQuiet()
		w.touch("pods", "controllerrevisions.apps", "replicasets.apps", "statefulsets.apps")
		if !w.touchesAreObserved {
			w.touchChildren()
		}
		w.Consistently(func() []string { return w.writtenSince(mark) }, 3*time.Second).Should(BeEmpty())
		if w.touchesAreObserved {
			w.Step("the exception: the status follows what its controller observes", func() {
				w.Eventually(func() []string { w.touchChildren(); return w.writtenSince(mark) }).Should(ContainElement(Statuses + " web"))
				w.untilQuiet()
				w.Expect(w.writtenSince(mark)).To(HaveEach(Statuses + " web"))
			})
		}
		w.Step("the control: what has to be written is seen", func() {
			w.Patch(`{"spec":{"template":{%q:{"metadata":{"annotations":{"example.com/control":"x"}}}}}}`, w.Member)
			w.Eventually(func() []string { return w.writtenSince(mark) }).Should(ContainElements(Statuses+" web",
				w.Resource+" web-zone-a", w.Resource+" web-zone-b", w.Resource+" web-zone-c"))
			w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
		})
		w.Expect(w.Mix()).To(Equal(runs))
		w.Expect(w.Uids()).To(Equal(before))
	})
}

// touch annotates all objects of some resources in the namespace: pods, and what the controllers of the
// children keep for them, such as revisions, and the StatefulSets of the leaders of LeaderWorkerSets.
// A kind does not have all of them.
func (w *Contracted) touch(resources ...string) {
	w.T.Helper()
	for _, resource := range resources {
		if w.Kubectl("get", resource, "-o", "name", "--ignore-not-found") != "" {
			w.Kubectl("annotate", resource, "--all", "--overwrite", "example.com/touched="+time.Now().Format(time.RFC3339Nano))
		}
	}
}

// touchChildren annotates the children, and checks that they have the annotation.
func (w *Contracted) touchChildren() {
	w.T.Helper()
	w.touch(w.Resource + "." + w.Gvk.Group)
	for _, subset := range []string{"zone-a", "zone-b", "zone-c"} {
		w.Expect(w.LiveChild(subset).GetAnnotations()).To(HaveKey("example.com/touched"))
	}
}

// untilQuiet waits until the manager has written nothing in the namespace for a while, and returns the
// place in the audit log.
func (w *Contracted) untilQuiet() (mark int64) {
	w.T.Helper()
	polled := false
	w.Eventually(func(g Gomega) {
		earlier, first := mark, !polled
		mark, polled = w.AuditMark(), true
		g.Expect(first).To(BeFalse(), "nothing to compare with yet")
		g.Expect(w.writtenSince(earlier)).To(BeEmpty())
	}).WithPolling(2 * time.Second).Should(Succeed())
	return mark
}

// writtenSince returns what the manager wrote in the namespace since a mark, as "statefulsets web-zone-a".
func (w *Contracted) writtenSince(mark int64) (list []string) {
	w.T.Helper()
	for _, write := range w.Writes(mark) {
		list = append(list, strings.TrimSuffix(write.Resource+"/"+write.Subresource, "/")+" "+write.Name)
	}
	return list
}
