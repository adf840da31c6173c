// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"

	"github.com/unitedworkloads/united/controllers/united/checks/caught"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// watch has what is known of the objects of one kind in one namespace that checks name. Runner.mu guards it.
type watch struct {
	source
	// named are the parents that name an object, by its name.
	named map[string]map[types.NamespacedName]bool
	// objects are the named objects that were read; nil for one that does not exist.
	objects map[string]*object
	// problem is why they cannot be read now; nil if they can.
	problem *problem
	// client reads the kind, and cancel ends the watch; nil while there is none. listed: all objects were read once.
	client dynamic.ResourceInterface
	cancel context.CancelFunc
	listed bool
	// streams: the watch that runs began with all objects.
	streams bool
	// asked are the names that were named when the last reading of all objects began.
	asked map[string]bool
}

// problem is why objects cannot be read.
type problem struct {
	message string
	// refused: a permission is missing. certain: it does not pass by itself in a moment.
	refused, certain bool
	since            time.Time
	// watching: it was the watch that failed, and only the next watch shows that this is over. reading: it was the read of one
	// object; the next one that can be read shows it.
	watching, reading bool
	// panicked: only what is read then shows that it is over.
	panicked bool
}

// result returns the result of a check.
func (w *watch) result(name string, ask *known.CheckAsk, now time.Time) known.CheckResult {
	if p := w.problem; p != nil {
		if !p.certain && now.Sub(p.since) < patience {
			return known.CheckResult{}
		}
		if ask.Run != "" {
			return p.ofRun(w.kind)
		}
		return known.CheckResult{Seen: true, Refused: p.refused || p.panicked, Message: p.message}
	}
	o, read := w.objects[name]
	if !read {
		return known.CheckResult{}
	}
	if ask.Run != "" {
		return o.judgeRun(w.kind.Kind+" "+name, ask)
	}
	return o.judge(ask.Check.ObjectCondition)
}

func (w *watch) stop() {
	if w.cancel != nil {
		w.cancel()
	}
	w.client, w.cancel, w.listed, w.streams = nil, nil, false, false
	clear(w.objects)
}

// serve starts a watch if it does not run, and reads objects that were named after it had begun.
func (r *Runner) serve(ctx context.Context, s source) {
	r.mu.Lock()
	w, client, listed := r.watches[s], dynamic.ResourceInterface(nil), false
	if w != nil {
		client, listed = w.client, w.listed
	}
	r.mu.Unlock()
	switch {
	case w == nil: // nobody names an object of it any more
	case client == nil:
		r.start(ctx, w)
	case listed:
		r.readNew(ctx, w, client)
		r.explain(ctx, w)
	}
}

// start starts a watch, or comes back later if the API server does not serve the kind.
func (r *Runner) start(ctx context.Context, w *watch) {
	client, p, retry := r.look(w.source)
	r.mu.Lock()
	if r.watches[w.source] != w || w.cancel != nil || ctx.Err() != nil {
		r.mu.Unlock()
		return
	}
	var changed []types.NamespacedName
	if p != nil || w.problem == nil || !w.problem.panicked {
		changed = w.setProblem(p)
	}
	if client != nil {
		var watching context.Context
		watching, w.cancel = context.WithCancel(ctx)
		w.client = client
		r.running.Go(func() {
			r.caught(watching, w.source, func() { r.reflector(watching, w, client).RunWithContext(watching) })
		})
	}
	r.mu.Unlock()
	if client == nil {
		r.queue.AddAfter(w.source, retry)
	}
	r.tell(changed)
}

// caught does something for a watch. If it panics, the checks are refused, and it is tried again later.
func (r *Runner) caught(ctx context.Context, s source, do func()) {
	err := caught.Do(ctx, s.kind.Kind+" cannot be read", do)
	if err == nil {
		return
	}
	r.mu.Lock()
	var changed []types.NamespacedName
	if w := r.watches[s]; w != nil && ctx.Err() == nil {
		w.stop()
		changed = w.setProblem(&problem{certain: true, panicked: true, since: r.clock.Now(), message: err.Error()})
		r.queue.AddAfter(s, retryAfter)
	}
	r.mu.Unlock()
	r.tell(changed)
}

// look looks a kind up. If it cannot be watched, it returns why, and when to look again.
func (r *Runner) look(s source) (client dynamic.ResourceInterface, p *problem, retry time.Duration) {
	now := r.clock.Now()
	absent := &problem{certain: true, since: now, message: notServed(s.kind)}
	r.mu.Lock()
	until, missed := r.missing[s.kind]
	if missed && !now.Before(until) {
		r.missing[s.kind] = now.Add(retryAfter) // the others wait for this answer
	}
	r.mu.Unlock()
	if now.Before(until) {
		return nil, absent, until.Sub(now)
	}
	mapping, err := r.mapper.RESTMapping(s.kind.GroupKind(), s.kind.Version)
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.missing, func(_ schema.GroupVersionKind, until time.Time) bool { return !now.Before(until) })
	if err == nil && missed {
		delete(r.missing, s.kind)
		for other := range r.watches {
			if other.kind == s.kind {
				r.queue.Add(other)
			}
		}
	}
	switch {
	case meta.IsNoMatchError(err):
		r.missing[s.kind] = now.Add(retryAfter)
		return nil, absent, retryAfter
	case err != nil:
		return nil, &problem{since: now, message: s.kind.Kind + " cannot be looked up: " + err.Error()}, retryAfter
	case mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		return nil, &problem{certain: true, since: now, message: s.kind.Kind + " is not a kind with namespaces: a check can name only an object in the namespace of the UnitedDeployment"}, retryAfter
	}
	if is := mapping.Resource.GroupResource(); !s.run && !slices.Contains(r.objects, is) {
		return nil, &problem{refused: true, certain: true, since: now, message: notListed(is)}, retryAfter
	}
	return r.client.Resource(mapping.Resource).Namespace(s.namespace), nil, 0
}

func notServed(kind schema.GroupVersionKind) string {
	return fmt.Sprintf("the API server does not serve %s of %s: install its CustomResourceDefinition", kind.Kind, kind.GroupVersion())
}

func notPermitted(err error, kind schema.GroupVersionKind) string {
	resource := "..."
	if status := apierrors.APIStatus(nil); errors.As(err, &status) && status.Status().Details != nil {
		resource = status.Status().Details.Kind // the API server gives the name of the resource here
	}
	return notListed(schema.GroupResource{Group: kind.Group, Resource: resource})
}

// notListed says what lets checks name a resource.
func notListed(resource schema.GroupResource) string {
	return fmt.Sprintf("United is not permitted to read %s: add {apiGroup: %s, resources: [%s]} to checks.objects in the values of its Helm chart",
		resource, cmp.Or(resource.Group, `""`), resource.Resource)
}

// setProblem sets why the objects cannot be read, and returns the parents for whom that is another result.
func (w *watch) setProblem(p *problem) []types.NamespacedName {
	was := w.problem
	if was != nil && p != nil && !was.certain && !p.certain {
		p.since = was.since
	}
	w.problem = p
	if was == nil && p == nil || was != nil && p != nil && was.certain && was.message == p.message {
		return nil
	}
	return w.everyone()
}

// reflector keeps the objects of a watch up to date. It lists and watches again by itself after errors, less and less often.
func (r *Runner) reflector(run context.Context, w *watch, client dynamic.ResourceInterface) *cache.Reflector {
	expected := &unstructured.Unstructured{}
	expected.SetGroupVersionKind(w.kind)
	current := func() bool { return run.Err() == nil }
	return cache.NewReflectorWithOptions(cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
			list, err := readNamed(ctx, r.begin(w), client)
			if current() {
				r.noted(w, err, &problem{})
			}
			return list, err //nolint:wrapcheck // the reflector distinguishes errors of the API server
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (apiwatch.Interface, error) {
			streams := o.SendInitialEvents != nil && *o.SendInitialEvents
			if streams {
				r.begin(w)
			}
			events, err := client.Watch(ctx, o)
			if current() {
				r.noted(w, err, &problem{watching: true})
			}
			if err == nil && current() {
				r.watching(w, streams)
			}
			return events, err //nolint:wrapcheck // the same
		},
	}, r.client), expected, &store{r, w, current}, cache.ReflectorOptions{Name: w.kind.String(), TypeDescription: w.kind.String()})
}

// begin records which objects are named when a reading of all objects begins, and returns their names.
func (r *Runner) begin(w *watch) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	w.asked = map[string]bool{}
	for name := range w.named {
		w.asked[name] = true
	}
	return slices.Sorted(maps.Keys(w.asked))
}

// readNamed reads objects where the API server cannot stream them: one by one. Trap: a page is decoded as a whole, and an
// object takes up to 30 times as much memory as the API server lets somebody store; so the list has one object, and
// only says from where on to watch.
func readNamed(ctx context.Context, names []string, client dynamic.ResourceInterface) (runtime.Object, error) {
	one, err := client.List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller says which kind
	}
	list := &metainternalversion.List{ListMeta: metav1.ListMeta{ResourceVersion: one.GetResourceVersion()}}
	for _, name := range names {
		reading, cancel := context.WithTimeout(ctx, readTimeout)
		u, err := client.Get(reading, name, metav1.GetOptions{})
		cancel()
		switch {
		case err == nil:
			list.Items = append(list.Items, &seen{name, reduce(u)})
		case !apierrors.IsNotFound(err):
			return nil, err //nolint:wrapcheck // the caller says which kind
		}
	}
	return list, nil
}

// watching records that a watch has begun. If it does not begin with all objects, it continues where the last one ended.
func (r *Runner) watching(w *watch, streams bool) {
	r.mu.Lock()
	w.streams = streams
	var changed []types.NamespacedName
	if !streams && w.problem != nil {
		changed = w.setProblem(nil)
	}
	r.mu.Unlock()
	r.tell(changed)
}

// noted records that objects could not be read. p is the problem without its text.
func (r *Runner) noted(w *watch, err error, p *problem) {
	switch {
	case err == nil, apierrors.IsResourceExpired(err), apierrors.IsGone(err), apierrors.IsInvalid(err), errors.Is(err, context.Canceled):
		return // the reflector lists again
	case apierrors.IsForbidden(err):
		p.refused, p.certain, p.message = true, true, notPermitted(err, w.kind)
	case apierrors.IsNotFound(err):
		p.certain, p.message = true, notServed(w.kind)
	default:
		p.message = w.kind.Kind + " cannot be read: " + err.Error()
	}
	r.mu.Lock()
	if r.watches[w.source] != w {
		r.mu.Unlock()
		return
	}
	p.since = r.clock.Now()
	changed := w.setProblem(p)
	if apierrors.IsNotFound(err) {
		w.stop()
		r.queue.AddAfter(w.source, retryAfter)
	}
	if len(changed) == 0 && !p.certain {
		changed = w.everyone() // patience may be over
	}
	r.mu.Unlock()
	r.tell(changed)
}

// readNew reads the objects that were named after the watch had begun. What the watch says meanwhile is newer.
func (r *Runner) readNew(ctx context.Context, w *watch, client dynamic.ResourceInterface) {
	for {
		r.mu.Lock()
		names := slices.DeleteFunc(slices.Sorted(maps.Keys(w.named)), func(name string) bool { _, read := w.objects[name]; return read })
		r.mu.Unlock()
		if len(names) == 0 {
			return
		}
		reading, cancel := context.WithTimeout(ctx, readTimeout)
		u, err := client.Get(reading, names[0], metav1.GetOptions{})
		cancel()
		if err != nil && !apierrors.IsNotFound(err) {
			if apierrors.IsForbidden(err) { // all else holds only this object, which has no result yet
				r.noted(w, err, &problem{reading: true})
			}
			r.queue.AddAfter(w.source, retryAfter)
			return
		}
		var o *object
		if err == nil {
			o = reduce(u)
		}
		r.mu.Lock()
		parents := slices.Collect(maps.Keys(w.named[names[0]]))
		if w.problem != nil && w.problem.reading {
			parents = append(parents, w.setProblem(nil)...)
		}
		if _, read := w.objects[names[0]]; !read && len(parents) > 0 && w.client != nil {
			r.set(w, names[0], o)
		}
		r.mu.Unlock()
		r.tell(parents)
	}
}
