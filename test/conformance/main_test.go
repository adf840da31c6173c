// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance holds the simulated StatefulSet controller of
// test/simulation to the real one: it plays the same traces on both and compares
// what is there after every step, when all has settled.
//
// What the simulation leaves out is not compared: volumes, ordinals.start, pods that
// have failed or succeeded. The simulation is that of the version which the control
// plane says it is; `make test` does it on the newest and on the oldest one.
//
//	go test ./test/conformance -run Random -traces 50 -seed 7
//
// The tests share one control plane; each trace has a namespace of its own.
package conformance

import (
	"context"
	"flag"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
	"github.com/unitedworkloads/united/test/simulation"
)

const (
	startTimeout = 5 * time.Minute
	// waitTimeout is how long it may take until all has settled. It is a bound on a
	// busy machine, not a figure.
	waitTimeout = 90 * time.Second
	interval    = 100 * time.Millisecond
)

var (
	traces = flag.Int("traces", 8, "how many random traces")
	seed   = flag.Int("seed", 0, "the seed of the first random trace, 0 for one of the clock")
)

// kube is a client of the control plane that all tests share, and version is what
// that says it is.
var (
	kube    client.Client
	version simulation.Version
)

var policies = []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement}

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(waitTimeout)
	SetDefaultEventuallyPollingInterval(interval)
	os.Exit(install.Suite{
		Cluster: cluster.Options{Log: os.Stderr},
		Timeout: startTimeout, Parallel: "12", SetUp: setUp,
	}.Run(m))
}

func setUp(_ context.Context, c *cluster.Cluster) (err error) {
	if kube, err = install.NewClient(c); err != nil {
		return err
	}
	server, err := c.ServerVersion()
	if err != nil {
		return err
	}
	version, err = simulation.VersionOf(server)
	return err
}
