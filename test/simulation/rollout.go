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

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// rollouts is what the oracle knows of coordinated rollouts.
type rollouts struct {
	// Calm: nobody disturbs the world but the controller. Then what the controller
	// may not do may not come about either.
	Calm bool
	// passed is what the steps before the running one did to each subset, as the user
	// wrote them when the status first spoke of it, by rollout.
	passed map[string]map[string]string
	// reached is when the running step of a rollout was first seen to be reached.
	reached map[string]time.Time
	// published are the approval keys that the status ever showed, with the rollout
	// and the step that each is for.
	published map[string]string
	// last is the last coordinated partition of each child, and its revision.
	last map[string]lastWrite
	// Checked counts what was judged, by the invariant: a check that nothing ever
	// comes to proves nothing.
	Checked map[string]int
}

type lastWrite struct{ uid, revision, rollout string }

func newRollouts() rollouts {
	return rollouts{
		passed: map[string]map[string]string{}, reached: map[string]time.Time{}, published: map[string]string{},
		last: map[string]lastWrite{}, Checked: map[string]int{},
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

// ordinals is a partition in ordinals: an integer as it is, a percentage of the
// replicas rounded up.
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

// maxUnavailable is the strategy's, in replicas.
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

// target is the partition of the running step in a subset, never below the floor.
// A subset that no step has named yet is held.
func (o *Oracle) target(from Objects, subset string, replicas int32) int32 {
	strategy := strategyOf(o.parent(from))
	floor := ordinals(strategy.Partition, replicas)
	running := o.running(from)
	if running >= len(strategy.Steps) || o.goesBack(from) {
		return floor
	}
	target := int32(math.MaxInt32)
	for _, step := range strategy.Steps[:running+1] {
		if len(step.Subsets) == 0 || slices.Contains(step.Subsets, subset) {
			target = min(target, stepPartition(&step, replicas))
		}
	}
	return max(floor, target)
}

// stepPartition: below 100% a step releases at least one replica.
func stepPartition(step *v1alpha1.RolloutStep, replicas int32) int32 {
	partition := ordinals(step.Partition, replicas)
	if p := step.Partition; replicas > 0 && (p == nil || p.Type == intstr.String && p.StrVal != "100%") {
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

// running is the step that the status says is running, as far as it speaks of what
// the spec asks for now: of this revision, and of steps before it that nobody has
// edited since.
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

// did is what steps do to each subset of a parent.
func (o *Oracle) did(from Objects, steps []v1alpha1.RolloutStep) map[string]string {
	did := map[string]string{}
	for _, sub := range o.parent(from).Spec.Topology.Subsets {
		did[sub.Name] = ""
		for _, step := range steps {
			if len(step.Subsets) == 0 || slices.Contains(step.Subsets, sub.Name) {
				did[sub.Name] += fmt.Sprint(stepPartition(&step, 1000), step.Partition, step.Pause, "; ")
			}
		}
	}
	return did
}

// sameWhereKnown reports whether the same was done to the subsets that were there then and are now.
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

// isOf reports whether a revision is what the spec asks for, in every subset.
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

// goesBack reports whether the spec asks for what all replicas ran last, whether that is in the
// status yet or not.
func (o *Oracle) goesBack(from Objects) bool {
	if o.isOf(from, o.parent(from).Status.CurrentRevision) {
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

// lookCalm: with nobody to disturb it, what the invariants speak of holds at any
// time, whatever the controller saw. Force is a disturbance.
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

// keptBroken reports whether a child that works in order has a replica that is not available, and
// that its target, the floor or a step, protects. It moves nothing then, and force
// does not help: it passes by neither.
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
