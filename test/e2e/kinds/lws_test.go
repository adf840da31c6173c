// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestKindsAdmissionLeaderWorkerSet checks what is refused for a LeaderWorkerSet.
func TestKindsAdmissionLeaderWorkerSet(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	const at = "spec.template.leaderWorkerSetTemplate.spec."
	const rollingAt = at + "rolloutStrategy.rollingUpdateConfiguration."
	member := func(value any, name string) Edit {
		return TemplateField(value, "spec", "rolloutStrategy", "rollingUpdateConfiguration", name)
	}
	pods := func(value any, path ...string) Edit {
		return TemplateField(value, append([]string{"spec", "leaderWorkerTemplate"}, path...)...)
	}
	for _, tc := range []struct {
		name string
		edit Edit
		want []string
	}{
		{"replicas", TemplateField(int64(3), "spec", "replicas"), []string{at + "replicas"}},
		{"a partition", member(int64(1), "partition"), []string{rollingAt + "partition", "partitions"}},
		{"surge", member(int64(1), "maxSurge"), []string{rollingAt + "maxSurge"}},
		{"surge in percent", member("10%", "maxSurge"), []string{rollingAt + "maxSurge"}},
		{"a strategy without a partition", TemplateField("Recreate", "spec", "rolloutStrategy", "type"), []string{at + "rolloutStrategy.type"}},
		{"maxUnavailable in a coordinated rollout", func(d *Draft) {
			Rolling(`{}`)(d)
			member(int64(2), "maxUnavailable")(d)
		}, []string{rollingAt + "maxUnavailable"}},
		{"a selector", TemplateField(map[string]any{"matchLabels": map[string]any{"app": "web"}}, "spec", "selector"), []string{at + "selector"}},
		{"workers of another label", pods("x", "workerTemplate", "metadata", "labels", "app"), []string{at + "leaderWorkerTemplate.workerTemplate.metadata.labels", "spec.selector"}},
		{"leaders of another label", pods("x", "leaderTemplate", "metadata", "labels", "app"), []string{at + "leaderWorkerTemplate.leaderTemplate.metadata.labels", "spec.selector"}},
		{"workers that are no object", pods("x", "workerTemplate"), []string{at + "leaderWorkerTemplate.workerTemplate", "object"}},
		{"a partition in a patch", Patched("zone-z", `{"spec":{"rolloutStrategy":{"rollingUpdateConfiguration":{"partition":1}}}}`), []string{"spec.topology.subsets[zone-z].patch.spec.rolloutStrategy.rollingUpdateConfiguration.partition"}},
		{"other labels in a patch", Patched("zone-z", `{"spec":{"leaderWorkerTemplate":{"workerTemplate":{"metadata":{"labels":{"app":"x"}}}}}}`), []string{"spec.topology.subsets[zone-z].patch.spec.leaderWorkerTemplate.workerTemplate.metadata.labels"}},
		{"a StatefulSet", func(d *Draft) { d.Template["kind"] = "StatefulSet" }, []string{"spec.template.leaderWorkerSetTemplate.kind", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet"}},
		{"too long a name", func(d *Draft) { d.Name = strings.Repeat("x", 42) }, []string{"48 characters"}},
		{"a name that begins with a digit", func(d *Draft) { d.Name = "1web" }, []string{"must begin with a letter"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := e.TryCreate(NewDraft("web", Zones("", ""), LeaderWorkerSets, tc.edit))
			for _, word := range tc.want {
				if err == nil || !strings.Contains(err.Error(), word) {
					t.Errorf("want %q in: %v", word, err)
				}
			}
		})
	}
	// The control: valid specs, some of them under one strategy only.
	w := e.Create(NewDraft(strings.Repeat("x", 41), Replicas(0), Zones("", ""), LeaderWorkerSets, Partitions(Parts{"zone-a": "50%", "zone-b": 1}),
		member(int64(2), "maxUnavailable"), member(int64(0), "maxSurge"),
		Patched("zone-z", `{"spec":{"leaderWorkerTemplate":{"size":3,"workerTemplate":{"metadata":{"labels":{"more":"x"}}}}}}`),
		func(d *Draft) {
			d.Template["apiVersion"], d.Template["kind"] = "leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"
		}))
	w.Expect(w.TryPatch(types.MergePatchType, `{"spec":{"template":{"leaderWorkerSetTemplate":null,"statefulSetTemplate":{}}}}`)).
		To(MatchError(ContainSubstring("the kind of the template is immutable")))
	w.Expect(w.TryPatch(types.MergePatchType, `{"spec":{"updateStrategy":{"type":"RollingUpdate","manualUpdate":null,"rollingUpdate":{}}}}`)).
		To(MatchError(ContainSubstring("maxUnavailable")), "another strategy has other rules")
}

// TestLeaderWorkerSetSample applies config/samples/leaderworkerset.yaml, stages a version, and checks
// that one group of zone-a is updated. A client that scales by the selector sees the leaders.
func TestLeaderWorkerSetSample(t *testing.T) {
	t.Parallel()
	w := ApplySampleOf(t, "LeaderWorkerSet", "leaderworkerset.yaml", "groups")
	w.ComesTo("2 v1", "2 v1", "2 v1")
	w.Expect(w.Members()).To(HaveLen(18))
	for _, p := range w.Members() {
		w.Expect(p.Zone).To(Equal(p.Subset), p.Name)
	}
	selected := &corev1.PodList{}
	w.Expect(w.List(w.Ctx, selected, client.InNamespace(w.Namespace), client.MatchingLabelsSelector{Selector: scaleSelector(w)})).To(Succeed())
	w.Expect(selected.Items).To(HaveLen(6))
	w.SetImages("v2")
	w.ComesTo("1 v1, 1 v2", "2 v1", "2 v1")
}

// scaleSelector returns the selector of the scale subresource.
func scaleSelector(w *Contracted) labels.Selector {
	w.T.Helper()
	selector, err := labels.Parse(w.Parent().Status.Selector)
	w.Expect(err).NotTo(HaveOccurred())
	return selector
}

// TestLeaderWorkerSetIsHasty checks that United still knows the previous version when a LeaderWorkerSet
// has forgotten it. A LeaderWorkerSet does so as soon as the leaders of all groups are updated and
// ready, whatever state their workers are in.
func TestLeaderWorkerSetIsHasty(t *testing.T) {
	t.Parallel()
	all := TemplateField("100%", "spec", "rolloutStrategy", "rollingUpdateConfiguration", "maxUnavailable")
	w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(2), Zones(""), Hold(), all)
	w.ComesTo("2 v1", "", "")
	before := w.Parent().Status.CurrentRevision
	w.Step("a version whose workers never come up", func() {
		w.JSONPatch(`[{"op":"replace","path":"/spec/template/leaderWorkerSetTemplate/spec/leaderWorkerTemplate/leaderTemplate/spec/containers/0/image","value":%q},
			{"op":"replace","path":"/spec/template/leaderWorkerSetTemplate/spec/leaderWorkerTemplate/workerTemplate/spec/containers/0/image","value":%q}]`, Image("v2"), Image("quiet"))
		w.SetPartitions(Parts{"zone-a": 0})
		w.Eventually(w.Mix).Should(Equal(map[string]string{"zone-a": "2 v2/quiet?"}))
		w.Eventually(func(g Gomega) {
			leaders := w.Child("zone-a")
			g.Expect(leaders.Status.CurrentRevision).To(Equal(leaders.Status.UpdateRevision), "it has forgotten")
			g.Expect(w.Status("zone-a").UpdatedReplicas).To(Equal(int32(2)))
		}).Should(Succeed())
		w.Expect(w.Status("zone-a").CurrentRevision).To(Equal(before))
	})
	w.Step("is taken back by what comes next, all held", func() {
		w.SetPartitions(Parts{"zone-a": "100%"})
		w.SetImages("v3")
		w.ComesTo("2 v1", "", "")
	})
}

// TestLeaderWorkerSetSizeIsOfNow checks that a recreated held group has its old templates but the
// current size, because the LeaderWorkerSet controller takes the size from the spec, not from the
// revision.
func TestLeaderWorkerSetSizeIsOfNow(t *testing.T) {
	t.Parallel()
	w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(2), Zones(""), Hold())
	w.ComesTo("2 v1", "", "")
	before := w.Uids()
	w.JSONPatch(`[{"op":"replace","path":"/spec/template/leaderWorkerSetTemplate/spec/leaderWorkerTemplate/size","value":4}]`)
	w.SetImages("v2")
	w.ComesTo("2 v1", "", "")
	w.Expect(w.Uids()).To(Equal(before), "what is held does not move")
	w.Disturbed()
	w.Expect(w.Delete(w.Ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "web-zone-a-1"}})).To(Succeed())
	w.Eventually(func(g Gomega) {
		counts := map[int]int{}
		for _, p := range w.Members() {
			g.Expect(p.Image).To(Equal("v1"))
			g.Expect(p.Ready && !p.Terminating).To(BeTrue())
			counts[p.Ordinal]++
		}
		g.Expect(counts).To(Equal(map[int]int{0: 2, 1: 4}))
		g.Expect(fixtures.WhyNotReady(w.Parent())).To(BeEmpty())
	}).Should(Succeed())
}

// TestLeaderWorkerSetLosesAWorker checks that a group which lost a worker is recreated as a whole, on
// the version that it ran.
func TestLeaderWorkerSetLosesAWorker(t *testing.T) {
	t.Parallel()
	w := KindNamed("LeaderWorkerSet").ContractOf(t, Replicas(3), Zones(""), Partitions(Parts{"zone-a": 2}))
	w.ComesTo("3 v1", "", "")
	w.SetImages("v2")
	w.ComesTo("2 v1, 1 v2", "", "")
	before := w.Uids()
	w.Disturbed()
	for _, leader := range []string{"web-zone-a-1", "web-zone-a-2"} {
		losesWorker(w, leader)
	}
	w.Eventually(func(g Gomega) {
		left := 0
		for uid := range w.Uids() {
			if before[uid] {
				left++
			}
		}
		g.Expect(left).To(Equal(1), "their leaders go too")
	}).Should(Succeed())
	w.ComesTo("2 v1, 1 v2", "", "")
}

// losesWorker deletes the first worker of a group. A finalizer keeps the pod until its leader goes, as a
// kubelet does that takes its time: if the next pod of the name is there before the LeaderWorkerSet
// controller looks, it does not recreate the group.
func losesWorker(w *Contracted, leader string) {
	w.T.Helper()
	first, now := &corev1.Pod{}, &corev1.Pod{}
	w.Expect(w.Get(w.Ctx, w.Key(leader), first)).To(Succeed())
	worker := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: leader + "-1"}}
	w.SetFinalizers(worker, `["example.com/keep"]`)
	w.Expect(w.Delete(w.Ctx, worker)).To(Succeed())
	w.Eventually(func() bool {
		err := w.Get(w.Ctx, w.Key(leader), now)
		return apierrors.IsNotFound(err) || err == nil && (now.UID != first.UID || now.DeletionTimestamp != nil)
	}).Should(BeTrue(), "the leader goes too")
	w.SetFinalizers(worker, "null")
}

// TestLeaderWorkerSetTakesNoStatefulSet checks that United creates no LeaderWorkerSet while a
// StatefulSet has its name: a LeaderWorkerSet would take over that StatefulSet, whoever owns it.
func TestLeaderWorkerSetTakesNoStatefulSet(t *testing.T) {
	t.Parallel()
	k := KindNamed("LeaderWorkerSet")
	k.Manager(Shared, t)
	e := NewEnv(t)
	labels := map[string]string{"of": "theirs"}
	theirs := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "web-zone-b"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: ptr.To[int32](1), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: Image("v1")}}},
			},
		},
	}
	e.Expect(e.Client.Create(e.Ctx, theirs)).To(Succeed())
	w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Hold(), LeaderWorkerSets)).Of(k)
	w.Stalls("zone-b", v1alpha1.ReasonNameConflict, "StatefulSet web-zone-b")
	w.Eventually(func() string { return w.Mix()["zone-a"] }).Should(Equal("2 v1"))
	now := &appsv1.StatefulSet{}
	e.Expect(e.Get(e.Ctx, client.ObjectKeyFromObject(theirs), now)).To(Succeed())
	e.Expect(now.Spec).To(Equal(theirs.Spec))
	e.Expect(e.Delete(e.Ctx, theirs)).To(Succeed())
	w.Disturbed()
	w.ComesTo("2 v1", "2 v1", "")
}
