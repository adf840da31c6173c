// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// observedChild is what is remembered of the child of a subset: what was last decoded of it, with its pods. A change of a pod
// triggers a pass over all subsets, of which all but one are unchanged.
type observedChild struct {
	child objectVersion
	// of has the resourceVersions by UID of the pods, and of the other objects that were read with the child. Lists
	// have no fixed order.
	of       map[types.UID]string
	observed *adapters.Observed
}

// objectVersion identifies the version of an object that was read.
type objectVersion struct {
	uid             types.UID
	resourceVersion string
}

func (o *Observer) observedChildren() memory.Named[observedChild] {
	return memory.Named[observedChild]{Entry: o.Memory}
}

// observeChild is Adapter.Observe for the child of a subset. The caller owns the result, except for parts that are shared
// with the cache.
func (o *Observer) observeChild(w *world.World, subset string, child *unstructured.Unstructured) (*adapters.Observed, error) {
	have := adapters.Dependents{Pods: w.Pods[subset], Related: w.Related[subset]}
	if last := o.observedChildren().Get(subset); last.isOf(child, have) {
		return ownCopy(last.observed), nil
	}
	observed, err := w.Spec.Adapter.Observe(child, have)
	if err != nil {
		return nil, err
	}
	o.observedChildren().Set(subset, observedChild{versionOf(child), versionsOf(have), ownCopy(observed)})
	return observed, nil
}

// ownCopy returns a copy whose fields and replicas can be changed.
func ownCopy(o *adapters.Observed) *adapters.Observed {
	out := *o
	out.Pods = slices.Clone(o.Pods)
	return &out
}

// isOf reports whether the objects are the observed ones, and unchanged.
func (l *observedChild) isOf(child *unstructured.Unstructured, have adapters.Dependents) bool {
	if l.child != versionOf(child) || l.child.uid == "" || len(l.of) != len(have.Pods)+len(have.Related) {
		return false
	}
	for _, pod := range have.Pods {
		if was, ok := l.of[pod.UID]; !ok || was != pod.ResourceVersion {
			return false
		}
	}
	for _, object := range have.Related {
		if was, ok := l.of[object.GetUID()]; !ok || was != object.GetResourceVersion() {
			return false
		}
	}
	return true
}

func versionOf(object *unstructured.Unstructured) objectVersion {
	return objectVersion{object.GetUID(), object.GetResourceVersion()}
}

func versionsOf(have adapters.Dependents) map[types.UID]string {
	versions := make(map[types.UID]string, len(have.Pods)+len(have.Related))
	for _, pod := range have.Pods {
		versions[pod.UID] = pod.ResourceVersion
	}
	for _, object := range have.Related {
		versions[object.GetUID()] = object.GetResourceVersion()
	}
	return versions
}
