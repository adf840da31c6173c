// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner_test

import (
	"fmt"
	"strings"

	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// maxKids bounds the number of subsets in a small world.
const maxKids = 2

// held is the partition that no number of replicas exceeds.
const held = 255

// Marks on pods.
const (
	// markBefore: it was created before the running rollout began.
	markBefore = 1 << iota
	// markStray: it was protected when it was created, and came up on what its subset does not protect, because
	// the child had forgotten.
	markStray
)

// smallState is the complete state of a small world. It is copied and compared as a value; values that do not fit
// are interned (see interner).
type smallState struct {
	parent smallParent
	kids   [maxKids]smallKid
	// budget is how often each kind of disturbance may still occur.
	budget [budgets]uint8
}

// smallParent is the UnitedDeployment.
type smallParent struct {
	version             statefulset.Version
	replicas, variant   uint8
	subsets, generation uint8 // subsets has a bit for each
	paused              bool
	// raised: the user has set maxUnavailable to 100%; raisedEach: maxUnavailablePerSubset.
	raised, raisedEach bool
	// forced is the version in the annotation force-update, 0 if none, and forces the number in its value. spent is the last one
	// that was there before the running rollout.
	forced        statefulset.Version
	forces, spent uint8
	// approved is the annotation, interned; status is the status.
	approved, status uint32
	// told is the variant to which the position in the status belongs, asked the one for which approval is
	// requested.
	told, asked uint8
	// approval is for which step of which version and variant the last approval was given.
	approval smallApproval
	// now is the number of long times that have passed.
	now uint8
	// soaked: a long time has passed in which the running step stood.
	soaked bool
	// check is the state of the check, if the world has one.
	check smallCheck
	// run is that of the check, if it makes one.
	run smallRun
	// recorded is what is recorded on the revisions of v1, v2 and v3, and left has a bit for each version that was left
	// by the way back, and not rolled out since (smallConfig.records).
	recorded [versions]smallRecord
	left     uint8
	// retry is the version in the annotation retry, 0 if none, and retries the number in its value.
	retry   statefulset.Version
	retries uint8
}

// versions is how many versions there are.
const versions = 3

type smallApproval struct {
	version       statefulset.Version
	step, variant uint8
}

// smallKid is a child, with what only observers know about it.
type smallKid struct {
	set statefulset.Set
	// notes are the annotations, interned, without the parent's generation.
	notes      uint32
	generation uint8
	// protects has a bit for each version on which the subset's protected ordinals may be created: one, except
	// between the end of a rollout and the status that reports it; none means not known yet.
	protects uint8
	// asked is what the user last asked of the subset, as the last pass that was carried out had read it.
	asked smallAsked
	// forgot: the child's controller was made to forget its current revision.
	forgot bool
	// meddled: somebody else has changed the child since it was last written.
	meddled bool
	// stripped: somebody has removed annotations since it was last written, or has orphaned the pods; it is the
	// notes before that, 0 if that has not happened.
	stripped uint32
}

// The kinds of disturbance that have a budget.
const (
	budgetEdit = iota
	budgetUnready
	budgetCrash
	budgetEvict
	budgetTick
	budgetForget
	budgetMeddle
	budgetStrip
	budgetOrphan
	budgetStale
	budgetDie
	budgetTurn
	budgetRestart
	budgetLoss
	budgets
)

// smallConfig is one small world: its content, and what may happen.
type smallConfig struct {
	name     string
	kind     statefulset.Kind
	replicas uint8
	// subsets are the initial ones, with a bit for each.
	subsets uint8
	// variants are the strategies that edits choose from; the first is the initial one.
	variants []v1alpha1.UpdateStrategy
	edits    []smallEdit
	budget   [budgets]uint8
	// bad has a bit for each version whose pods never become ready.
	bad uint8
	// fresh: it begins with nothing, and not with v1 at rest.
	fresh bool
	// copies: the copies of what is on the children, which are in the status, are kept, see seam.strips.
	copies bool
	// records: what is recorded on revisions is kept, see exhaustive_back_test.go.
	records bool
	// known are the beginnings of complaints that are known, and only told.
	known []string
	// large: it is for make fuzz.
	large bool
	// mutant, if set, corrupts what the controller has planned.
	mutant func(*planner.Input, *planner.Plan)
}

// smallEdit is an edit of the parent's spec.
type smallEdit struct {
	name string
	do   func(*smallParent)
}

// alloted returns how many replicas each subset gets: an even share, the first ones get more.
func (p *smallParent) alloted() [maxKids]uint8 {
	var to [maxKids]uint8
	n := uint8(0)
	for k := range to {
		n += p.subsets >> k & 1
	}
	if n == 0 {
		return to
	}
	more := p.replicas % n
	for k := range to {
		if p.subsets>>k&1 == 0 {
			continue
		}
		to[k] = p.replicas / n
		if more > 0 {
			to[k], more = to[k]+1, more-1
		}
	}
	return to
}

func (p *smallParent) has(k int) bool { return p.subsets>>k&1 == 1 }

func bit(v statefulset.Version) uint8 { return 1 << v }

// tidy removes what makes no difference, so that equivalent states are equal.
func (s *smallState) tidy() {
	for k := range s.kids {
		kid := &s.kids[k]
		for i := range kid.set.Pods {
			if pod := &kid.set.Pods[i]; pod.Terminating {
				*pod = statefulset.Pod{Phase: statefulset.Unready, Version: pod.Version, Owner: pod.Owner, Terminating: true, Marks: pod.Marks & markStray}
			}
		}
		kid.noticeEnd()
	}
}

// noticeEnd checks whether all replicas are updated and ready: then the subset has finished, and may protect what
// they run.
func (k *smallKid) noticeEnd() {
	if k.protects != 0 && k.set.RunsAll() && !k.strays() {
		k.protects |= bit(k.set.Template)
	}
	if k.protects&bit(k.set.Current) != 0 {
		k.forgot = false
	}
}

// encode appends the state to b, for hashing.
func (s *smallState) encode(b []byte) []byte {
	p := &s.parent
	b = append(b, byte(p.version), p.replicas, p.variant, p.subsets, p.generation, flags(p.paused, p.raised, p.soaked, p.raisedEach), byte(p.forced), p.forces, p.spent, p.now,
		p.told, p.asked, byte(p.approval.version), p.approval.step, p.approval.variant, byte(p.approved), byte(p.approved>>8), byte(p.status), byte(p.status>>8), byte(p.status>>16), byte(p.status>>24))
	for _, r := range p.recorded {
		b = append(b, r.rank, r.left, r.spent, flags(r.rejected))
	}
	b = append(b, p.left, byte(p.check), byte(p.retry), p.retries, byte(p.run.name), byte(p.run.name>>8), byte(p.run.asked), byte(p.run.asked>>8), byte(p.run.at), byte(p.run.at>>8),
		byte(p.run.state), flags(p.run.exists, p.run.succeeded, p.run.failed))
	for k := range s.kids {
		kid := &s.kids[k]
		set := &kid.set
		b = append(b, flags(set.Exists, set.Observed, kid.forgot, kid.meddled, kid.stripped != 0), byte(set.Template), set.Replicas, set.Partition, byte(set.Current), byte(set.Update),
			byte(kid.notes), byte(kid.notes>>8), byte(kid.notes>>16), byte(kid.stripped), byte(kid.stripped>>8), byte(kid.stripped>>16), kid.generation, kid.protects, kid.asked.value, byte(kid.asked.version), kid.asked.partition, kid.asked.replicas, kid.asked.most)
		for _, owner := range set.Revisions {
			b = append(b, byte(owner))
		}
		for i := range set.Pods {
			pod := &set.Pods[i]
			b = append(b, byte(pod.Phase)|byte(pod.Version)<<4, byte(pod.Owner), flags(pod.Terminating, pod.Aged, pod.WasReady, pod.Held)|pod.Marks<<4)
		}
	}
	return append(b, s.budget[:]...)
}

func flags(of ...bool) byte {
	var b byte
	for i, set := range of {
		if set {
			b |= 1 << i
		}
	}
	return b
}

// String returns the state in one line, for a trace.
func (s *smallState) String() string {
	p := &s.parent
	text := fmt.Sprintf("v%d x%d", p.version, p.replicas)
	if p.paused {
		text += " paused"
	}
	if p.check != 0 {
		text += [...]string{"", " not met", " unread", " not met, unread"}[p.check&3]
		text += fmt.Sprintf(" (check %b)", p.check>>2)
	}
	if p.run.exists {
		text += fmt.Sprint(" run ", [...]string{"runs", "succeeded", "failed", "undecided"}[p.run.state])
	}
	if status := statuses.at(p.status); status.Rollout != nil {
		text += fmt.Sprintf(" (%s step %d)", status.Rollout.Phase, status.Rollout.Step)
	}
	for i, r := range p.recorded {
		if r.left > 0 || p.left&bit(statefulset.Version(i+1)) != 0 {
			text += fmt.Sprintf(" (v%d left, recorded: %q)", i+1, leftRecords[r.left])
		}
	}
	text += p.rejections()
	for k := range s.kids {
		if s.kids[k].set.Exists || p.has(k) {
			text += " | " + s.kids[k].String(string(rune('a'+k)))
		}
	}
	return text
}

// String describes the child in a few words: its template, replicas and partition, from and to which version it is
// about to move, and its pods.
func (k *smallKid) String(name string) string {
	if !k.set.Exists {
		return name + ": none " + k.podWords()
	}
	text := fmt.Sprintf("%s: v%d x%d p%d", name, k.set.Template, k.set.Replicas, k.set.Partition)
	if k.set.Partition == held {
		text = fmt.Sprintf("%s: v%d x%d held", name, k.set.Template, k.set.Replicas)
	}
	if !k.set.Observed {
		text += " unseen"
	}
	if k.set.Current != k.set.Update {
		text += fmt.Sprintf(" %d>%d", k.set.Current, k.set.Update)
	}
	return text + " " + k.podWords()
}

func (k *smallKid) podWords() string {
	words := []string{}
	for i := range k.set.Pods {
		pod := &k.set.Pods[i]
		if !pod.Exists() {
			continue
		}
		word := fmt.Sprintf("%d:%d%s", i, pod.Version, [...]string{"", "?", "", "-", "!"}[pod.Phase])
		if pod.Terminating {
			word = fmt.Sprintf("%d:%dx", i, pod.Version)
		}
		if pod.Aged && pod.Phase != statefulset.Ready {
			word += "+"
		}
		if pod.Marks&markStray != 0 {
			word += "s"
		}
		words = append(words, word)
	}
	return "[" + strings.Join(words, " ") + "]"
}
