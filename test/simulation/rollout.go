// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// rollouts is what the oracle knows of coordinated rollouts.
type rollouts struct {
	// Calm: nobody but the controller disturbs the world. Then what the controller must not do must not happen either.
	Calm bool
	// passed is what the steps before the current one did to each subset, as the user had written them when the status
	// first mentioned it, by rollout.
	passed map[string]map[string]string
	// reached is when the current step of a rollout was first seen to be reached.
	reached map[string]time.Time
	// ran are the revisions that all replicas ran, the last one last; left are those from which a rollout was on the way back,
	// and that were not rolled out again since.
	ran  []string
	left map[string]bool
	// published are all approval keys that the status has shown, with the rollout and the step of each.
	published map[string]string
	// there are the annotations of the parent when the status first named its update revision, and before those that were there
	// before each rollout: what they say does not count in it.
	there  map[string]string
	before map[string]map[string]string
	// last is the last coordinated partition of each child, and its revision.
	last map[string]lastWrite
	// Checked counts what was judged, by invariant: a check that never applies proves nothing.
	Checked map[string]int
}

type lastWrite struct{ uid, revision, rollout string }

func newRollouts() rollouts {
	return rollouts{
		passed: map[string]map[string]string{}, reached: map[string]time.Time{}, published: map[string]string{},
		before: map[string]map[string]string{}, last: map[string]lastWrite{}, left: map[string]bool{}, Checked: map[string]int{},
	}
}

func coordinated(parent *v1alpha1.UnitedDeployment) bool {
	return parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy
}

func strategyOf(parent *v1alpha1.UnitedDeployment) v1alpha1.RollingUpdate {
	if s := parent.Spec.UpdateStrategy.RollingUpdate; s != nil {
		return *s
	}
	return v1alpha1.RollingUpdate{}
}

// ordinals converts a partition to ordinals: an integer stays as it is, a percentage of the replicas is rounded up.
func ordinals(value *intstr.IntOrString, replicas int32) int32 {
	if value == nil {
		return 0
	}
	if value.Type == intstr.Int {
		return value.IntVal
	}
	return int32((int64(percentIn(value.StrVal))*int64(replicas) + 99) / 100)
}

func percentIn(text string) int {
	n, err := strconv.Atoi(strings.TrimSuffix(text, "%"))
	if err != nil {
		panic(err)
	}
	return n
}

// maxUnavailable returns that of the strategy, in replicas.
func maxUnavailable(parent *v1alpha1.UnitedDeployment) int {
	switch value := strategyOf(parent).MaxUnavailable; {
	case value == nil:
		return 1
	case value.Type == intstr.Int:
		return int(value.IntVal)
	default:
		return max(1, percentIn(value.StrVal)*int(replicasOf(parent))/100)
	}
}

// perSubset is maxUnavailablePerSubset of a subset, in replicas.
func perSubset(parent *v1alpha1.UnitedDeployment, s *observedSubset) int {
	switch value := strategyOf(parent).MaxUnavailablePerSubset; {
	case value == nil, s.removed:
		return math.MaxInt
	case value.Type == intstr.Int:
		return int(value.IntVal)
	default:
		return max(1, percentIn(value.StrVal)*int(s.desired)/100)
	}
}

// skewed reports whether maxSkew binds a subset.
func skewed(parent *v1alpha1.UnitedDeployment, subset string) bool {
	names := strategyOf(parent).MaxSkewSubsets
	return len(names) == 0 || slices.Contains(names, subset)
}

// target returns the partition of the current step in a subset, at least the floor. A subset that no step has named yet
// is held.
func (o *Oracle) target(from Objects, subset string, replicas int32) int32 {
	strategy := strategyOf(o.parent(from))
	floor := ordinals(strategy.Partition, replicas)
	running := o.running(from)
	switch {
	case o.goesBack(from):
		return 0
	case running >= len(strategy.Steps):
		return floor
	}
	target := int32(math.MaxInt32)
	for _, step := range strategy.Steps[:running+1] {
		if slices.Contains(step.Subsets, v1alpha1.AllSubsets) || slices.Contains(step.Subsets, subset) {
			target = min(target, stepPartition(&step, replicas))
		}
	}
	return max(floor, target)
}

// stepPartition: unless it says 100%, a step releases at least one replica.
func stepPartition(step *v1alpha1.RolloutStep, replicas int32) int32 {
	partition := ordinals(step.Partition, replicas)
	if p := step.Partition; replicas > 0 && (p == nil || *p != intstr.FromString("100%")) {
		partition = min(partition, replicas-1)
	}
	return partition
}

func rolloutKey(r *v1alpha1.RolloutStatus) string {
	start := ""
	if r.StartTime != nil {
		start = r.StartTime.UTC().Format(time.RFC3339)
	}
	return r.Revision + " " + start
}

// running returns the current step in the status, if the status is about the current spec: about this revision, and about
// earlier steps that nobody has edited since.
func (o *Oracle) running(from Objects) int {
	rollout := o.parent(from).Status.Rollout
	if rollout == nil || !o.isOf(from, rollout.Revision) {
		return 0
	}
	steps := strategyOf(o.parent(from)).Steps
	passed := o.passed[rolloutKey(rollout)]
	for step := range len(steps) + 1 {
		did := o.did(from, steps[:step])
		if sameWhereKnown(passed, did) {
			return step
		}
	}
	return 0
}

// did returns what steps do to each subset of a parent.
func (o *Oracle) did(from Objects, steps []v1alpha1.RolloutStep) map[string]string {
	did := map[string]string{}
	for _, sub := range o.parent(from).Spec.Topology.Subsets {
		did[sub.Name] = ""
		for _, step := range steps {
			if slices.Contains(step.Subsets, v1alpha1.AllSubsets) || slices.Contains(step.Subsets, sub.Name) {
				did[sub.Name] += fmt.Sprint(stepPartition(&step, 1000), step.Partition, step.Pause, "; ")
			}
		}
	}
	return did
}

// sameWhereKnown reports whether the two do the same to the subsets that are in both.
func sameWhereKnown(then, now map[string]string) bool {
	any := len(then) == 0
	for name, did := range then {
		if is, lives := now[name]; lives {
			if is != did {
				return false
			}
			any = true
		}
	}
	return any
}

// isOf reports whether a revision has what the spec asks for, in every subset.
func (o *Oracle) isOf(from Objects, name string) bool {
	content := o.contentFor(o.parent(from), from, name)
	for i := range o.parent(from).Spec.Topology.Subsets {
		sub := &o.parent(from).Spec.Topology.Subsets[i]
		if content(sub.Name) != o.api.wanted(o.parent(from), sub) {
			return false
		}
	}
	return true
}

// moves reports whether an annotation of the parent, as the controller sees it, moves the rollout to a revision: it names the revision
// and was not there before.
func (o *Oracle) moves(annotation, revision string) bool {
	parent := o.parent(o.api.Cached)
	value := parent.Annotations[annotation]
	name, _, _ := strings.Cut(value, "/")
	if revision == "" || name != revision || parent.Status.Rollout == nil || parent.Status.UpdateRevision != revision {
		return false
	}
	if value == o.before[rolloutKey(parent.Status.Rollout)][annotation] {
		o.Checked["spent"]++
		return false
	}
	return true
}

// sawBefore learns what was there before a rollout: when the status first names its revision, or it starts over.
func (o *Oracle) sawBefore(before, after *v1alpha1.UnitedDeploymentStatus) {
	was, is := before.Rollout, after.Rollout
	began := is != nil && (was == nil || rolloutKey(was) != rolloutKey(is))
	if before.UpdateRevision != after.UpdateRevision || began && (was == nil || was.Revision == is.Revision) {
		o.there = o.parent(o.api.Cached).Annotations
	}
	if began {
		o.before[rolloutKey(is)] = o.there
	}
}

// sawRan learns which revisions all replicas ran, and which of them a rollout leaves on the way back.
func (o *Oracle) sawRan() {
	status := &o.parent(o.api.Live).Status
	if current := status.CurrentRevision; o.initialized && current != "" && (len(o.ran) == 0 || o.ran[len(o.ran)-1] != current) {
		o.ran = append(slices.DeleteFunc(o.ran, func(name string) bool { return name == current }), current)
		delete(o.left, current)
	}
	if r := status.Rollout; r != nil && coordinated(o.parent(o.api.Cached)) && r.Revision != status.CurrentRevision && slices.Contains(o.ranBefore(o.api.Cached), r.Revision) {
		o.Checked["left"]++
		o.left[status.CurrentRevision] = true
	}
}

// ranBefore returns the revisions to which going back is the way back, beside the current one.
func (o *Oracle) ranBefore(from Objects) []string {
	before := slices.DeleteFunc(slices.Clone(o.ran), func(name string) bool { return name == o.parent(from).Status.CurrentRevision })
	before = before[max(0, len(before)-int(ptr.Deref(strategyOf(o.parent(from)).RollbackRevisions, 1))):]
	return slices.DeleteFunc(before, func(name string) bool { return o.left[name] })
}

// goesBack reports whether the spec asks for what all replicas ran last, or for one of rollbackRevisions before that, whether
// the status says so yet or not.
func (o *Oracle) goesBack(from Objects) bool {
	if current := o.parent(from).Status.CurrentRevision; o.isOf(from, current) {
		return !o.left[current]
	}
	if slices.ContainsFunc(o.ranBefore(from), func(name string) bool { return o.isOf(from, name) }) {
		o.Checked["back to an earlier one"]++
		return true
	}
	for i := range o.parent(from).Spec.Topology.Subsets {
		sub := &o.parent(from).Spec.Topology.Subsets[i]
		complete := o.fate(sub.Name).complete
		if len(complete) == 0 || complete[len(complete)-1] != o.api.wanted(o.parent(from), sub) {
			return false
		}
	}
	return true
}

// lookCalm: without disturbances, the invariants hold at any time, whatever the controller saw. Force is a disturbance.
func (o *Oracle) lookCalm() {
	if !o.Calm || o.parent(o.api.Live).Annotations[v1alpha1.AnnotationForceUpdate] != "" || !o.initialized || !coordinated(o.parent(o.api.Live)) {
		return
	}
	o.Checked["calm"]++
	all := o.seeIn(o.api.Live, nil)
	if down, most := o.away(all), maxUnavailable(o.parent(o.api.Live)); down > most {
		o.fail("I2: %d replicas are down; maxUnavailable is %d", down, most)
	}
	for _, s := range all {
		if down, most := o.away([]*observedSubset{s}), perSubset(o.parent(o.api.Live), s); down > most {
			o.fail("I2: %d replicas of %s are down; maxUnavailablePerSubset is %d", down, s.name, most)
		}
	}
	strategy := strategyOf(o.parent(o.api.Live))
	if strategy.MaxSkew == "" || len(strategy.Steps) > 0 {
		return
	}
	least, most, smallest := 2.0, 0.0, math.MaxInt
	for _, s := range all {
		if n := s.size(); n > 0 && skewed(o.parent(o.api.Live), s.name) && s.set != nil && s.content == s.wanted {
			share := float64(s.updatedAvailable(o)) / float64(n)
			least, most, smallest = min(least, share), max(most, share), min(smallest, n)
		}
	}
	if bound := float64(percentIn(strategy.MaxSkew))/100 + 1/float64(smallest) + 1e-9; most-least > bound {
		o.fail("I3: the shares are %.2f apart, at most %.2f are allowed", most-least, bound)
	}
}

// keptBroken reports whether an ordered child has an unavailable replica that its target, the floor or a step, protects.
// Then it updates nothing, and force does not help, because it ignores neither.
func (o *Oracle) keptBroken() bool {
	for _, s := range o.seeIn(o.api.Live, nil) {
		for position := range min(s.target, s.desired) {
			if p := s.pods[position]; s.ordered() && (p == nil || !s.available(o, p)) {
				return true
			}
		}
	}
	return false
}
