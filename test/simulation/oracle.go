// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/coordination"
)

// Oracle knows what is protected in each subset of one parent, by the text of the design and independently of the
// controller: before Initialized nothing; then the template of each child; later what the subset last finished on. It
// knows contents of pods, never names of revisions. Of objects of other parents it only knows that the controller must
// not touch them.
type Oracle struct {
	// name and uid are those of the parent.
	name        string
	uid         types.UID
	api         *API
	fail        func(format string, args ...any)
	initialized bool
	subsets     map[string]*fate

	// Before is what the controller saw when its pass began.
	Before Objects
	// wantedInPass is what that spec asks for, by subset.
	wantedInPass map[string]asked
	// wasCurrent returns the content of status.currentRevision at that time.
	wasCurrent func(subset string) string

	// contents caches the contents of revisions, which are immutable.
	contents map[contentKey]string
	// images are all images that the spec has ever had.
	images map[string]bool
	// sawInitialized: the controller knew that a replica had been ready.
	sawInitialized bool
	soak           soak
	collects       collects
	// gathers: the parent did not start this pass, and according to the last one, nothing waits for an event of a replica or
	// a child.
	gathers bool
	// unreleased are the names of pods that their set created on its update revision below its partition, because it had
	// forgotten the other one.
	unreleased map[types.UID]string
	rollouts
}

// fate is what the oracle knows of one subset.
type fate struct {
	// protected are the contents that protected replicas may have: several while the controller cannot know which one.
	protected []string
	// finished is what the subset finished on, unnoticed by the controller.
	finished string
	// before is what it protected until it finished, while the controller has seen that its set has settled, but still
	// sees a replica of that content: for the controller, the subset has not finished.
	before []string
	// corrected: the child's template was replaced before Initialized, and the set has not settled since. It may remember
	// a revision that never worked, so only the content of its template can be protected.
	corrected bool
	// complete are the contents on which all its replicas have ever been ready.
	complete []string
	// asked are the requests of the user since the child last complied.
	asked []asked
}

type asked struct {
	generation          int64
	partition, replicas int32
}

func newOracle(parent *v1alpha1.UnitedDeployment, api *API, fail func(string, ...any)) *Oracle {
	o := &Oracle{name: parent.Name, uid: parent.UID, api: api, fail: fail, subsets: map[string]*fate{}, rollouts: newRollouts(),
		contents: map[contentKey]string{}, unreleased: map[types.UID]string{}, images: map[string]bool{}}
	api.oracle = o
	return o
}

func (o *Oracle) fate(subset string) *fate {
	if o.subsets[subset] == nil {
		o.subsets[subset] = &fate{}
	}
	return o.subsets[subset]
}

func adaptive(parent *v1alpha1.UnitedDeployment) bool {
	strategy := parent.Spec.Topology.ScheduleStrategy
	return strategy != nil && strategy.Type == v1alpha1.AdaptiveScheduleStrategy
}

// shares returns how many replicas each subset of a parent gets.
func shares(parent *v1alpha1.UnitedDeployment) map[string]int32 {
	result := allocation.Split(replicasOf(parent), parent.Spec.Topology.Subsets)
	all := map[string]int32{}
	for i, s := range parent.Spec.Topology.Subsets {
		all[s.Name] = result.Replicas[i]
		for _, status := range parent.Status.Subsets {
			if adaptive(parent) && status.Name == s.Name {
				all[s.Name] = status.DesiredReplicas // that depends on what was, and has tests of its own
			}
		}
	}
	return all
}

// targets returns the replicas and the partition that a parent asks for, by subset. In a coordinated rollout, these are
// those of its current step.
func (o *Oracle) targets(from Objects) map[string]asked {
	parent := o.parent(from)
	all := map[string]asked{}
	for name, replicas := range shares(parent) {
		partition := int32(0)
		if coordinated(parent) {
			partition = o.target(from, name, replicas)
		} else {
			line, _ := coordination.Manual(parent.Spec.UpdateStrategy.ManualUpdate, name, replicas, "")
			partition = line.Partition
		}
		all[name] = asked{parent.Generation, partition, replicas}
	}
	return all
}

// specChanged records what the user asks for now.
func (o *Oracle) specChanged() {
	now, parent := o.targets(o.api.Live), o.parent(o.api.Live)
	for i := range parent.Spec.Topology.Subsets {
		o.images[imageOf(o.api.wanted(parent, &parent.Spec.Topology.Subsets[i]))] = true
	}
	for name := range now {
		o.fate(name)
	}
	for name, f := range o.subsets {
		line, ok := now[name]
		if !ok {
			line = asked{generation: o.parent(o.api.Live).Generation} // the subset is gone
		}
		if n := len(f.asked); n == 0 || f.asked[n-1] != line {
			f.asked = append(f.asked, line)
		}
	}
}

// floor returns the partition below which nothing may happen: the lowest one asked for since the child last complied.
func (f *fate) floor() (partition, replicas int32) {
	for i, a := range f.asked {
		if i == 0 || a.partition < partition {
			partition = a.partition
		}
		if i == 0 || a.replicas < replicas {
			replicas = a.replicas
		}
	}
	return partition, replicas
}

// released reports whether something that was asked for since released the position. A request with no more replicas than
// that releases nothing there: at zero replicas nothing is released, whatever the partition.
func (f *fate) released(position int32) bool {
	return slices.ContainsFunc(f.asked, func(a asked) bool { return a.partition <= position && position < a.replicas })
}

func (f *fate) protects(content string) bool { return slices.Contains(f.protected, content) }

// creates judges a replica that a set creates.
func (o *Oracle) creates(set *appsv1.StatefulSet, position int32, pod *corev1.Pod) {
	if !o.owns(set) {
		return
	}
	if image := imageOf(PodContent(pod)); !o.images[image] {
		o.fail("%s is created on %s, which %s never asked for", pod.Name, image, o.name)
	}
	if o.cameUpUnreleased(set, position, pod) {
		return // and must be replaced: see judgeKept
	}
	f := o.fate(o.subsetOf(set.Name))
	partition, _ := f.floor()
	if o.initialized && (position < partition || !f.released(position)) && !f.protects(PodContent(pod)) {
		o.fail("%s is created on %s; it is below the partition %d, and %v is protected", pod.Name, PodContent(pod), partition, f.protected)
	}
}

// deletes judges a replica that a set deletes.
func (o *Oracle) deletes(set *appsv1.StatefulSet, position int32, pod *corev1.Pod, why string) {
	if !o.owns(set) {
		return
	}
	f := o.fate(o.subsetOf(set.Name))
	partition, replicas := f.floor()
	if o.initialized && position < partition && position < replicas && slices.Equal(f.protected, []string{PodContent(pod)}) {
		o.fail("%s on %s is deleted for %s; it is below the partition %d of %d replicas and runs what is protected", pod.Name, PodContent(pod), why, partition, replicas)
	}
}

// controllerDeletes judges a replica that the controller deletes.
func (o *Oracle) controllerDeletes(pod *corev1.Pod) {
	set := setOf(pod.Name)
	f := o.fate(o.subsetOf(set))
	partition, _ := f.floor()
	_, unreleased := o.unreleased[pod.UID]
	if o.initialized && !unreleased && OrdinalOf(set, pod.Name) < partition && f.protects(PodContent(pod)) {
		o.fail("the controller deletes %s, below the partition %d", pod.Name, partition)
	}
	switch {
	case coordinated(o.parent(o.api.Cached)):
		o.judgeDeletion(set, pod.Name)
	case o.api.Cached.Pods[pod.Name] == pod:
		o.judgeManualDeletion(set, pod)
	}
}

// judgeManualDeletion: under Manual only broken replicas are deleted, except for one replica that the user has released,
// if a StatefulSet of 1.37 would not replace it because a protected one is unavailable.
func (o *Oracle) judgeManualDeletion(set string, pod *corev1.Pod) {
	all := o.see(nil)
	here := slices.IndexFunc(all, func(s *observedSubset) bool { return s.set.Name == set })
	if here < 0 {
		o.fail("the controller deletes %s, of a set that it does not see", pod.Name)
		return
	}
	s := all[here]
	o.Checked["manual deletion"]++
	if _, unreleased := o.unreleased[pod.UID]; unreleased {
		o.judgeTakingBack(all, s, pod)
		return
	}
	if !IsReady(pod) {
		if !o.broken(s, pod) && !o.reserved(pod) {
			o.fail("the controller deletes %s, which is merely unready", pod.Name)
		}
		return
	}
	barred := false
	for position := range *s.set.Spec.Replicas {
		p := s.pods[position]
		if o.reserved(p) {
			barred = true
			continue
		}
		if p != nil && s.available(o, p) {
			continue
		}
		if position >= s.partition() {
			o.fail("the controller deletes %s, which is ready, beside %d, which is on its way", pod.Name, position)
		}
		barred = true
	}
	if !barred || s.ordered() {
		o.fail("the controller deletes %s, which is ready", pod.Name)
	}
}

// reserved reports whether a pod has no node, and is kept all the same: nobody else would get a new image to it, nor to
// those that its set replaces after it.
func (o *Oracle) reserved(pod *corev1.Pod) bool {
	strategy := o.parent(o.api.Cached).Spec.Topology.ScheduleStrategy
	return pod != nil && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil && len(pod.Status.Conditions) > 0 && strategy != nil && strategy.Adaptive != nil && strategy.Adaptive.ReserveUnschedulablePods
}

// finishes records that all replicas of a set are updated and ready.
func (o *Oracle) finishes(u *unstructured.Unstructured) {
	if !o.owns(o.api.typed(u)) || o.hasUnreleased(u.GetName()) {
		return
	}
	f := o.fate(o.subsetOf(u.GetName()))
	content := contentOf(&o.api.typed(u).Spec.Template)
	if o.initialized && !slices.Equal(f.protected, []string{content}) {
		f.finished = content
		f.add(content)
	}
}

// Look notices when all replicas of a set are updated and ready, which its controller may not have noticed. Until it has,
// they may come back on either content.
func (o *Oracle) Look() {
	o.lookCalm()
	for name, u := range o.api.Live.Sets {
		set, hash := o.api.typed(u), o.api.hashOf(u)
		if !o.owns(set) || set.Status.ObservedGeneration != set.Generation {
			continue
		}
		if o.initialized && o.seemsFinished(set) {
			o.fate(o.subsetOf(name)).add(contentOf(&set.Spec.Template))
		}
		ready := int32(0)
		for _, p := range o.api.Live.Pods {
			if OrdinalOf(name, p.Name) >= 0 && IsReady(p) && p.DeletionTimestamp == nil && p.Labels[appsv1.ControllerRevisionHashLabelKey] == hash {
				ready++
			}
		}
		if f, content := o.fate(o.subsetOf(name)), contentOf(&set.Spec.Template); ready > 0 && ready == *set.Spec.Replicas && !o.hasUnreleased(name) {
			f.complete = append(f.complete, content)
			if o.initialized {
				f.add(content)
			}
		}
	}
}

func (f *fate) add(content string) {
	if content != "" && !f.protects(content) {
		f.protected = append(f.protected, content)
	}
}

// LeaveToTest ends the judgment, for a test that judges by itself what this oracle does not know: it takes a subset of the
// spec for one that must keep its child, whatever the nodes for which that was made.
func (o *Oracle) LeaveToTest() { o.fail = func(string, ...any) {} }

// deletesSet judges a child that the controller deletes.
func (o *Oracle) deletesSet(u *unstructured.Unstructured) {
	name := o.subsetOf(u.GetName())
	if _, wanted := o.wantedInPass[name]; wanted {
		o.fail("the controller deletes %s, which the spec asks for", u.GetName())
	}
	o.judgeRemoval(u)
	f := o.fate(name)
	f.protected, f.finished = nil, ""
}

// beforePass looks at what the controller sees. From now on the controller works for this parent.
func (o *Oracle) beforePass() {
	o.api.oracle = o
	o.Before = o.api.Cached.Clone()
	o.wasCurrent = o.ContentIn(o.Before, o.parent(o.Before).Status.CurrentRevision)
	o.wantedInPass = o.targets(o.Before)
	o.soak.failed = o.sawFailure()
	o.collects.told = false
	o.sawInitialized = o.sawReady() || meta.IsStatusConditionTrue(o.parent(o.Before).Status.Conditions, v1alpha1.ConditionInitialized)
}

// afterPass learns from what the controller saw and did; wrote: no write failed.
func (o *Oracle) afterPass(wrote bool) {
	status := &o.parent(o.api.Live).Status
	isCurrent := o.ContentIn(o.api.Live, status.CurrentRevision)
	for name := range o.wantedInPass {
		o.fate(name)
	}
	names := slices.Sorted(maps.Keys(o.subsets))
	for _, name := range names {
		o.seen(name)
	}
	if !o.initialized && meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionInitialized) {
		o.initialized = true
		for _, name := range names {
			f := o.subsets[name]
			if u := o.child(o.Before, name); u != nil {
				f.protected = []string{contentOf(&o.api.typed(u).Spec.Template)}
				// A corrected template may not have reached the child in time.
				f.add(o.wasCurrent(name))
				f.add(isCurrent(name))
			}
		}
	}
	o.sawRan()
	if o.initialized && !meta.IsStatusConditionTrue(status.Conditions, v1alpha1.ConditionInitialized) {
		o.fail("Initialized is not True any more")
	}
	for _, name := range names {
		// A subset without its own fate has that of the parent.
		_, known := o.wantedInPass[name]
		if !known && o.child(o.api.Live, name) == nil {
			o.subsets[name].protected = nil // the child is gone, and starts from nothing if it comes back
		}
		if f := o.subsets[name]; o.initialized && known && len(f.protected) == 0 && (statusOf(status, name) != nil || o.child(o.api.Live, name) != nil) {
			f.add(o.wasCurrent(name))
			f.add(isCurrent(name))
		}
	}
	for _, name := range names {
		f := o.subsets[name]
		u := o.child(o.api.Live, name)
		f.corrected = f.corrected && u != nil && (!o.initialized || replicasIn(u) > 0) // without replicas it starts from nothing
		if o.initialized && f.corrected {
			f.add(contentOf(&o.api.typed(u).Spec.Template))
		}
	}
	for _, name := range names {
		o.close(name)
	}
	o.soakAfterPass(wrote)
	if wrote { // all writes are done, including the status
		o.judgeStatus(status, isCurrent)
	}
}

// close drops earlier requests when the child complies.
func (o *Oracle) close(name string) {
	f, u := o.subsets[name], o.child(o.api.Live, name)
	seen, known := o.wantedInPass[name]
	if !known {
		seen = asked{generation: o.parent(o.Before).Generation}
	}
	i := len(f.asked) - 1
	for i >= 0 && f.asked[i] != seen {
		i--
	}
	if i < 0 || u == nil {
		return
	}
	if a := f.asked[i]; partitionIn(u) >= a.partition && replicasIn(u) == a.replicas {
		f.asked = f.asked[i:]
	}
}

// judgeStatus: the status is true about what is protected.
func (o *Oracle) judgeStatus(status *v1alpha1.UnitedDeploymentStatus, isCurrent func(string) string) {
	if !o.initialized || status.ObservedGeneration != o.parent(o.Before).Generation {
		return
	}
	for i := range o.parent(o.Before).Spec.Topology.Subsets {
		s := &o.parent(o.Before).Spec.Topology.Subsets[i]
		if content := o.ContentIn(o.api.Live, status.UpdateRevision)(s.Name); content != o.api.wanted(o.parent(o.Before), s) {
			return // the pass could not store the revision, and stopped
		}
	}
	wanted := o.wantedInPass
	none := replicasOf(o.parent(o.Before)) == 0
	o.judgeCounts(status)
	for _, s := range status.Subsets {
		if is := isCurrent(s.Name); none && is != "" && o.wasCurrent(s.Name) != "" && is != o.wasCurrent(s.Name) {
			o.fail("status.currentRevision is %s now, and was %s, though there are no replicas", is, o.wasCurrent(s.Name))
		}
		f := o.fate(s.Name)
		if _, ok := wanted[s.Name]; !ok || s.CurrentRevision == "" {
			continue
		}
		if content := o.ContentIn(o.api.Live, s.CurrentRevision)(s.Name); content != "" && !f.protects(content) && !slices.Contains(f.before, content) {
			o.fail("the status says that %s protects %q; it is %v", s.Name, content, f.protected)
		}
		// A subset that had no replicas to finish with does not count.
		was := statusOf(&o.parent(o.Before).Status, s.Name)
		had := wanted[s.Name].replicas > 0 && was != nil && was.DesiredReplicas > 0
		if is := isCurrent(s.Name); is != o.wasCurrent(s.Name) && had && !slices.Contains(f.complete, is) {
			o.fail("status.currentRevision is %s now, but %s was never complete on that", is, s.Name)
		}
	}
}
