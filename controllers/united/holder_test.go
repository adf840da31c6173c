// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// podReads counts the lists of pods that are read past the cache.
type podReads struct {
	client.Reader
	count int
}

func (r *podReads) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if _, ok := list.(*corev1.PodList); ok {
		r.count++
	}
	return r.Reader.List(ctx, list, opts...)
}

// message returns the message in the status of a subset.
func (s *scene) message(subset string) string {
	for _, sub := range s.status().Subsets {
		if sub.Name == subset {
			return sub.Message
		}
	}
	return ""
}

// edit changes a pod without its StatefulSet.
func (s *scene) edit(name string, change func(*corev1.Pod)) *scene {
	pod := s.API.Live.Pods["web-"+name].DeepCopy()
	change(pod)
	s.API.PutPod(pod)
	return s
}

// letGo releases a pod from its StatefulSet, which does this itself if the pod no longer matches.
func letGo(labels map[string]string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences, p.Labels = nil, labels }
}

// A pod that is no longer a replica but keeps its name is reported once the replica has been missing for a while, and
// looked up at most once in a minute.
func TestHolderIsNamed(t *testing.T) {
	const lacks = "waiting for web-a-1 (missing"
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   string
	}{
		"all labels gone": {letGo(nil),
			"; a pod with its name does not have the labels app=web, united.dev/name=web, united.dev/subset=a: add them, or delete that pod"},
		"one label changed": {letGo(map[string]string{"app": "debug", "united.dev/name": "web", "united.dev/subset": "a"}),
			"; a pod with its name does not have the labels app=web: add them, or delete that pod"},
		"another owner": {func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "other", UID: "u", Controller: ptr.To(true)}}
		}, "; a pod with its name is controlled by ReplicaSet other: delete that pod"},
		"to be adopted": {letGo(map[string]string{"app": "web", "united.dev/name": "web", "united.dev/subset": "a"}), ""},
		"gone":          {nil, "; to see why, run: kubectl describe statefulset -n shop web-a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t).settled()
			reads := &podReads{Reader: s.Reconciler.Live}
			s.Reconciler.Live = reads
			if tc.change == nil {
				delete(s.API.Live.Pods, "web-a-1")
			} else {
				s.edit("a-1", tc.change)
			}
			for range 5 { // each takes a second
				s.pass()
			}
			if got := s.message("a"); got != lacks+")" || reads.count != 0 {
				t.Fatalf("freshly missing: %q, %d reads", got, reads.count)
			}
			for range 30 {
				s.pass()
			}
			if got := s.message("a"); got != lacks+tc.want+")" || reads.count != 1 {
				t.Errorf("after a while: %q, %d reads", got, reads.count)
			}
			s.later(time.Minute).pass()
			if got := s.message("a"); got != lacks+tc.want+")" || reads.count != 2 {
				t.Errorf("a minute later: %q, %d reads", got, reads.count)
			}
		})
	}
}

// The controller schedules a pass for the lookup, and none after it.
func TestHolderIsAskedForInTime(t *testing.T) {
	s := newScene(t).settled().edit("a-1", letGo(nil)).pass()
	if s.Wake != 10*time.Second {
		t.Errorf("wakes up after %s", s.Wake)
	}
	s.later(s.Wake).pass()
	if s.Wake <= time.Minute { // the progress deadline
		t.Errorf("wakes up again after %s", s.Wake)
	}
	if !strings.Contains(s.message("a"), "a pod with its name") {
		t.Error(s.message("a"))
	}
	s.edit("a-1", letGo(map[string]string{"app": "web", "united.dev/name": "web", "united.dev/subset": "a"})).moves("a").settled()
	if got := s.message("a"); strings.Contains(got, "missing") {
		t.Errorf("it is a replica again: %q", got)
	}
}

// A child whose controller does not get to create replicas, or has no names for them, has no pod to look for. Where to look for the
// cause is said all the same.
func TestWhereToLookForAChildThatCreatesNothing(t *testing.T) {
	const where = "; to see why, run: kubectl describe statefulset -n shop web-a)"
	s := newScene(t)
	reads := &podReads{Reader: s.Reconciler.Live}
	s.Reconciler.Live = reads
	for range 5 {
		s.later(time.Second).pass()
	}
	if got := s.message("a"); got == "" || strings.Contains(got, "to see why") {
		t.Errorf("its controller may get to it yet: %q", got)
	}
	s.later(10 * time.Second).pass()
	if got := s.message("a"); !strings.HasSuffix(got, where) || reads.count != 0 {
		t.Errorf("its controller does not: %q, %d reads", got, reads.count)
	}
	if s.settled(); s.message("a") != "" {
		t.Errorf("it has all: %q", s.message("a"))
	}
}
