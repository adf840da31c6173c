// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/perparent"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

// observedChildren remembers the children of each parent as they were last decoded, with their pods. A pod that
// changes starts a pass over all subsets, and all but one are as they were.
type observedChildren struct {
	perparent.Memory[observedChild]
}

type observedChild struct {
	child objectVersion
	// of are the pods, and what else was read with the child: resourceVersions by uid. Lists come in
	// any order.
	of       map[types.UID]string
	observed *adapters.Observed
}

// objectVersion is what an object was when it was read.
type objectVersion struct {
	uid             types.UID
	resourceVersion string
}

// observe is Adapter.Observe of the child of a subset. What it gives is the caller's, but for what
// is shared with the cache.
func (l *observedChildren) observe(in *planner.Input, subset string, child *unstructured.Unstructured) (*adapters.Observed, error) {
	parent, have := client.ObjectKeyFromObject(in.Parent), adapters.Dependents{Pods: in.Pods[subset], Related: in.Related[subset]}
	if last := l.Get(parent, subset); last.isOf(child, have) {
		return ownCopy(last.observed), nil
	}
	observed, err := in.Spec.Adapter.Observe(child, have)
	if err != nil {
		return nil, err
	}
	l.Set(parent, subset, observedChild{versionOf(child), versionsOf(have), ownCopy(observed)})
	return observed, nil
}

// keepOnly forgets the children of the parent that are not there any more.
func (l *observedChildren) keepOnly(in *planner.Input) {
	l.DeleteFunc(client.ObjectKeyFromObject(in.Parent), func(subset string, _ observedChild) bool { return in.Children[subset] == nil })
}

// ownCopy is a copy of which the fields, and the replicas, can be changed.
func ownCopy(o *adapters.Observed) *adapters.Observed {
	out := *o
	out.Pods = slices.Clone(o.Pods)
	return &out
}

// isOf reports whether the objects are those that were observed, as they were.
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
