// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package planner decides what the controller does about one UnitedDeployment.
//
// Make creates a Plan from an Input: what was seen of the parent, its children, their pods and the revisions,
// at one moment. Whoever carries out the plan asks Plan.Next for one write after the other, and gives it the results so far.
// Package report describes the Input, the Plan, and its Results. None of these functions modifies its arguments.
//
// The package is pure: it has no client, no clock, no logger, and no memory. So the controller, the tests, and
// anybody who wants to know what the controller would do call the same functions. Offline, Input.Update
// may be a revision that does not exist yet.
package planner
