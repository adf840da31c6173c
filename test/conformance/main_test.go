// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance compares the simulated StatefulSet controller of test/simulation with the real one: it plays the
// same traces on both and compares the objects after every step, when everything has settled.
//
// It does not compare what the simulation leaves out: volumes, ordinals.start, and pods that have failed or succeeded.
// The simulation follows the version that the control plane reports; `make test` runs this on the newest and on the
// oldest version.
//
//	go test ./test/conformance -run Random -traces 50 -seed 7
//
// The tests share one control plane; each trace has its own namespace.
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
	// waitTimeout bounds how long it may take until everything has settled. It allows for a busy machine, and is not a
	// figure.
	waitTimeout = 90 * time.Second
	interval    = 100 * time.Millisecond
)

var (
	traces = flag.Int("traces", 8, "how many random traces")
	seed   = flag.Int("seed", 0, "the seed of the first random trace, 0 for one of the clock")
)

// kube is a client of the control plane that all tests share, and version is the version that it reports.
var (
	kube    client.Client
	version simulation.Version
)

var policies = []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement}

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(waitTimeout)
	SetDefaultEventuallyPollingInterval(interval)
	SetDefaultConsistentlyPollingInterval(interval)
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
