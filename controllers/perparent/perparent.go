// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package perparent remembers data about UnitedDeployments between passes. The data is lost when the
// process ends, so it may only decide how much is done, and how often, and never what is right.
package perparent

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memory stores a T for each parent and name. The name is that of a subset or of a child, or "" for
// the parent itself. The zero value is empty and ready to use.
//
// Memory is safe for concurrent use. It does not guard what a T points at: only one worker at a time
// works on a parent.
type Memory[T any] struct {
	mu   sync.Mutex
	kept map[types.NamespacedName]map[string]T
}

// Get returns the stored value, or the zero value if there is none.
func (m *Memory[T]) Get(parent types.NamespacedName, name string) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[parent][name]
}

// Set stores a value and replaces the previous one.
func (m *Memory[T]) Set(parent types.NamespacedName, name string, what T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[types.NamespacedName]map[string]T{}
	}
	if m.kept[parent] == nil {
		m.kept[parent] = map[string]T{}
	}
	m.kept[parent][name] = what
}

// Delete removes the value of a name.
func (m *Memory[T]) Delete(parent types.NamespacedName, name string) {
	m.DeleteFunc(parent, func(of string, _ T) bool { return of == name })
}

// DeleteFunc removes the values of a parent for which drop returns true.
func (m *Memory[T]) DeleteFunc(parent types.NamespacedName, drop func(name string, what T) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if maps.DeleteFunc(m.kept[parent], drop); len(m.kept[parent]) == 0 {
		delete(m.kept, parent)
	}
}

// Forget removes all values of a parent that no longer exists.
func (m *Memory[T]) Forget(parent types.NamespacedName) {
	m.DeleteFunc(parent, func(string, T) bool { return true })
}
