// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package checks observes what the checks of rollouts are about (spec.updateStrategy.rollingUpdate.checks). It decides nothing:
// the planner does, from the results.
//
// There is one watch for each kind in each namespace in which a check names an object of it, and another one for those that checks
// started. It begins when the first check
// does, and ends with the last one. No pass waits for anything here: what is not known yet has no result.
package checks

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"

	"github.com/unitedworkloads/united/controllers/united/checks/queries"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/runs"
)

const (
	// workers start watches and read objects. If the server of a kind hangs, the others go on.
	workers = 4
	// retryAfter is how long to wait before the API server is asked again for a kind that it does not serve. It is asked once
	// for all that wait for the kind.
	retryAfter = 10 * time.Second
	// patience is how long an object may be unreadable, for a reason that mostly passes, before its checks are not met. Nothing
	// is released meanwhile.
	patience = 10 * time.Second
	// readTimeout bounds the read of one object.
	readTimeout = 10 * time.Second
	// mostObjects and mostKinds bound what is followed in a namespace: each kind is a watch, which decodes every object of the
	// kind there.
	mostObjects, mostKinds = 200, 20
)

// Runner observes the objects that checks name. It is safe for concurrent use.
type Runner struct {
	client dynamic.Interface
	mapper meta.RESTMapper
	clock  clock.PassiveClock
	// objects are the resources that checks may name (checks.objects of the Helm chart). The manager may read more, for other reasons.
	objects []schema.GroupResource
	// queue has the watches that have something to do.
	queue workqueue.TypedDelayingInterface[source]

	mu      sync.Mutex
	watches map[source]*watch
	asks    map[types.NamespacedName][]known.CheckAsk
	// crowded are the parents of which not all objects are followed, because their namespace names too many.
	crowded map[types.NamespacedName]bool
	// missing is until when nobody asks for a kind that the API server does not serve.
	missing map[schema.GroupVersionKind]time.Time
	changed func(parent types.NamespacedName)
	running sync.WaitGroup
	queries *queries.Schedule
}

// source is what one watch is about.
type source struct {
	kind      schema.GroupVersionKind
	namespace string
	// run: of what checks started, and not of what they name.
	run bool
}

// target is one object.
type target struct {
	source
	name string
}

// New returns a Runner that does nothing until it is started. objects are the resources that checks may name, and servers answer
// queries.
func New(client dynamic.Interface, mapper meta.RESTMapper, objects []schema.GroupResource, servers queries.Querier, c clock.WithTicker) *Runner {
	return &Runner{
		queries: queries.NewSchedule(servers, c), objects: objects,
		client: client, mapper: mapper, clock: c,
		queue:   workqueue.NewTypedDelayingQueueWithConfig(workqueue.TypedDelayingQueueConfig[source]{Clock: c}),
		watches: map[source]*watch{}, asks: map[types.NamespacedName][]known.CheckAsk{}, missing: map[schema.GroupVersionKind]time.Time{},
		crowded: map[types.NamespacedName]bool{},
	}
}

// OnChange sets what is called when a result of a parent may have changed. It must not wait for anything.
func (r *Runner) OnChange(changed func(parent types.NamespacedName)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed = changed
	r.queries.OnChange(changed)
}

// Start observes until ctx is done.
func (r *Runner) Start(ctx context.Context) error {
	for range workers {
		r.running.Go(func() {
			for {
				s, stopped := r.queue.Get()
				if stopped {
					return
				}
				r.caught(ctx, s, func() { r.serve(ctx, s) })
				r.queue.Done(s)
			}
		})
	}
	r.running.Go(func() { r.queries.Start(ctx) })
	<-ctx.Done()
	r.queue.ShutDown()
	r.running.Wait()
	return nil
}

// Ask observes what is asked of a parent from now on, and nothing else of it.
func (r *Runner) Ask(parent types.NamespacedName, asks []known.CheckAsk) {
	r.mu.Lock()
	released := r.follow(parent, targetsOf(parent.Namespace, r.asks[parent]), targetsOf(parent.Namespace, asks))
	r.askQueries(parent, asks)
	r.asks[parent] = asks
	if len(asks) == 0 {
		delete(r.asks, parent)
	}
	var waiting []types.NamespacedName
	for other := range r.crowded {
		if released && other.Namespace == parent.Namespace {
			waiting = append(waiting, other)
		}
	}
	r.mu.Unlock()
	r.tell(waiting)
}

// Results returns what was last seen of what is asked of a parent, by the name of the check.
func (r *Runner) Results(parent types.NamespacedName) map[string]known.CheckResult {
	r.mu.Lock()
	defer r.mu.Unlock()
	results := map[string]known.CheckResult{}
	for i := range r.asks[parent] {
		ask := &r.asks[parent][i]
		if t, ok := targetOf(parent.Namespace, ask); ok {
			result := crowded(t)
			if w := r.watches[t.source]; w != nil && w.named[t.name][parent] {
				result = w.result(t.name, ask, r.clock.Now())
			}
			result.Round, result.Reached = ask.Round, true // it is as it is now
			results[ask.Check.Name] = result
		}
	}
	r.queryResults(parent, results)
	return results
}

// targetOf returns which object a check is about. It is always in the namespace of the parent.
func targetOf(namespace string, ask *known.CheckAsk) (target, bool) {
	if ask.Run != "" {
		kind, name := runs.Named(ask.Run)
		return target{source{kind, namespace, true}, name}, true
	}
	o := ask.Check.ObjectCondition
	if o == nil {
		return target{}, false
	}
	return target{source{schema.FromAPIVersionAndKind(o.APIVersion, o.Kind), namespace, false}, o.Name}, true
}

// targetsOf returns the objects that checks are about, each once.
func targetsOf(namespace string, asks []known.CheckAsk) (targets []target) {
	for i := range asks {
		if t, ok := targetOf(namespace, &asks[i]); ok && !slices.Contains(targets, t) {
			targets = append(targets, t)
		}
	}
	return targets
}

// Forget ends the observation of all checks of a parent.
func (r *Runner) Forget(parent types.NamespacedName) { r.Ask(parent, nil) }

// follow replaces the objects that a parent names, and reports whether nobody names one of them any more. What is followed
// already stays, so in a namespace that is full, those who come later wait. r.mu is held.
func (r *Runner) follow(parent types.NamespacedName, were, are []target) (released bool) {
	delete(r.crowded, parent)
	for _, t := range are {
		w := r.watches[t.source]
		if (w == nil || w.named[t.name] == nil) && r.full(t.namespace, w == nil) {
			r.crowded[parent] = true
			continue
		}
		if w == nil {
			w = &watch{source: t.source, named: map[string]map[types.NamespacedName]bool{}, objects: map[string]*object{}}
			r.watches[t.source] = w
		}
		if w.named[t.name] == nil {
			w.named[t.name] = map[types.NamespacedName]bool{}
			r.queue.Add(t.source)
		}
		w.named[t.name][parent] = true
	}
	for _, t := range were {
		if !slices.Contains(are, t) && r.release(t, parent) {
			released = true
		}
	}
	return released
}

// full reports whether a namespace has no room for another object, of another kind. r.mu is held.
func (r *Runner) full(namespace string, another bool) bool {
	kinds, objects := 0, 0
	for s, w := range r.watches {
		if s.namespace == namespace {
			kinds, objects = kinds+1, objects+len(w.named)
		}
	}
	return objects >= mostObjects || another && kinds >= mostKinds
}

// crowded returns the result of a check whose object is not followed.
func crowded(t target) known.CheckResult {
	return known.CheckResult{Seen: true, Refused: true, Message: fmt.Sprintf(
		"%s %s is not read: the checks in a namespace can name at most %d objects of %d kinds together, including Jobs and AnalysisRuns; name fewer, or use another namespace",
		t.kind.Kind, t.name, mostObjects, mostKinds)}
}

// release ends the interest of a parent in an object, and reports whether nobody else is interested. r.mu is held.
func (r *Runner) release(t target, parent types.NamespacedName) bool {
	w := r.watches[t.source]
	if w == nil || !w.named[t.name][parent] {
		return false // it was not followed
	}
	if delete(w.named[t.name], parent); len(w.named[t.name]) > 0 {
		return false
	}
	delete(w.named, t.name)
	delete(w.objects, t.name)
	if len(w.named) == 0 {
		w.stop()
		delete(r.watches, t.source)
	}
	return true
}

// tell reports to parents that their results may have changed.
func (r *Runner) tell(parents []types.NamespacedName) {
	r.mu.Lock()
	changed := r.changed
	r.mu.Unlock()
	for _, parent := range parents {
		if changed != nil {
			changed(parent)
		}
	}
}

// everyone returns all parents that name an object of a watch. r.mu is held.
func (w *watch) everyone() []types.NamespacedName {
	all := map[types.NamespacedName]bool{}
	for _, parents := range w.named {
		maps.Copy(all, parents)
	}
	return slices.Collect(maps.Keys(all))
}
