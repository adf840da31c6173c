// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package perparent keeps what is remembered of UnitedDeployments from pass to pass. It is lost with the
// process, so nothing may rest on it but how much is done, and how often.
package perparent

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memory remembers a T by parent, and by the name of what it is about: a subset, or a child; "" for
// the parent itself. The zero value remembers nothing yet.
//
// It is safe for concurrent use. What a T points at is not guarded: one worker at a time has a parent.
type Memory[T any] struct {
	mu   sync.Mutex
	kept map[types.NamespacedName]map[string]T
}

// Get is what is remembered; the zero value if nothing is.
func (m *Memory[T]) Get(parent types.NamespacedName, name string) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[parent][name]
}

// Set remembers, in the place of what was.
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

// Delete drops what is remembered of one thing.
func (m *Memory[T]) Delete(parent types.NamespacedName, name string) {
	m.DeleteFunc(parent, func(of string, _ T) bool { return of == name })
}

// DeleteFunc drops what is remembered of some things of a parent.
func (m *Memory[T]) DeleteFunc(parent types.NamespacedName, drop func(name string, what T) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if maps.DeleteFunc(m.kept[parent], drop); len(m.kept[parent]) == 0 {
		delete(m.kept, parent)
	}
}

// Forget drops all that is remembered of a parent, which is gone.
func (m *Memory[T]) Forget(parent types.NamespacedName) {
	m.DeleteFunc(parent, func(string, T) bool { return true })
}
