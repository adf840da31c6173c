// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
)

// kindRetry is how long to wait before the API server is asked again whether it serves a kind. A watch would need a
// permission on all CustomResourceDefinitions of the cluster.
const kindRetry = 10 * time.Second

// kinds watches the kinds of children that parents use. A kind that no parent uses, or that the API
// server does not serve, costs nothing. It is safe for concurrent use.
type kinds struct {
	mapper meta.RESTMapper
	watch  func(watched) error

	// starting is held while the API server is asked. mu is not, so parents of other kinds need not wait for that.
	starting sync.Mutex
	// missing is when a kind was last found not to be served, so that only one of a thousand parents
	// asks. It is guarded by starting.
	missing map[schema.GroupVersionKind]time.Time

	mu      sync.Mutex
	watched map[watched]bool
}

// watched is a kind of which some objects are watched: those with our labels, or if of is set, those that are related
// to children of a kind that delegates (adapters.Delegating).
type watched struct{ kind, of schema.GroupVersionKind }

// watchedFor returns the kinds that are read for an adapter: the children and their related objects.
func watchedFor(adapter adapters.Adapter) []watched {
	all := []watched{{kind: adapter.GroupVersionKind()}}
	for _, gvk := range relatedTo(adapter) {
		related := watched{kind: gvk}
		if _, apart := adapter.(adapters.Delegating); apart {
			related.of = adapter.GroupVersionKind()
		}
		all = append(all, related)
	}
	return all
}

// ensure watches the kinds of an adapter. The failure names a kind that is not served; it is nil if all
// are.
func (k *kinds) ensure(adapter adapters.Adapter, now time.Time) (*subset.Failure, error) {
	for _, w := range watchedFor(adapter) {
		if k == nil || k.watches(w) {
			continue
		}
		if failure, err := k.startWatch(w, now); failure != nil || err != nil {
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

// startWatch watches a kind, if the API server serves it.
func (k *kinds) startWatch(w watched, now time.Time) (*subset.Failure, error) {
	k.starting.Lock()
	defer k.starting.Unlock()
	if k.watches(w) {
		return nil, nil //nolint:nilnil // another worker has started it
	}
	gvk := w.kind
	served, err := k.served(gvk, now)
	switch {
	case err != nil:
		return nil, fmt.Errorf("look up %s: %w", gvk.Kind, err)
	case !served:
		return &subset.Failure{
			Reason: v1alpha1.ReasonKindNotInstalled, Message: notInstalled(gvk), Stalled: true, RetryAt: k.missing[gvk].Add(kindRetry),
		}, nil
	}
	if err := k.watch(w); err != nil {
		return nil, fmt.Errorf("watch %s: %w", gvk.Kind, err)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watched == nil {
		k.watched = map[watched]bool{}
	}
	k.watched[w] = true
	return nil, nil //nolint:nilnil // nothing is wrong
}

func (k *kinds) served(gvk schema.GroupVersionKind, now time.Time) (bool, error) {
	if since, ok := k.missing[gvk]; ok && now.Before(since.Add(kindRetry)) {
		return false, nil
	}
	delete(k.missing, gvk)
	_, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if !meta.IsNoMatchError(err) {
		return true, err
	}
	if k.missing == nil {
		k.missing = map[schema.GroupVersionKind]time.Time{}
	}
	k.missing[gvk] = now
	return false, nil
}

func notInstalled(gvk schema.GroupVersionKind) string {
	resource, _ := meta.UnsafeGuessKindToResource(gvk)
	return fmt.Sprintf("the API server does not serve %s of %s: install its CustomResourceDefinition %s", gvk.Kind, gvk.GroupVersion(), resource.GroupResource())
}
