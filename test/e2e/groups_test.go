// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// The labels and annotations of the pods of a LeaderWorkerSet.
const (
	groupIndexLabel  = "leaderworkerset.sigs.k8s.io/group-index"
	workerIndexLabel = "leaderworkerset.sigs.k8s.io/worker-index"
	groupSize        = "leaderworkerset.sigs.k8s.io/size"
)

// readGroup reads the group of a pod. The ordinal of the pod is that of its group.
func readGroup(p *corev1.Pod, read *pod) {
	index, grouped := p.Labels[workerIndexLabel]
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

// asReplicas converts pods to replicas: a leader stands for its group, which is ready, or running, when
// all of its pods are. The workers of a missing leader do not count.
func asReplicas(pods []pod) (replicas []pod) {
	workers := map[string][]pod{}
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

func groupOf(leader pod, workers []pod) pod {
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

// ofReplicas converts events of pods to events of replicas: an event of a worker is an event of its
// group.
func ofReplicas(events []podEvent) (list []podEvent) {
	leaders, workers := map[string]pod{}, map[string]map[string]pod{}
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
			leaders[event.Name] = event.pod
		default:
			if workers[event.Leader] == nil {
				workers[event.Leader] = map[string]pod{}
			}
			if !event.Gone {
				workers[event.Leader][event.Name] = event.pod
			} else if workers[event.Leader][event.Name].UID == event.UID {
				delete(workers[event.Leader], event.Name)
			}
		}
		leader, there := leaders[event.Leader]
		if !there {
			continue
		}
		var members []pod
		for _, p := range workers[event.Leader] {
			members = append(members, p)
		}
		list = append(list, podEvent{pod: groupOf(leader, members), At: event.At})
	}
	return list
}

// TestGroupsAreReplicas checks that the tests see groups correctly.
func TestGroupsAreReplicas(t *testing.T) {
	t.Parallel()
	leader := pod{Name: "web-0", UID: "l", Leader: "web-0", Members: 2, Image: "v1", Ready: true}
	worker := pod{Name: "web-0-1", UID: "w", Leader: "web-0", Image: "v1", Ready: true}
	old := worker
	old.Image = "v0"
	for name, tc := range map[string]struct {
		pods  []pod
		image string
		ready bool
	}{
		"whole":      {[]pod{leader, worker}, "v1", true},
		"no workers": {[]pod{leader}, "v1", false},
		"mixed":      {[]pod{old, leader}, "v1/v0", true},
	} {
		got := asReplicas(tc.pods)
		if len(got) != 1 || got[0].Image != tc.image || got[0].Ready != tc.ready {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := asReplicas([]pod{worker}); len(got) != 0 {
		t.Errorf("workers alone: %+v", got)
	}
	events := ofReplicas([]podEvent{{pod: leader}, {pod: worker}, {pod: worker, Gone: true}, {pod: leader, Gone: true}})
	var ready []bool
	for _, event := range events {
		ready = append(ready, event.Ready && !event.Gone)
	}
	if len(ready) != 4 || ready[0] || !ready[1] || ready[2] || ready[3] {
		t.Error(ready)
	}
}
