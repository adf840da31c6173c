// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"cmp"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/adapters"
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
)

// sync lets the controller of a child act once, and reports whether that changed anything.
func (c *child) sync(f *future) (changed bool) {
	o := &c.observed
	changed = !o.SpecObserved || o.Unmade || o.StatusOutdated || o.UpdateHash != c.template()
	o.SpecObserved, o.Unmade, o.StatusOutdated = true, false, false
	o.UpdateHash = c.template()
	switch o.Traits.Partition {
	case adapters.ByOrdinal:
		changed = c.syncOrdinals(f) || changed
	case adapters.ByCount:
		changed = c.syncCount(f) || changed
	default:
		changed = c.syncWhole(f) || changed
	}
	if changed || o.Traits.Partition != adapters.ByOrdinal { // the others assign positions
		c.view = nil
	}
	return changed
}

// Versions of the pods of a modelled set: what it remembers, its template, and all others, which it does not distinguish.
const (
	remembered statefulset.Version = iota + 1
	template
	other
)

// syncOrdinals lets the model of the StatefulSet controller act. It serves for the other kinds with ordinals too.
func (c *child) syncOrdinals(f *future) (changed bool) {
	o := &c.observed
	set := c.set(f.world.Now)
	kind := statefulset.Kind{
		Ordered: o.Ordered, CountsUnavailable: f.opts.CountsUnavailable || o.Traits.Paced, MaxUnavailable: c.maxUnavailable(), MinReady: o.MinReadySeconds > 0,
	}
	created, deleted := set.Sync(kind)
	_, delegates := f.world.Spec.Adapter.(adapters.Delegating)
	had := min(c.reach, o.Replicas)
	c.reach = o.Replicas
	for _, ordinal := range deleted {
		for i := range c.pods {
			if int(c.pods[i].Position) == ordinal {
				c.terminate(i, f.world.Now)
			}
		}
	}
	for _, ordinal := range created {
		hash := o.UpdateHash
		switch {
		case set.Pods[ordinal].Version == remembered:
			hash = o.CurrentHash
		case delegates && int32(ordinal) >= had && o.CurrentHash != "" && o.CurrentHash != hash:
			// Trap: the workload that it leaves them to gets the replicas before the partition, so they may start on the earlier
			// template, and are then replaced. It is a matter of chance.
			f.early = append(f.early, c.podName(int32(ordinal)))
		}
		c.create(f, int32(ordinal), hash)
	}
	slices.SortFunc(c.pods, func(a, b adapters.Replica) int { return cmp.Compare(a.Position, b.Position) })
	current := o.UpdateHash
	if set.Current == remembered {
		current = o.CurrentHash
	}
	changed = len(created)+len(deleted) > 0 || current != o.CurrentHash
	o.CurrentHash = current
	return changed
}

// set returns the model of a child.
func (c *child) set(now time.Time) *statefulset.Wide {
	o := &c.observed
	set := &statefulset.Wide{Template: template, Replicas: int(o.Replicas), Partition: int(o.Partition)}
	switch o.CurrentHash {
	case "":
	case o.UpdateHash:
		set.Current = template
	default:
		set.Current = remembered
	}
	for i := range c.pods {
		r := &c.pods[i]
		if r.Position < 0 {
			continue
		}
		for len(set.Pods) <= int(r.Position) {
			set.Pods = append(set.Pods, statefulset.Pod{})
		}
		available, _ := r.Available(o.MinReadySeconds, now)
		pod := statefulset.Pod{Phase: statefulset.Unready, Version: other, Owner: statefulset.Mine, Terminating: r.Terminating, Aged: available}
		switch r.Hash {
		case o.UpdateHash:
			pod.Version = template
		case o.CurrentHash:
			pod.Version = remembered
		}
		if r.Ready {
			pod.Phase = statefulset.Ready
		}
		set.Pods[r.Position] = pod
	}
	return set
}

// maxUnavailable is how many replicas the controller of a child may make unavailable; at least 1.
func (c *child) maxUnavailable() uint8 {
	most := int32(1)
	if pace := c.observed.Pace; pace != nil {
		most = pace.MaxUnavailable
	}
	for _, path := range [][]string{
		{"spec", "updateStrategy", "rollingUpdate", "maxUnavailable"}, {"spec", "updateStrategy", "maxUnavailable"},
		{"spec", "rolloutStrategy", "rollingUpdateConfiguration", "maxUnavailable"},
	} {
		value, found, _ := unstructured.NestedFieldNoCopy(c.object.Object, path...)
		if !found {
			continue
		}
		parsed := intstr.IntOrString{}
		switch v := value.(type) {
		case int64:
			parsed = intstr.FromInt32(int32(min(v, math.MaxInt32)))
		case string:
			parsed = intstr.Parse(v)
		}
		if n, err := intstr.GetScaledValueFromIntOrPercent(&parsed, int(c.observed.Replicas), false); err == nil {
			most = int32(min(n, math.MaxInt32))
		}
	}
	return uint8(min(max(1, most), math.MaxUint8))
}

// syncCount plays the controller of a kind that chooses among its replicas.
func (c *child) syncCount(f *future) (changed bool) {
	o := &c.observed
	old, updated := c.alive()
	for len(old)+len(updated) < int(o.Replicas) {
		hash := o.UpdateHash
		if o.CurrentHash != "" && len(old) < int(min(o.Partition, o.Replicas)) {
			hash = o.CurrentHash
		}
		c.create(f, 0, hash)
		old, updated = c.alive()
		changed = true
	}
	for surplus := len(old) + len(updated) - int(o.Replicas); surplus > 0; surplus-- {
		from := &updated
		if len(old) > int(o.Partition) || len(updated) == 0 {
			from = &old
		}
		c.terminate((*from)[len(*from)-1], f.world.Now)
		*from = (*from)[:len(*from)-1]
		changed = true
	}
	old, replaced := c.replace(f.world.Now, int(o.Partition), int(c.maxUnavailable()))
	changed = changed || replaced
	c.rank(f)
	if settled := len(old) == 0 && len(updated) == int(o.Replicas); (settled || o.CurrentHash == "") && o.CurrentHash != o.UpdateHash {
		o.CurrentHash, changed = o.UpdateHash, true
	}
	return changed
}

// syncWhole plays the Deployment controller, which replaces as many replicas at a time as its pace allows.
func (c *child) syncWhole(f *future) (changed bool) {
	o := &c.observed
	old, updated := c.alive()
	for len(old)+len(updated) < int(o.Replicas) {
		hash := o.UpdateHash
		if o.Paused && len(old) > 0 {
			hash = c.pods[old[0]].Hash
		}
		c.create(f, 0, hash)
		old, updated = c.alive()
		changed = true
	}
	for surplus := len(old) + len(updated) - int(o.Replicas); surplus > 0 && len(old)+len(updated) > 0; surplus-- {
		from := &old
		if len(old) == 0 {
			from = &updated
		}
		c.terminate((*from)[len(*from)-1], f.world.Now)
		*from = (*from)[:len(*from)-1]
		changed = true
	}
	most := len(c.pods)
	if o.Pace != nil {
		most = int(max(1, o.Pace.MaxUnavailable))
	}
	if !o.Paused {
		var replaced bool
		old, replaced = c.replace(f.world.Now, 0, most)
		changed = changed || replaced
	}
	c.rank(f)
	o.DesiredUpdated, o.DesiredOthers = o.Replicas-int32(len(old)), int32(len(old))
	o.Unscaled, o.Overcounts, o.Crossing, o.Missed, o.Surplus = 0, false, false, false, 0
	current := ""
	if len(old) == 0 && c.available(f.world.Now) == int(o.Replicas) {
		current = o.UpdateHash
	}
	changed = changed || current != o.CurrentHash
	o.CurrentHash = current
	return changed
}

// replace terminates replicas that do not run the template, the last ones first, and returns those that are left. At most
// so many are unavailable, and so many of those that replace them: one that is not available is replaced all the same.
func (c *child) replace(now time.Time, keep, most int) (old []int, changed bool) {
	old, updated := c.alive()
	available := func(i int) bool {
		is, _ := c.pods[i].Available(c.observed.MinReadySeconds, now)
		return is
	}
	down, young := 0, 0
	for _, i := range old {
		if !available(i) {
			down++
		}
	}
	for _, i := range updated {
		if !available(i) {
			down++
			young++
		}
	}
	for ; len(old) > keep && young < most; young++ {
		last := old[len(old)-1]
		if available(last) {
			if down >= most {
				break
			}
			down++
		}
		c.terminate(last, now)
		old, changed = old[:len(old)-1], true
	}
	return old, changed
}

// alive returns the replicas that are not terminating: those that do not run the template, and those that do.
func (c *child) alive() (old, updated []int) {
	for i := range c.pods {
		switch r := &c.pods[i]; {
		case r.Terminating:
		case r.Hash == c.observed.UpdateHash:
			updated = append(updated, i)
		default:
			old = append(old, i)
		}
	}
	return old, updated
}

func (c *child) available(now time.Time) (n int) {
	for i := range c.pods {
		if is, _ := c.pods[i].Available(c.observed.MinReadySeconds, now); is {
			n++
		}
	}
	return n
}

// rank assigns the positions of replicas without ordinals.
func (c *child) rank(f *future) {
	if kind, is := f.world.Spec.Adapter.(adapters.Ranking); is {
		o := c.observed
		o.Pods = c.pods
		kind.Rank(&o)
		c.pods = o.Pods
	}
}
