// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import "maps"

// LoseRevision deletes a set's own revision of a content, as only a user does.
func (s *Sets) LoseRevision(set, content string) {
	maps.DeleteFunc(s.api.own[set], func(_ string, r *ownRevision) bool { return contentOf(r.template) == content })
	s.api.Last++
}

// Excuse lets the oracle judge nothing from now on: what a test does to the world is
// against all that it knows.
func (s *World) Excuse() { s.Oracle.fail = func(string, ...any) {} }
