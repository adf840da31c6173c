// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package topologyworlds walks through small worlds of a UnitedDeployment whose subsets have bounds, and nodes that are
// full, come and go. A small scheduler gives pods a node or says that it finds none, and time passes in steps. The model
// of what the spec asks for was written from the text of the issue, without reading the code under test. Its value is
// that it is independent, so do not replace any of it by code of the project.
//
// What worlds with nodes share is in test/worlds/placement. The package has only tests:
//
//	state_test.go    a state: the content of a world
//	spec_test.go     the parents that a world may have
//	events_test.go   what else can happen
//	model_test.go    what the spec asks for
//	judge_test.go    what a pass must not decide: the oracle
//	ending_test.go   what must be true after everything has come to rest
//	worlds_test.go   the worlds
//	mutants_test.go  wrong decisions, which the oracle must find
//	version_label_test.go  one version label over all subsets; this needs no world
package topologyworlds

import (
	"github.com/unitedworkloads/united/test/worlds/placement"
)

const (
	// A replica that has waited for one tick has waited for longer than reschedule, and a cap that was cleared two ticks ago is
	// over.
	reschedule = 10
	retry      = 20
)

// state is the whole content of a world. Of a child, Had has a bit for each replica that had a node, and whose place nobody has
// said to be lost since, and Cap is what the oracle knows of the cap of the subset. Nodes is how many pods have room on the nodes
// of each subset.
type (
	state = placement.State
	kid   = placement.Kid
)

// The state of a cap: none, active, or cleared some ticks ago.
const (
	noCap uint8 = iota
	activeCap
	clearedCap // and later: one more for each tick
)

// overCap is a cap that was cleared retryAfterSeconds ago.
const overCap = clearedCap + 2

// Tidy brings a state into its canonical form, and keeps what only the oracle knows.
func (w *game) Tidy(s *state) {
	w.World.Tidy(s)
	for k := range s.Kids {
		c := &s.Kids[k]
		for i := range c.Set.Pods {
			p := &c.Set.Pods[i]
			switch {
			case i >= int(c.Set.Replicas):
				c.Had &^= 1 << i // its end is decided
			case placement.IsPlaced(p) && !p.Terminating:
				c.Had |= 1 << i
			case placement.IsStuck(p):
				c.Had &^= 1 << i
			}
		}
		if !c.Set.Exists {
			c.Had = 0
		}
	}
}
