// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"sync"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

// memory remembers something of each parent, in memory alone. It is safe for concurrent use; the
// zero value remembers nothing yet.
type memory[T any] struct {
	mu   sync.Mutex
	kept map[client.ObjectKey]T
}

// get is what is remembered; the zero value if nothing is.
func (m *memory[T]) get(parent client.ObjectKey) T {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.kept[parent]
}

// set remembers, in the place of what was.
func (m *memory[T]) set(parent client.ObjectKey, what T) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.kept == nil {
		m.kept = map[client.ObjectKey]T{}
	}
	m.kept[parent] = what
}

// forget is for a parent that is gone.
func (m *memory[T]) forget(parent client.ObjectKey) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, parent)
}
