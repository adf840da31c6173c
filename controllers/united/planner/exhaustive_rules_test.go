// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// The rules are those of docs/design.md, of coordination, and of controllers/subset about protection and broken
// replicas, implemented once more and only from that. A pass is judged by what it had read, and not by what it
// could not know.

func percentOf(n int) *intstr.IntOrString { return ptr.To(intstr.FromString(strconv.Itoa(n) + "%")) }

// percentIn returns the number of a percentage.
func percentIn(value *intstr.IntOrString) int {
	p, err := strconv.Atoi(strings.TrimSuffix(value.StrVal, "%"))
	if err != nil {
		panic(err)
	}
	return p
}

// resolveSmall returns the partition for a value and a number of replicas.
func resolveSmall(value *intstr.IntOrString, replicas uint8) uint8 {
	if value.Type == intstr.Int {
		return uint8(min(value.IntVal, held))
	}
	return uint8((percentIn(value)*int(replicas) + 99) / 100)
}

// judged is one pass, and what it had read, in the terms of the rules.
type judged struct {
	c        *smallConfig
	e        *seam
	s        *smallState
	version  statefulset.Version
	strategy v1alpha1.UpdateStrategy
	rolling  *v1alpha1.RollingUpdate // nil under Manual
	allotted [maxKids]uint8
	floor    [maxKids]uint8
	target   [maxKids]uint8
	most     [maxKids]uint8 // how many may be protected
	total    int
	// mode
	back, forced, failed, midway bool
	// rejected is the version that the spec asks for, if it is rejected: then version is the current one.
	rejected       statefulset.Version
	maxUnavailable int
	perSubset      [maxKids]int

	before, after [maxKids]statefulset.Set
	written       [maxKids]bool
	deleted       [maxKids]uint8
	said          []string
}

func (j *judged) complain(rule, format string, args ...any) {
	if j.rolling != nil && j.s.parent.left&bit(j.version) != 0 {
		rule = "left: " + rule
	}
	j.said = append(j.said, rule+": "+fmt.Sprintf(format, args...))
}

// judgedState returns what the rules see of a state.
func (c *smallConfig) judgedState(e *seam, s *smallState) *judged {
	j := &judged{c: c, e: e, s: s, version: c.wanted(s), strategy: c.strategy(s.parent.variant, s.parent.raised, s.parent.raisedEach), allotted: s.parent.alloted()}
	if j.strategy.Type == v1alpha1.RollingUpdateStrategy {
		j.rolling = ptr.To(ptr.Deref(j.strategy.RollingUpdate, v1alpha1.RollingUpdate{}))
	}
	if j.version != s.parent.version {
		j.rejected = s.parent.version
	}
	current := e.currentOf(s)
	j.back = current == j.version
	if c.records && j.rolling != nil {
		j.back = j.isWayBack(current)
	}
	j.midway = initialized(s) && !j.back
	j.forced = j.rolling != nil && s.parent.isForced(j.version)
	for k := range s.kids {
		j.total += int(j.allotted[k])
		j.before[k], j.after[k] = s.kids[k].set, s.kids[k].set
	}
	j.findTargets()
	j.findMaxUnavailable()
	for k := range s.kids {
		j.failed = j.failed || j.hasFailed(k)
	}
	return j
}

// rollout returns status.rollout of the revision that is asked for now, or nil if there is none.
func (j *judged) rollout() *v1alpha1.RolloutStatus {
	r := statuses.at(j.s.parent.status).Rollout
	if r == nil || j.e.versions[r.Revision] != j.version {
		return nil
	}
	return r
}

func (j *judged) findTargets() {
	for k, replicas := range j.allotted {
		if j.rolling == nil {
			asked := j.ask(k)
			j.floor[k], j.most[k] = asked.partition, asked.most
			if j.target[k] = j.floor[k]; j.undoes(k) {
				j.target[k] = 0 // "partition and bound revision protect nothing from it"
			}
			continue
		}
		j.floor[k] = resolveSmall(cmpOr(j.rolling.Partition, &none), replicas)
		if j.target[k] = max(j.floor[k], j.stepTarget(k, replicas)); j.back {
			j.target[k] = 0
		}
	}
}

func cmpOr[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}

// stepTarget returns how far the running step lets a subset go.
func (j *judged) stepTarget(k int, replicas uint8) uint8 {
	if j.back {
		return 0
	}
	rollout := j.rollout()
	if rollout == nil {
		return replicas
	}
	running := rollout.Step
	if j.positionLost() {
		running = 0
	}
	if int(running) >= len(j.rolling.Steps) {
		return 0
	}
	target := replicas
	for i := range running + 1 {
		if step := &j.rolling.Steps[i]; names(step, k) {
			target = min(target, stepPartition(step, replicas))
		}
	}
	return target
}

// positionLost reports whether a step before the running one was edited since the position was reported.
func (j *judged) positionLost() bool {
	told := j.c.variants[j.s.parent.told].RollingUpdate
	n := int(j.rollout().Step)
	return told == nil || !sameSteps(told.Steps, j.rolling.Steps, n)
}

// sameSteps reports whether the first n steps are the same; steps after the last one are.
func sameSteps(a, b []v1alpha1.RolloutStep, n int) bool {
	return equality.Semantic.DeepEqual(a[:min(n, len(a))], b[:min(n, len(b))])
}

func names(step *v1alpha1.RolloutStep, k int) bool {
	return slices.Contains(step.Subsets, v1alpha1.AllSubsets) || slices.Contains(step.Subsets, subsetName(k))
}

// stepPartition: anything but "100%" releases at least one replica.
func stepPartition(step *v1alpha1.RolloutStep, replicas uint8) uint8 {
	value := cmpOr(step.Partition, &none)
	partition := min(resolveSmall(value, replicas), replicas)
	if *value != all && replicas > 0 {
		partition = min(partition, replicas-1)
	}
	return partition
}

func (j *judged) findMaxUnavailable() {
	if j.rolling == nil {
		return
	}
	j.maxUnavailable = atLeastOne(cmpOr(j.rolling.MaxUnavailable, ptr.To(intstr.FromInt32(1))), j.total)
	for k := range j.perSubset {
		j.perSubset[k] = atLeastOne(cmpOr(j.rolling.MaxUnavailablePerSubset, &all), int(j.allotted[k]))
	}
}

// atLeastOne returns a number, or a percentage rounded down; at least 1.
func atLeastOne(value *intstr.IntOrString, of int) int {
	if value.Type == intstr.Int {
		return int(value.IntVal)
	}
	return max(1, percentIn(value)*of/100)
}

func (j *judged) updated(k, i int) bool {
	pod := &j.s.kids[k].set.Pods[i]
	return pod.Owner == statefulset.Mine && !pod.Terminating && pod.Version == j.version
}

func (j *judged) available(k, i int) bool {
	pod := &j.s.kids[k].set.Pods[i]
	return pod.Owner == statefulset.Mine && j.c.kind.Available(pod)
}

func (j *judged) done(k, i int) bool { return j.updated(k, i) && j.available(k, i) }

// broken reports whether a replica is broken, as section 5 defines it.
func (j *judged) broken(k, i int) bool {
	pod := &j.s.kids[k].set.Pods[i]
	switch {
	case pod.Owner != statefulset.Mine || pod.Terminating || j.available(k, i):
		return false
	case pod.Phase == statefulset.Crashed, pod.Aged:
		return true
	}
	return !pod.WasReady && !j.askedFor(k, pod.Version)
}

// askedFor reports whether a subset's replicas should have a version. If the subset may protect either of two
// versions, the controller may use either.
func (j *judged) askedFor(k int, v statefulset.Version) bool {
	return v == j.version || j.s.kids[k].protects == bit(v)
}

// hasFailed reports whether a replica of the subset that this rollout created has visibly failed.
func (j *judged) hasFailed(k int) bool {
	for i := range j.s.kids[k].set.Pods {
		pod := &j.s.kids[k].set.Pods[i]
		if j.rollout() != nil && j.updated(k, i) && pod.Phase == statefulset.Crashed && pod.Marks&markBefore == 0 && i < int(j.allotted[k]) {
			return true
		}
	}
	return false
}

// judge applies the rules to a pass.
func (c *smallConfig) judge(e *seam, s *smallState, pass *smallPass) []string {
	j := c.judgedState(e, s)
	for _, w := range pass.writes {
		switch {
		case w.deletedPods != 0 || w.remind != 0:
			j.deleted[w.k] = w.deletedPods
		case w.remove:
			j.after[w.k] = statefulset.Set{Pods: j.after[w.k].Pods}
			j.written[w.k] = true
		default:
			j.after[w.k].Exists, j.after[w.k].Template, j.after[w.k].Replicas, j.after[w.k].Partition = true, w.template, w.replicas, w.partition
			j.written[w.k] = true
		}
	}
	if !initialized(s) {
		return nil // there is nothing to protect yet
	}
	j.judgeRejection(pass)
	j.judgeStart(pass)
	for k := range s.kids {
		if j.written[k] {
			j.judgeForth(k)
			j.judgeWrite(k)
		}
		if j.deleted[k] != 0 {
			j.judgeDeletions(k)
		}
		j.judgeLeft(k)
		j.judgeUndo(k)
	}
	return j.said
}

func (j *judged) releases(set *statefulset.Set, i int) bool {
	return set.Exists && set.Template == j.version && i >= int(set.Partition) && i < int(set.Replicas)
}

// unavailable returns the ledger at the time when the pass is carried out.
func (j *judged) unavailable() int {
	n := 0
	for k := range j.after {
		n += j.unavailableOf(k)
	}
	return n
}

func (j *judged) unavailableOf(k int) int {
	n := 0
	for i := range int(j.allotted[k]) {
		if !j.available(k, i) || j.releases(&j.after[k], i) && !j.updated(k, i) || j.deleted[k]&(1<<i) != 0 {
			n++
		}
	}
	return n
}

// inFlight returns the number of replicas that are released and not back.
func (j *judged) inFlight() int {
	n := 0
	for k := range j.after {
		n += j.inFlightOf(k)
	}
	return n
}

func (j *judged) inFlightOf(k int) int {
	n := 0
	for i := range int(j.after[k].Replicas) {
		if j.releases(&j.after[k], i) && !j.done(k, i) {
			n++
		}
	}
	return n
}

func (j *judged) judgeWrite(k int) {
	was, is, kid := &j.before[k], &j.after[k], &j.s.kids[k]
	if j.s.parent.paused && was.Exists && is.Exists && is.Template != was.Template && kid.protects&bit(is.Template) == 0 {
		j.complain("paused", "%s gets another template", subsetName(k))
	}
	if was.Exists && is.Replicas < was.Replicas {
		j.judgeShrinking(k)
	}
	if was.Exists && is.Template == was.Template && is.Template == j.version {
		j.judgeRise(k)
	}
	settled := kid.protects&bit(j.version) != 0 // its next version is proven, regardless of the partition
	grown := 0
	for i := range int(is.Replicas) {
		if !j.releases(is, i) || j.releases(was, i) || settled {
			continue
		}
		pod := &kid.set.Pods[i]
		switch {
		case i >= int(was.Replicas) || !was.Exists:
			grown++
			j.judgeTarget(k, i, "made")
			j.judgeCheck(k, i)
		case pod.Owner != statefulset.Mine || !j.updated(k, i):
			j.judgeRelease(k, i)
		}
	}
	if grown > 0 {
		j.judgeGrowth(k, grown)
	}
}

// judgeLeft: a replica that is protected now is not left to a template to which it was released before, neither
// while another one is asked for, nor while paused. The exception is a child that gets more replicas at the same
// time, for example after somebody has scaled it: that waits (docs/design.md, hold.go).
func (j *judged) judgeLeft(k int) {
	is, kid := &j.after[k], &j.s.kids[k]
	if !is.Exists || kid.protects == 0 || kid.protects&bit(is.Template) != 0 || !j.s.parent.has(k) {
		return
	}
	below := j.target[k]
	switch {
	case j.s.parent.paused:
		below = j.allotted[k]
	case is.Replicas < j.allotted[k]:
		return
	case kid.protects&bit(j.version) != 0:
		below = j.allotted[k]
	}
	for i := int(is.Partition); i < min(int(below), int(is.Replicas)); i++ {
		pod := &kid.set.Pods[i]
		if pod.Owner == statefulset.Mine && !pod.Terminating && kid.protects&bit(pod.Version) != 0 {
			j.complain("I1", "%s-%d is protected by now, and left to v%d", subsetName(k), i, is.Template)
		}
	}
}

func (j *judged) judgeTarget(k, i int, how string) {
	if i < int(j.target[k]) {
		if rule := j.manualRule(k, i); rule != "" {
			j.complain(rule, "%s-%d is %s on the update revision, below the partition %d", subsetName(k), i, how, j.target[k])
			return
		}
		j.complain("I1", "%s-%d is %s on the update revision, below the target %d", subsetName(k), i, how, j.target[k])
	}
}

// judgeRelease judges the release of an existing replica.
func (j *judged) judgeRelease(k, i int) {
	j.judgeTarget(k, i, "released")
	j.judgeCheck(k, i)
	if j.s.parent.paused {
		j.complain("paused", "%s-%d is released", subsetName(k), i)
	}
	if j.rolling == nil || j.forced {
		return
	}
	if j.back && !j.available(k, i) {
		return
	}
	if j.failed && !j.back {
		j.complain("failed", "%s-%d is released though an updated replica failed", subsetName(k), i)
	}
	switch {
	case j.available(k, i):
		if n := j.unavailable(); n > j.maxUnavailable {
			j.complain("I2", "the release of %s-%d, which is available, makes %d unavailable", subsetName(k), i, n)
		}
		if n := j.unavailableOf(k); n > j.perSubset[k] {
			j.complain("I2", "the release of %s-%d, which is available, makes %d of its subset unavailable", subsetName(k), i, n)
		}
	case j.broken(k, i):
		return
	default:
		if n := j.inFlight(); n > j.maxUnavailable {
			j.complain("I2", "the release of %s-%d, which is merely unready, makes %d in flight", subsetName(k), i, n)
		}
		if n := j.inFlightOf(k); n > j.perSubset[k] {
			j.complain("I2", "the release of %s-%d, which is merely unready, makes %d of its subset in flight", subsetName(k), i, n)
		}
	}
	if !j.back {
		j.judgeOrder(k, i)
		j.judgeSkew(k)
	}
}

// judgeOrder: Sequential releases nothing of a subset before earlier ones are done.
func (j *judged) judgeOrder(k, i int) {
	if j.rolling.Order != v1alpha1.SequentialOrder {
		return
	}
	for ahead := range k {
		for o := int(j.target[ahead]); o < int(j.allotted[ahead]); o++ {
			if !j.done(ahead, o) {
				j.complain("I5", "%s-%d is released before %s-%d is done", subsetName(k), i, subsetName(ahead), o)
				return
			}
		}
	}
}

// judgeSkew: no subset gets ahead of the slowest one by more than maxSkew, except for one replica of the slowest
// one itself.
func (j *judged) judgeSkew(k int) {
	bound := func(k int) bool {
		return len(j.rolling.MaxSkewSubsets) == 0 || slices.Contains(j.rolling.MaxSkewSubsets, subsetName(k))
	}
	if j.rolling.MaxSkew == "" || !bound(k) {
		return
	}
	skew := int(resolveSmall(ptr.To(intstr.FromString(j.rolling.MaxSkew)), 100))
	slowest, of := 1, 1 // a share, as a fraction
	for other := range j.allotted {
		if n := int(j.allotted[other]) - int(j.target[other]); n > 0 && bound(other) && j.count(other)*of < slowest*n {
			slowest, of = j.count(other), n
		}
	}
	n := int(j.allotted[k]) - int(j.target[k])
	most := n * (slowest*100 + skew*of) / (of * 100)
	if j.count(k)*of == slowest*n {
		most = max(most, j.count(k)+1)
	}
	released := 0
	for i := range int(j.allotted[k]) {
		if j.releases(&j.after[k], i) && (!j.broken(k, i) || j.updated(k, i)) {
			released++
		}
	}
	if released > most {
		j.complain("I3", "%d of %s are released, maxSkew allows %d", released, subsetName(k), most)
	}
}

// count returns how many of the replicas that a subset releases are done.
func (j *judged) count(k int) int {
	n := 0
	for i := int(j.target[k]); i < int(j.allotted[k]); i++ {
		if j.done(k, i) {
			n++
		}
	}
	return n
}

// judgeGrowth: replicas that a scale-up adds during a rollout are released like any other.
func (j *judged) judgeGrowth(k, grown int) {
	if j.s.parent.paused {
		j.complain("paused", "%s grows by %d on the update revision", subsetName(k), grown)
	}
	if j.rolling == nil || j.forced || !j.midway || j.s.kids[k].meddled {
		return
	}
	if j.failed {
		j.complain("failed", "%s grows by %d on the update revision though an updated replica failed", subsetName(k), grown)
	}
	if n := j.inFlight(); n > j.maxUnavailable {
		j.complain("growth", "%s grows by %d on the update revision, which makes %d in flight", subsetName(k), grown, n)
	}
	if n := j.inFlightOf(k); n > j.perSubset[k] {
		j.complain("growth", "%s grows by %d on the update revision, which makes %d of it in flight", subsetName(k), grown, n)
	}
}

// judgeRise: within a revision a partition rises only to a higher target, over new replicas, or to correct a
// change by somebody else.
func (j *judged) judgeRise(k int) {
	was, is, kid := &j.before[k], &j.after[k], &j.s.kids[k]
	if j.rolling == nil && j.undoes(k) {
		return // it is as asked again when nothing is left to go back
	}
	if kid.meddled || kid.forgot || is.Replicas > was.Replicas || j.staging() || j.s.parent.paused || j.failed {
		return // a frozen child closes over replicas that are not updated yet; one that has forgotten, over all until it remembers
	}
	for i := int(was.Partition); i < min(int(is.Partition), int(was.Replicas), int(is.Replicas)); i++ {
		if i >= int(max(j.target[k], j.most[k], j.floor[k])) { // as asked again when nothing is left to go back
			j.complain("I4", "the partition of %s rises over %s-%d, the target is %d", subsetName(k), subsetName(k), i, j.target[k])
			return
		}
	}
}

// staging reports whether some child has not been seen with what is asked for now, so that nothing is released
// yet.
func (j *judged) staging() bool {
	return j.rolling != nil && (j.rollout() == nil || j.rollout().Phase == v1alpha1.RolloutStaging)
}

// judgeShrinking: under RollingUpdate a scale-down, a move or a removal respects the ledger.
func (j *judged) judgeShrinking(k int) {
	if j.rolling == nil {
		return
	}
	taken := false
	for i := int(j.after[k].Replicas); i < int(j.before[k].Replicas); i++ {
		taken = taken || j.available(k, min(i, statefulset.MaxPods-1))
	}
	left, own := 0, 0
	for other := range j.after {
		for i := range min(int(j.after[other].Replicas), statefulset.MaxPods) {
			if j.available(other, i) && j.deleted[other]&(1<<i) == 0 {
				left++
				if other == k {
					own++
				}
			}
		}
	}
	if taken && j.total-left > j.maxUnavailable {
		j.complain("I2", "taking replicas of %s leaves %d available of %d", subsetName(k), left, j.total)
	}
	if taken && int(j.allotted[k])-own > j.perSubset[k] {
		j.complain("I2", "taking replicas of %s leaves %d of its %d available", subsetName(k), own, j.allotted[k])
	}
}

// judgeDeletions applies the rules to the pods that the controller deletes.
func (j *judged) judgeDeletions(k int) {
	available := 0
	for i := range statefulset.MaxPods {
		pod := &j.s.kids[k].set.Pods[i]
		if j.deleted[k]&(1<<i) == 0 || !pod.Exists() || pod.Terminating {
			continue
		}
		if j.s.parent.paused {
			j.complain("paused", "%s-%d is deleted", subsetName(k), i)
		}
		released := j.releases(&j.before[k], i)
		stray := pod.Marks&markStray != 0
		unwanted := j.broken(k, i) && !j.askedFor(k, pod.Version) || j.back && !j.available(k, i) && pod.Version != j.version
		if !stray && !unwanted && (!released || pod.Version == j.version) {
			j.complain("I1", "%s-%d is deleted, and is not released, or updated", subsetName(k), i)
		}
		switch {
		case j.available(k, i):
			available++
		case !j.broken(k, i) && !j.back && !j.forced && !stray:
			j.complain("I2", "%s-%d is deleted, and is merely unready", subsetName(k), i)
		}
		if j.failed && !j.back && !j.forced && !stray {
			j.complain("failed", "%s-%d is deleted though an updated replica failed", subsetName(k), i)
		}
	}
	if available > 0 {
		j.judgeSacrifice(k, available)
	}
}

// judgeSacrifice: available replicas are deleted within the ledger; under Manual one at a time, and not together
// with one that the child's controller takes.
func (j *judged) judgeSacrifice(k, available int) {
	if j.rolling != nil {
		if n := j.unavailable(); n > j.maxUnavailable && !j.forced {
			j.complain("I2", "available replicas of %s are deleted, which makes %d unavailable", subsetName(k), n)
		}
		if n := j.unavailableOf(k); n > j.perSubset[k] && !j.forced {
			j.complain("I2", "available replicas of %s are deleted, which makes %d of it unavailable", subsetName(k), n)
		}
		return
	}
	if available > 1 {
		j.complain("I2", "%d available replicas of %s are deleted at a time", available, subsetName(k))
	}
	for i := range int(j.before[k].Replicas) {
		if j.releases(&j.before[k], i) && j.updated(k, i) && !j.available(k, i) {
			j.complain("I2", "an available replica of %s is deleted while %s-%d is on its way", subsetName(k), subsetName(k), i)
		}
	}
	after := j.before[k]
	for i := range statefulset.MaxPods {
		if j.deleted[k]&(1<<i) != 0 {
			after.Delete(i)
		}
	}
	took := after.Sync(j.c.kind)
	for i := range statefulset.MaxPods {
		if took.Deleted&(1<<i) != 0 && j.available(k, i) {
			j.complain("I2", "an available replica of %s is deleted beside %s-%d, which its controller takes", subsetName(k), subsetName(k), i)
		}
	}
}

// judgeSync compares what a child's controller creates with what the subset protects. What it takes and moves
// follows from what the controller wrote, and is judged there.
func (c *smallConfig) judgeSync(before, after *smallState, k int, done statefulset.Synced) []string {
	kid := &after.kids[k]
	var said []string
	for i := range min(int(kid.set.Partition), statefulset.MaxPods) {
		if done.Created&(1<<i) != 0 && kid.set.Pods[i].Marks&markStray != 0 && !before.kids[k].forgot {
			said = append(said, fmt.Sprintf("I1: %s-%d is protected, and comes up on v%d, which %s does not protect",
				subsetName(k), i, kid.set.Pods[i].Version, subsetName(k)))
		}
	}
	return said
}

// judgeStatus compares what a pass reports with what it had read: which revision is protected, what all have run,
// and the position of the rollout.
func (c *smallConfig) judgeStatus(e *seam, read *smallState, told *v1alpha1.UnitedDeploymentStatus) []string {
	j := c.judgedState(e, read)
	if !initialized(read) {
		return nil
	}
	was := statuses.at(read.parent.status)
	if told.CurrentRevision != was.CurrentRevision && !j.allRun(e.versions[told.CurrentRevision]) {
		j.complain("current", "v%d becomes the current revision, and not all replicas run it", e.versions[told.CurrentRevision])
	}
	for i := range told.Subsets {
		sub := &told.Subsets[i]
		k := int(sub.Name[0] - 'a')
		v := e.versions[sub.CurrentRevision]
		if set := &read.kids[k].set; !set.Observed || set.RunsAll() && v == set.Template {
			continue // its controller has something to sync, and still reports the state before; or it ends by being released
		}
		if read.kids[k].forgot && sub.Partition == 0 && v == read.kids[k].set.Template {
			continue // it has forgotten, and is released completely: this cannot be distinguished from an end
		}
		if protects := read.kids[k].protects; j.s.parent.has(k) && protects != 0 && v != 0 && protects&bit(v) == 0 {
			j.complain("protected", "%s is said to protect v%d", subsetName(k), v)
		}
	}
	if j.rolling != nil {
		j.judgeWayBack(told.Rollout)
		j.judgePosition(was.Rollout, told.Rollout)
		j.judgeVerdict(was, told)
		j.judgeRejected(told)
	}
	return j.said
}

// allRun reports whether every replica of the child of every subset, or every one that is asked for now, is ready on the
// version. A subset that is removed is none.
func (j *judged) allRun(v statefulset.Version) bool {
	if v == j.version && j.allDone() {
		return true
	}
	some := false
	for k := range j.before {
		set := j.before[k]
		if !set.Exists || set.Replicas == 0 || !j.s.parent.has(k) {
			continue
		}
		set.Template = v
		if !set.RunsAll() {
			return false
		}
		some = true
	}
	return some
}

func (j *judged) allDone() bool {
	for k := range j.allotted {
		for i := range int(j.allotted[k]) {
			if !j.done(k, i) {
				return false
			}
		}
	}
	return j.total > 0
}

// judgePosition: a step ends when it is reached, its pause is over and it is approved, and only another revision
// takes the rollout back.
func (j *judged) judgePosition(was, is *v1alpha1.RolloutStatus) {
	if was == nil || j.e.versions[was.Revision] != j.version {
		return
	}
	if is == nil {
		j.complain("position", "the rollout is forgotten at step %d", was.Step)
		return
	}
	left := j.s.parent.left&bit(j.version) != 0 // it may have been left before the status said so: then it begins anew
	if is.Step < was.Step && !j.back && !left && !j.positionLost() {
		j.complain("position", "the rollout falls back from step %d to %d", was.Step, is.Step)
	}
	last := int32(len(j.rolling.Steps))
	pauses := slices.ContainsFunc(j.rolling.Steps[min(was.Step, last):], func(s v1alpha1.RolloutStep) bool { return s.Pause != nil })
	pauses = pauses && was.Phase != v1alpha1.RolloutDone // a step that is added to what is over holds nothing
	if j.back || j.positionLost() || !pauses && (j.nothingToTell() || j.allDone() || j.allRun(j.version)) {
		return
	}
	for n := was.Step; n < min(is.Step, last); n++ {
		j.judgeLeaving(n)
	}
}

// nothingToTell reports whether no replica of any subset has, or would be created on, another version, so that no
// step moves anything.
func (j *judged) nothingToTell() bool {
	for k := range j.s.kids {
		kid := &j.s.kids[k]
		if j.s.parent.has(k) && kid.protects != bit(j.version) && !kid.set.KnowsOnly(j.version) {
			return false
		}
	}
	return true
}

func (j *judged) judgeLeaving(n int32) {
	step := &j.rolling.Steps[n]
	if j.total == 0 {
		j.complain("zero", "step %d is left without replicas", n)
		return
	}
	for k := range j.allotted {
		for i := int(max(j.floor[k], stepPartition(step, j.allotted[k]))); i < int(j.allotted[k]) && names(step, k) && !j.forced; i++ {
			if !j.done(k, i) {
				j.complain("position", "step %d is left before %s-%d is done", n, subsetName(k), i)
				return
			}
		}
	}
	switch {
	case step.Pause == nil:
	case step.Pause.Duration == "":
		if !j.c.approves(&j.s.parent, n) {
			j.complain("approval", "step %d is left, and is not approved", n)
		}
	case !j.s.parent.soaked:
		j.complain("soak", "step %d is left, and has not stood for the time of its pause", n)
	}
}

// approves reports whether the approval was given for this step of this revision, and neither the step nor an
// earlier one was edited since.
func (c *smallConfig) approves(p *smallParent, n int32) bool {
	given := p.approval
	if given.version != p.version || int32(given.step) != n {
		return false
	}
	was, is := c.variants[given.variant].RollingUpdate, c.variants[p.variant].RollingUpdate
	return was != nil && int(n) < len(was.Steps) && sameSteps(was.Steps, is.Steps, int(n)+1)
}

// stands reports whether the running step stands: all replicas that it releases are done.
func (c *smallConfig) stands(e *seam, s *smallState) bool {
	j := c.judgedState(e, s)
	rollout := j.rollout()
	if j.rolling == nil || rollout == nil || j.failed || j.bound() && s.parent.check&checkNotMet != 0 || int(rollout.Step) >= len(j.rolling.Steps) {
		return false
	}
	for k := range j.allotted {
		for i := int(j.target[k]); i < int(j.allotted[k]); i++ {
			if !j.done(k, i) || !j.releases(&s.kids[k].set, i) && s.kids[k].protects != bit(j.version) {
				return false
			}
		}
	}
	return true
}
