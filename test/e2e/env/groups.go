// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"slices"
	"strconv"
	"strings"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Colocated makes prefill and decode members of groups with two and one replicas, each group on one
// node, and then applies the edits.
func Colocated(edits ...func(*v1alpha1.Colocation)) Edit {
	return func(d *Draft) {
		c := &v1alpha1.Colocation{TopologyKey: corev1.LabelHostname, Ratios: map[string]v1alpha1.ColocationRatio{Prefill: 2, Decode: 1}}
		for _, edit := range edits {
			edit(c)
		}
		d.Spec.Topology.Colocation = c
	}
}

func InParallel(c *v1alpha1.Colocation) { c.Order = v1alpha1.ParallelGroups }

// Groups returns the names of the replicas of each group, without the name of the parent, and checks
// that each pod has the label of its group. It waits until all pods of a group are in one domain, which
// domain returns for a pod.
func (w *Workload) Groups(domain func(*corev1.Pod) string) map[int]string {
	w.T.Helper()
	var groups map[int]string
	w.Eventually(func(g Gomega) {
		groups = map[int]string{}
		domains := map[int]string{}
		pods := &corev1.PodList{}
		g.Expect(w.List(w.Ctx, pods, client.InNamespace(w.Namespace), client.MatchingLabels{v1alpha1.LabelName: w.Name})).To(Succeed())
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

func OnNode(p *corev1.Pod) string { return p.Spec.NodeName }

func (p *Plane) ZoneOf(pod *corev1.Pod) string { return p.Zones[pod.Spec.NodeName] }

// NodesOf returns the nodes that have pods of the workload.
func (w *Workload) NodesOf() map[string]int {
	nodes := map[string]int{}
	for _, p := range w.Members() {
		nodes[p.Node]++
	}
	return nodes
}

// The labels and annotations of the pods of a LeaderWorkerSet.
const (
	groupIndexLabel  = "leaderworkerset.sigs.k8s.io/group-index"
	WorkerIndexLabel = "leaderworkerset.sigs.k8s.io/worker-index"
	groupSize        = "leaderworkerset.sigs.k8s.io/size"
)

// readGroup reads the group of a pod. The ordinal of the pod is that of its group.
func readGroup(p *corev1.Pod, read *Pod) {
	index, grouped := p.Labels[WorkerIndexLabel]
	if !grouped {
		return
	}
	read.Leader = p.Name
	if index != "0" {
		read.Leader = p.Name[:strings.LastIndexByte(p.Name, '-')]
	}
	if n, err := strconv.Atoi(p.Labels[groupIndexLabel]); err == nil {
		read.Ordinal = n
	}
	if n, err := strconv.Atoi(p.Annotations[groupSize]); err == nil {
		read.Members = n
	}
}

// AsReplicas converts pods to replicas: a leader stands for its group, which is ready, or running, when
// all of its pods are. The workers of a missing leader do not count.
func AsReplicas(pods []Pod) (replicas []Pod) {
	workers := map[string][]Pod{}
	for _, p := range pods {
		if p.Leader != "" && p.Leader != p.Name {
			workers[p.Leader] = append(workers[p.Leader], p)
		}
	}
	for _, p := range pods {
		switch p.Leader {
		case "":
			replicas = append(replicas, p)
		case p.Name:
			replicas = append(replicas, groupOf(p, workers[p.Name]))
		}
	}
	return replicas
}

func groupOf(leader Pod, workers []Pod) Pod {
	if len(workers)+1 != leader.Members {
		leader.Ready, leader.Running = false, false
	}
	for _, p := range workers {
		if p.Image != leader.Image && !strings.Contains(leader.Image, "/") {
			leader.Image += "/" + p.Image
		}
		leader.Ready = leader.Ready && p.Ready && !p.Terminating
		leader.Running = leader.Running && p.Running && !p.Terminating
		leader.Crashing = leader.Crashing || p.Crashing
		if p.ReadySince.After(leader.ReadySince) {
			leader.ReadySince = p.ReadySince
		}
	}
	return leader
}

// OfReplicas converts events of pods to events of replicas: an event of a worker is an event of its
// group.
func OfReplicas(events []PodEvent) (list []PodEvent) {
	leaders, workers := map[string]Pod{}, map[string]map[string]Pod{}
	for _, event := range events {
		switch event.Leader {
		case "":
			list = append(list, event)
			continue
		case event.Name:
			if event.Gone {
				if leaders[event.Name].UID == event.UID {
					delete(leaders, event.Name)
				}
				list = append(list, event)
				continue
			}
			leaders[event.Name] = event.Pod
		default:
			if workers[event.Leader] == nil {
				workers[event.Leader] = map[string]Pod{}
			}
			if !event.Gone {
				workers[event.Leader][event.Name] = event.Pod
			} else if workers[event.Leader][event.Name].UID == event.UID {
				delete(workers[event.Leader], event.Name)
			}
		}
		leader, there := leaders[event.Leader]
		if !there {
			continue
		}
		var members []Pod
		for _, p := range workers[event.Leader] {
			members = append(members, p)
		}
		list = append(list, PodEvent{Pod: groupOf(leader, members), At: event.At})
	}
	return list
}
