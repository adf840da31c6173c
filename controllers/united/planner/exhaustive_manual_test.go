// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// The rules of docs/design.md (percent and partitions) about the type Manual, implemented once more and only from that: what
// scaling keeps, what a bound revision holds, and that undo ends.

// smallAsked is what the user last asked of a subset.
type smallAsked struct {
	// value is the partition in effect, see smallValue; 0 if nothing was asked yet.
	value   uint8
	version statefulset.Version
	// partition and replicas are what followed from it.
	partition, replicas uint8
	// most is how many may be protected, where it was not seen in time that an ordinal is updated.
	most uint8
}

// A value is 1 and a percentage, or firstInt and a number. coordinated stands for the type RollingUpdate.
const (
	firstInt    = 102
	coordinated = 255
)

func smallValue(value *intstr.IntOrString) uint8 {
	if value.Type == intstr.Int {
		return uint8(firstInt + min(value.IntVal, 100))
	}
	return uint8(1 + percentIn(value))
}

func isPercent(value uint8) bool { return value > 0 && value < firstInt }

// boundTo returns the version that a bound revision names; 0 if none. In the variants of a world it is "v" and the
// number of the version.
func boundTo(m *v1alpha1.ManualUpdate) statefulset.Version {
	if m == nil || m.Revision == "" {
		return 0
	}
	return statefulset.Version(m.Revision[1] - '0')
}

// bind replaces the version in a bound revision by the name of its revision.
func (e *seam) bind(parent *v1alpha1.UnitedDeployment) {
	m := parent.Spec.UpdateStrategy.ManualUpdate
	if v := boundTo(m); v != 0 && len(e.revisions) >= int(v) {
		m = m.DeepCopy()
		m.Revision = e.revisionOf(v).Name
		parent.Spec.UpdateStrategy.ManualUpdate = m
	}
}

// boundElsewhere reports whether the partitions are those of another revision, so that everything is held.
func (j *judged) boundElsewhere() bool {
	v := boundTo(j.strategy.ManualUpdate)
	return j.rolling == nil && initialized(j.s) && v != 0 && v != j.version
}

// valueOf returns the partition of a subset that is in effect.
func (j *judged) valueOf(k int) *intstr.IntOrString {
	m := j.strategy.ManualUpdate
	if m == nil || j.boundElsewhere() {
		return &all
	}
	if value, named := m.Partitions[subsetName(k)]; named {
		return &value
	}
	return cmpOr(m.DefaultPartition, &all)
}

// ask returns what the user asks of a subset now: "P = share when the pods that the update revision makes for this
// subset change, or the value in effect changes, unless it rose from a lower percentage; otherwise P = max(share, 1 +
// the highest existing ordinal below min(last P, last R, R) that does not run the update revision)".
//
// An ordinal that exists is one that the child has, also while its pod is on its way: protected ordinals are not
// re-created on the update revision either.
func (j *judged) ask(k int) smallAsked {
	if j.rolling != nil {
		return smallAsked{value: coordinated}
	}
	kid, value, replicas := &j.s.kids[k], j.valueOf(k), j.allotted[k]
	now := smallAsked{smallValue(value), j.version, resolveSmall(value, replicas), replicas, resolveSmall(value, replicas)}
	was := kid.asked
	if was.value == 0 {
		was = smallAsked{now.value, now.version, kid.set.Partition, kid.set.Replicas, kid.set.Partition}
	}
	rose := isPercent(was.value) && isPercent(now.value) && now.value > was.value
	if !isPercent(now.value) || was.version != now.version || was.value != now.value && !rose {
		return now
	}
	now.most = max(now.most, min(was.most, was.replicas, replicas))
	for i := min(was.partition, was.replicas, replicas, statefulset.MaxPods); i > now.partition; i-- {
		if !j.ranReleased(k, int(i-1)) {
			now.partition = i
			break
		}
	}
	return now
}

// ranReleased reports whether a replica runs the update revision, or did so until it was told to go, and has not come
// up on it astray.
func (j *judged) ranReleased(k, i int) bool {
	pod := &j.s.kids[k].set.Pods[i]
	return pod.Exists() && pod.Owner == statefulset.Mine && pod.Version == j.version && pod.Marks&markStray == 0
}

// remember records what was asked when a pass had read the world, except for subsets that it could not write, or that
// wait: what is asked meanwhile is asked at once when they go on.
func (c *smallConfig) remember(e *seam, read, s *smallState, wrote, refused uint8) {
	j := c.judgedState(e, read)
	for k := range s.kids {
		if refused>>k&1 == 0 && read.parent.has(k) && (wrote>>k&1 == 1 || !read.kids[k].waits()) {
			s.kids[k].asked = j.ask(k)
		}
	}
}

// waits reports whether the child waits for its controller, or for its protected replicas.
func (k *smallKid) waits() bool {
	return k.set.Exists && (!k.set.Observed || notes.at(k.notes).all[v1alpha1.AnnotationSeeding] != "")
}

// manualRule returns which rule of Manual is broken if an ordinal below the target is released; "" if it is none of
// its own.
func (j *judged) manualRule(k, i int) string {
	switch {
	case j.rolling != nil:
		return ""
	case j.boundElsewhere():
		return "bound"
	case i >= int(resolveSmall(j.valueOf(k), j.allotted[k])):
		return "scaling"
	}
	return ""
}

// undoes reports whether the update revision is what the subset protects, or the current one of the parent, so that
// nothing is protected from it.
func (j *judged) undoes(k int) bool {
	return j.rolling == nil && initialized(j.s) && (j.back || j.s.kids[k].protects == bit(j.version))
}

// judgeUndo: under Manual undo takes one available replica of a subset at a time, and broken ones first.
func (j *judged) judgeUndo(k int) {
	if !j.undoes(k) || j.s.parent.paused || !j.written[k] && j.deleted[k] == 0 {
		return
	}
	after, taken := j.after[k], j.deleted[k]
	for i := range statefulset.MaxPods {
		if taken&(1<<i) != 0 {
			after.Delete(i)
		}
	}
	taken |= after.Sync(j.c.kind).Deleted
	available := 0
	for i := range int(min(j.after[k].Replicas, statefulset.MaxPods)) {
		if taken&(1<<i) != 0 && j.available(k, i) && !j.updated(k, i) {
			available++
		}
	}
	if available > 1 {
		j.complain("undo", "%d available replicas of %s are taken at a time", available, subsetName(k))
	}
	for i := range int(min(j.after[k].Replicas, statefulset.MaxPods)) {
		if available > 0 && taken&(1<<i) == 0 && j.broken(k, i) && !j.updated(k, i) {
			j.complain("undo order", "an available replica of %s is taken before %s-%d, which is broken", subsetName(k), subsetName(k), i)
		}
	}
}

// knownBreaches are beginnings of complaints that are known in every world. On Kubernetes 1.36 the controller of a
// StatefulSet takes released replicas from the top, whether a lower one is broken or not.
var knownBreaches = []string{"undo order: "}

func (c *smallConfig) knows(rule string) bool {
	return slices.ContainsFunc(slices.Concat(knownBreaches, c.known), func(known string) bool { return strings.HasPrefix(rule, known) })
}

// knowsAll reports whether the walk goes on behind these complaints.
func (c *smallConfig) knowsAll(said []string) bool {
	return !slices.ContainsFunc(said, func(rule string) bool { return !c.knows(rule) })
}

// The rule of what scaling keeps gives what the design says that it must give.
func TestAskGivesWhatTheDesignSays(t *testing.T) {
	half, most := *percentOf(50), *percentOf(75)
	c := &smallConfig{variants: []v1alpha1.UpdateStrategy{manual(half), manual(most), manual(*intOf(1)), manual(*intOf(3)), rolling()}}
	type edit struct{ variant, replicas, want uint8 }
	for _, edits := range [][]edit{
		{{0, 3, 2}, {0, 2, 2}, {2, 2, 1}},
		{{0, 10, 5}, {0, 4, 4}, {0, 5, 4}, {3, 5, 3}},
		{{0, 4, 2}, {0, 10, 5}, {0, 4, 2}},
		{{0, 10, 5}, {0, 5, 5}, {1, 5, 5}, {0, 5, 3}},
		{{0, 10, 5}, {0, 5, 5}, {4, 5, 0}, {0, 5, 3}},
	} {
		s := c.atRest(edits[0].replicas)
		for i, edit := range edits {
			s.parent.variant, s.parent.replicas = edit.variant, edit.replicas
			j := c.judgedState(newSeam(c), &s)
			kid := &s.kids[0]
			if kid.asked = j.ask(0); kid.asked.partition != edit.want {
				t.Errorf("%v: P is %d in %d", edits, kid.asked.partition, i)
			}
			for o := range kid.set.Pods {
				if o >= int(edit.replicas) {
					kid.set.Pods[o] = statefulset.Pod{}
				} else if !kid.set.Pods[o].Exists() || o >= int(kid.asked.partition) && j.rolling == nil {
					kid.set.Pods[o] = statefulset.Pod{Phase: statefulset.Ready, Version: 2, Owner: statefulset.Mine}
				}
			}
		}
	}
}

// atRest returns a world in which v2 is staged over v1, with so many replicas on v1.
func (c *smallConfig) atRest(replicas uint8) smallState {
	s := smallState{parent: smallParent{version: 2, replicas: replicas, subsets: 1}}
	status := v1alpha1.UnitedDeploymentStatus{Conditions: []metav1.Condition{{Type: v1alpha1.ConditionInitialized, Status: metav1.ConditionTrue}}}
	s.parent.status = internStatus(&status, false)
	kid := &s.kids[0]
	kid.set.Apply(2, replicas, held)
	kid.asked = smallAsked{smallValue(&all), 2, replicas, replicas, replicas}
	for o := range min(replicas, statefulset.MaxPods) {
		kid.set.Pods[o] = statefulset.Pod{Phase: statefulset.Ready, Version: 1, Owner: statefulset.Mine}
	}
	return s
}
