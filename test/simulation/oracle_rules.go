// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// applies judges a child that the controller writes. before is nil for a new child.
func (o *Oracle) applies(before, after *unstructured.Unstructured) {
	parent := o.parent(o.api.Cached)
	name, revision := after.GetName(), after.GetAnnotations()[v1alpha1.AnnotationRevision]
	last := o.last[name]
	delete(o.last, name)
	if !coordinated(parent) || !o.protecting() || before == nil || replicasIn(before) == 0 {
		return
	}
	if status := parent.Status.Rollout; status != nil {
		o.last[name] = lastWrite{string(before.GetUID()), revision, rolloutKey(status)}
	}
	then, now := o.see(before), o.see(after)
	here := slices.IndexFunc(now, func(s *observedSubset) bool { return s.set.Name == name })
	if here < 0 {
		return
	}
	if last.uid != "" && last == o.last[name] {
		o.judgeRise(before, now[here])
	}
	forced := o.moves(v1alpha1.AnnotationForceUpdate, revision) || o.moves(v1alpha1.AnnotationForceUpdate, parent.Status.UpdateRevision)
	o.judgeGrowth(replicasIn(before), now, here, forced)
	o.judgeLedger(then, now, forced, name)
	if releases(then[here], now[here]) {
		o.judgeRelease(before, now, here, forced)
	}
}

// judgeRise: I4. A partition may rise over new replicas. If the spec asks for another revision than the child's, the
// latter is not rolled out anymore: replicas that it had released and that were not updated yet are protected again.
func (o *Oracle) judgeRise(before *unstructured.Unstructured, now *observedSubset) {
	if now.content != now.wanted {
		return
	}
	o.Checked["I4"]++
	was, partition := partitionIn(before), now.partition()
	if replicas := *now.set.Spec.Replicas; replicas > replicasIn(before) && partition <= replicas {
		return
	}
	parent := o.parent(o.api.Cached)
	returned := o.goesBack(o.api.Cached) && partition == ordinals(strategyOf(parent).Partition, now.desired) // as asked again, when nothing is left to go back
	if partition > was && partition != now.target && !returned && !parent.Spec.Paused {
		o.fail("I4: the partition of %s rises from %d to %d, though its target is %d", now.set.Name, was, partition, now.target)
	}
}

// judgeGrowth: replicas that a scale-up adds in the middle of a rollout are released like all others.
func (o *Oracle) judgeGrowth(was int32, now []*observedSubset, here int, forced bool) {
	s := now[here]
	added := *s.set.Spec.Replicas - max(was, s.partition())
	if added <= 0 || o.goesBack(o.api.Cached) || s.content != s.wanted || o.proven(s) {
		return
	}
	o.Checked["growth"]++
	if failed := o.failedIn(now); failed != "" && !forced {
		o.fail("%s grows by %d on %s, though %s failed", s.set.Name, added, s.content, failed)
	}
	if most := maxUnavailable(o.parent(o.api.Cached)); int(added) > most {
		o.fail("%s grows by %d on %s; maxUnavailable is %d", s.set.Name, added, s.content, most)
	}
	if most := perSubset(o.parent(o.api.Cached), s); int(added) > most {
		o.fail("%s grows by %d on %s; maxUnavailablePerSubset is %d", s.set.Name, added, s.content, most)
	}
}

// proven reports whether the subset protects what the spec asks for.
func (o *Oracle) proven(s *observedSubset) bool { return o.fate(s.name).protects(s.wanted) }

// judgeLedger: I2, for a write that makes more replicas unavailable than before.
func (o *Oracle) judgeLedger(then, now []*observedSubset, forced bool, name string) {
	most := maxUnavailable(o.parent(o.api.Cached))
	wereDown, wereMissing := o.unavailable(then)
	down, missing := o.unavailable(now)
	if adaptive(o.parent(o.api.Cached)) {
		wereDown, down = o.unavailableAnywhere(then), o.unavailableAnywhere(now)
		wereMissing, missing = wereDown, down
	}
	if down > wereDown || missing > wereMissing {
		o.Checked["I2"]++
	}
	if !forced && (down > wereDown && down > most || missing > wereMissing && missing > most) {
		o.fail("I2: writing %s makes %d unavailable, %d with what is surplus (%d and %d before); maxUnavailable is %d",
			name, down, missing, wereDown, wereMissing, most)
	}
	for i := range now {
		o.judgeLedgerOf(then, now[i], forced, name)
	}
}

// judgeLedgerOf: the same, of one subset.
func (o *Oracle) judgeLedgerOf(then []*observedSubset, s *observedSubset, forced bool, name string) {
	was := slices.IndexFunc(then, func(t *observedSubset) bool { return t.name == s.name })
	most := perSubset(o.parent(o.api.Cached), s)
	if was < 0 || forced || most == math.MaxInt {
		return
	}
	wereDown, wereMissing := o.unavailable(then[was : was+1])
	down, missing := o.unavailable([]*observedSubset{s})
	if down > wereDown || missing > wereMissing {
		o.Checked["I2 of a subset"]++
	}
	if down > wereDown && down > most || missing > wereMissing && missing > most {
		o.fail("I2: writing %s makes %d of %s unavailable, %d with what is surplus (%d and %d before); maxUnavailablePerSubset is %d",
			name, down, s.name, missing, wereDown, wereMissing, most)
	}
}

// judgeRelease judges the release of a replica of one subset.
func (o *Oracle) judgeRelease(before *unstructured.Unstructured, now []*observedSubset, here int, forced bool) {
	parent, s := o.parent(o.api.Cached), now[here]
	o.Checked["release"]++
	if parent.Spec.Paused {
		o.fail("%s is released while paused", s.set.Name)
	}
	if o.behind(s.name, before) {
		o.Checked["behind"]++
		return // it comes back on the protected revision
	}
	status, revision := parent.Status.Rollout, s.set.Annotations[v1alpha1.AnnotationRevision]
	again := o.releasedAgain(before, s, forced)
	if status == nil || status.Revision != revision || !again && before.GetAnnotations()[v1alpha1.AnnotationRevision] != revision {
		o.fail("%s is released before %s is staged and on record", s.set.Name, revision)
	}
	if o.api.typed(before).Status.ObservedGeneration != before.GetGeneration() {
		o.fail("%s is released before its controller has observed it", s.set.Name)
	}
	if failed := o.failedIn(now); failed != "" && !forced {
		o.fail("%s is released, though %s failed", s.set.Name, failed)
	}
	if again {
		o.Checked["released again"]++
		return
	}
	if o.gathers {
		o.fail("%s is released, and the pass before said that nothing waits: the event may have waited for others", s.set.Name)
	}
	if o.outOfTurn(before, s) {
		o.Checked["out of turn"]++
		return
	}
	o.judgeOrder(now, here, forced)
	if !forced {
		o.judgeSkew(now, here)
	}
}

// outOfTurn reports whether all released replicas are broken or, on the way back, unavailable.
func (o *Oracle) outOfTurn(before *unstructured.Unstructured, s *observedSubset) bool {
	for position := s.partition(); position < min(partitionIn(before), s.desired, *s.set.Spec.Replicas); position++ {
		p := s.pods[position]
		switch {
		case p != nil && PodContent(p) == s.content:
		case p != nil && o.broken(s, p):
		case o.goesBack(o.api.Cached) && (p == nil || !s.available(o, p)):
		default:
			return false
		}
	}
	return true
}

// broken reports whether replacing the pod costs nothing: it failed, or took longer than the deadline, or was never ready
// and has a revision that is not wanted.
func (o *Oracle) broken(s *observedSubset, p *corev1.Pod) bool {
	if IsReady(p) || p.DeletionTimestamp != nil {
		return false
	}
	neverReady := true
	for _, c := range p.Status.Conditions {
		neverReady = p.Status.StartTime != nil && p.Status.StartTime.Equal(&c.LastTransitionTime)
	}
	f, hash := o.fate(s.name), p.Labels[appsv1.ControllerRevisionHashLabelKey]
	// A template that was corrected before any replica was ready may not have reached all. Until the oracle knows what it
	// left behind, the set shows that.
	leftBehind := f.corrected && hash != s.set.Status.UpdateRevision && hash != s.set.Status.CurrentRevision
	asked := PodContent(p) == s.content || f.protects(PodContent(p)) && !leftBehind
	return hasFailed(p) || !unreadySince(p).Add(deadlineOf(o.parent(o.api.Cached))).After(o.api.Now().Time) || neverReady && !asked
}

// unreadySince returns since when an unready pod is unready, at the earliest since its creation.
func unreadySince(p *corev1.Pod) time.Time {
	since := p.CreationTimestamp.Time
	for _, c := range p.Status.Conditions {
		since = c.LastTransitionTime.Time
	}
	return since
}

func deadlineOf(parent *v1alpha1.UnitedDeployment) time.Duration {
	return time.Duration(ptr.Deref(parent.Spec.ProgressDeadlineSeconds, 600)) * time.Second
}

// releasedAgain reports whether all of the child was released to a first template with which it does not come up, and now
// is released to another one.
func (o *Oracle) releasedAgain(before *unstructured.Unstructured, now *observedSubset, forced bool) bool {
	was := contentOf(&o.api.typed(before).Spec.Template)
	if told := before.GetAnnotations()[v1alpha1.AnnotationProtectedRevision] != ""; told || o.settledSet(before) ||
		partitionIn(before) > 0 || now.target > 0 {
		return false
	}
	for _, p := range now.pods {
		if PodContent(p) == was && IsReady(p) && !forced {
			return false
		}
	}
	return true
}

// judgeOrder: I5. Force ignores health: an earlier subset is done if it only waits for that.
func (o *Oracle) judgeOrder(now []*observedSubset, here int, forced bool) {
	if strategyOf(o.parent(o.api.Cached)).Order != v1alpha1.SequentialOrder {
		return
	}
	o.Checked["I5"]++
	for _, ahead := range now[:here] {
		if forced && o.onlyHealthIsMissing(ahead) {
			continue
		}
		if !ahead.removed && ahead.updatedAvailable(o) < ahead.size() {
			o.fail("I5: %s is released, though of %s %d of %d are updated and available",
				now[here].set.Name, ahead.set.Name, ahead.updatedAvailable(o), ahead.size())
		}
	}
}

// judgeSkew: I3. Of the n replicas of a subset at most n * (slowest share + maxSkew) may be released or updated; if that
// allows no release, the slowest subset may release one. (An ordered child updates one of the released replicas at a
// time.)
func (o *Oracle) judgeSkew(now []*observedSubset, here int) {
	skew := strategyOf(o.parent(o.api.Cached)).MaxSkew
	s := now[here]
	if skew == "" || !skewed(o.parent(o.api.Cached), s.name) {
		return
	}
	o.Checked["I3"]++
	most, slowest := o.skewAllows(s, now, skew)
	if s.releasedOrUpdated() > most {
		o.fail("I3: %d of %d replicas of %s are released, at most %d may be: the slowest share is %.2f, maxSkew %s",
			s.releasedOrUpdated(), s.size(), s.set.Name, most, slowest, skew)
	}
}

// skewAllows returns how many replicas of a subset may be released or updated, and the smallest share.
func (o *Oracle) skewAllows(s *observedSubset, all []*observedSubset, skew string) (most int, slowest float64) {
	slowest = 2
	for _, other := range all {
		if !other.removed && other.size() > 0 && skewed(o.parent(o.api.Cached), other.name) {
			slowest = min(slowest, float64(other.updatedAvailable(o))/float64(other.size()))
		}
	}
	n := float64(s.size())
	most = int(math.Floor(n*(slowest+float64(percentIn(skew))/100) + 1e-9))
	if float64(s.updatedAvailable(o)) <= slowest*n+1e-9 {
		most = max(most, s.updatedAvailable(o)+1)
	}
	return most, slowest
}

// stray reports whether a protected pod is broken, and has neither of the revisions of its set.
func (o *Oracle) stray(s *observedSubset, position int32, p *corev1.Pod) bool {
	hash := p.Labels[appsv1.ControllerRevisionHashLabelKey]
	asked := hash == s.set.Status.UpdateRevision || hash == s.set.Status.CurrentRevision && !o.proven(s)
	return position < s.partition() && position < *s.set.Spec.Replicas && o.broken(s, p) && !asked
}

// repaired reports whether a pod is replaced on the way back: an unavailable one of a set that creates pods only on the
// revision of the spec.
func (o *Oracle) repaired(s *observedSubset, position int32, p *corev1.Pod) bool {
	return o.goesBack(o.api.Cached) && position >= s.target && !s.available(o, p) && PodContent(p) != s.content &&
		s.set.Status.CurrentRevision == s.set.Status.UpdateRevision
}

// judgeDeletion judges the deletion of a released replica.
func (o *Oracle) judgeDeletion(set, pod string) {
	parent := o.parent(o.api.Cached)
	now := o.see(nil)
	here := slices.IndexFunc(now, func(s *observedSubset) bool { return s.set.Name == set })
	if here < 0 {
		o.fail("the controller deletes %s, of a set that it does not see", pod)
		return
	}
	s, position := now[here], OrdinalOf(set, pod)
	p := s.pods[position]
	o.Checked["deletion"]++
	switch {
	case p == nil:
		o.fail("the controller deletes %s, which it does not see", pod)
		return
	case o.unreleased[p.UID] != "":
		o.judgeTakingBack(now, s, p)
		return
	case !parent.Spec.Paused && !s.removed && (o.stray(s, position, p) || o.repaired(s, position, p)):
		return // it is unavailable, and comes back on the protected revision
	case parent.Spec.Paused, s.removed, position < s.partition(), PodContent(p) == s.content:
		o.fail("the controller deletes %s, which is not released or is updated: %s", pod, s)
	}
	if o.moves(v1alpha1.AnnotationForceUpdate, s.set.Annotations[v1alpha1.AnnotationRevision]) {
		return
	}
	if failed := o.failedIn(now); failed != "" {
		o.fail("the controller deletes %s, though %s failed", pod, failed)
	}
	if !s.available(o, p) {
		if !o.broken(s, p) && !o.goesBack(o.api.Cached) {
			o.fail("the controller deletes %s, which is merely unready", pod)
		}
		return
	}
	if down, most := 1+o.away(now), maxUnavailable(parent); down > most {
		o.fail("I2: deleting %s makes %d unavailable; maxUnavailable is %d", pod, down, most)
	}
	if down, most := 1+o.away([]*observedSubset{s}), perSubset(parent, s); down > most {
		o.fail("I2: deleting %s makes %d of %s unavailable; maxUnavailablePerSubset is %d", pod, down, s.name, most)
	}
}

// judgeRemoval: the child of a removed subset is drained first.
func (o *Oracle) judgeRemoval(u *unstructured.Unstructured) {
	if !coordinated(o.parent(o.api.Cached)) || !o.protecting() {
		return
	}
	o.Checked["removal"]++
	for _, p := range o.api.Cached.Pods {
		if owner := metav1.GetControllerOf(p); owner != nil && owner.UID == u.GetUID() {
			o.fail("the controller removes %s, which still has %s", u.GetName(), p.Name)
		}
	}
}

// protecting reports whether the controller knows that there is something to protect.
func (o *Oracle) protecting() bool { return o.initialized && o.sawInitialized }

// judgeStatusWrite judges a status that the controller writes: how a rollout proceeds from step to step.
func (o *Oracle) judgeStatusWrite(before, after *v1alpha1.UnitedDeploymentStatus) {
	was, is := before.Rollout, after.Rollout
	o.sawBefore(before, after)
	o.judgeMoved(after)
	o.collects = collects{may: o.collects.may, told: true}
	if is == nil {
		return
	}
	steps := strategyOf(o.parent(o.api.Cached)).Steps
	from, over := 0, false
	if was != nil && rolloutKey(was) == rolloutKey(is) {
		from, over = int(was.Step), was.Phase == v1alpha1.RolloutDone
	}
	o.judgeSteps(from, over, is, steps)
	o.soakAfterStatus(was, is)
	if was == nil || rolloutKey(was) != rolloutKey(is) || was.Step != is.Step || was.StepKey != is.StepKey {
		o.passed[rolloutKey(is)] = o.did(o.api.Cached, steps[:min(int(is.Step), len(steps))])
		delete(o.reached, rolloutKey(is))
	}
	if is.ReachedTime != nil && int(is.Step) < len(steps) {
		if _, known := o.reached[rolloutKey(is)]; !known {
			o.reached[rolloutKey(is)] = o.api.Now().Time
		}
	}
	if is.ApprovalKey != "" {
		o.published[is.ApprovalKey] = fmt.Sprint(rolloutKey(is), " ", is.Step)
	}
}

// judgeMoved: what was there before a rollout neither forces nor promotes it.
func (o *Oracle) judgeMoved(after *v1alpha1.UnitedDeploymentStatus) {
	is := after.Rollout
	if is == nil || is.Revision != after.UpdateRevision {
		return // it is paused, and about the previous revision
	}
	if !o.moves(v1alpha1.AnnotationForceUpdate, is.Revision) && is.Forced {
		o.fail("the rollout is forced by what was there before, or is for another one")
	}
	switch promoted := o.moves(v1alpha1.AnnotationPromote, is.Revision); {
	case is.Promoted && !promoted:
		o.fail("the rollout is promoted by what was there before, or is for another one")
	case is.Promoted:
		o.Checked["promoted"]++
	}
}

// judgeSteps: a rollout continues after a step when that is reached and its pause is over. over: it had ended before.
func (o *Oracle) judgeSteps(from int, over bool, is *v1alpha1.RolloutStatus, steps []v1alpha1.RolloutStep) {
	now := o.see(nil)
	if replicasOf(o.parent(o.api.Cached)) == 0 && int(is.Step) > from {
		o.fail("the rollout goes from step %d to %d without replicas", from, is.Step)
	}
	if int(is.Step) <= from || from >= len(steps) || o.goesBack(o.api.Cached) || o.goesBack(o.Before) {
		return
	}
	if (over || !slices.ContainsFunc(steps[from:], func(s v1alpha1.RolloutStep) bool { return s.Pause != nil })) && o.nothingElse(now) {
		return // no step holds anything any more; one that is added to what is over never did
	}
	o.Checked["step"]++
	promoted := o.moves(v1alpha1.AnnotationPromote, is.Revision)
	if int(is.Step) != from+1 && (!promoted || int(is.Step) != len(steps)) {
		o.fail("the rollout goes from step %d to %d", from, is.Step)
	}
	for _, s := range now {
		target := o.targetOf(s, steps[:from+1])
		if n := max(0, s.desired-target); s.updatedAvailableFrom(o, target) < int(n) {
			o.fail("step %d is over, but of %s only %d of %d are updated and available", from, s.set.Name, s.updatedAvailableFrom(o, target), n)
		}
	}
	switch pause := steps[from].Pause; {
	case pause == nil, promoted:
	case pause.Duration != "":
		d, err := time.ParseDuration(pause.Duration)
		if at, known := o.reached[rolloutKey(is)]; err != nil || !known || o.api.Now().Sub(at) < d-2*time.Second {
			o.fail("step %d is over before its pause of %s is; it was reached at %s", from, pause.Duration, at)
		}
		o.judgeSoak(from, d)
	default:
		key := o.parent(o.api.Cached).Annotations[v1alpha1.AnnotationApproved]
		if o.published[key] != fmt.Sprint(rolloutKey(is), " ", from) {
			o.fail("step %d is over with the approval %q, which is for %q", from, key, o.published[key])
		}
	}
}

func (o *Oracle) targetOf(s *observedSubset, steps []v1alpha1.RolloutStep) int32 {
	target := int32(math.MaxInt32)
	for _, step := range steps {
		if slices.Contains(step.Subsets, v1alpha1.AllSubsets) || slices.Contains(step.Subsets, s.name) {
			target = min(target, stepPartition(&step, s.desired))
		}
	}
	return max(target, ordinals(strategyOf(o.parent(o.api.Cached)).Partition, s.desired))
}

// failedIn returns the name of a replica that stops the rollout; "" if there is none.
func (o *Oracle) failedIn(all []*observedSubset) string {
	status := o.parent(o.api.Cached).Status.Rollout
	if o.goesBack(o.api.Cached) {
		return "" // what it goes back to is proven
	}
	for _, s := range all {
		if s.removed || status == nil || status.StartTime == nil || s.set.Annotations[v1alpha1.AnnotationRevision] != status.Revision {
			continue
		}
		for position, p := range s.pods {
			if position < s.desired && PodContent(p) == s.content && p.DeletionTimestamp == nil && !IsReady(p) && hasFailed(p) {
				return p.Name
			}
		}
	}
	return ""
}

func hasFailed(p *corev1.Pod) bool { return len(p.Status.ContainerStatuses) > 0 }
