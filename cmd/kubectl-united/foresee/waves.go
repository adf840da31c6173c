// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package foresee

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
)

// since returns what happened since a snapshot.
func (f *future) since(before map[string][]adapters.Replica) Wave {
	w := Wave{}
	for _, name := range f.order() {
		c := f.children[name]
		var now []adapters.Replica
		if c != nil {
			now = c.seen().Observed.Pods
		}
		went, came := difference(before[name], now), difference(now, before[name])
		pairs := min(len(went), len(came))
		if c != nil && c.observed.Traits.Partition == adapters.ByOrdinal {
			went, came, pairs = paired(went, came)
		}
		for i := range pairs {
			f.restarted(c, &went[i], &came[i])
		}
		w.add(name, Restarted, names(came[:pairs]))
		created := names(came[pairs:])
		slices.Reverse(created) // from the lowest, as they come
		w.add(name, Created, created)
		removed := names(went[pairs:])
		if c != nil && c.observed.Traits.Partition != adapters.ByOrdinal {
			clear(removed) // its controller chooses which
		}
		w.add(name, Removed, removed)
	}
	return w
}

// order is the order of the spec, followed by the other subsets.
func (f *future) order() []string {
	var all []string
	for _, s := range f.world.Spec.Subsets {
		all = append(all, s.Name)
	}
	for _, name := range f.known {
		if !slices.Contains(all, name) {
			all = append(all, name)
		}
	}
	return all
}

// difference returns the replicas of a that b does not have, the highest first.
func difference(a, b []adapters.Replica) []adapters.Replica {
	if len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) {
		return nil
	}
	there := map[types.UID]bool{}
	for i := range b {
		there[b[i].UID] = true
	}
	only := slices.DeleteFunc(slices.Clone(a), func(r adapters.Replica) bool { return there[r.UID] })
	slices.SortStableFunc(only, func(a, b adapters.Replica) int { return cmp.Compare(b.Position, a.Position) })
	return only
}

// paired returns the replicas with those first that are replaced at the same position, and how many these are.
func paired(went, came []adapters.Replica) (first, second []adapters.Replica, pairs int) {
	in := func(list []adapters.Replica) func(adapters.Replica) bool {
		return func(r adapters.Replica) bool {
			return slices.ContainsFunc(list, func(o adapters.Replica) bool { return o.Position == r.Position })
		}
	}
	split := func(list []adapters.Replica, in func(adapters.Replica) bool) (both, only []adapters.Replica) {
		for _, r := range list {
			if in(r) {
				both = append(both, r)
			} else {
				only = append(only, r)
			}
		}
		return both, only
	}
	bothWent, onlyWent := split(went, in(came))
	bothCame, onlyCame := split(came, in(went))
	return append(bothWent, onlyWent...), append(bothCame, onlyCame...), len(bothCame)
}

func names(replicas []adapters.Replica) (names []string) {
	for i := range replicas {
		names = append(names, replicas[i].Name)
	}
	return names
}

func (w *Wave) add(subset, action string, names []string) {
	if len(names) > 0 {
		w.Changes = append(w.Changes, Change{subset, action, named(names, len(names))})
	}
}

// restarted notes why a replica is replaced.
func (f *future) restarted(c *child, was, is *adapters.Replica) {
	r := Restart{From: c.revisionOf(was.Hash), To: c.revisionOf(is.Hash)}
	all := f.restarts[c.subset]
	i := slices.IndexFunc(all, func(o Restart) bool { return o.From == r.From && o.To == r.To })
	if i < 0 {
		r.Why = f.why(c, r.From, r.To)
		i, all = len(all), append(all, r)
	}
	all[i].Replicas = named(append(all[i].Names, is.Name), int(all[i].Count)+1)
	f.restarts[c.subset] = all
}
