// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package planner decides what a controller does about one UnitedDeployment, and says how
// things stand.
//
// Make makes a Plan of an Input: what was observed of the parent, its children, their pods
// and the revisions, at one moment. Whoever carries the plan out asks Hold before each
// subset. Status and Events tell of the Input, the Plan, and the Results of that; without
// Results they tell what would be said now if nothing was written. Nothing of it changes
// what it is given.
//
// All of it is pure: no client, no clock, no logger, and nothing is remembered. So the
// controller, the tests and whoever wants to know what the controller would do call the
// same functions. Offline a revision that does not exist yet is one that the plan asks for
// (Plan.Ensure).
package planner
