// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/controllers/perparent"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

const (
	// lookUpAfter is how long a replica is missing before somebody asks what has its
	// name: its controller makes one in less.
	lookUpAfter = 10 * time.Second
	// lookUpAgain is how long the answer counts. Passes that come sooner do not ask.
	lookUpAgain = time.Minute
)

// readNameHolders finds out what holds the names of replicas that are missing for a while,
// past the cache: that holds only what has our labels. Without an answer all goes on.
func (r *Reconciler) readNameHolders(ctx context.Context, in *planner.Input) {
	parent := client.ObjectKeyFromObject(in.Parent)
	r.holders.DeleteFunc(parent, func(subset string, _ *missingName) bool { return in.Children[subset] == nil })
	for _, name := range slices.Sorted(maps.Keys(in.Children)) {
		c := in.Children[name]
		ask := r.holders.recordMissing(parent, name, planner.MissingReplicaName(c.Observed), in.Now)
		if ask.due {
			if pod, err := r.podLive(ctx, parent.Namespace, c.Observed.MissingName); err != nil {
				ctrl.LoggerFrom(ctx).Info("could not look up the pod that has the name of a missing replica", "pod", c.Observed.MissingName, "error", err.Error())
			} else {
				ask.holder = planner.WhyMissing(pod, in.Spec.Adapter.GroupVersionKind(), c.Observed, in.Parent, name)
				r.holders.recordHolder(parent, name, ask.holder)
			}
		}
		c.Observed.Holder = ask.holder
		wakeAt(in, ask.at)
	}
}

// podLive reads a pod past the cache; nil when there is none. It lists, so as to need no
// right to get.
func (r *Reconciler) podLive(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := r.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name}); err != nil {
		return nil, fmt.Errorf("read pod %s: %w", name, err)
	}
	if len(list.Items) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	return &list.Items[0], nil
}

// holders remembers, by subset, which replicas are missing since when, and what was
// found to have their names.
type holders struct {
	perparent.Memory[*missingName]
}

// missingName is the name that a subset's child lacks a pod of.
type missingName struct {
	pod string
	// since is when that was first seen, lookedUp when it was last looked up.
	since, lookedUp time.Time
	holder          string
}

// nameLookup is whether to look up what holds a name now, or else when. holder is what was found
// the last time.
type nameLookup struct {
	due    bool
	at     time.Time
	holder string
}

// recordMissing notes that a subset lacks a pod of that name, "" if it lacks none. Each name is
// asked for once it has been missing for a while, and then, where there are passes, once
// in a while: at is set before the first time only, so that nothing wakes up to ask again.
func (h *holders) recordMissing(parent types.NamespacedName, subset, pod string, now time.Time) nameLookup {
	if pod == "" {
		h.Delete(parent, subset)
		return nameLookup{}
	}
	v := h.Get(parent, subset)
	if v == nil || v.pod != pod {
		v = &missingName{pod: pod, since: now}
		h.Set(parent, subset, v)
	}
	switch due := v.since.Add(lookUpAfter); {
	case due.After(now):
		return nameLookup{at: due}
	case !v.lookedUp.IsZero() && v.lookedUp.Add(lookUpAgain).After(now):
		return nameLookup{holder: v.holder}
	}
	v.lookedUp = now
	return nameLookup{due: true, holder: v.holder}
}

// recordHolder notes what was found.
func (h *holders) recordHolder(parent types.NamespacedName, subset, holder string) {
	if v := h.Get(parent, subset); v != nil {
		v.holder = holder
	}
}

// wakeAt has the next pass come at a time, unless it comes before; never where that is zero.
func wakeAt(in *planner.Input, at time.Time) {
	if !at.IsZero() && (in.Wake.IsZero() || at.Before(in.Wake)) {
		in.Wake = at
	}
}
