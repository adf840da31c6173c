// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// colocated makes prefill and decode members of groups with two and one replicas, each group on one
// node, and then applies the edits.
func colocated(edits ...func(*v1alpha1.Colocation)) edit {
	return func(d *Draft) {
		c := &v1alpha1.Colocation{TopologyKey: corev1.LabelHostname, Ratios: map[string]v1alpha1.ColocationRatio{prefill: 2, decode: 1}}
		for _, edit := range edits {
			edit(c)
		}
		d.Spec.Topology.Colocation = c
	}
}

func inParallel(c *v1alpha1.Colocation) { c.Order = v1alpha1.ParallelGroups }

// inRoom places the subsets on the nodes of a room, which no other pods tolerate; each pod requests a
// part of a node, which has a CPU of 1000.
func inRoom(e *env, cpu string) edit {
	return func(d *Draft) {
		for _, name := range []string{prefill, decode} {
			subset(v1alpha1.Subset{
				Name: name, Tolerations: []corev1.Toleration{{Key: e.Namespace, Operator: corev1.TolerationOpExists}},
				NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
					{Key: roomLabel, Operator: corev1.NodeSelectorOpIn, Values: []string{e.Namespace}},
				}}}},
			})(d)
		}
		templateField([]any{map[string]any{"name": "web", "image": image("v1"), "resources": map[string]any{"requests": map[string]any{"cpu": cpu}}}},
			"spec", "template", "spec", "containers")(d)
	}
}

const roomLabel = "room.example.com/name"

// addRoom adds a node to the room of this test.
func (e *env) addRoom(suffix, zone string) string {
	e.t.Helper()
	name := e.addNodeWithoutZone(suffix)
	label := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q,%q:%q}}}`, roomLabel, e.Namespace, corev1.LabelTopologyZone, zone)
	e.Expect(e.Client.Patch(e.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, label))).To(Succeed())
	return name
}

// groups returns the names of the replicas of each group, without the name of the parent, and checks
// that each pod has the label of its group. It waits until all pods of a group are in one domain, which
// domain returns for a pod.
func (w *Workload) groups(domain func(*corev1.Pod) string) map[int]string {
	w.t.Helper()
	var groups map[int]string
	w.Eventually(func(g Gomega) {
		groups = map[int]string{}
		domains := map[int]string{}
		pods := &corev1.PodList{}
		g.Expect(w.List(w.ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
		slices.SortFunc(pods.Items, func(a, b corev1.Pod) int {
			return strings.Compare(a.Labels[v1alpha1.LabelSubset]+a.Name, b.Labels[v1alpha1.LabelSubset]+b.Name)
		})
		for i := range pods.Items {
			p := &pods.Items[i]
			ratio, index := p.Labels[v1alpha1.LabelColocationRatio], p.Labels["leaderworkerset.sigs.k8s.io/group-index"]
			if ratio == "" {
				continue
			}
			if index == "" {
				index = p.Name[strings.LastIndexByte(p.Name, '-')+1:]
			}
			n, err := strconv.Atoi(index)
			g.Expect(err).NotTo(HaveOccurred(), p.Name)
			of, err := strconv.Atoi(ratio)
			g.Expect(err).NotTo(HaveOccurred(), p.Name)
			group := n / of
			g.Expect(p.Labels).To(HaveKeyWithValue(v1alpha1.LabelColocationGroup, strconv.Itoa(group)), p.Name)
			g.Expect(p.Spec.SchedulingGates).To(BeEmpty(), p.Name)
			g.Expect(p.Spec.NodeName).NotTo(BeEmpty(), p.Name)
			if domains[group] == "" {
				domains[group] = domain(p)
			}
			g.Expect(domain(p)).To(And(Equal(domains[group]), Not(BeEmpty())), "%s of group %d", p.Name, group)
			groups[group] = strings.TrimSpace(groups[group] + " " + strings.TrimPrefix(p.Name, w.Name+"-"))
		}
	}).Should(Succeed())
	return groups
}

func onNode(p *corev1.Pod) string              { return p.Spec.NodeName }
func (p *plane) zoneOf(pod *corev1.Pod) string { return p.zones[pod.Spec.NodeName] }

// nodesOf returns the nodes that have pods of the workload.
func (w *Workload) nodesOf() map[string]int {
	nodes := map[string]int{}
	for _, p := range w.members() {
		nodes[p.Node]++
	}
	return nodes
}

// TestColocation checks the groups of prefill and decode, with the real scheduler: which replicas they
// have, that each is in one domain, and that they come and go as a whole.
func TestColocation(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	w := e.Create(draft("web", policy(appsv1.ParallelPodManagement), replicas(9), colocated(), plain(prefill, ""), plain(decode, "")))
	all := map[int]string{0: "decode-0 prefill-0 prefill-1", 1: "decode-1 prefill-2 prefill-3", 2: "decode-2 prefill-4 prefill-5"}
	e.Step("three groups", func() {
		w.comeTo("6,3")
		w.Settle()
		e.Expect(w.groups(onNode)).To(Equal(all))
		e.Expect(w.Parent().Status.Replicas).To(BeEquivalentTo(9))
	})
	e.Step("a remainder is an incomplete group", func() {
		w.scaleTo(11, "8,3")
		w.Settle()
		more := maps.Clone(all)
		more[3] = "prefill-6 prefill-7"
		e.Expect(w.groups(onNode)).To(Equal(more))
		w.scaleTo(12, "8,4")
		w.Settle()
		more[3] = "decode-3 prefill-6 prefill-7"
		e.Expect(w.groups(onNode)).To(Equal(more))
	})
	e.Step("from the top", func() {
		gone := w.uids()
		w.scaleTo(9, "6,3")
		w.Settle()
		e.Expect(w.groups(onNode)).To(Equal(all))
		for uid := range w.uids() {
			e.Expect(gone).To(HaveKey(uid), "nothing that stays is replaced")
		}
		w.scaleTo(4, "3,1")
		w.Settle()
		e.Expect(w.groups(onNode)).To(Equal(map[int]string{0: all[0], 1: "prefill-2"}))
		w.scaleTo(0, "0,0")
		w.scaleTo(9, "6,3")
		w.Settle()
		e.Expect(w.groups(onNode)).To(Equal(all))
	})
	e.Step("a rollout keeps the groups, and a deleted pod returns to its own", func() {
		w.SetImage("v2")
		w.Settle()
		e.Expect(w.groups(onNode)).To(Equal(all))
		before := map[string]string{}
		for _, p := range w.Pods() {
			before[p.Name] = p.Node
		}
		w.DeletePod(prefill, 3)
		w.Settle()
		e.Expect(w.groups(onNode)).To(Equal(all))
		for _, p := range w.Pods() {
			e.Expect(p.Node).To(Equal(before[p.Name]), p.Name)
		}
	})
}

// uids returns the pods of the workload.
func (w *Workload) uids() map[types.UID]bool {
	uids := map[types.UID]bool{}
	for _, p := range w.members() {
		uids[p.UID] = true
	}
	return uids
}

// TestColocationZones checks groups in one zone each, of two parents at once, one of which numbers its
// pods from 5; a third subset is no member.
func TestColocationZones(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	zoned := colocated(func(c *v1alpha1.Colocation) { c.TopologyKey = corev1.LabelTopologyZone }, inParallel)
	first := e.Create(draft("first", policy(appsv1.ParallelPodManagement), replicas(30), zoned, plain(prefill, ""), plain(decode, "")))
	second := e.Create(draft("second", policy(appsv1.ParallelPodManagement), replicas(31), zoned, plain(prefill, ""), plain("router", "1"), plain(decode, "")))
	first.comeTo("20,10")
	first.Settle()
	second.comeTo("20,1,10")
	second.Settle()
	for _, w := range []*Workload{first, second} {
		groups := w.groups(w.zoneOf)
		e.Expect(groups).To(HaveLen(10))
		e.Expect(groups[9]).To(Equal("decode-9 prefill-18 prefill-19"))
	}
	third := e.Create(draft("third", policy(appsv1.ParallelPodManagement), replicas(3), zoned, plain(prefill, ""), plain(decode, ""),
		templateField(map[string]any{"start": int64(5)}, "spec", "ordinals")))
	third.Settle()
	labels := map[string]string{}
	pods := &corev1.PodList{}
	e.Expect(e.List(e.ctx, pods, client.InNamespace(e.Namespace), client.MatchingLabels{v1alpha1.LabelName: "third"})).To(Succeed())
	for _, p := range pods.Items {
		labels[p.Name] = p.Labels[v1alpha1.LabelColocationGroup]
	}
	e.Expect(labels).To(Equal(map[string]string{"third-prefill-5": "0", "third-prefill-6": "0", "third-decode-5": "0"}))
}
