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
	o.SpecObserved, o.Unmade, o.StatusOutdated, o.Refused = true, false, false, ""
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
		if n, found := c.bound(false, path...); found {
			most = n
		}
	}
	return uint8(min(max(1, most), math.MaxUint8))
}

// surge is how many replicas a Deployment may have beyond those that it is asked for.
func (c *child) surge() int32 {
	n, _ := c.bound(true, "spec", "strategy", "rollingUpdate", "maxSurge")
	return n
}

// bound returns the value of a field that is a number or a percentage of the replicas.
func (c *child) bound(roundUp bool, path ...string) (n int32, found bool) {
	value, found, _ := unstructured.NestedFieldNoCopy(c.object.Object, path...)
	if !found {
		return 0, false
	}
	parsed := intstr.IntOrString{}
	switch v := value.(type) {
	case int64:
		parsed = intstr.FromInt32(int32(min(v, math.MaxInt32)))
	case string:
		parsed = intstr.Parse(v)
	}
	scaled, err := intstr.GetScaledValueFromIntOrPercent(&parsed, int(c.observed.Replicas), roundUp)
	return int32(min(scaled, math.MaxInt32)), err == nil
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

// syncWhole plays the Deployment controller, which replaces as many replicas at a time as its pace allows. It does not play that
// it may create some before it deletes others.
func (c *child) syncWhole(f *future) (changed bool) {
	o := &c.observed
	old, updated := c.alive()
	switch missing := int(o.Replicas) - len(old) - len(updated); {
	case c.scaledFor != o.Replicas: // it does nothing else before that
		c.scaleWhole(f)
		changed = true
	case missing > 0:
		hash := o.UpdateHash
		if o.Paused && len(old) > 0 {
			hash = c.pods[old[0]].Hash
		}
		for range missing {
			c.create(f, 0, hash)
		}
		changed = true
	case !o.Paused:
		most := len(c.pods)
		if o.Pace != nil {
			most = int(max(1, o.Pace.MaxUnavailable))
		}
		_, changed = c.replace(f.world.Now, 0, most)
	}
	c.rank(f)
	old, updated = c.alive()
	o.DesiredOthers = int32(len(old))
	o.DesiredUpdated = max(int32(len(updated)), o.Replicas-o.DesiredOthers)
	o.Unscaled, o.Overcounts, o.Crossing, o.Missed, o.Surplus = 0, false, false, false, o.DesiredUpdated+o.DesiredOthers-o.Replicas
	if o.Paused {
		o.Surplus = c.surge()
	}
	current := ""
	if len(old) == 0 && c.available(f.world.Now) == int(o.Replicas) {
		current = o.UpdateHash
	}
	changed = changed || current != o.CurrentHash
	o.CurrentHash = current
	return changed
}

// scaleWhole scales a Deployment: one version to what it is asked for, and several in proportion (GetReplicaSetProportion of
// k8s.io/kubernetes/pkg/controller/deployment/util), the largest first.
func (c *child) scaleWhole(f *future) {
	o := &c.observed
	before, most := c.scaledMost, o.Replicas+c.surge()
	c.scaledFor, c.scaledMost = o.Replicas, most
	versions, total := c.versions()
	switch {
	case len(versions) == 0:
		versions = []version{{hash: o.UpdateHash}}
	case o.Replicas == 0:
		most = 0
	}
	if len(versions) == 1 {
		c.resize(f, versions[0], o.Replicas)
		return
	}
	left := most - total
	slices.SortStableFunc(versions, func(a, b version) int {
		newer := cmp.Compare(b.newest(o), a.newest(o))
		if left < 0 {
			newer = -newer
		}
		return cmp.Or(cmp.Compare(len(b.pods), len(a.pods)), newer)
	})
	sizes := make([]int32, len(versions))
	for i, v := range versions {
		size := float64(len(v.pods))
		sizes[i] = int32(size)
		if share := int32(math.Round(size * float64(most) / float64(max(1, before)))); left > 0 {
			sizes[i] += min(share-sizes[i], left)
		} else if left < 0 {
			sizes[i] += max(share-sizes[i], left)
		}
		left -= sizes[i] - int32(size)
	}
	sizes[0] = max(0, sizes[0]+left)
	for i, v := range versions {
		c.resize(f, v, sizes[i])
	}
}

// version has the replicas of one ReplicaSet.
type version struct {
	hash string
	pods []int
}

// newest is 1 for the version of the template.
func (v *version) newest(o *adapters.Observed) int {
	if v.hash == o.UpdateHash {
		return 1
	}
	return 0
}

// versions returns the versions with replicas, and how many replicas those are.
func (c *child) versions() (all []version, replicas int32) {
	for i := range c.pods {
		r := &c.pods[i]
		if r.Terminating {
			continue
		}
		at := slices.IndexFunc(all, func(v version) bool { return v.hash == r.Hash })
		if at < 0 {
			at, all = len(all), append(all, version{hash: r.Hash})
		}
		all[at].pods = append(all[at].pods, i)
		replicas++
	}
	return all, replicas
}

// resize creates replicas of a version, or terminates its last ones.
func (c *child) resize(f *future, v version, replicas int32) {
	for n := int32(len(v.pods)); n < replicas; n++ {
		c.create(f, 0, v.hash)
	}
	for ; len(v.pods) > int(replicas); v.pods = v.pods[:len(v.pods)-1] {
		c.terminate(v.pods[len(v.pods)-1], f.world.Now)
	}
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
