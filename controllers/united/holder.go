// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

const (
	// holderAfter is how long a replica is missing before somebody asks what has its
	// name: its controller makes one in less.
	holderAfter = 10 * time.Second
	// holderAgain is how long the answer counts. Passes that come sooner do not ask.
	holderAgain = time.Minute
)

// lookUpHolders finds out what holds the names of replicas that are missing for a while,
// past the cache: that holds only what has our labels. Without an answer all goes on.
func (r *Reconciler) lookUpHolders(ctx context.Context, w *world) {
	parent := client.ObjectKeyFromObject(w.parent)
	r.holders.keep(parent, w.children)
	for _, name := range slices.Sorted(maps.Keys(w.children)) {
		c := w.children[name]
		ask := r.holders.turn(parent, name, sought(c.observed), w.now)
		if ask.now {
			if pod, err := r.podLive(ctx, parent.Namespace, c.observed.Vacant); err != nil {
				ctrl.LoggerFrom(ctx).Info("could not look up what has the name of a replica", "pod", c.observed.Vacant, "error", err.Error())
			} else {
				ask.holder = heldBy(pod, c.observed, w.parent, name)
				r.holders.answer(parent, name, ask.holder)
			}
		}
		c.observed.Holder = ask.holder
		if !ask.at.IsZero() && (w.holderWake.IsZero() || ask.at.Before(w.holderWake)) {
			w.holderWake = ask.at
		}
	}
}

// sought is the name of the pod that a child lacks, and that its controller should have
// made; "" if there is none.
func sought(observed *adapters.Observed) string {
	if !observed.Awaits() {
		return ""
	}
	return observed.Vacant
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

// heldBy says what has the name of a missing replica, why it is none of the child's, and
// what to do; "" when nothing has it, or it becomes a replica by itself.
func heldBy(pod *corev1.Pod, observed *adapters.Observed, parent *v1alpha1.UnitedDeployment, subset string) string {
	if pod == nil {
		return ""
	}
	taken := "the name " + pod.Name + " is taken by a pod that "
	owner := metav1.GetControllerOfNoCopy(pod)
	switch unmatched := unmatchedLabels(pod, parent, subset); {
	case pod.DeletionTimestamp != nil:
		return taken + "is being deleted"
	case owner != nil && owner.UID != observed.Meta.UID:
		return taken + fmt.Sprintf("is controlled by %s %s: delete it", owner.Kind, owner.Name)
	case len(unmatched) > 0:
		return taken + fmt.Sprintf("does not have the labels %s: label it so, or delete it", strings.Join(unmatched, ", "))
	}
	return ""
}

// unmatchedLabels are what the child of a subset selects by and a pod does not match.
func unmatchedLabels(pod *corev1.Pod, parent *v1alpha1.UnitedDeployment, subset string) []string {
	selector := parent.Spec.Selector.DeepCopy()
	metav1.AddLabelToSelector(selector, v1alpha1.LabelName, parent.Name)
	metav1.AddLabelToSelector(selector, v1alpha1.LabelSubset, subset)
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil // readSpec has refused it
	}
	var unmatched []string
	requirements, _ := parsed.Requirements()
	for i := range requirements {
		if !requirements[i].Matches(labels.Set(pod.Labels)) {
			unmatched = append(unmatched, requirements[i].String())
		}
	}
	slices.Sort(unmatched)
	return unmatched
}

// holders remembers, in memory alone, which replicas are missing since when, and what was
// found to have their names. It is safe for concurrent use.
type holders struct {
	mu   sync.Mutex
	seen map[types.NamespacedName]map[string]*vacancy
}

// vacancy is the name that a subset's child lacks a pod of.
type vacancy struct {
	pod string
	// since is when that was first seen, asked when it was last looked up.
	since, asked time.Time
	holder       string
}

// ask is whether to look up what holds a name now, or else when. holder is what was found
// the last time.
type ask struct {
	now    bool
	at     time.Time
	holder string
}

// turn notes that a subset lacks a pod of that name, "" if it lacks none. Each name is
// asked for once it has been missing for a while, and then, where there are passes, once
// in a while: at is set before the first time only, so that nothing wakes up to ask again.
func (h *holders) turn(parent types.NamespacedName, subset, pod string, now time.Time) ask {
	h.mu.Lock()
	defer h.mu.Unlock()
	if pod == "" {
		delete(h.seen[parent], subset)
		return ask{}
	}
	v := h.seen[parent][subset]
	if v == nil || v.pod != pod {
		v = &vacancy{pod: pod, since: now}
		if h.seen == nil {
			h.seen = map[types.NamespacedName]map[string]*vacancy{}
		}
		if h.seen[parent] == nil {
			h.seen[parent] = map[string]*vacancy{}
		}
		h.seen[parent][subset] = v
	}
	switch due := v.since.Add(holderAfter); {
	case due.After(now):
		return ask{at: due}
	case !v.asked.IsZero() && v.asked.Add(holderAgain).After(now):
		return ask{holder: v.holder}
	}
	v.asked = now
	return ask{now: true, holder: v.holder}
}

// answer notes what was found.
func (h *holders) answer(parent types.NamespacedName, subset, holder string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if v := h.seen[parent][subset]; v != nil {
		v.holder = holder
	}
}

// keep drops the subsets of a parent that have no child.
func (h *holders) keep(parent types.NamespacedName, children map[string]*child) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.seen[parent], func(subset string, _ *vacancy) bool { return children[subset] == nil })
}

// forget drops a parent that is gone.
func (h *holders) forget(parent types.NamespacedName) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.seen, parent)
}
