// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package conformance holds the simulated StatefulSet controller of
// test/simulation to the real one: it plays the same traces on both and compares
// what is there after every step, when all has settled.
//
// What the simulation leaves out is not compared: volumes, maxUnavailable of a
// StatefulSet, ordinals.start, pods that have failed or succeeded.
//
//	go test ./test/conformance -run Random -traces 50 -seed 7
//
// The tests share one control plane; each trace has a namespace of its own.
package conformance

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/test/cluster"
)

const (
	startTimeout = 5 * time.Minute
	// patience is how long it may take until all has settled. It is a bound on a
	// busy machine, not a figure.
	patience = 90 * time.Second
	interval = 100 * time.Millisecond
	// parallel is how many traces are played at once, unless -parallel says
	// otherwise. They wait more than they work.
	parallel = "12"
)

var (
	traces = flag.Int("traces", 8, "how many random traces")
	seed   = flag.Int("seed", 0, "the seed of the first random trace, 0 for one of the clock")
)

// kube is a client of the control plane that all tests share.
var kube client.Client

var policies = []appsv1.PodManagementPolicyType{appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement}

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	flag.Parse()
	chosen := false
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if !chosen {
		if err := flag.Set("test.parallel", parallel); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	SetDefaultEventuallyTimeout(patience)
	SetDefaultEventuallyPollingInterval(interval)

	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() {
		if err := c.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if kube, err = client.New(c.Config(), client.Options{Scheme: clientgoscheme.Scheme}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}
