// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/observe"
)

// kindRetry is how long to wait before the API server is asked again whether it serves a kind, and whether we may read
// it. A watch would need a permission on all CustomResourceDefinitions of the cluster.
const kindRetry = 10 * time.Second

// kinds watches the kinds of children that parents use. A kind that no parent uses, or that the API
// server does not serve, costs nothing. It is safe for concurrent use.
type kinds struct {
	mapper meta.RESTMapper
	// list reads the kind once, directly from the API server.
	list  func(context.Context, schema.GroupVersionKind) error
	watch func(watched) error

	// starting is held while the API server is asked. mu is not, so parents of other kinds need not wait for that.
	starting sync.Mutex
	// unusable is why a kind could not be used when the API server was last asked, until it is asked again, so that
	// only one of a thousand parents asks. It is guarded by starting.
	unusable map[schema.GroupVersionKind]*subset.Failure

	mu      sync.Mutex
	watched map[watched]bool
}

// watched is a kind of which some objects are watched: those with our labels, or if of is set, those that are related
// to children of a kind that delegates (adapters.Delegating).
type watched struct{ kind, of schema.GroupVersionKind }

// watchedFor returns the kinds that are read for an adapter: the children and their related objects.
func watchedFor(adapter adapters.Adapter) []watched {
	all := []watched{{kind: adapter.GroupVersionKind()}}
	for _, gvk := range observe.RelatedTo(adapter) {
		related := watched{kind: gvk}
		if _, apart := adapter.(adapters.Delegating); apart {
			related.of = adapter.GroupVersionKind()
		}
		all = append(all, related)
	}
	return all
}

// ensure watches the kinds of an adapter. The failure names a kind that is not served, or that we may not read; it is nil
// if there is none.
func (k *kinds) ensure(ctx context.Context, adapter adapters.Adapter, now time.Time) (*subset.Failure, error) {
	for _, w := range watchedFor(adapter) {
		if k == nil || k.watches(w) {
			continue
		}
		if failure, err := k.startWatch(ctx, w, now); failure != nil || err != nil {
			return failure, err
		}
	}
	return nil, nil //nolint:nilnil // nothing is wrong
}

func (k *kinds) watches(w watched) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.watched[w]
}

// startWatch watches a kind, if the API server serves it and we may read it.
func (k *kinds) startWatch(ctx context.Context, w watched, now time.Time) (*subset.Failure, error) {
	k.starting.Lock()
	defer k.starting.Unlock()
	if k.watches(w) {
		return nil, nil //nolint:nilnil // another worker has started it
	}
	if failure, err := k.whyUnusable(ctx, w.kind, now); failure != nil || err != nil {
		return failure, err
	}
	if err := k.watch(w); err != nil {
		return nil, fmt.Errorf("watch %s: %w", w.kind.Kind, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watched == nil {
		k.watched = map[watched]bool{}
	}
	k.watched[w] = true
	return nil, nil //nolint:nilnil // nothing is wrong
}

// whyUnusable returns why a kind cannot be watched.
//
// Trap: a watch that is forbidden reports no error. It is tried again and again, and whoever reads from its cache waits
// for it, with a worker. So a request that gets an answer comes first.
func (k *kinds) whyUnusable(ctx context.Context, gvk schema.GroupVersionKind, now time.Time) (*subset.Failure, error) {
	if failure := k.unusable[gvk]; failure != nil && now.Before(failure.RetryAt) {
		return failure, nil
	}
	delete(k.unusable, gvk)
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	switch {
	case meta.IsNoMatchError(err):
		return k.setUnusable(gvk, v1alpha1.ReasonKindNotInstalled, notInstalled(gvk), now), nil
	case err != nil:
		return nil, fmt.Errorf("look up %s: %w", gvk.Kind, err)
	}
	switch err := k.list(ctx, gvk); {
	case apierrors.IsForbidden(err):
		return k.setUnusable(gvk, v1alpha1.ReasonKindNotPermitted, notPermitted(mapping.Resource.GroupResource()), now), nil
	case err != nil:
		return nil, fmt.Errorf("list %s: %w", gvk.Kind, err)
	}
	return nil, nil //nolint:nilnil // nothing is wrong
}

func (k *kinds) setUnusable(gvk schema.GroupVersionKind, reason, message string, now time.Time) *subset.Failure {
	if k.unusable == nil {
		k.unusable = map[schema.GroupVersionKind]*subset.Failure{}
	}
	k.unusable[gvk] = &subset.Failure{Reason: reason, Message: message, Stalled: true, RetryAt: now.Add(kindRetry)}
	return k.unusable[gvk]
}

func notInstalled(gvk schema.GroupVersionKind) string {
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	return fmt.Sprintf("the API server does not serve %s of %s: install its CustomResourceDefinition %s", gvk.Kind, gvk.GroupVersion(), resource.GroupResource())
}

func notPermitted(resource schema.GroupResource) string {
	return fmt.Sprintf("United is not permitted to list %s: enable the kind in the values of the Helm chart (kinds), or grant the permissions yourself", resource)
}
