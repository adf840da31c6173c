// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package simulation is a world around the real reconciler: a simulated API
// server and a cache of it that lags, a StatefulSet controller, kubelets, a
// garbage collector and a clock, each of which moves only when it is told to. An
// Oracle looks on and judges every move by the words of the design.
//
// The tests of this package draw worlds from a seed; those of controllers/united
// direct them move by move.
package simulation
