// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package worlds

import (
	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/controllers/united/planner"
)

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
	Child *planner.Child
}

// Reads keeps what was read, because most events change one child, and leave the others as they are.
type Reads[C comparable] map[ReadKey[C]]Read

// Of returns what was read for a key, and reads it if it was not yet.
func (r Reads[C]) Of(key ReadKey[C], read func() Read) Read {
	known, found := r[key]
	if !found {
		if len(r) >= mostReads {
			clear(r)
		}
		known = read()
		r[key] = known
	}
	return known
}
