// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// kind describes a kind of child workload for the contract tests.
type kind struct {
	name string
	// member is the member of spec.template, resource the name of the children in the audit log.
	member, resource string
	gvk              schema.GroupVersionKind
	// draft turns the template of a StatefulSet into that of the kind.
	draft edit
	// pods are the paths of the pod templates in the spec; the default is "template".
	pods []string
	// whole: a child can be protected and released only as a whole.
	whole bool
	// counts: replicas have no ordinals, and a partition says only how many of them stay.
	counts bool
	// manager starts the controller of the kind, if it is not part of Kubernetes.
	manager func(*plane, testing.TB)
	// memory returns the object whose status remembers what the replicas of zone-a ran before, as that
	// of a StatefulSet does; nil if no object has to.
	memory func(*contracted) *unstructured.Unstructured
	// What a kind cannot do. leavesOrphans: a recreated child does not adopt the pods of an orphaned
	// one. admitsAny: its API accepts a pod template that no pod can be created from, so a release
	// costs a replica, as with one that does not come up. waitsForAny: its API accepts such a template
	// too, but its controller then does nothing. touchesAreObserved: another annotation of a child is a
	// new generation, which its controller has to observe, and the status shows that for a moment.
	// growsOnEarlier: a released replica that a scale-up adds may start on the earlier version, see
	// TestLeaderWorkerSetGrowsReleased.
	leavesOrphans, admitsAny, waitsForAny, touchesAreObserved, growsOnEarlier bool
}

// contractOf creates a UnitedDeployment of the kind, and starts its manager.
func (k kind) contractOf(t *testing.T, edits ...edit) *contracted {
	t.Helper()
	return k.contractOn(shared, t, edits...)
}

func (k kind) contractOn(p *plane, t *testing.T, edits ...edit) *contracted {
	t.Helper()
	if k.manager != nil {
		k.manager(p, t)
	}
	e := p.newEnv(t)
	return e.Create(draft("web", append(edits, k.draft)...)).of(k)
}

// kinds returns all kinds. A new kind has to keep the same contract.
func kinds() []kind { return append(builtIn(), installed()...) }

// eachKind runs a test for several kinds, in parallel.
func eachKind(t *testing.T, kinds []kind, run func(*testing.T, kind)) {
	t.Helper()
	t.Parallel()
	for _, k := range kinds {
		t.Run(k.name, func(t *testing.T) {
			t.Parallel()
			run(t, k)
		})
	}
}

// builtIn returns the kinds of Kubernetes.
func builtIn() []kind {
	return []kind{
		{
			name: "StatefulSet", member: "statefulSetTemplate", resource: "statefulsets",
			gvk: appsv1.SchemeGroupVersion.WithKind("StatefulSet"), draft: func(*Draft) {}, memory: itself,
		},
		{
			name: "Deployment", member: "deploymentTemplate", resource: "deployments",
			gvk: appsv1.SchemeGroupVersion.WithKind("Deployment"), draft: deployments, whole: true, touchesAreObserved: true,
		},
	}
}

// installed returns the kinds whose controllers somebody has to install.
func installed() []kind {
	return []kind{
		{
			name: "CloneSet", member: "cloneSetTemplate", resource: "clonesets",
			gvk:   schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"},
			draft: cloneSets, manager: (*plane).withKruise, memory: itself, counts: true, leavesOrphans: true,
		},
		{
			name: "AdvancedStatefulSet", member: "advancedStatefulSetTemplate", resource: "statefulsets",
			gvk:   schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"},
			draft: advancedStatefulSets, manager: (*plane).withKruise, memory: itself, admitsAny: true,
		},
		{
			name: "LeaderWorkerSet", member: "leaderWorkerSetTemplate", resource: "leaderworkersets",
			gvk:   schema.GroupVersionKind{Group: "leaderworkerset.x-k8s.io", Version: "v1", Kind: "LeaderWorkerSet"},
			draft: leaderWorkerSets, manager: (*plane).withLWS, memory: leadersOf, waitsForAny: true, growsOnEarlier: true,
			pods: []string{"leaderWorkerTemplate/leaderTemplate", "leaderWorkerTemplate/workerTemplate"},
		},
	}
}

// deployments makes the children Deployments.
func deployments(d *Draft) {
	d.Member = "deploymentTemplate"
	spec := d.Template["spec"].(map[string]any)
	delete(spec, "serviceName")
	delete(spec, "podManagementPolicy")
}

// contracted is a UnitedDeployment of one of the kinds.
type contracted struct {
	*Workload
	kind
}

// of returns the UnitedDeployment as one of a kind.
func (w *Workload) of(k kind) *contracted { return &contracted{Workload: w, kind: k} }

// mix returns what a subset runs, as the number of replicas of each tag: "2 v1, 1 v2". It also shows
// replicas that are being deleted or are not ready.
func (w *contracted) mix() map[string]string {
	counts := map[string]map[string]int{}
	for _, p := range w.Pods() {
		text := p.Image
		switch {
		case p.Terminating:
			text += "~"
		case !p.Ready:
			text += "?"
		}
		if counts[p.Subset] == nil {
			counts[p.Subset] = map[string]int{}
		}
		counts[p.Subset][text]++
	}
	mix := map[string]string{}
	for subset, tags := range counts {
		var parts []string
		for _, tag := range slices.Sorted(maps.Keys(tags)) {
			parts = append(parts, fmt.Sprintf("%d %s", tags[tag], tag))
		}
		mix[subset] = strings.Join(parts, ", ")
	}
	return mix
}

// comesTo waits until the wanted images run, and the workload has settled.
func (w *contracted) comesTo(a, b, c string, more ...string) {
	w.t.Helper()
	want := map[string]string{}
	for i, mix := range append([]string{a, b, c}, more...) {
		if mix != "" {
			want["zone-"+string(rune('a'+i))] = mix
		}
	}
	w.Eventually(func(g Gomega) {
		g.Expect(w.mix()).To(Equal(want))
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).WithTimeout(rolloutTimeout).Should(Succeed())
}

// rolloutTimeout bounds a rollout of several replicas, one after the other, on a busy machine.
//
// A single group of a LeaderWorkerSet can take a minute there. It gets its workers from a StatefulSet
// whose name, and whose pod names, an earlier StatefulSet had. As long as the garbage collector leaves
// one of those pods, the new StatefulSet fails to create its own. The end of the old pod does not
// trigger a retry, and the controller doubles the delay each time.
const rolloutTimeout = 3 * waitTimeout

func (w *contracted) setImage(tag string) {
	w.t.Helper()
	var patches []string
	for _, at := range w.podTemplates() {
		patches = append(patches, fmt.Sprintf(`{"op":"replace","path":"/spec/template/%s/spec/%s/spec/containers/0/image","value":%q}`, w.member, at, image(tag)))
	}
	w.JSONPatch(`[%s]`, strings.Join(patches, ","))
}

func (k kind) podTemplates() []string {
	if k.pods == nil {
		return []string{"template"}
	}
	return k.pods
}

// podsPatch returns a patch of the first pod template for a subset.
func (k kind) podsPatch(pods string) string {
	steps := strings.Split(k.podTemplates()[0], "/")
	for _, step := range slices.Backward(steps) {
		pods = fmt.Sprintf(`{%q:%s}`, step, pods)
	}
	return fmt.Sprintf(`{"spec":%s}`, pods)
}

func (w *contracted) object(subset string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(w.gvk)
	u.SetNamespace(w.Namespace)
	u.SetName(w.Name + "-" + subset)
	return u
}

// child reads the child of a subset.
func (w *contracted) child(subset string) *unstructured.Unstructured {
	w.t.Helper()
	u := w.object(subset)
	w.Expect(w.Get(w.ctx, w.key(u.GetName()), u)).To(Succeed())
	return u
}

// remake deletes the child of a subset, and waits until there is another one.
func (w *contracted) remake(subset string, propagation metav1.DeletionPropagation) {
	w.t.Helper()
	old := w.child(subset)
	w.Disturbed()
	w.Expect(w.Delete(w.ctx, old, client.PropagationPolicy(propagation))).To(Succeed())
	w.Eventually(func(g Gomega) {
		again := w.object(subset)
		g.Expect(w.Get(w.ctx, w.key(old.GetName()), again)).To(Succeed())
		g.Expect(again.GetUID()).NotTo(Equal(old.GetUID()))
	}).Should(Succeed())
}

// deletePods deletes the pods of a subset, and waits until they are gone.
func (w *contracted) deletePods(subset string) {
	w.t.Helper()
	w.Disturbed()
	gone := w.uids(subset)
	for _, p := range w.podsOf(subset) {
		w.Expect(client.IgnoreNotFound(w.Delete(w.ctx, &p))).To(Succeed())
	}
	w.Eventually(func(g Gomega) {
		for uid := range w.uids(subset) {
			g.Expect(gone).NotTo(HaveKey(uid))
		}
	}).Should(Succeed())
}

// uids returns the UIDs of the pods of the subsets, or of all subsets if there is none.
func (w *contracted) uids(subsets ...string) map[types.UID]bool {
	w.t.Helper()
	uids := map[types.UID]bool{}
	for _, p := range w.Pods() {
		if len(subsets) == 0 || slices.Contains(subsets, p.Subset) {
			uids[p.UID] = true
		}
	}
	return uids
}

// TestContract checks the contract of the built-in kinds.
func TestContract(t *testing.T) { eachKind(t, builtIn(), contract) }

// TestContractOfInstalled checks the contract of the other kinds.
func TestContractOfInstalled(t *testing.T) { eachKind(t, installed(), contract) }

// contract checks what United promises for every kind of child, on a real control plane: held
// replicas do not move and come back as they were, whatever happens to them; released replicas move;
// subsets do not depend on each other; at rest nothing is written.
func contract(t *testing.T, k kind) {
	w := k.contractOf(t, replicas(6), zones("", "", ""), hold())
	held := w.holds()
	w.rests()
	w.isMadeAgain(held)
	w.moves()
	held.Fires()
	w.failsAlone()
}

// holds checks that a release goes zone by zone, and does not move held replicas, not even for a moment.
// It returns a ban of everything that the subsets, in the state that it leaves, must not run.
func (w *contracted) holds() (held *Ban) {
	var unreleased *Ban
	w.Step("comes up", func() {
		w.comesTo("2 v1", "2 v1", "2 v1")
		for _, p := range w.Pods() {
			w.Expect(p.Zone).To(Equal(p.Subset))
		}
	})
	w.Step("a held revision moves nothing", func() {
		before, none := w.uids(), w.History.Forbid(anyNewPod)
		unreleased = w.History.Forbid(protect("zone-a", everything, "v1"))
		w.setImage("v2")
		w.comesTo("2 v1", "2 v1", "2 v1")
		w.Expect(w.uids()).To(Equal(before))
		none.Holds()
		w.Expect(w.Parent().Status.UpdatedReplicas).To(BeZero())
	})
	w.Step("one zone is released", func() {
		unreleased.Holds()
		before, others := w.uids("zone-b", "zone-c"), w.History.Forbid(outside("zone-a"))
		w.SetPartitions(parts{"zone-a": 0})
		w.comesTo("2 v2", "2 v1", "2 v1")
		w.Expect(w.uids("zone-b", "zone-c")).To(Equal(before))
		others.Holds()
		unreleased.Fires()
		w.Expect(w.Parent().Status.UpdatedReplicas).To(Equal(int32(2)))
		w.Expect(w.Status("zone-a").CurrentRevision).To(Equal(w.Parent().Status.UpdateRevision), "it has finished")
		w.Expect(w.Status("zone-b").CurrentRevision).To(Equal(w.Parent().Status.CurrentRevision))
		held = w.History.Forbid(protect("zone-a", everything, "v2"),
			protect("zone-b", everything, "v1"), protect("zone-c", everything, "v1"), protect("zone-d", everything, "v1"))
	})
	return held
}

// isMadeAgain checks that held replicas come back as they were, and were nothing else in between.
func (w *contracted) isMadeAgain(held *Ban) {
	w.Step("held pods that are deleted", func() {
		w.deletePods("zone-b")
		w.comesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("a held child that is deleted", func() {
		w.remake("zone-b", metav1.DeletePropagationBackground)
		w.comesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("a held child that is orphaned", func() {
		before := w.uids()
		w.remake("zone-c", metav1.DeletePropagationOrphan)
		if w.leavesOrphans {
			w.comesTo("2 v2", "2 v1", "4 v1")
			after := w.uids()
			for uid := range before {
				w.Expect(after).To(HaveKey(uid), "what was orphaned stays beside the new ones")
			}
			w.deleteOrphans("zone-c")
			w.comesTo("2 v2", "2 v1", "2 v1")
			held.Holds()
			return
		}
		w.comesTo("2 v2", "2 v1", "2 v1")
		w.Expect(w.uids()).To(Equal(before), "its pods are adopted")
		held.Holds()
	})
	w.Step("to zero and back", func() {
		w.Scale(0)
		w.comesTo("", "", "")
		w.Scale(6)
		w.comesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("scaled up", func() {
		w.Scale(9)
		w.comesTo("3 v2", "3 v1", "3 v1")
		w.Scale(6)
		w.comesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("a new subset", func() {
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/-","value":{"name":"zone-d"}},{"op":"replace","path":"/spec/replicas","value":8}]`)
		w.comesTo("2 v2", "2 v1", "2 v1", "2 v1")
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/3"},{"op":"replace","path":"/spec/replicas","value":6}]`)
		w.comesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
	w.Step("each zone protects what it finished", func() {
		w.SetPartitions(parts{"zone-a": "100%"})
		w.setImage("v3")
		w.comesTo("2 v2", "2 v1", "2 v1")
		w.deletePods("zone-a")
		w.deletePods("zone-b")
		w.comesTo("2 v2", "2 v1", "2 v1")
		held.Holds()
	})
}

// moves checks a rollout forward, back, and to the end.
func (w *contracted) moves() {
	w.Step("back", func() {
		before := w.uids("zone-b", "zone-c")
		w.setImage("v1")
		w.SetPartitions(parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
		w.comesTo("2 v1", "2 v1", "2 v1")
		w.Expect(w.uids("zone-b", "zone-c")).To(Equal(before), "they run it already")
	})
	w.Step("on", func() {
		w.setImage("v4")
		w.comesTo("2 v4", "2 v4", "2 v4")
		status := w.Parent().Status
		w.Expect(status.CurrentRevision).To(Equal(status.UpdateRevision))
		w.Expect(status.UpdatedReadyReplicas).To(Equal(int32(6)))
	})
	w.Step("what somebody changes is put right", func() {
		child := w.object("zone-a")
		w.Expect(w.Client.Patch(w.ctx, child, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":5}}`)))).To(Succeed())
		w.Disturbed()
		w.Eventually(func(g Gomega) {
			replicas, _, err := unstructured.NestedInt64(w.child("zone-a").Object, "spec", "replicas")
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(replicas).To(Equal(int64(2)))
		}).Should(Succeed())
		w.comesTo("2 v4", "2 v4", "2 v4")
	})
}

// failsAlone checks that a revision which does not come up costs the subset that it is released to no
// more than its own controller risks, and costs the others nothing.
func (w *contracted) failsAlone() {
	w.Step("a broken revision", func() {
		before := w.uids("zone-b", "zone-c")
		w.SetPartitions(parts{"zone-a": 0, "zone-b": "100%", "zone-c": "100%"})
		w.setImage("broken")
		w.Eventually(func(g Gomega) {
			g.Expect(slices.ContainsFunc(w.Pods(), func(p pod) bool { return p.Image == "broken" && p.Crashing })).To(BeTrue())
			g.Expect(condition(w.Parent(), v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionFalse))
		}).Should(Succeed())
		w.Expect(w.mix()["zone-a"]).To(MatchRegexp("[12] v4"))
		w.Expect(w.uids("zone-b", "zone-c")).To(Equal(before))
	})
	w.Step("held where it is", func() {
		w.SetPartitions(parts{"zone-a": "100%"})
		w.Eventually(func(g Gomega) { g.Expect(w.Status("zone-a").Partition).To(Equal(int32(2))) }).Should(Succeed())
		w.Expect(w.mix()["zone-a"]).To(MatchRegexp("[12] v4"))
	})
	w.Step("corrected", func() {
		w.SetPartitions(parts{"zone-a": 0})
		w.setImage("v5")
		w.comesTo("2 v5", "2 v4", "2 v4")
	})
	w.Step("a parent that is broken elsewhere", func() {
		w.JSONPatch(`[{"op":"add","path":"/spec/topology/subsets/1/patch","value":%s}]`,
			w.podsPatch(`{"spec":{"containers":[{"name":"web","imagePullPolicy":"Sometimes"}]}}`))
		w.SetPartitions(parts{"zone-b": 0, "zone-c": 0})
		switch {
		case w.waitsForAny:
			w.Eventually(func(g Gomega) {
				g.Expect(w.mix()["zone-c"]).To(Equal("2 v5"))
				g.Expect(w.Status("zone-b").Message).To(ContainSubstring("kubectl describe leaderworkerset.leaderworkerset.x-k8s.io -n " + w.Namespace + " web-zone-b"))
			}).Should(Succeed())
			w.Expect(w.mix()["zone-b"]).To(Equal("2 v4"))
		case w.admitsAny:
			w.Eventually(func(g Gomega) { g.Expect(w.Status("zone-b").Message).To(ContainSubstring("(missing")) }).Should(Succeed())
			w.Eventually(func(g Gomega) {
				g.Expect(w.mix()).To(Equal(map[string]string{"zone-a": "2 v5", "zone-b": "1 v4", "zone-c": "2 v5"}))
			}).Should(Succeed())
		default:
			w.Stalls("zone-b", v1alpha1.ReasonApplyRefused, "imagePullPolicy")
			w.Eventually(func(g Gomega) { g.Expect(w.mix()["zone-c"]).To(Equal("2 v5")) }).Should(Succeed())
			w.Expect(w.mix()["zone-b"]).To(Equal("2 v4"))
		}
		w.JSONPatch(`[{"op":"remove","path":"/spec/topology/subsets/1/patch"}]`)
		w.comesTo("2 v5", "2 v5", "2 v5")
	})
}

// rests checks that nothing is written when there is nothing to do, in mid-canary: not to the children,
// nor to anything else of this workload, whatever somebody touches.
func (w *contracted) rests() {
	w.Step("at rest", func() {
		runs, before := w.mix(), w.uids()
		mark := w.untilQuiet()
		w.touch("pods", "controllerrevisions.apps", "replicasets.apps", "statefulsets.apps")
		if !w.touchesAreObserved {
			w.touchChildren()
		}
		w.Consistently(func() []string { return w.writtenSince(mark) }, 3*time.Second).Should(BeEmpty())
		if w.touchesAreObserved {
			w.Step("the exception: the status follows what its controller observes", func() {
				w.Eventually(func() []string { w.touchChildren(); return w.writtenSince(mark) }).Should(ContainElement(statuses + " web"))
				w.untilQuiet()
				w.Expect(w.writtenSince(mark)).To(HaveEach(statuses + " web"))
			})
		}
		w.Step("the control: what has to be written is seen", func() {
			w.Patch(`{"spec":{"template":{%q:{"metadata":{"annotations":{"example.com/control":"x"}}}}}}`, w.member)
			w.Eventually(func() []string { return w.writtenSince(mark) }).Should(ContainElements(statuses+" web",
				w.resource+" web-zone-a", w.resource+" web-zone-b", w.resource+" web-zone-c"))
			w.Eventually(func() string { return fixtures.WhyNotReady(w.Parent()) }).Should(BeEmpty())
		})
		w.Expect(w.mix()).To(Equal(runs))
		w.Expect(w.uids()).To(Equal(before))
	})
}

// touch annotates all objects of some resources in the namespace: pods, and what the controllers of the
// children keep for them, such as revisions, and the StatefulSets of the leaders of LeaderWorkerSets.
// A kind does not have all of them.
func (w *contracted) touch(resources ...string) {
	w.t.Helper()
	for _, resource := range resources {
		if w.Kubectl("get", resource, "-o", "name", "--ignore-not-found") != "" {
			w.Kubectl("annotate", resource, "--all", "--overwrite", "example.com/touched="+time.Now().Format(time.RFC3339Nano))
		}
	}
}

// touchChildren annotates the children, and checks that they have the annotation.
func (w *contracted) touchChildren() {
	w.t.Helper()
	w.touch(w.resource + "." + w.gvk.Group)
	for _, subset := range []string{"zone-a", "zone-b", "zone-c"} {
		w.Expect(w.child(subset).GetAnnotations()).To(HaveKey("example.com/touched"))
	}
}

// untilQuiet waits until the manager has written nothing in the namespace for a while, and returns the
// place in the audit log.
func (w *contracted) untilQuiet() (mark int64) {
	w.t.Helper()
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
func (w *contracted) writtenSince(mark int64) (list []string) {
	w.t.Helper()
	for _, write := range w.Writes(mark) {
		list = append(list, strings.TrimSuffix(write.Resource+"/"+write.Subresource, "/")+" "+write.Name)
	}
	return list
}

// TestKindsAdmission checks what is refused for one kind but not for another.
func TestKindsAdmission(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	for _, tc := range []struct {
		name string
		edit edit
		want []string
	}{
		{"a partition that divides", partitions(parts{"zone-a": 1}), []string{"spec.updateStrategy.manualUpdate.partitions", `"100%"`}},
		{"a percentage that divides", partitions(parts{"zone-a": "50%"}), []string{"spec.updateStrategy.manualUpdate.partitions", `"100%"`}},
		{"a step that divides", rolling(`{"steps":[{"partition":"50%"}]}`), []string{"spec.updateStrategy.rollingUpdate.steps", `"100%"`}},
		{"a floor that divides", rolling(`{"partition":3}`), []string{"spec.updateStrategy.rollingUpdate.partition"}},
		{"skew", rolling(`{"maxSkew":"10%"}`), []string{"spec.updateStrategy.rollingUpdate.maxSkew", "Sequential"}},
		{"replicas", templateField(int64(3), "spec", "replicas"), []string{"spec.template.deploymentTemplate.spec.replicas"}},
		{"paused", templateField(true, "spec", "paused"), []string{"spec.template.deploymentTemplate.spec.paused", "spec.paused"}},
		{"all at once in a coordinated rollout", func(d *Draft) {
			rolling(`{}`)(d)
			templateField("Recreate", "spec", "strategy", "type")(d)
		}, []string{"spec.template.deploymentTemplate.spec.strategy.type"}},
		{"maxUnavailable in a coordinated rollout", func(d *Draft) {
			rolling(`{}`)(d)
			templateField(int64(2), "spec", "strategy", "rollingUpdate", "maxUnavailable")(d)
		}, []string{"spec.template.deploymentTemplate.spec.strategy.rollingUpdate.maxUnavailable"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := e.TryCreate(draft("web", zones("", ""), deployments, tc.edit))
			for _, word := range tc.want {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("want %q in: %v", word, err)
				}
			}
		})
	}
	// The control: a StatefulSet accepts what is refused for a Deployment, and vice versa.
	w := e.Create(draft("sets", replicas(0), zones("", ""), partitions(parts{"zone-a": "50%"})))
	w.Expect(w.TryPatch(types.MergePatchType, `{"spec":{"template":{"deploymentTemplate":{},"statefulSetTemplate":null}}}`)).
		To(MatchError(ContainSubstring("the kind of the template is immutable")))
	e.Create(draft("all-at-once", replicas(0), zones("", ""), deployments, partitions(parts{"zone-a": "0%", "zone-b": 0}),
		templateField("Recreate", "spec", "strategy", "type")))
}
