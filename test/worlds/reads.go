// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Observe reads a child and what belongs to it through the adapter.
func (w *World) Observe(u *unstructured.Unstructured, have adapters.Dependents) *world.Child {
	o, err := w.Adapter.Observe(u, have)
	if err != nil {
		panic(err)
	}
	o.StatusOutdated = false // how long a step may take does not matter here
	if w.Misread != nil {
		w.Misread(o)
	}
	return &world.Child{Object: u, Observed: o}
}

// mostReads bounds how many children a world keeps as they were read.
const mostReads = 10_000

// ReadKey is what a pass can see of a child, and of the objects that belong to it, which may be those of an earlier state.
type ReadKey[C comparable] struct {
	Child         int
	Is, Theirs    C
	Now, TheirNow uint8
}

// Read is a child as a pass reads it, nil if there is none, and the objects that belong to it. Nobody may change it.
type Read struct {
	Have  adapters.Dependents
	Child *world.Child
}

// Reads keeps what was read, because most events change one child, and leave the others as they are.
type Reads[C comparable] map[ReadKey[C]]Read

// Of returns what was read for a key. If it was not yet, it reads the objects of a child, and the child if it exists.
func (r Reads[C]) Of(key ReadKey[C], exists bool, objects func() adapters.Dependents, child func(adapters.Dependents) *world.Child) Read {
	if known, found := r[key]; found {
		return known
	}
	if len(r) >= mostReads {
		clear(r)
	}
	read := Read{Have: objects()}
	if exists {
		read.Child = child(read.Have)
	}
	r[key] = read
	return read
}
