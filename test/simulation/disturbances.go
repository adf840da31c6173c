// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Flap makes a pod unready for some time. Nothing has failed.
func (s *Cluster) Flap(p *corev1.Pod, long time.Duration) {
	s.Note("%s is not ready for %s", p.Name, long)
	if s.Sets.flaps == nil {
		s.Sets.flaps = map[types.UID]time.Time{}
	}
	s.Sets.flaps[p.UID] = s.Clock.Now().Add(long)
	if IsReady(p) {
		s.Sets.SetReady(p, false)
	}
	s.Look()
}

// Blip makes all pods of a set unready for some time, as if their zone could not be reached.
func (s *Cluster) Blip(set string, long time.Duration) {
	for _, p := range s.PodsOf(set) {
		if IsReady(p) {
			s.Flap(p, long)
		}
	}
}

// Stray creates a pod with all the labels of a subset's pods that no child owns: it has no owner, or one that is gone.
func (s *World) Stray(subset, name, owner string) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: s.Child(subset) + "-" + name, UID: types.UID(s.API.Next()), CreationTimestamp: s.API.Now(),
			Labels: map[string]string{"app": "web", v1alpha1.LabelName: s.Name, v1alpha1.LabelSubset: subset},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "v1" + s.mark}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}
	if owner != "" {
		p.OwnerReferences = controlledBy(types.UID(owner))
	}
	s.Note("a stray: %s, of %q", p.Name, owner)
	s.API.PutPod(p)
	return p
}

// flapping reports whether a flap of the pod has not ended yet.
func (s *Sets) flapping(p *corev1.Pod) bool { return s.api.Now().Time.Before(s.flaps[p.UID]) }

// RestartServer restarts the API server. Each watch resumes at its own time: the controller's cache sees no changes of a
// kind for the given time, and the StatefulSet controller none of its revisions. (The StatefulSet controller sees its
// sets and pods again, measured, up to 20 seconds earlier.)
func (s *Cluster) RestartServer(revisions time.Duration, kinds map[string]time.Duration) {
	s.Note("the API server restarts: revisions of sets are not heard of for %s, by the controller for %v", revisions, kinds)
	now := s.Clock.Now()
	s.API.silentUntil = map[string]time.Time{}
	for kind, long := range kinds {
		s.API.silentUntil[kind] = now.Add(long)
	}
	s.Sets.lags, s.Sets.shown = now.Add(revisions), map[string]map[string]ownRevision{}
	for set, own := range s.API.own {
		shown := map[string]ownRevision{}
		for hash, r := range own {
			shown[hash] = *r
		}
		s.Sets.shown[set] = shown
	}
}

// Quiet ends all disturbances.
func (s *Cluster) Quiet() {
	s.API.Fail, s.API.Lost, s.API.Crash, s.API.silentUntil = nil, nil, 0, nil
	s.Sets.Down, s.Sets.flaps, s.Sets.shown = nil, nil, nil
	s.Note("all that disturbs is over")
}

// kind reports whether there are no disturbances now.
func (s *Cluster) kind() bool {
	return len(s.Sets.Down) == 0 && len(s.Sets.flaps) == 0 && s.Sets.shown == nil && s.API.Unkept == nil && len(s.API.Refuse) == 0
}

// revisionsOf returns a set's own revisions as the StatefulSet controller sees them.
func (s *Sets) revisionsOf(set string) map[string]ownRevision {
	if s.shown != nil && s.api.Now().Time.Before(s.lags) {
		return s.shown[set]
	}
	s.shown = nil
	shown := map[string]ownRevision{}
	for hash, r := range s.api.own[set] {
		shown[hash] = *r
	}
	return shown
}

// cameUpUnreleased records a replica that a set created on its update revision below its partition, because it has
// forgotten the other revision.
func (o *Oracle) cameUpUnreleased(set *appsv1.StatefulSet, position int32, pod *corev1.Pod) bool {
	if o.api.forgot[set.UID] == "" || position >= *set.Spec.UpdateStrategy.RollingUpdate.Partition {
		return false
	}
	o.Checked["came up unreleased"]++
	o.unreleased[pod.UID] = pod.Name
	return true
}

// lookUnreleased removes replicas that are gone, or that were released since.
func (o *Oracle) lookUnreleased() {
	maps.DeleteFunc(o.unreleased, func(uid types.UID, name string) bool {
		p, u := o.api.Live.Pods[name], o.api.Live.Sets[setOf(name)]
		return p == nil || p.UID != uid || u == nil || !o.ownsPod(o.api.Live, p) || OrdinalOf(setOf(name), name) >= partitionIn(u)
	})
}

// seemsFinished reports whether a set has forgotten, all of it is released, or was before its partition was raised, and
// none of its replicas has another revision anymore. Nobody can distinguish that from a set that has finished and has an
// unready replica since. So if its partition is raised before it has finished, the controller cannot know what to
// protect.
func (o *Oracle) seemsFinished(set *appsv1.StatefulSet) bool {
	if o.api.forgot[set.UID] == "" {
		return false
	}
	there := int32(0)
	for name, p := range o.api.Live.Pods {
		if OrdinalOf(set.Name, name) < 0 {
			continue
		}
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision {
			return false
		}
		there++
	}
	released := *set.Spec.UpdateStrategy.RollingUpdate.Partition == 0
	return released || there == *set.Spec.Replicas && there > 0 && !o.hasUnreleased(set.Name)
}

// hasUnreleased reports whether the set has such replicas.
func (o *Oracle) hasUnreleased(set string) bool {
	o.lookUnreleased()
	for _, name := range o.unreleased {
		if setOf(name) == set {
			return true
		}
	}
	return false
}

// judgeKept: after all faults have stopped, and when there is nothing left to do, no protected replica has a revision to
// which it was never released. (While a replica is not ready, or a pause freezes everything, this may have to wait.)
func (o *Oracle) judgeKept() {
	o.Checked["kept"]++
	o.lookUnreleased()
	parent := o.parent(o.api.Live)
	if len(o.unreleased) == 0 || parent.Spec.Paused {
		return
	}
	for _, s := range o.seeIn(o.api.Live, nil) {
		for position := range s.desired {
			if p := s.pods[position]; p == nil || !IsReady(p) {
				return
			}
		}
	}
	for _, name := range slices.Sorted(maps.Values(o.unreleased)) {
		if content := PodContent(o.api.Live.Pods[name]); !o.fate(o.subsetOf(setOf(name))).protects(content) {
			o.fail("%s stays on %s, which it was not released to", name, content)
		}
	}
}

// judgeTakingBack: a replica that came up unreleased is deleted when its set remembers its revision, within the rules:
// not while the rollout is paused or has failed; an available one only as far as the ledger allows, which under Manual is
// one of a subset at a time; and none that an ordered set would not create again.
func (o *Oracle) judgeTakingBack(all []*observedSubset, s *observedSubset, p *corev1.Pod) {
	o.Checked["taken back"]++
	parent, position := o.parent(o.api.Cached), OrdinalOf(s.set.Name, p.Name)
	revision := s.set.Annotations[v1alpha1.AnnotationRevision]
	forced := coordinated(parent) && o.moves(v1alpha1.AnnotationForceUpdate, revision)
	switch failed := o.failedIn(all); {
	case parent.Spec.Paused:
		o.fail("the controller takes back %s while paused", p.Name)
	case failed != "" && coordinated(parent) && !forced:
		o.fail("the controller takes back %s, though %s failed", p.Name, failed)
	case s.set.Status.CurrentRevision == s.set.Status.UpdateRevision && contentOf(&s.set.Spec.Template) == PodContent(p) && !s.runsAll():
		o.fail("the controller takes back %s, of a set that would make it as it is", p.Name)
	}
	for below := range position {
		if q := s.pods[below]; s.ordered() && (q == nil || !IsReady(q)) {
			o.fail("the controller takes back %s, which would not be made again: %d is not ready", p.Name, below)
		}
	}
	if !s.available(o, p) || forced {
		return
	}
	if coordinated(parent) {
		if down, most := 1+o.away(all), maxUnavailable(parent); down > most {
			o.fail("I2: taking back %s makes %d unavailable; maxUnavailable is %d", p.Name, down, most)
		}
		if down, most := 1+o.away([]*observedSubset{s}), perSubset(parent, s); down > most {
			o.fail("I2: taking back %s makes %d of %s unavailable; maxUnavailablePerSubset is %d", p.Name, down, s.name, most)
		}
		return
	}
	if o.away([]*observedSubset{s}) > 0 {
		o.fail("the controller takes back %s, which is available, beside another that is not", p.Name)
	}
}

// away returns how many of the wanted replicas are not available.
func (o *Oracle) away(all []*observedSubset) int {
	away := 0
	for _, s := range all {
		away += int(s.desired)
		for position, p := range s.pods {
			if position < s.desired && s.available(o, p) {
				away--
			}
		}
	}
	return away
}

// runsAll reports whether the set has all its replicas, on its update revision. It then considers itself finished, and
// would forget again whenever it is reminded, until one of the replicas is gone.
func (s *observedSubset) runsAll() bool {
	for _, p := range s.pods {
		if p.Labels[appsv1.ControllerRevisionHashLabelKey] != s.set.Status.UpdateRevision {
			return false
		}
	}
	return len(s.pods) == int(*s.set.Spec.Replicas)
}
