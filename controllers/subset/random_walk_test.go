// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
)

// model is a StatefulSet with its controller (adapters/statefulset/model, which behaves as the real ones were observed to), its
// kubelets, and the part of United's controller that is in Next. Each of these acts only when the test calls it.
// Revisions have the names of the parent's: the set's own revision for r1 is h1.
type model struct {
	t    *rapid.T
	goal goalBuilder
	// child is what United wrote on the set; nil if there is none.
	child *childBuilder
	set   statefulset.Set
	kind  statefulset.Kind
	// blind: the StatefulSet controller does not see the revisions that it created, as after a restart of the API
	// server.
	blind bool
	// lapsed: for that reason it has made a revision the current one.
	lapsed bool
	// outlived: there are pods of a child that was orphaned.
	outlived bool
	trace    []string
}

func newModel(t *rapid.T, goal *goalBuilder) *model {
	return &model{t: t, goal: *goal, kind: statefulset.Kind{CountsUnavailable: rapid.Bool().Draw(t, "1.37")}}
}

func (m *model) note(format string, args ...any) {
	m.trace = append(m.trace, fmt.Sprintf(format, args...))
}

func (m *model) fail(format string, args ...any) {
	m.t.Helper()
	m.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(m.trace, "\n"))
}

func numberOf(revision string) statefulset.Version {
	return statefulset.Version(revision[len("r")] - '0')
}

func hashOf(v statefulset.Version) string {
	if v == 0 {
		return ""
	}
	return fmt.Sprint("h", v)
}

// observe returns the child as it is, with its pods.
func (m *model) observe() *adapters.Observed {
	if m.child == nil {
		return nil
	}
	o := m.child.Observed
	o.Ordered, o.SpecObserved = m.kind.Ordered, m.set.Observed
	o.CurrentHash, o.UpdateHash = hashOf(m.set.Current), hashOf(m.set.Update)
	for position := range m.set.Pods {
		if p := &m.set.Pods[position]; p.Owner == statefulset.Mine {
			name := fmt.Sprint("web-zone-a-", position)
			r := adapters.Replica{Name: name, UID: types.UID(name), Position: int32(position), Hash: hashOf(p.Version), Ready: p.Phase == statefulset.Ready, Terminating: p.Terminating}
			if r.Ready {
				r.ReadySince = epoch()
			}
			o.Pods = append(o.Pods, r)
		}
	}
	return &o
}

// united is a pass of United's controller, which makes at most one write.
func (m *model) united() {
	o := m.observe()
	g := m.goal.Goal
	g.ProtectedRevision = "r1"
	if o != nil {
		if recorded := Protected(o, "", 0); recorded != "" {
			g.ProtectedRevision = recorded
		}
		g.SameTemplate = RevisionOf(o) == g.Update.Revision
		has := versionOf(RevisionOf(o))
		g.Has = &has
	}
	protected := versionOf(g.ProtectedRevision)
	g.Protected, g.SamePods = &protected, g.Update.Revision == g.ProtectedRevision
	s := nextStep(g, o)
	m.note("united: %s: %s", asText(s), s.Reason)
	switch s.Action {
	case ActionHalt, ActionWait:
	case ActionRemind:
		m.set.Current = numberOf("r" + strings.TrimPrefix(s.Hash, "h"))
	case ActionApply, ActionCreate, ActionSeed, ActionRelearn:
		if !m.write(s) {
			for _, r := range DeletableUnreleased(o, epoch()) {
				m.note("  deletes %s", r.Name)
				m.set.Delete(int(r.Position))
			}
		}
	}
}

// write applies a child, and reports whether that changed it.
func (m *model) write(s Step) bool {
	if m.child == nil && m.outlived {
		for position := range m.set.Pods {
			if m.set.Pods[position].Exists() {
				s = KeepOutlived(s, int32(position)+1)
			}
		}
	}
	c := s.Child
	if m.child == nil {
		m.child = aChild()
	} else if Seeding(&m.child.Observed) == c.Seeding && m.child.Replicas == c.Replicas && m.child.Partition == c.Partition &&
		RecordedPartition(&m.child.Observed) == c.Partition && RevisionOf(&m.child.Observed) == c.Revision {
		return false
	}
	m.child.Meta.Annotations = map[string]string{}
	m.child.on(c.Revision).protecting(c.ProtectedRevision).recorded(c.Partition, c.ProtectedHash, c.ReleasedFrom).releasedBefore(c.ReleasedFrom, c.ReleasedBefore).replicas(c.Replicas)
	if c.Seeding {
		m.child.seeding()
	}
	m.apply()
	return true
}

// apply writes the spec of the set.
func (m *model) apply() {
	c := &m.child.Observed
	m.set.Apply(numberOf(RevisionOf(c)), uint8(c.Replicas), uint8(min(c.Partition, math.MaxUint8)))
}

// sync is a pass of the StatefulSet controller.
func (m *model) sync() {
	if m.child == nil {
		return
	}
	seen, current := m.set.Revisions, m.set.Current
	if m.blind {
		clear(m.set.Revisions[:])
	}
	done := m.set.Sync(m.kind)
	if m.blind {
		m.lapsed = m.lapsed || current != 0 && current != m.set.Update
		for v, owner := range seen {
			m.set.Revisions[v] = cmp.Or(owner, m.set.Revisions[v])
		}
	}
	for position := range m.set.Pods {
		if done.Created&(1<<position) != 0 {
			m.judge(int32(position), hashOf(m.set.Pods[position].Version))
		}
	}
	c := m.observe()
	m.note("sync: %s x%d p%d current %s update %s; %s", RevisionOf(c), c.Replicas, c.Partition, c.CurrentHash, c.UpdateHash, m.describe())
}

// judge checks that a protected replica comes up on the protected revision, whatever the goal was meanwhile, unless the
// child has forgotten that revision.
func (m *model) judge(position int32, hash string) {
	if asked := &m.goal.Child; position < asked.Partition && position < m.child.Partition && hash != "h1" && !m.lapsed {
		m.fail("%d comes up on %s, below the partition %d: %s", position, hash, asked.Partition, m.describe())
	}
}

func (m *model) describe() string {
	var text []string
	for position := range m.set.Pods {
		if p := &m.set.Pods[position]; p.Exists() {
			word := fmt.Sprint(position, " ", hashOf(p.Version))
			if p.Terminating {
				word += " terminating"
			} else if !p.Ready() {
				word += " unready"
			}
			text = append(text, word)
		}
	}
	return strings.Join(text, ", ")
}

// kubelet advances each pod, or only one.
func (m *model) kubelet(only int) {
	for position := range m.set.Pods {
		switch p := &m.set.Pods[position]; {
		case only >= 0 && position != only, !p.Exists():
		case p.Terminating:
			*p = statefulset.Pod{}
		default:
			p.Phase = statefulset.Ready
		}
	}
}

// gone deletes the child, with or without its pods.
func (m *model) gone(orphan bool) {
	m.note("the child is deleted, orphan %v", orphan)
	m.child, m.outlived = nil, orphan && m.describe() != ""
	if m.set.Remove(orphan); !orphan { // United does not create another child before they are gone
		m.set = statefulset.Set{}
	}
}

// settle lets all controllers finish, after the StatefulSet controller sees the revisions again.
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
		p := &m.set.Pods[position]
		hash := hashOf(p.Version)
		if !p.Ready() {
			m.fail("%d is not there in the end: %s", position, m.describe())
		}
		if position >= asked.Partition && hash != o.UpdateHash {
			m.fail("%d is released, and on %s in the end: %s", position, hash, m.describe())
		}
		if position < releasedFrom(o) && hash != "h1" && hash == o.UpdateHash && asked.Partition > 0 && m.goal.Update.Revision != "r1" {
			m.fail("%d was never released, and is on %s in the end: %s", position, hash, m.describe())
		}
	}
}

// step does one of all the things that can happen.
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
		m.kubelet(rapid.IntRange(0, 5).Draw(m.t, "pod"))
	case 12:
		m.blind = !m.blind
		m.note("blind %v", m.blind)
	case 13:
		m.set.Delete(rapid.IntRange(0, 5).Draw(m.t, "deleted pod"))
		m.note("a pod is deleted: %s", m.describe())
	case 14:
		m.gone(rapid.Bool().Draw(m.t, "orphan"))
	case 15:
		asked.Replicas = rapid.Int32Range(0, 5).Draw(m.t, "replicas")
		m.note("asked: x%d p%d", asked.Replicas, asked.Partition)
	case 16:
		// Never released completely: r1 remains the protected revision.
		asked.Partition = rapid.SampledFrom([]int32{1, 1, 2, 3, 5, 2147483647}).Draw(m.t, "partition")
		m.note("asked: x%d p%d", asked.Replicas, asked.Partition)
	case 17:
		m.goal.update(rapid.SampledFrom([]string{"r1", "r2", "r3"}).Draw(m.t, "revision"))
		m.note("asked: %s", m.goal.Update.Revision)
	case 18:
		if m.child != nil {
			m.child.Partition = rapid.Int32Range(0, 3).Draw(m.t, "foreign partition")
			m.lapsed = m.lapsed || m.child.Partition < asked.Partition // United is not responsible for what that releases
			m.note("somebody sets the partition to %d", m.child.Partition)
			m.apply()
		}
	default:
	}
}

// Whatever happens, no protected replica comes up on another revision than its own, unless the child had forgotten
// that; and in the end each replica that was never released runs it.
func TestWalk(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, aGoal().update("r1").partition(2147483647))
		m.goal.Child.ParentGeneration = 1
		m.child = aChild().recorded(2147483647, "", 0)
		m.apply()
		for range 4 {
			m.sync()
			m.kubelet(-1)
		}
		m.kind.Ordered = rapid.Bool().Draw(t, "ordered")
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			m.step()
		}
		m.settle()
	})
}

// A child that forgets is reminded, and replicas that came up wrong meanwhile go back. This also shows that the model
// can forget, without which the walks would prove little.
func TestForgottenAndRestored(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel(t, aGoal().partition(2))
		m.blind = true
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
		// Without these two, all existing replicas are updated, so it would settle again.
		for position := range rapid.IntRange(1, 2).Draw(t, "lost") {
			m.set.Pods[position] = statefulset.Pod{}
		}
		for range 3 {
			m.sync()
			m.kubelet(-1)
		}
		if hashOf(m.set.Pods[0].Version) != "h2" {
			m.fail("0 came back as it was, though the child had forgotten that: %s", m.describe())
		}
		m.settle()
		if got := m.describe(); got != "0 h1, 1 h1, 2 h2, 3 h2" {
			m.fail("not all is restored: %s", got)
		}
	})
}
