// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package look reads the world of a UnitedDeployment with the rights of a user, from the API server or a cache of its own. It writes nothing.
package look

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/observe"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/revision/store"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// Looker looks with the rights of a user. It remembers what saves reads.
type Looker struct {
	// From has the objects by their labels, and Live reads past a cache.
	From, Live client.Reader
	memory     memory.Memory
}

// New returns a Looker that asks the API server.
func New(api client.Reader) *Looker { return &Looker{From: api, Live: api} }

// World returns the input of a plan for a parent, as the manager would make it now. An error says which read was refused.
func (l *Looker) World(ctx context.Context, parent *v1alpha1.UnitedDeployment, now time.Time) (*planner.Input, error) {
	read, err := spec.Read(parent, all.Registry())
	if err != nil {
		return nil, err
	}
	observer := &observe.Observer{Client: byLabel{l.From}, Live: l.Live, Writes: unwritten{}, Memory: l.memory.Of(client.ObjectKeyFromObject(parent))}
	if delegating, ok := read.Adapter.(adapters.Delegating); ok {
		observer.Related = map[schema.GroupVersionKind]client.Reader{delegating.GroupVersionKind(): related{l.Live, delegating}}
	}
	seen, err := observer.Observe(ctx, parent, read, now)
	if err != nil {
		return nil, err
	}
	seen.Checks = planner.RecordedChecks(parent)
	return planner.NewInput(seen)
}

// Revisions returns the stored revisions of a parent, in the order in which they were used last.
func (l *Looker) Revisions(ctx context.Context, parent *v1alpha1.UnitedDeployment) ([]*revision.Revision, error) {
	reader := store.Reader{Cached: byLabel{l.From}, Live: l.Live}
	revisions, err := reader.List(ctx, parent)
	slices.SortFunc(revisions, func(a, b *revision.Revision) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Name, b.Name))
	})
	return revisions, err
}

// byLabel reads by labels what the manager reads from its caches, which have an index by the label united.dev/name.
type byLabel struct{ client.Reader }

// Get returns nothing. The manager waits with it until its caches have its own writes; here there are no caches.
func (byLabel) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

// List lists by the label instead of the index.
func (r byLabel) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := &client.ListOptions{}
	o.ApplyOptions(opts)
	asked := &client.ListOptions{Namespace: o.Namespace, LabelSelector: o.LabelSelector, UnsafeDisableDeepCopy: o.UnsafeDisableDeepCopy}
	if o.FieldSelector != nil {
		for _, r := range o.FieldSelector.Requirements() {
			if r.Field != v1alpha1.LabelName {
				return fmt.Errorf("there is no index by %s", r.Field)
			}
			asked.LabelSelector = labels.SelectorFromSet(labels.Set{r.Field: r.Value})
		}
	}
	err := r.Reader.List(ctx, list, asked)
	if meta.IsNoMatchError(err) {
		return nil // a kind that is not installed has no objects
	}
	return err
}

// related reads what the manager reads from the cache of objects that are related to children. They get our labels only by being
// reduced, so the API server cannot select by these.
type related struct {
	client.Reader
	of adapters.Delegating
}

// List lists by the label instead of the index.
func (r related) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	o := &client.ListOptions{}
	o.ApplyOptions(opts)
	objects, ok := list.(*unstructured.UnstructuredList)
	if !ok || o.FieldSelector == nil {
		return fmt.Errorf("%T is not related to a child", list)
	}
	if err := r.Reader.List(ctx, list, client.InNamespace(o.Namespace), client.HasLabels{r.of.RelatedLabel()}); err != nil {
		return err
	}
	objects.Items = slices.DeleteFunc(objects.Items, func(u unstructured.Unstructured) bool {
		r.of.Reduce(&u)
		return !o.FieldSelector.Matches(fields.Set(u.GetLabels()))
	})
	return nil
}

// unwritten is what is remembered of writes by somebody who has not written anything.
type unwritten struct{}

// Intact reports that somebody may have changed the child.
func (unwritten) Intact(*unstructured.Unstructured) bool { return false }

// Contested reports that nobody contests it.
func (unwritten) Contested(*unstructured.Unstructured, *adapters.Observed) (time.Time, error) {
	return time.Time{}, nil
}

// Outlived returns nothing: it matters only for writing the child.
func (unwritten) Outlived(context.Context, string, string, string) ([]corev1.Pod, error) {
	return nil, nil
}

// Stripped returns nothing: the manager restores lost labels with its next write.
func (unwritten) Stripped(context.Context, *adapters.Child) (*unstructured.Unstructured, error) {
	return nil, nil //nolint:nilnil // there is none
}

// One returns a UnitedDeployment.
func One(ctx context.Context, from client.Reader, namespace, name string) (*v1alpha1.UnitedDeployment, error) {
	parent := &v1alpha1.UnitedDeployment{}
	if err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, parent); err != nil {
		return nil, err
	}
	return parent, nil
}
