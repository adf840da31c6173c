// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united"
	"github.com/unitedworkloads/united/controllers/united/publish"
)

// Cluster is what parents share: the real reconciler, with one memory for all of them, and around it a simulated API
// server, StatefulSet controller and kubelets, each of which acts only when it is told to.
type Cluster struct {
	// StatusBatching is that of the controller (united.Reconciler); it takes effect when the controller starts.
	StatusBatching publish.Batching
	T              TestingT
	Clock          *Clock
	API            *API
	Sets           *Sets
	Reconciler     *united.Reconciler
	// Recorded are the events.
	Recorded Recorder
	trace    []string
	// worlds are those of the parents, in order of creation.
	worlds []*World
}

// TestingT is the part of testing.T and rapid.T that is used here.
type TestingT interface {
	Helper()
	Fatalf(format string, args ...any)
	Context() context.Context
}

// Recorder records events as "<type> <reason> <child>: <note>".
type Recorder struct{ Events []string }

// Eventf records an event.
func (r *Recorder) Eventf(_ runtime.Object, related runtime.Object, kind, reason, _, note string, args ...any) {
	about := ""
	if ref, ok := related.(*corev1.ObjectReference); ok {
		about = " " + ref.Name
	}
	r.Events = append(r.Events, fmt.Sprintf("%s %s%s: %s", kind, reason, about, fmt.Sprintf(note, args...)))
}

func newCluster(t TestingT) *Cluster {
	s := &Cluster{T: t}
	s.Clock = &Clock{clocktesting.NewFakePassiveClock(time.Unix(1767225600, 0)), func(to time.Time) {
		s.eachOracle(func(o *Oracle) { o.timePasses(to) })
	}}
	s.API = newAPI(func() metav1.Time { return metav1.NewTime(s.Clock.Now()) })
	s.API.notes = func(write string) {
		if write != "status" {
			s.Note("  controller: %s", write)
		}
	}
	s.Sets = &Sets{
		api: s.API, Version: Newest,
		creates: func(set *appsv1.StatefulSet, position int32, pod *corev1.Pod) {
			s.eachOracle(func(o *Oracle) { o.creates(set, position, pod) })
		},
		deletes: func(set *appsv1.StatefulSet, position int32, pod *corev1.Pod, why string) {
			s.eachOracle(func(o *Oracle) { o.deletes(set, position, pod, why) })
		},
		finishes: func(u *unstructured.Unstructured) { s.eachOracle(func(o *Oracle) { o.finishes(u) }) },
	}
	return s
}

// add adds a parent of 4 replicas of v1, everything held.
func (s *Cluster) add(name, policy string, subsets []string) *World {
	w := &World{Cluster: s, Name: name}
	if len(s.worlds) > 0 {
		w.mark = "@" + name
	}
	parent := &v1alpha1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID(fmt.Sprint("u-", len(s.worlds)+1)), Generation: 1, ResourceVersion: "0",
		},
		Spec: v1alpha1.UnitedDeploymentSpec{
			Replicas:             ptr.To[int32](4),
			Selector:             &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template:             w.template("v1", policy),
			RevisionHistoryLimit: ptr.To[int32](0),
			UpdateStrategy: v1alpha1.UpdateStrategy{ManualUpdate: &v1alpha1.ManualUpdate{
				DefaultPartition: ptr.To(intstr.FromString("100%")),
			}},
		},
	}
	for _, name := range subsets {
		parent.Spec.Topology.Subsets = append(parent.Spec.Topology.Subsets, v1alpha1.Subset{Name: name})
	}
	s.API.Live.Parents[name] = parent
	w.Oracle = newOracle(parent, s.API, w.Fail)
	w.Oracle.specChanged()
	s.worlds = append(s.worlds, w)
	s.Restart()
	return w
}

// eachOracle calls on with each oracle.
func (s *Cluster) eachOracle(on func(*Oracle)) {
	for _, w := range s.worlds {
		on(w.Oracle)
	}
}

// Look lets the oracles look at the current state.
func (s *Cluster) Look() { s.eachOracle((*Oracle).Look) }

// Fail fails the test, and prints what has happened.
func (s *Cluster) Fail(format string, args ...any) {
	s.T.Helper()
	s.T.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(s.trace, "\n"))
}

// Note adds a line to what has happened.
func (s *Cluster) Note(format string, args ...any) {
	s.trace = append(s.trace, fmt.Sprintf(format, args...))
}

// Restart restarts the controller, with an up-to-date cache and an empty memory.
func (s *Cluster) Restart() {
	s.API.silentUntil = nil
	s.API.Refresh()
	for _, w := range s.worlds {
		w.again = true // the controller has seen nothing yet
		w.Oracle.collects = collects{may: s.StatusBatching}
	}
	s.Reconciler = &united.Reconciler{
		Client: s.API.Client(), Live: s.API.Reader(), Adapters: all.Registry(),
		Recorder: &s.Recorded, Metrics: publish.NewMetrics(prometheus.NewRegistry()), Clock: s.Clock, StatusBatching: s.StatusBatching,
	}
}

// Batches restarts the controller with batching of statuses.
func (s *Cluster) Batches(c publish.Batching) {
	s.StatusBatching = c
	s.Restart()
}

// Sync is one sync of a set by the StatefulSet controller.
func (s *Cluster) Sync(name string) {
	if s.API.Live.Sets[name] == nil {
		return
	}
	before := s.Describe(name)
	s.Sets.Sync(name)
	s.Look()
	if after := s.Describe(name); after != before {
		s.Note("  %s", after)
	}
}

// Describe formats a set and its pods as one line.
func (s *Cluster) Describe(name string) string {
	u := s.API.Live.Sets[name]
	if u == nil {
		return name + ": none"
	}
	set := s.API.typed(u)
	list := []string{fmt.Sprintf("%s: %s replicas %d partition %d current %s update %s:", name,
		contentOf(&set.Spec.Template), *set.Spec.Replicas, *set.Spec.UpdateStrategy.RollingUpdate.Partition,
		s.contentOfHash(name, set.Status.CurrentRevision), s.contentOfHash(name, set.Status.UpdateRevision))}
	for _, p := range s.PodsOf(name) {
		text := fmt.Sprintf("%d %s", OrdinalOf(name, p.Name), PodContent(p))
		if !IsReady(p) {
			text += " unready"
		}
		if p.DeletionTimestamp != nil {
			text += " terminating"
		}
		list = append(list, text+",")
	}
	return strings.Join(list, " ")
}

func (s *Cluster) contentOfHash(set, hash string) string {
	if r := s.API.own[set][hash]; r != nil {
		return contentOf(r.template)
	}
	return "-"
}

// PodsOf returns the pods of a set, the lowest first.
func (s *Cluster) PodsOf(set string) []*corev1.Pod {
	var pods []*corev1.Pod
	for _, p := range s.API.Live.Pods {
		if OrdinalOf(set, p.Name) >= 0 {
			pods = append(pods, p)
		}
	}
	slices.SortFunc(pods, func(a, b *corev1.Pod) int { return int(OrdinalOf(set, a.Name) - OrdinalOf(set, b.Name)) })
	return pods
}

// Everybody lets everybody but the user do all that they can do now.
func (s *Cluster) Everybody() {
	for _, w := range s.worlds {
		s.API.Refresh()
		w.Reconcile()
	}
	s.others()
}

// Settle continues until nothing changes anymore.
func (s *Cluster) Settle() {
	for quiet, rounds := 0, 0; quiet < 3; rounds++ {
		// Failed writes are retried after this time.
		s.Clock.SetTime(s.Clock.Now().Add(31 * time.Second))
		if rounds > 500 {
			s.Fail("it does not settle: %v", s.API.Writes[len(s.API.Writes)-10:])
		}
		last := s.API.Last
		s.Everybody()
		quiet++
		if s.API.Last != last {
			quiet = 0
		}
	}
	s.resting()
}
