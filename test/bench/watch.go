// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// waitTimeout is how long an operation may take; it leaves enough time for a busy machine.
const waitTimeout = 45 * time.Minute

// sight watches objects, and reports when one of them is as expected.
type sight struct {
	cache   cache.Cache
	mu      sync.Mutex
	waiters map[*waiter]struct{}
}

// waiter waits for one object.
type waiter struct {
	sight *sight
	key   client.ObjectKey
	like  func(client.Object) bool
	seen  chan time.Time
}

// newSight watches the kinds of the objects until ctx ends.
func newSight(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, kinds ...client.Object) (*sight, error) {
	c, err := cache.New(config, cache.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("watch: %w", err)
	}
	s := &sight{cache: c, waiters: map[*waiter]struct{}{}}
	for _, kind := range kinds {
		informer, err := c.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
		if err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
		if _, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
			AddFunc:    s.see,
			UpdateFunc: func(_, o any) { s.see(o) },
		}); err != nil {
			return nil, fmt.Errorf("watch: %w", err)
		}
	}
	go func() { _ = c.Start(ctx) }() // it ends with ctx, and retries failures until then
	if !c.WaitForCacheSync(ctx) {
		return nil, fmt.Errorf("watch: %w", ctx.Err())
	}
	return s, nil
}

func (s *sight) see(o any) {
	object, ok := o.(client.Object)
	if !ok {
		return
	}
	now := time.Now()
	key := client.ObjectKeyFromObject(object)
	s.mu.Lock()
	defer s.mu.Unlock()
	for w := range s.waiters {
		if w.key == key && w.like(object) {
			w.seen <- now
			delete(s.waiters, w)
		}
	}
}

// expect starts to wait for an object.
func expect[T client.Object](s *sight, key client.ObjectKey, like func(T) bool) *waiter {
	w := &waiter{sight: s, key: key, seen: make(chan time.Time, 1), like: func(o client.Object) bool {
		object, ok := o.(T)
		return ok && like(object)
	}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.waiters[w] = struct{}{}
	return w
}

// wait returns when the object was seen.
func (w *waiter) wait(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, waitTimeout)
	defer cancel()
	select {
	case at := <-w.seen:
		return at, nil
	case <-ctx.Done():
		w.sight.mu.Lock()
		defer w.sight.mu.Unlock()
		delete(w.sight.waiters, w)
		return time.Time{}, fmt.Errorf("%s never came to what it should: %w", w.key, ctx.Err())
	}
}

// await waits until an object is as expected, unless it already is. T is a pointer to a watched kind,
// empty an object that Get can read into.
func await[T client.Object](ctx context.Context, s *sight, empty T, key client.ObjectKey, like func(T) bool) error {
	w := expect(s, key, like)
	if err := s.cache.Get(ctx, key, empty); err == nil && like(empty) {
		w.sight.mu.Lock()
		defer w.sight.mu.Unlock()
		delete(w.sight.waiters, w)
		return nil
	}
	_, err := w.wait(ctx)
	return err
}
