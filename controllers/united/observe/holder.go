// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/world"
)

const (
	// lookUpAfter is how long a replica must be missing before the object with its name is looked up: its controller
	// creates one in less time.
	lookUpAfter = 10 * time.Second
	// lookUpAgain is how long the answer is valid. Earlier passes do not ask again.
	lookUpAgain = time.Minute
)

// readNameHolders finds out which objects have the names of replicas that have been missing for a while. It reads past
// the cache, which has only objects with our labels. If it fails, the pass continues.
func (o *Observer) readNameHolders(ctx context.Context, w *world.World) {
	holders := holders{memory.Named[*missingName]{Entry: o.Memory}}
	holders.DeleteFunc(func(subset string, _ *missingName) bool { return w.Children[subset] == nil })
	for _, name := range slices.Sorted(maps.Keys(w.Children)) {
		c := w.Children[name]
		missing := "" // what makes replicas, or one that has no name yet
		if c.Observed.ExpectsMissing() {
			missing = c.Observed.MissingName
		}
		ask := holders.recordMissing(name, missing, c.Observed.Lacks(), w.Now)
		if ask.due {
			if pod, err := o.podLive(ctx, w.Parent.Namespace, missing); err != nil {
				ctrl.LoggerFrom(ctx).Info("could not look up the pod that has the name of a missing replica", "pod", c.Observed.MissingName, "error", err.Error())
			} else {
				ask.holder = world.WhyMissing(pod, w.Spec.Adapter.GroupVersionKind(), c.Observed, w.Parent, name)
				holders.recordHolder(name, ask.holder)
			}
		}
		c.Observed.Holder = ask.holder
		wakeAt(w, ask.at)
	}
}

// podLive reads a pod past the cache; nil if there is none, or it has no name. It lists, so that no permission to get is needed.
func (o *Observer) podLive(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	if name == "" {
		return nil, nil //nolint:nilnil // there is none
	}
	list := &corev1.PodList{}
	if err := o.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{"metadata.name": name}); err != nil {
		return nil, fmt.Errorf("read pod %s: %w", name, err)
	}
	if len(list.Items) == 0 {
		return nil, nil //nolint:nilnil // there is none
	}
	return &list.Items[0], nil
}

// holders remembers, by subset, which replicas are missing since when, and which objects were found to have their
// names.
type holders struct{ memory.Named[*missingName] }

// missingName is the name of a pod that a subset's child is missing.
type missingName struct {
	pod string
	// since is when the pod was first found missing, and lookedUp when the name was last looked up.
	since, lookedUp time.Time
	holder          string
}

// nameLookup says whether to look up the holder of a name now, or else when. holder is the last result.
type nameLookup struct {
	due    bool
	at     time.Time
	holder string
}

// recordMissing records whether a subset lacks a pod, with its name if that is known. Each name is looked up once
// it has been missing for a while, and then once in a while if there are passes: at is set only before the first
// lookup, so that nothing triggers a pass just to ask again.
func (h holders) recordMissing(subset, pod string, lacks bool, now time.Time) nameLookup {
	if !lacks {
		h.Delete(subset)
		return nameLookup{}
	}
	v := h.Get(subset)
	if v == nil || v.pod != pod {
		v = &missingName{pod: pod, since: now}
		h.Set(subset, v)
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

// recordHolder records what was found.
func (h holders) recordHolder(subset, holder string) {
	if v := h.Get(subset); v != nil {
		v.holder = holder
	}
}

// wakeAt schedules the next pass for a time, unless it is due earlier. It does nothing if the time is zero.
func wakeAt(w *world.World, at time.Time) {
	if !at.IsZero() && (w.Wake.IsZero() || at.Before(w.Wake)) {
		w.Wake = at
	}
}
