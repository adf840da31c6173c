// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation is a world around the real reconciler: a simulated API
// server and a cache of it that lags, a StatefulSet controller, kubelets, a
// garbage collector and a clock, each of which moves only when it is told to. An
// Oracle looks on and judges every move by the words of the design. Parents may share
// a cluster, and with it the controller and its memory; each has an oracle of its own,
// to which what is another's is not to be touched.
//
// What the controller does is judged by what it saw when it did it: its cache, as old
// as that may be, and its own writes, as far as it knows that they were done. A calm
// world, in which nobody but the controller takes a replica down, is judged as it is
// as well, whatever the controller saw. rollout.go has the rules for coordinated
// rollouts, oracle.go and oracle_rules.go those for what is protected.
//
// What may go wrong: caches that lag, each kind by itself; writes that fail, are in
// conflict, or whose response is lost; a crash before or after any write; pods that
// are slow, flap, crash or cannot be pulled; a zone whose nodes are lost, or that is not
// ready for some seconds; an API server that restarts, after which caches lag and sets
// forget (disturbances.go); strays; users that delete pods and children and edit the spec in
// between.
//
// What the oracle cannot judge by what the controller saw, it keeps account of itself: for
// how long a step stood (oracle_soak.go), and which pods came up without having been released.
//
// The StatefulSet controller is that of one of Versions. A world has the newest, unless
// its test chooses another.
//
// The tests of this package draw worlds from a seed, and play some on each version;
// those of controllers/united direct them move by move.
package simulation
