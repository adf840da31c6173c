// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"net/http"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// The points at which managers are killed or stopped.
var (
	seedWritten = Point{
		Name: "a seed is written, and its answer is lost", Answered: true,
		Steps: []func(c, _ *Call) bool{isSeed},
	}
	seedBeforeRelease = Point{
		Name: "between seed and release",
		Steps: []func(c, _ *Call) bool{isSeed, func(c, before *Call) bool {
			return c.Child() != nil && c.URL.Path == before.URL.Path && !c.Child().Seeds()
		}},
	}
	childBeforeStatus = Point{
		Name:  "between the write of a child and that of the status",
		Steps: []func(c, _ *Call) bool{isChild, isStatus},
	}
	revisionWritten = Point{
		Name: "a revision is kept, and the answer is lost", Answered: true,
		Steps: []func(c, _ *Call) bool{isRevision},
	}
	revisionBeforeChild = Point{
		Name:  "between the revision and the first child",
		Steps: []func(c, _ *Call) bool{isRevision, isChild},
	}
)

func isSeed(c, _ *Call) bool { return c.Child() != nil && c.Child().Seeds() }

func isChild(c, _ *Call) bool { return c.Child() != nil }

func isStatus(c, _ *Call) bool { return c.On(http.MethodPatch, Statuses) }

func isRevision(c, _ *Call) bool { return c.On(http.MethodPost, "controllerrevisions") }
