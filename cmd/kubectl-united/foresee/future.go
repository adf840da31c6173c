// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Bounds for a plan that does not end: waves, turns of everybody in one of them, and waits after which nothing has changed.
const (
	mostWaits = 100
	mostWaves = 5000
	mostTurns = 500
	// mostExact bounds the waves that are foreseen as the manager makes them, times the replicas: about 3 seconds of CPU.
	mostExact = 1_000_000
)

// future is a world that only this package changes.
type future struct {
	world    world.World
	opts     Options
	children map[string]*child
	// update is the revision of the last plan.
	update *revision.Revision
	// stuck are the replicas that failed before: they do not become ready.
	stuck map[types.UID]bool
	// wake is in how long time alone changes something; 0 if it does not.
	wake time.Duration
	// changed: the pass has changed something. unkept is why it could not keep the revisions.
	changed bool
	unkept  error
	// made counts what was made, for names.
	made int
	// known are the subsets that have, or had, a child.
	known []string

	waves    []Wave
	restarts map[string][]Restart
	refused  []string
	// early are new replicas that may start on the earlier template.
	early []string
	// hurried says from when on there are more replicas in a wave than there will be; "" if that is never.
	hurried string
	writes  []Write
}

func newFuture(in *planner.Input, opts Options) *future {
	f := &future{
		world: in.World, opts: opts, update: in.Update, children: map[string]*child{}, stuck: map[types.UID]bool{}, restarts: map[string][]Restart{},
	}
	f.world.Parent, f.world.Wake = in.Parent.DeepCopy(), time.Time{} // the observer looks no more
	if f.world.Parent.UID == "" {
		f.world.Parent.UID = f.newUID() // children are told apart by their owner
	}
	f.world.Revisions = slices.Clone(in.Kept())
	f.world.Children = maps.Clone(in.Children)
	if f.world.Children == nil {
		f.world.Children = map[string]*world.Child{}
	}
	terms := in.Terms()
	for name, c := range in.Children {
		f.children[name] = childOf(name, c)
		f.children[name].recognize(&f.world)
		for i := range c.Observed.Pods {
			if failed, _ := terms.Failed(&c.Observed.Pods[i]); failed {
				f.stuck[c.Observed.Pods[i].UID] = true
			}
		}
	}
	f.known = f.names()
	return f
}

// names returns the names of the subsets with a child.
func (f *future) names() []string { return slices.Sorted(maps.Keys(f.children)) }

func (f *future) newUID() types.UID {
	f.made++
	return types.UID(fmt.Sprintf("foreseen-%d-%d", f.world.Parent.Generation, f.made)) // a plan may begin where another one ended
}

// play goes on until nothing changes any more, and reports whether it comes to that.
func (f *future) play() (finished bool, err error) {
	idle := 0
	for n := range mostWaves {
		f.hurry(n)
		changed, err := f.wave()
		if err != nil {
			return false, err
		}
		if idle++; changed {
			idle = 0
		}
		if !changed && (idle > mostWaits || !f.waits()) {
			return true, nil
		}
	}
	return false, nil
}

// hurry lets a rollout that would take too long to foresee go on with more replicas at a time. It ends in the same state.
func (f *future) hurry(waves int) {
	replicas := 0
	for _, c := range f.children {
		replicas += len(c.pods)
	}
	r := f.world.Parent.Spec.UpdateStrategy.RollingUpdate
	if r == nil || f.hurried != "" || waves*replicas < mostExact {
		return
	}
	f.hurried = fmt.Sprintf("after %d waves, up to 10%% of the replicas are in one wave: otherwise there would be too many to foresee", len(f.waves))
	r.MaxUnavailable = ptr.To(intstr.FromString("10%"))
}

// wave lets everybody act until all replicas that went are back, and all that come are ready. Kubelets are slower than controllers,
// so that everything is in one wave that may be.
func (f *future) wave() (changed bool, err error) {
	before := f.snapshot()
	for {
		acted, err := f.settle(&before)
		if err != nil {
			return false, err
		}
		changed = changed || acted
		if !f.leave() {
			break
		}
		changed = true
	}
	longest := int32(0)
	for _, name := range f.names() {
		if f.children[name].ready(f.world.Now, f.stuck) {
			longest, changed = max(longest, f.children[name].observed.MinReadySeconds), true
		}
	}
	f.world.Now = f.world.Now.Add(time.Duration(longest) * time.Second)
	f.note(before)
	return changed, nil
}

// note adds what happened since a snapshot as a wave.
func (f *future) note(before map[string][]adapters.Replica) {
	if w := f.since(before); len(w.Changes) > 0 {
		f.waves = append(f.waves, w)
	}
}

// split begins another wave if a replica that came since the snapshot is going already: otherwise the wave would show neither.
func (f *future) split(before *map[string][]adapters.Replica) {
	for name, c := range f.children {
		if slices.ContainsFunc(difference(c.seen().Observed.Pods, (*before)[name]), func(r adapters.Replica) bool { return r.Terminating }) {
			f.note(*before)
			*before = f.snapshot()
			return
		}
	}
}

// leave lets the replicas that are terminating go, and reports whether there were any.
func (f *future) leave() (any bool) {
	for _, c := range f.children {
		any = c.gone() || any
	}
	return any
}

// settle lets the manager and the controllers of the children act until they have nothing left to do.
func (f *future) settle(before *map[string][]adapters.Replica) (changed bool, err error) {
	for range mostTurns {
		acted, err := f.pass()
		if err != nil {
			return false, err
		}
		for _, name := range f.names() {
			acted = f.children[name].sync(f) || acted
		}
		if !acted {
			return changed, nil
		}
		f.split(before)
		changed = true
	}
	return false, fmt.Errorf("the plan does not come to rest within %d passes of the manager", mostTurns)
}

// waits passes the time until something happens by itself, and reports whether anything will. A timed pause is shown. Deadlines are
// not waited for, because they are for what a plan does not foresee.
func (f *future) waits() bool {
	rollout := f.world.Parent.Status.Rollout
	pause := rollout != nil && rollout.Phase == v1alpha1.RolloutPaused && !f.world.Parent.Spec.Paused
	if f.wake <= 0 || f.wake > longestLag && !pause && !f.unavailable() {
		return false
	}
	wait := (f.wake + time.Second - 1).Truncate(time.Second) // what is recorded of a pause has whole seconds
	f.world.Now = f.world.Now.Add(wait)
	if pause {
		f.pause(wait, timeless(rollout.Message))
	}
	return true
}

// pause adds to the pause that is the last wave, or a new one.
func (f *future) pause(length time.Duration, why string) {
	if last := len(f.waves) - 1; last >= 0 && f.waves[last].Why == why {
		if before, err := time.ParseDuration(f.waves[last].Pause); err == nil {
			f.waves[last].Pause = (before + length).String()
			return
		}
	}
	f.waves = append(f.waves, Wave{Pause: length.String(), Why: why})
}

// longestLag is how long the manager waits at most for others of which it does not get word.
const longestLag = 10 * time.Second

// unavailable reports whether a replica is ready, and not available yet.
func (f *future) unavailable() bool {
	for _, c := range f.children {
		for i := range c.pods {
			if is, at := c.pods[i].Available(c.observed.MinReadySeconds, f.world.Now); !is && !at.IsZero() {
				return true
			}
		}
	}
	return false
}

// pass is one pass of the manager, and reports whether it changed anything.
func (f *future) pass() (changed bool, err error) {
	f.show()
	in, err := planner.NewInput(&f.world)
	if err != nil {
		return false, err
	}
	f.changed = false
	p, _ := pass.Decide(in, f)
	if p == nil {
		return false, f.unkept
	}
	f.world.Revisions, f.update = p.In.Revisions, p.In.Update
	p.Carry(f)
	f.wake, err = p.Finish(f)
	return f.changed, err
}

// show lets the manager see the children as they are.
func (f *future) show() {
	f.world.Children = map[string]*world.Child{}
	for name, c := range f.children {
		f.world.Children[name] = c.seen()
	}
}

// snapshot has the replicas of all children.
func (f *future) snapshot() map[string][]adapters.Replica {
	all := map[string][]adapters.Replica{}
	for name, c := range f.children {
		all[name] = c.seen().Observed.Pods
	}
	return all
}
