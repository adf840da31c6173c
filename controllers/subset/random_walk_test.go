// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
)

// model is a StatefulSet, its controller and its kubelets, and the controller of
// United as far as Next goes, each of which moves when it is told to. Revisions are
// named as the parent's are: the hash of r1 is h1.
type model struct {
	t     *rapid.T
	goal  goalBuilder
	child *childBuilder // nil: there is none
	pods  map[int32]*pod
	// blind: the StatefulSet controller does not see the revisions that it made, as
	// after a restart of the API server.
	blind bool
	// lapsed: it has made a revision the current one for that reason.
	lapsed bool
	// outlived are pods of a child that was orphaned.
	outlived bool
	uid      int
	trace    []string
}

type pod struct {
	hash               string
	ready, terminating bool
	uid                int
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(m.trace, "\n"))
}

func hashOf(revision string) string { return "h" + strings.TrimPrefix(revision, "r") }

// observe is the child as it is, with its pods.
func (m *model) observe() *adapters.Observed {
	if m.child == nil {
		return nil
	}
	o := m.child.Observed
	o.Pods = nil
	for position := range int32(12) {
		if p := m.pods[position]; p != nil {
			r := adapters.Replica{Name: fmt.Sprint("web-zone-a-", position), UID: types.UID(fmt.Sprint(p.uid)), Position: position, Hash: p.hash, Ready: p.ready, Terminating: p.terminating}
			if r.Ready {
				r.ReadySince = epoch()
			}
			o.Pods = append(o.Pods, r)
		}
	}
	return &o
}

// united is a pass of the controller: it has one thing to do at most.
func (m *model) united() {
	o := m.observe()
	g := m.goal.Goal
	g.ProtectedRevision = "r1"
	if o != nil {
		if told := Protected(o, "", 0); told != "" {
			g.ProtectedRevision = told
		}
		g.SameTemplate = RevisionOf(o) == g.Update.Revision
	}
	protected := versionOf(g.ProtectedRevision)
	g.Protected, g.SamePods = &protected, g.Update.Revision == g.ProtectedRevision
	s := Next(g, o)
	m.note("united: %s: %s", asText(s), s.Reason)
	switch s.Action {
	case ActionHalt, ActionWait:
	case ActionRemind:
		m.child.CurrentHash = s.Hash
	case ActionApply, ActionCreate, ActionSeed, ActionRelearn:
		if !m.write(s) {
			for _, r := range DeletableUnreleased(o, epoch()) {
				m.note("  deletes %s", r.Name)
				m.pods[r.Position].terminating = true
			}
		}
	}
}

// write applies a child, and tells whether that changed it.
func (m *model) write(s Step) bool {
	if m.child == nil && m.outlived {
		for position := range m.pods {
			s = KeepOutlived(s, position+1)
		}
	}
	c := s.Child
	if m.child == nil {
		m.child = aChild().hashes("", "")
		m.child.SpecObserved = false
	} else if Seeding(&m.child.Observed) == c.Seeding && m.child.Replicas == c.Replicas && m.child.Partition == c.Partition &&
		RecordedPartition(&m.child.Observed) == c.Partition && RevisionOf(&m.child.Observed) == c.Revision {
		return false
	}
	m.child.Meta.Annotations = map[string]string{}
	m.child.on(c.Revision).protecting(c.ProtectedRevision).recorded(c.Partition, c.ProtectedHash, c.ReleasedFrom).releasedBefore(c.ReleasedFrom, c.ReleasedBefore).replicas(c.Replicas)
	if c.Seeding {
		m.child.seeding()
	}
	m.child.SpecObserved = false
	return true
}

// sync is a pass of the StatefulSet controller, Parallel or in order.
func (m *model) sync() {
	if m.child == nil {
		return
	}
	c := &m.child.Observed
	update := hashOf(RevisionOf(c))
	current := c.CurrentHash
	if current == "" || m.blind && current != update {
		m.lapsed = m.lapsed || m.blind && current != ""
		current = update
	}
	c.UpdateHash, c.CurrentHash, c.SpecObserved = update, current, true
	m.makePods(c)
	updated := 0
	for position, p := range m.pods {
		switch {
		case position >= c.Replicas:
			p.terminating, updated = true, -99
		case p.ready && !p.terminating && p.hash == update:
			updated++
		}
	}
	if updated == int(c.Replicas) {
		c.CurrentHash = update
	}
	m.note("sync: %s x%d p%d current %s update %s; %s", RevisionOf(c), c.Replicas, c.Partition, c.CurrentHash, c.UpdateHash, m.describe())
}

func (m *model) makePods(c *adapters.Observed) {
	for position := range c.Replicas {
		if m.pods[position] == nil {
			hash := c.UpdateHash
			if position < c.Partition {
				hash = c.CurrentHash
			}
			m.uid++
			m.pods[position] = &pod{hash: hash, uid: m.uid}
			m.judge(position, hash)
		}
		if p := m.pods[position]; c.Ordered && (!p.ready || p.terminating) {
			return
		}
	}
	for position := c.Replicas - 1; position >= c.Partition; position-- {
		p := m.pods[position]
		if p.hash != c.UpdateHash {
			p.terminating = true
		}
		if !p.ready || p.terminating {
			return
		}
	}
}

// judge: a protected replica comes up on what is protected, whatever is asked for
// meanwhile, unless the child has forgotten.
func (m *model) judge(position int32, hash string) {
	if asked := &m.goal.Child; position < asked.Partition && position < m.child.Partition && hash != "h1" && !m.lapsed {
		m.fail("%d comes up on %s, below the partition %d: %s", position, hash, asked.Partition, m.describe())
	}
}

func (m *model) describe() string {
	var text []string
	for position := range int32(12) {
		if p := m.pods[position]; p != nil {
			word := fmt.Sprint(position, " ", p.hash)
			if p.terminating {
				word += " terminating"
			} else if !p.ready {
				word += " unready"
			}
			text = append(text, word)
		}
	}
	return strings.Join(text, ", ")
}

// kubelet brings each pod on, or one.
func (m *model) kubelet(only int32) {
	for position, p := range m.pods {
		switch {
		case only >= 0 && position != only:
		case p.terminating:
			delete(m.pods, position)
		default:
			p.ready = true
		}
	}
}

// gone: the child was deleted, and its pods with it or not.
func (m *model) gone(orphan bool) {
	m.note("the child is deleted, orphan %v", orphan)
	m.child, m.outlived = nil, orphan && len(m.pods) > 0
	if !orphan {
		m.pods = map[int32]*pod{}
	}
}

// settle lets everybody do what there is to do, when the StatefulSet controller sees
// again what there is.
func (m *model) settle() {
	m.blind = false
	m.note("settles")
	for range 100 {
		m.united()
		m.sync()
		m.kubelet(-1)
	}
	asked := m.goal.Child
	o := m.observe()
	if RevisionOf(o) != m.goal.Update.Revision || o.Replicas != asked.Replicas || o.Partition != asked.Partition || Seeding(o) || Forgot(o) {
		m.fail("it does not come to what is asked for, x%d p%d of %s", asked.Replicas, asked.Partition, m.goal.Update.Revision)
	}
	for position := range asked.Replicas {
		p := m.pods[position]
		if p == nil || !p.ready {
			m.fail("%d is not there in the end: %s", position, m.describe())
		}
		if position >= asked.Partition && p.hash != o.UpdateHash {
			m.fail("%d is released, and on %s in the end: %s", position, p.hash, m.describe())
		}
		if position < releasedFrom(o) && p.hash != "h1" && p.hash == o.UpdateHash && asked.Partition > 0 && m.goal.Update.Revision != "r1" {
			m.fail("%d was never released, and is on %s in the end: %s", position, p.hash, m.describe())
		}
	}
}

// step does one thing, of all that can happen.
func (m *model) step() {
	asked := &m.goal.Child
	switch rapid.IntRange(0, 19).Draw(m.t, "what") {
	case 0, 1, 2, 3, 4:
		m.united()
	case 5, 6, 7, 8:
		m.sync()
	case 9, 10:
		m.kubelet(-1)
	case 11:
		m.kubelet(rapid.Int32Range(0, 5).Draw(m.t, "pod"))
	case 12:
		m.blind = !m.blind
		m.note("blind %v", m.blind)
	case 13:
		if p := m.pods[rapid.Int32Range(0, 5).Draw(m.t, "deleted pod")]; p != nil {
			p.terminating = true
			m.note("a pod is deleted: %s", m.describe())
		}
	case 14:
		m.gone(rapid.Bool().Draw(m.t, "orphan"))
	case 15:
		asked.Replicas = rapid.Int32Range(0, 5).Draw(m.t, "replicas")
		m.note("asked: x%d p%d", asked.Replicas, asked.Partition)
	case 16:
		// Never released whole: r1 is what is protected, to the end.
		asked.Partition = rapid.SampledFrom([]int32{1, 1, 2, 3, 5, 2147483647}).Draw(m.t, "partition")
		m.note("asked: x%d p%d", asked.Replicas, asked.Partition)
	case 17:
		m.goal.update(rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(m.t, "revision"))
		m.note("asked: %s", m.goal.Update.Revision)
	case 18:
		if m.child != nil {
			m.child.Partition = rapid.Int32Range(0, 3).Draw(m.t, "foreign partition")
			m.lapsed = m.lapsed || m.child.Partition < asked.Partition // what it releases is not our doing
			m.note("somebody sets the partition to %d", m.child.Partition)
			m.child.SpecObserved = false
		}
	default:
	}
}

// Whatever happens, no protected replica comes up on another revision than its own,
// unless the child had forgotten that; and in the end each that was never released
// runs it.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, goal: *aGoal().update("r1").partition(2147483647), pods: map[int32]*pod{}}
		m.goal.Child.ParentGeneration = 1
		m.child = aChild().recorded(2147483647, "", 0)
		m.child.Ordered = rapid.Bool().Draw(t, "ordered")
		ordered := m.child.Ordered
		for position := range int32(4) {
			m.pods[position] = &pod{hash: "h1", ready: true, uid: 100 + int(position)}
		}
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			if m.step(); m.child != nil {
				m.child.Ordered = ordered
			}
		}
		m.settle()
	})
}

// A child that forgets is reminded, and what came up wrong in between goes back; the
// model can forget, so that the walks are worth something.
func TestForgottenAndRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := &model{t: t, goal: *aGoal().partition(2), pods: map[int32]*pod{}, blind: true}
		m.united() // seeds
		for range 3 {
			m.sync()
			m.united()
			m.kubelet(-1)
		}
		if RevisionOf(m.observe()) != "r2" {
			m.fail("it is not staged: %s", m.describe())
		}
		m.sync() // and forgets
		if !Forgot(m.observe()) {
			m.fail("it remembers though its controller saw no revision")
		}
		// With both of them gone, all that there is is updated, and it would settle again.
		lost := rapid.Int32Range(1, 2).Draw(t, "lost")
		for position := range lost {
			delete(m.pods, position)
		}
		for range 3 {
			m.sync()
			m.kubelet(-1)
		}
		if m.pods[0].hash != "h2" {
			m.fail("0 came back as it was, though the child had forgotten that: %s", m.describe())
		}
		m.settle()
		if got := m.describe(); got != "0 h1, 1 h1, 2 h2, 3 h2" {
			m.fail("not all is restored: %s", got)
		}
	})
}
