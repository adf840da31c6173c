// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// world has children and a StatefulSet controller (adapters/statefulset/model, which behaves like the real ones), as small
// as the planner needs them. Decisions of the planner are carried out at once, and every pod that is not of a
// broken revision becomes available in the next round. (The API server, the cache and the caller are simulated
// elsewhere.)
type world struct {
	strategy *v1alpha1.RollingUpdate
	update   string
	current  string
	subsets  []*child
	state    *v1alpha1.RolloutStatus
	approved string
	forced   string
	promoted string
	retry    string
	paused   bool
	// seen is what is seen of the checks; resumed is when the last pause ended.
	seen map[string]known.CheckResult
	// runs are the Jobs of checks, from which what is seen follows; nil in worlds without such checks.
	runs    *jobs
	resumed time.Time
	// measure, if it is set, sets seen before each pass.
	measure func()
	now     time.Time
	uid     int
	// broken revisions make pods that fail.
	broken map[string]bool
	story  []string
	// narrative has the decisions of the planner, and the reasons.
	narrative []string
	began     time.Time
	// slow is how long a pod takes to become ready.
	slow time.Duration
	// mostUnavailable is the maximum number of replicas that were unavailable at once.
	mostUnavailable int
	// mostOf is the same for each subset. mostCounted includes replicas that are released and not updated, as the
	// ledger counts them.
	mostOf, mostCounted map[string]int
	last                coordination.Plan
	// extraGates are gates that a test adds, missingGates the names of those that it removes.
	extraGates   []coordination.Gate
	missingGates []string
}

type child struct {
	coordination.Subset
	// protects is the version that it creates below its partition.
	protects string
	desired  int32
}

func newWorld(strategy *v1alpha1.RollingUpdate, sizes ...int32) *world {
	w := &world{strategy: strategy, update: "v1", current: "v1", now: time.Unix(1767225600, 0), broken: map[string]bool{}, mostOf: map[string]int{}, mostCounted: map[string]int{}}
	for i, size := range sizes {
		c := &child{desired: size, protects: "v1"}
		c.Name, c.Desired, c.Revision, c.LastPartition = string(rune('a'+i)), size, "v1", coordination.Held
		c.Observed = &adapters.Observed{Replicas: size, SpecObserved: true, CurrentHash: "v1", UpdateHash: "v1"}
		c.Observed.Meta.Name = "web-" + c.Name
		w.subsets = append(w.subsets, c)
		for p := range size {
			w.make(c, p, "v1")
		}
	}
	w.ready()
	w.settle()
	w.story, w.narrative, w.began = nil, nil, w.now
	w.mostUnavailable, w.mostOf, w.mostCounted = 0, map[string]int{}, map[string]int{}
	return w
}

func (w *world) ordered() *world {
	for _, c := range w.subsets {
		c.Observed.Ordered = true
	}
	return w
}

func (w *world) make(c *child, position int32, revision string) {
	w.uid++
	r := adapters.Replica{
		Name: fmt.Sprintf("web-%s-%d", c.Name, position), UID: types.UID(fmt.Sprint(w.uid)), Position: position,
		Hash: revision, Created: w.now, Since: w.now,
	}
	c.Observed.Pods = append(c.Observed.Pods, r)
	slices.SortFunc(c.Observed.Pods, func(a, b adapters.Replica) int { return int(a.Position - b.Position) })
}

// member returns the replica at a position, or nil.
func (c *child) member(position int32) *adapters.Replica {
	for i := range c.Observed.Pods {
		if c.Observed.Pods[i].Position == position {
			return &c.Observed.Pods[i]
		}
	}
	return nil
}

func (c *child) drop(position int32) {
	c.Observed.Pods = slices.DeleteFunc(c.Observed.Pods, func(r adapters.Replica) bool { return r.Position == position })
}

// fail makes a replica unready until it is replaced.
func (w *world) fail(subset int, positions ...int32) {
	for _, p := range positions {
		m := w.subsets[subset].member(p)
		m.Ready, m.ReadySince, m.Since, m.Failure = false, time.Time{}, w.now, "CrashLoopBackOff"
	}
}

// ready lets every pod become ready that can.
func (w *world) ready() {
	for _, c := range w.subsets {
		for i := range c.Observed.Pods {
			m := &c.Observed.Pods[i]
			if w.broken[m.Hash] && !m.Ready {
				m.Failure = "ImagePullBackOff"
			}
			if !m.Ready && m.Failure == "" && w.now.Sub(m.Created) >= w.slow {
				m.Ready, m.ReadySince = true, w.now
			}
		}
	}
}

// The versions of a child's pods, as its StatefulSet controller distinguishes them.
const (
	updateVersion statefulset.Version = iota + 1
	protectedVersion
	otherVersion
)

// set returns the child as its StatefulSet controller sees it.
func (c *child) set() *statefulset.Wide {
	o := c.Observed
	version := func(hash string) statefulset.Version {
		switch hash {
		case o.UpdateHash:
			return updateVersion
		case c.protects:
			return protectedVersion
		}
		return otherVersion
	}
	set := &statefulset.Wide{
		Template: updateVersion, Replicas: int(o.Replicas), Partition: int(o.Partition), Current: version(c.protects),
		Pods: make([]statefulset.Pod, o.Replicas),
	}
	for i := range o.Pods {
		m := &o.Pods[i]
		for int(m.Position) >= len(set.Pods) {
			set.Pods = append(set.Pods, statefulset.Pod{})
		}
		pod := &set.Pods[m.Position]
		pod.Phase, pod.Version, pod.Owner = statefulset.Unready, version(m.Hash), statefulset.Mine
		if m.Ready {
			pod.Phase = statefulset.Ready
		}
	}
	return set
}

// sync runs the StatefulSet controller of Kubernetes 1.36. A pod that it deletes is gone at once, and its
// replacement is created in the same round.
func (w *world) sync(c *child) {
	if replaced := w.syncOnce(c); replaced {
		w.syncOnce(c)
	}
}

// syncOnce runs one pass of it, and reports whether it deleted a replica to replace it.
func (w *world) syncOnce(c *child) (replaced bool) {
	set, o := c.set(), c.Observed
	created, deleted := set.Sync(statefulset.Kind{Ordered: o.Ordered})
	for _, i := range created {
		revision := c.protects
		if set.Pods[i].Version == updateVersion {
			revision = o.UpdateHash
		}
		w.make(c, int32(i), revision)
	}
	for _, i := range deleted {
		c.drop(int32(i))
		replaced = replaced || i < set.Replicas
	}
	// A set without replicas finishes as well, and forgets what it protected. Reminding it is done by
	// controllers/subset, which is not part of this world, so it does not forget.
	if set.Current == updateVersion && set.Replicas > 0 {
		o.CurrentHash, c.protects = o.UpdateHash, o.UpdateHash
	}
	return replaced
}

// decide runs one pass of the planner and carries it out.
func (w *world) decide() coordination.Plan {
	w.now = w.now.Add(time.Second)
	if w.runs != nil {
		w.seen = w.runs.seen(w.last.Asks)
	}
	in := w.input()
	p := coordination.CoordinateWith(in, w.missingGates, w.extraGates...)
	w.record(in, p)
	for i, d := range p.Subsets {
		c := w.subsets[i]
		if c.Revision != w.update && !w.paused {
			c.Revision, c.Observed.UpdateHash = w.update, w.update
		}
		c.Observed.Partition, c.Observed.Replicas = d.Partition, d.Replicas
		for _, r := range d.Delete {
			if m := c.member(r.Position); m != nil && m.UID == r.UID {
				c.drop(r.Position)
			}
		}
	}
	w.state, w.last = p.State, p
	if w.runs != nil {
		w.runs.create(p.Start)
	}
	return p
}

// record adds the decisions of a pass, and the reasons, to the narrative: one line for each decision.
func (w *world) record(in coordination.Input, p coordination.Plan) {
	line := func(format string, args ...any) {
		w.narrative = append(w.narrative, fmt.Sprintf("%3.0fs  ", w.now.Sub(w.began).Seconds())+fmt.Sprintf(format, args...))
	}
	for i, d := range p.Subsets {
		s := &in.Subsets[i]
		if d.Replicas != s.Observed.Replicas {
			line("%s: replicas %d -> %d", s.Name, s.Observed.Replicas, d.Replicas)
		}
		if d.Partition != s.Observed.Partition {
			line("%s: partition %s -> %s of %d: %s", s.Name, held(s.Observed.Partition), held(d.Partition), s.Desired, d.ChangeReason)
		}
		for _, r := range d.Delete {
			line("%s: deletes %s", s.Name, r.Name)
		}
	}
	before := in.State
	if before == nil {
		before = &v1alpha1.RolloutStatus{}
	}
	told := p.State.Phase == v1alpha1.RolloutProgressing || before.Phase == p.State.Phase && before.Step == p.State.Step
	if p.State.Step != before.Step || !told {
		text := fmt.Sprintf("rollout: step %d, %s", p.State.Step, p.State.Phase)
		if p.State.Message != "" {
			text += ": " + p.State.Message
		}
		line("%s", text)
	}
}

func (w *world) input() coordination.Input {
	if w.measure != nil {
		w.measure()
	}
	paused := ""
	if w.paused {
		paused = "the rollout is paused (spec.paused)"
	}
	in := coordination.Input{
		Object:   types.NamespacedName{Namespace: "shop", Name: "web"},
		Strategy: w.strategy, Update: w.update, GoesBack: w.update == w.current, State: w.state, Approved: w.approved, Forced: w.forced,
		Promoted: w.promoted, Retry: w.retry, Seen: w.seen,
		Paused: paused, ProgressDeadline: 10 * time.Minute, Resumed: w.resumed, Now: w.now,
	}
	for _, c := range w.subsets {
		c.Desired = c.desired
		in.Subsets = append(in.Subsets, c.Subset)
	}
	return in
}

// round runs everything once: the planner, the StatefulSet controllers, and the kubelets.
func (w *world) round() bool {
	before := w.picture()
	w.decide()
	for _, c := range w.subsets {
		w.mostCounted[c.Name] = max(w.mostCounted[c.Name], c.counted())
	}
	for _, c := range w.subsets {
		w.sync(c)
	}
	w.mostUnavailable = max(w.mostUnavailable, w.down())
	for _, c := range w.subsets {
		w.mostOf[c.Name] = max(w.mostOf[c.Name], c.down())
	}
	w.ready()
	if w.complete() && !w.last.Unfinished {
		w.current = w.update
	}
	after := w.picture()
	if after != before {
		w.story = append(w.story, after)
	}
	return after != before || w.state.Phase == v1alpha1.RolloutStaging || w.starting()
}

// starting reports whether a pod will become ready with time.
func (w *world) starting() bool {
	return slices.ContainsFunc(w.subsets, func(c *child) bool {
		return slices.ContainsFunc(c.Observed.Pods, func(m adapters.Replica) bool { return !m.Ready && m.Failure == "" })
	})
}

func (w *world) complete() bool {
	if w.running(w.update) == 0 {
		return false
	}
	for _, c := range w.subsets {
		for _, m := range c.Observed.Pods {
			if m.Hash != w.update || !m.Ready {
				return false
			}
		}
		if len(c.Observed.Pods) != int(c.desired) {
			return false
		}
	}
	return true
}

func (w *world) down() int {
	n := 0
	for _, c := range w.subsets {
		n += c.down()
	}
	return n
}

// counted returns how many replicas of the subset the ledger counts as unavailable.
func (c *child) counted() int {
	n := int(c.desired)
	for _, m := range c.Observed.Pods {
		if m.Ready && m.Position < c.desired && (m.Hash == c.Observed.UpdateHash || m.Position < c.Observed.Partition) {
			n--
		}
	}
	return n
}

// down returns how many replicas of the subset are unavailable.
func (c *child) down() int {
	n := int(c.desired)
	for _, m := range c.Observed.Pods {
		if m.Ready && m.Position < c.desired {
			n--
		}
	}
	return n
}

// settle runs rounds until nothing changes.
func (w *world) settle() {
	for range 100000 {
		if quiet := !w.round(); quiet && !w.round() {
			return
		}
	}
	panic("it does not end:\n" + strings.Join(w.story[len(w.story)-10:], "\n"))
}

// updated returns how many replicas of each subset are updated and ready.
func (w *world) updated() []int {
	counts := make([]int, 0, len(w.subsets))
	for _, c := range w.subsets {
		n := 0
		for _, m := range c.Observed.Pods {
			if m.Hash == w.update && m.Ready {
				n++
			}
		}
		counts = append(counts, n)
	}
	return counts
}

// picture returns the world in one line.
func (w *world) picture() string {
	var text []string
	for _, c := range w.subsets {
		line := fmt.Sprintf("%s %s/%d:", c.Name, held(c.Observed.Partition), c.Observed.Replicas)
		for _, m := range c.Observed.Pods {
			line += " " + m.Hash
			if !m.Ready {
				line += "!"
			}
		}
		text = append(text, line)
	}
	phase := ""
	if w.state != nil {
		phase = fmt.Sprintf("  [%d %s] %s", w.state.Step, w.state.Phase, w.state.Message)
	}
	return strings.Join(text, " | ") + phase
}

func held(partition int32) string {
	if partition == coordination.Held {
		return "held"
	}
	return fmt.Sprint(partition)
}

func (w *world) roll(to string) *world {
	w.update = to
	return w
}

func strategy(change func(*v1alpha1.RollingUpdate)) *v1alpha1.RollingUpdate {
	s := &v1alpha1.RollingUpdate{}
	if change != nil {
		change(s)
	}
	return s
}

func amount(s string) *intstr.IntOrString {
	v := intstr.Parse(s)
	return &v
}
