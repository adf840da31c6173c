// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/test/simulation"
)

// recordings is the file with the recorded results of the real controllers.
const recordings = "../../../test/simulation/testdata/traces.txt"

// record describes the recordings of a version of Kubernetes.
type record struct {
	version           string
	countsUnavailable bool
}

// A Set gives the same results as the real controllers in every recorded trace, for each recorded version.
func TestDoesWhatTheRealOnesDo(t *testing.T) {
	raw, err := os.ReadFile(filepath.FromSlash(recordings))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for _, r := range []record{{"1.36", false}, {"1.37", true}} {
		t.Run(r.version, func(t *testing.T) {
			if r.countsUnavailable && !strings.Contains(text, ", Kubernetes "+r.version) {
				t.Fatal("nothing is recorded of it")
			}
			replay(t, r, chapters(text))
		})
	}
}

func replay(t *testing.T, r record, written map[string][]string) {
	played := 0
	for _, trace := range simulation.Traces() {
		for _, policy := range []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement} {
			// A trace is recorded only once if the versions agree.
			name := fmt.Sprintf("%s (%s", trace.Name, policy)
			want, found := written[fmt.Sprintf("%s, Kubernetes %s)", name, r.version)]
			if !found {
				want, found = written[name+")"]
			}
			if !found {
				t.Errorf("%s: nothing is recorded", name)
				continue
			}
			got, err := simulation.Play(newPlayer(r, policy), trace.Steps)
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			if i := simulation.Difference(want, got); i >= 0 {
				t.Errorf("%s:\nrecorded %q\nplayed   %q", name, want[i:min(i+1, len(want))], got[i:min(i+1, len(got))])
			}
			played += len(got)
		}
	}
	t.Logf("%d steps of %d traces", played, len(written))
}

// chapters returns the lines of each trace, by its headline.
func chapters(text string) map[string][]string {
	found := map[string][]string{}
	headline := ""
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "# "):
			headline = strings.TrimPrefix(line, "# ")
		case line != "":
			found[headline] = append(found[headline], line)
		}
	}
	return found
}

// player plays traces on a Set.
type player struct {
	set  statefulset.Set
	kind statefulset.Kind
	last statefulset.Synced
	// tags are the image tags of the versions, from 1.
	tags []string
	// uid numbers the sets, pods numbers the pods: a new object has a new number.
	uid, pods int
	uids      [statefulset.MaxPods]int
	kept      bool
}

func newPlayer(r record, policy appsv1.PodManagementPolicyType) *player {
	return &player{tags: []string{""}, kind: statefulset.Kind{
		Ordered: policy == appsv1.OrderedReadyPodManagement, CountsUnavailable: r.countsUnavailable,
	}}
}

func (p *player) version(tag string) statefulset.Version {
	i := slices.Index(p.tags, tag)
	if i < 0 {
		i, p.tags = len(p.tags), append(p.tags, tag)
	}
	return statefulset.Version(i)
}

// Do applies a step.
func (p *player) Do(step simulation.Step) error {
	switch step.Verb {
	case simulation.Create:
		if !p.set.Exists {
			p.uid++
			p.apply(step)
		}
	case simulation.Update:
		if p.set.Exists {
			p.apply(step)
		}
	case simulation.Delete, simulation.Orphan:
		if p.set.Exists {
			p.set.Remove(step.Verb == simulation.Orphan)
		}
	case simulation.HoldRevisions:
		p.kept = true
	case simulation.FreeRevisions:
		p.kept = false
	default:
		if step.Ordinal < statefulset.MaxPods && p.set.Pods[step.Ordinal].Exists() {
			p.pod(int(step.Ordinal), step.Verb)
		}
	}
	return nil
}

func (p *player) apply(step simulation.Step) {
	template, replicas, partition := p.set.Template, p.set.Replicas, p.set.Partition
	if step.Image != "" {
		template = p.version(step.Image)
	}
	if step.Replicas != nil {
		replicas = uint8(*step.Replicas)
	}
	if step.Partition != nil {
		partition = uint8(*step.Partition)
	}
	if step.MinReadySeconds != nil {
		p.kind.MinReady = *step.MinReadySeconds > 0
	}
	if step.MaxUnavailable != nil {
		p.kind.MaxUnavailable = uint8(*step.MaxUnavailable)
	}
	p.set.Apply(template, replicas, partition)
}

func (p *player) pod(ordinal int, verb simulation.Verb) {
	pod := &p.set.Pods[ordinal]
	switch verb {
	case simulation.DeletePod:
		p.set.Delete(ordinal)
	case simulation.Unready:
		pod.Phase = statefulset.Unready
	case simulation.Ready:
		pod.Phase = statefulset.Ready
	case simulation.Hold, simulation.Free:
		pod.Held = verb == simulation.Hold
	}
}

// Settle lets all controllers act until nothing changes anymore.
func (p *player) Settle() (simulation.Snapshot, error) {
	for range 1000 {
		before, was := p.set, p.last
		p.last = p.set.Sync(p.kind)
		for i := range p.uids {
			if p.last.Created&(1<<i) != 0 {
				p.pods++
				p.uids[i] = p.pods
			}
		}
		p.set.Collect(!p.kept)
		p.kubelets()
		if p.set == before && p.last == was {
			return p.snapshot(), nil
		}
	}
	return simulation.Snapshot{}, errors.New("it does not settle")
}

func (p *player) kubelets() {
	for i := range p.set.Pods {
		pod := &p.set.Pods[i]
		switch {
		case pod.Terminating && !pod.Held:
			*pod = statefulset.Pod{}
		case pod.Phase == statefulset.Starting && strings.HasPrefix(p.tags[pod.Version], "broken"):
			pod.Phase = statefulset.Unready
		case pod.Phase == statefulset.Starting:
			pod.Phase = statefulset.Ready
		}
	}
}

func (p *player) snapshot() simulation.Snapshot {
	s := simulation.Snapshot{Revisions: map[string]string{}}
	if p.set.Exists {
		s.Set = &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{
			Replicas: int32(p.last.Replicas), ReadyReplicas: int32(p.last.ReadyReplicas), UpdatedReplicas: int32(p.last.UpdatedReplicas),
			CurrentRevision: p.tags[p.set.Current], UpdateRevision: p.tags[p.set.Update],
		}}
		s.Set.UID = types.UID(fmt.Sprint("set-", p.uid))
	}
	for v, owner := range p.set.Revisions {
		if owner != 0 {
			s.Revisions[p.tags[v]] = p.tags[v]
		}
	}
	for i := range p.set.Pods {
		if pod := &p.set.Pods[i]; pod.Exists() {
			s.Pods = append(s.Pods, p.podOf(i, pod))
		}
	}
	return s
}

func (p *player) podOf(ordinal int, pod *statefulset.Pod) *corev1.Pod {
	made := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", simulation.TraceSet, ordinal), UID: types.UID(fmt.Sprint(p.uids[ordinal]))},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Image: p.tags[pod.Version]}}},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning},
	}
	if pod.Phase == statefulset.Ready {
		made.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	}
	if pod.Terminating {
		made.DeletionTimestamp = &metav1.Time{}
	}
	if pod.Owner == statefulset.Mine {
		made.OwnerReferences = []metav1.OwnerReference{{UID: types.UID(fmt.Sprint("set-", p.uid)), Controller: ptr.To(true)}}
	}
	return made
}
