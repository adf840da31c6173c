// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/unitedworkloads/united/controllers/united/runs"
)

// seen is what remains of a named object as soon as it is decoded, while all objects are read. One that nobody names is nil.
type seen struct {
	name   string
	object *object
}

// GetObjectKind makes it an item of a list.
func (s *seen) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject makes it an item of a list. Nobody changes an object.
func (s *seen) DeepCopyObject() runtime.Object { return &seen{s.name, s.object} }

// store receives the objects of a watch, and keeps what checks need of those that they name.
type store struct {
	r *Runner
	w *watch
	// current reports whether the watch still runs: a reflector may be in the middle of an event when it is ended.
	current func() bool
}

// Transformer returns what reduces an object as soon as it is decoded. Trap: until the API server has sent all of them, the
// reflector holds them, and without this whole: fifty Deployments of 1.35 MB took more than a gigabyte.
func (s *store) Transformer() cache.TransformFunc {
	return func(o any) (any, error) {
		u, ok := o.(*unstructured.Unstructured)
		if !ok {
			return o, nil
		}
		s.r.mu.Lock()
		named := s.w.asked[u.GetName()] || s.w.named[u.GetName()] != nil
		s.r.mu.Unlock()
		if !named {
			return (*seen)(nil), nil
		}
		return &seen{u.GetName(), reduce(u)}, nil
	}
}

// Add adds an object.
func (s *store) Add(o any) error { return s.Update(o) }

// Update replaces an object.
func (s *store) Update(o any) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		s.set(u.GetName(), func() *object { return reduce(u) })
	}
	return nil
}

// Delete removes an object. The result of a run that had finished remains, however fast somebody deleted it.
func (s *store) Delete(o any) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		s.set(u.GetName(), func() *object {
			if is := reduce(u); is.run != nil && (is.run.State == runs.Succeeded || is.run.State == runs.Failed) {
				is.run.gone = true
				return is
			}
			return nil
		})
	}
	return nil
}

func (s *store) set(name string, of func() *object) { s.r.tell(s.setOne(name, of)) }

func (s *store) setOne(name string, of func() *object) []types.NamespacedName {
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if s.current() && s.w.named[name] != nil && s.r.set(s.w, name, of()) {
		return slices.Collect(maps.Keys(s.w.named[name]))
	}
	return nil
}

// Replace replaces all objects. Of one that was named only after the reading had begun, it is not known whether it exists:
// that is read by itself.
func (s *store) Replace(list []any, _ string) error {
	s.r.tell(s.replace(list))
	return nil
}

func (s *store) replace(list []any) (changed []types.NamespacedName) {
	all := map[string]*object{}
	for _, o := range list {
		if is, ok := o.(*seen); ok && is != nil {
			all[is.name] = is.object
		}
	}
	s.r.mu.Lock()
	defer s.r.mu.Unlock()
	if !s.current() {
		return nil
	}
	for name := range s.w.named {
		if is := all[name]; is == nil && !s.w.asked[name] {
			s.r.queue.Add(s.w.source)
		} else if s.r.set(s.w, name, is) {
			changed = append(changed, slices.Collect(maps.Keys(s.w.named[name]))...)
		}
	}
	s.w.listed = true
	if p := s.w.problem; p != nil && (!p.watching || s.w.streams) {
		changed = append(changed, s.w.setProblem(nil)...)
	}
	return changed
}

// Resync does nothing: there is nothing to send again.
func (s *store) Resync() error { return nil }
