// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation is a world around the real reconciler: a simulated API server and a cache of it that lags, a
// StatefulSet controller, kubelets, a garbage collector and a clock, each of which acts only when it is told to. An
// Oracle judges every action by the text of the design. Parents may share a cluster, and with it the controller and its
// memory; each has its own oracle, which checks that the controller does not touch objects of other parents.
//
// The oracle judges what the controller does by what it saw when it did it: its cache, however old, and its own writes,
// as far as it knows that they succeeded. In a calm world, in which only the controller makes replicas unavailable, the
// oracle also judges the real state, whatever the controller saw. rollout.go has the rules for coordinated rollouts,
// oracle.go and oracle_rules.go those for protection.
//
// What may go wrong: caches that lag, each kind by itself; writes that fail, conflict, or whose response is lost; a crash
// before or after any write; pods that are slow, flap, crash or cannot be pulled; a zone whose nodes are lost, or that is
// not ready for some seconds; an API server that restarts, after which caches lag and sets forget (disturbances.go);
// strays; users that delete pods and children and edit the spec in between.
//
// What the oracle cannot derive from what the controller saw, it tracks itself: how long a step has been reached
// (oracle_soak.go), and which pods came up without having been released.
//
// The StatefulSet controller is that of one of Versions. A world has the newest, unless its test chooses another.
//
// The tests of this package draw worlds from a seed, and play some on each version; the tests of controllers/united
// direct them action by action.
package simulation
