// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package memory remembers data about UnitedDeployments between passes. The data is lost when the process ends, so it may only
// decide how much is done, and how often, and never what is right.
package memory

import (
	"maps"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// Memory has one entry for each parent, which is forgotten as a whole. The zero value is empty and ready to use.
//
// Memory is safe for concurrent use. It does not guard what a value points at: only one worker at a time works on a parent.
type Memory struct {
	mu sync.RWMutex
	// kept has the slots of each parent, which point at their values: one of each type.
	kept map[types.NamespacedName][]any
}

// Of returns the entry of a parent. Nothing is stored for a parent of which nothing is remembered.
func (m *Memory) Of(parent types.NamespacedName) Entry { return Entry{m, parent} }

// Forget removes the entry of a parent that no longer exists.
func (m *Memory) Forget(parent types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.kept, parent)
}

// Entry is what is remembered of one parent. The zero value remembers nothing.
type Entry struct {
	memory *Memory
	parent types.NamespacedName
}

// Slot is the part of an entry that has the type T. An owner declares a type for each of its slots, since two slots of the same
// type are one.
type Slot[T any] struct{ Entry }

// Get returns the stored value, or the zero value if there is none.
func (s Slot[T]) Get() (value T) {
	s.read(func(slots []any) {
		if kept := find[T](slots); kept != nil {
			value = *kept
		}
	})
	return value
}

// Set stores a value and replaces the previous one.
func (s Slot[T]) Set(value T) {
	s.change(func(slots []any) []any {
		if kept := find[T](slots); kept != nil {
			*kept = value
			return slots
		}
		first := value
		return append(slots, &first)
	})
}

// Named is a slot with a T for each name, such as that of a subset or of a child.
type Named[T any] struct{ Entry }

// Get returns the value of a name, or the zero value if there is none.
func (s Named[T]) Get(name string) (value T) {
	s.read(func(slots []any) {
		if named := find[map[string]T](slots); named != nil {
			value = (*named)[name]
		}
	})
	return value
}

// Set stores the value of a name and replaces the previous one.
func (s Named[T]) Set(name string, value T) {
	s.change(func(slots []any) []any {
		if named := find[map[string]T](slots); named != nil {
			(*named)[name] = value
			return slots
		}
		return append(slots, &map[string]T{name: value})
	})
}

// Delete removes the value of a name.
func (s Named[T]) Delete(name string) {
	s.DeleteFunc(func(of string, _ T) bool { return of == name })
}

// DeleteFunc removes the values for which drop returns true.
func (s Named[T]) DeleteFunc(drop func(name string, value T) bool) {
	s.change(func(slots []any) []any {
		named := find[map[string]T](slots)
		if named == nil {
			return slots
		}
		if maps.DeleteFunc(*named, drop); len(*named) > 0 {
			return slots
		}
		return slices.DeleteFunc(slots, func(slot any) bool { return slot == any(named) })
	})
}

// find returns the value in the slot of a type; nil if there is none.
func find[T any](slots []any) *T {
	for _, slot := range slots {
		if kept, ok := slot.(*T); ok {
			return kept
		}
	}
	return nil
}

func (e Entry) read(with func(slots []any)) {
	if e.memory != nil {
		e.memory.mu.RLock()
		defer e.memory.mu.RUnlock()
		with(e.memory.kept[e.parent])
	}
}

func (e Entry) change(with func(slots []any) []any) {
	if e.memory == nil {
		return
	}
	e.memory.mu.Lock()
	defer e.memory.mu.Unlock()
	if e.memory.kept == nil {
		e.memory.kept = map[types.NamespacedName][]any{}
	}
	if slots := with(e.memory.kept[e.parent]); len(slots) > 0 {
		e.memory.kept[e.parent] = slots
	} else {
		delete(e.memory.kept, e.parent)
	}
}
