// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// observedSubset is a subset, and what is known of its pods.
type observedSubset struct {
	name    string
	desired int32
	removed bool
	target  int32
	set     *appsv1.StatefulSet
	// content is that of the child's template, wanted that of the spec.
	content, wanted string
	pods            map[int32]*corev1.Pod
	// wait is minReadySeconds.
	wait time.Duration
}

// see returns what the controller sees, including its writes; instead, if not nil, replaces the child with its name.
func (o *Oracle) see(instead *unstructured.Unstructured) []*observedSubset {
	return o.seeIn(o.api.Cached, instead)
}

func (o *Oracle) seeIn(from Objects, instead *unstructured.Unstructured) []*observedSubset {
	var all []*observedSubset
	lines := o.targets(from)
	add := func(name string, u *unstructured.Unstructured, removed bool) {
		if instead != nil && instead.GetName() == o.childOf(name) {
			u = instead
		}
		s := &observedSubset{name: name, removed: removed, target: lines[name].partition, desired: lines[name].replicas, pods: map[int32]*corev1.Pod{}}
		all = append(all, s)
		if u == nil {
			s.set = &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: o.childOf(name)}}
			return
		}
		s.set = o.api.typed(u)
		s.content = contentOf(&s.set.Spec.Template)
		s.wait = time.Duration(s.set.Spec.MinReadySeconds) * time.Second
		if was := o.Before.Sets[s.set.Name]; was != nil {
			// A longer wait that comes with a write of this pass was requested by the user.
			s.wait = time.Duration(o.api.typed(was).Spec.MinReadySeconds) * time.Second
		}
		for _, p := range from.Pods {
			owner, position := metav1.GetControllerOf(p), OrdinalOf(s.set.Name, p.Name)
			if owner != nil && owner.UID == u.GetUID() && position >= 0 && position < replicasIn(u) {
				s.pods[position] = p
			}
		}
	}
	for i := range o.parent(from).Spec.Topology.Subsets {
		sub := &o.parent(from).Spec.Topology.Subsets[i]
		add(sub.Name, o.child(from, sub.Name), false)
		all[i].wanted = o.api.wanted(o.parent(from), sub)
	}
	for name, u := range from.Sets {
		if _, known := lines[o.subsetOf(name)]; !known && o.owns(o.api.typed(u)) {
			add(o.subsetOf(name), u, true)
		}
	}
	return all
}

func (s *observedSubset) String() string {
	return fmt.Sprintf("%s partition %d of %d, target %d, on %s", s.set.Name, s.partition(), s.desired, s.target, s.content)
}

func (s *observedSubset) partition() int32 {
	if s.set.Spec.UpdateStrategy.RollingUpdate == nil {
		return 0
	}
	return *s.set.Spec.UpdateStrategy.RollingUpdate.Partition
}

func (s *observedSubset) ordered() bool {
	return s.set.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
}

// size returns how many replicas the current step releases.
func (s *observedSubset) size() int { return int(max(0, s.desired-s.target)) }

// updatedAvailable returns how many of those are updated and available.
func (s *observedSubset) updatedAvailable(o *Oracle) int { return s.updatedAvailableFrom(o, s.target) }

func (s *observedSubset) updatedAvailableFrom(o *Oracle, target int32) int {
	count := 0
	for position, p := range s.pods {
		if position >= target && position < s.desired && PodContent(p) == s.content && s.content == s.wanted && s.available(o, p) {
			count++
		}
	}
	return count
}

// available reports whether the pod has been ready for minReadySeconds, and is not terminating.
func (s *observedSubset) available(o *Oracle, p *corev1.Pod) bool {
	since, ready := readySince(p)
	return o.reserved(p) || ready && p.DeletionTimestamp == nil && !since.Add(s.wait).After(o.api.Now().Time)
}

// onlyHealthIsMissing reports whether everything that the current step releases of a subset is released, and no replica
// is being replaced: the replicas that are not updated and available have failed, or belong to an ordered child that
// updates nothing because an unreleased replica is unavailable.
func (o *Oracle) onlyHealthIsMissing(s *observedSubset) bool {
	stands := false
	for position := range s.partition() {
		p := s.pods[position]
		stands = stands || s.ordered() && position < s.desired && (p == nil || !s.available(o, p))
	}
	for position := s.target; position < s.desired; position++ {
		p := s.pods[position]
		updated := p != nil && PodContent(p) == s.content && s.content == s.wanted
		switch {
		case position < s.partition():
			return false
		case updated && (s.available(o, p) || o.broken(s, p)), stands:
		default:
			return false
		}
	}
	return true
}

// releases reports whether a write releases replicas to the update revision. (Replicas that scaling adds are not
// released: they did not exist.)
func releases(then, now *observedSubset) bool {
	for position := now.partition(); position < min(*then.set.Spec.Replicas, *now.set.Spec.Replicas, now.desired); position++ {
		was := position >= then.partition() && then.content == now.content
		if p := now.pods[position]; !was && (p == nil || PodContent(p) != now.content) {
			return true
		}
	}
	return false
}

// releasedOrUpdated returns how many of the replicas that the step releases are released, or updated already.
func (s *observedSubset) releasedOrUpdated() int {
	count := 0
	for position := s.target; position < min(s.desired, *s.set.Spec.Replicas); position++ {
		p := s.pods[position]
		if position >= s.partition() || p != nil && PodContent(p) == s.content {
			count++
		}
	}
	return count
}

// nothingElse reports whether all pods have the revision of the spec, and missing ones can have no other, because their
// set knows no other. Then a step can hold nothing. (A deleted child is created on the protected revision.)
func (o *Oracle) nothingElse(all []*observedSubset) bool {
	for _, s := range all {
		for _, p := range s.pods {
			if PodContent(p) != s.content || s.content != s.wanted {
				return false
			}
		}
		if s.removed || len(s.pods) >= int(s.desired) {
			continue
		}
		status := &s.set.Status
		knows := s.content == s.wanted && status.ObservedGeneration == s.set.Generation && status.CurrentRevision != "" &&
			status.CurrentRevision == status.UpdateRevision && o.api.forgot[s.set.UID] == ""
		if !knows && (s.set.UID != "" || !o.proven(s)) {
			return false
		}
	}
	return true
}

// unavailable counts the wanted replicas that are missing, not available, or released and not updated; for missing,
// surplus ones replace them.
func (o *Oracle) unavailable(all []*observedSubset) (down, missing int) {
	for _, s := range all {
		down += int(s.desired)
		missing += int(s.desired)
		for position, p := range s.pods {
			if !s.available(o, p) || position >= s.partition() && PodContent(p) != s.content {
				continue
			}
			missing--
			if position < s.desired {
				down--
			}
		}
	}
	return down, missing
}

// unavailableAnywhere is unavailable where it is open which subset has which replica: so many are to be available, and what
// is reserved is not.
func (o *Oracle) unavailableAnywhere(all []*observedSubset) int {
	down := int(replicasOf(o.parent(o.api.Cached)))
	for _, s := range all {
		for position, p := range s.pods {
			released := position >= s.partition() && PodContent(p) != s.content
			if position < *s.set.Spec.Replicas && s.available(o, p) && !o.reserved(p) && !released {
				down--
			}
		}
	}
	return down
}

// blocked reports whether unavailable replicas that cannot be released yet stop the rollout: they use up the ledger, or
// belong to an ordered child.
func (o *Oracle) blocked() bool {
	all := o.seeIn(o.api.Live, nil)
	most := maxUnavailable(o.parent(o.api.Live))
	down, _ := o.unavailable(all)
	for _, s := range all {
		own, _ := o.unavailable([]*observedSubset{s})
		full := down >= most || own >= perSubset(o.parent(o.api.Live), s)
		for position := range min(s.partition(), s.desired) {
			if p := s.pods[position]; (p == nil || !s.available(o, p)) && (full || s.ordered()) {
				return true
			}
		}
	}
	return false
}

// seen: the controller has seen that a set settled, and on which revision.
func (o *Oracle) seen(name string) {
	f, u := o.subsets[name], o.child(o.Before, name)
	if u == nil {
		f.corrected, f.before = false, nil
		return
	}
	if o.settledSet(u) || o.initialized && replicasIn(u) == 0 {
		f.corrected = false
	}
	if o.settledSet(u) {
		if f.finished != "" && contentOf(&o.api.typed(u).Spec.Template) == f.finished {
			f.before, f.protected, f.finished = f.protected, []string{f.finished}, ""
		}
	}
	if !o.seesUnfinished(f, u) {
		f.before = nil
	}
	now := o.child(o.api.Live, name)
	corrects := !o.initialized && !o.sawReady() || o.behind(name, u)
	if corrects && now != nil && now.GetUID() == u.GetUID() && o.api.hashOf(now) != o.api.hashOf(u) {
		f.corrected = true
	}
}

// seesUnfinished reports whether the controller sees a replica of a set with another revision than the one on which the
// subset has finished, or does not see all replicas: its cache of pods is older than that of sets. Then a set that has
// settled looks like one that has forgotten.
func (o *Oracle) seesUnfinished(f *fate, u *unstructured.Unstructured) bool {
	seen := int32(0)
	for name, p := range o.Before.Pods {
		position := OrdinalOf(u.GetName(), name)
		if position >= 0 && position < replicasIn(u) && o.ownsPod(o.Before, p) {
			seen++
			if !f.protects(PodContent(p)) {
				return true
			}
		}
	}
	exist := int32(0)
	for name := range o.api.Live.Pods {
		if position := OrdinalOf(u.GetName(), name); position >= 0 && position < replicasIn(u) {
			exist++
		}
	}
	return seen < exist
}

// sawReady reports whether the controller has seen a ready replica.
func (o *Oracle) sawReady() bool {
	for _, p := range o.Before.Pods {
		if IsReady(p) && p.DeletionTimestamp == nil && o.ownsPod(o.Before, p) {
			return true
		}
	}
	return false
}

// behind reports whether the template was corrected before any replica was ready, and the correction did not reach the
// child in time. The status that the controller saw says that the child protects the correction, and was written for a
// later spec than the child.
func (o *Oracle) behind(name string, u *unstructured.Unstructured) bool {
	parent := o.parent(o.Before)
	status := statusOf(&parent.Status, name)
	if status == nil {
		return false
	}
	annotations := u.GetAnnotations()
	content := o.ContentIn(o.Before, status.CurrentRevision)(name)
	from, err := strconv.ParseInt(annotations[v1alpha1.AnnotationParentGeneration], 10, 64)
	return err == nil && from < parent.Status.ObservedGeneration && content != "" && content != contentOf(&o.api.typed(u).Spec.Template) &&
		status.CurrentRevision != annotations[v1alpha1.AnnotationProtectedRevision]
}

// settledSet reports whether a set creates all its replicas from its template.
func (o *Oracle) settledSet(u *unstructured.Unstructured) bool {
	set := o.api.typed(u)
	return set.Status.ObservedGeneration == set.Generation && set.Status.CurrentRevision != "" &&
		set.Status.CurrentRevision == set.Status.UpdateRevision
}
