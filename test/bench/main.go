// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Bench measures United on a real control plane that it starts and deletes, with the manager as its
// Helm chart runs it, and prints tables. It exits with an error if a count is wrong: writes where there
// should be none, more than one write where one is enough, or conflicts. Among the times, only ratios
// from one run are meaningful, and only one of them has a bound. docs/benchmarks.md explains how to
// read the tables.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/unitedworkloads/united/test/install"
)

// options are the command line flags.
type options struct {
	parts    string
	parents  int
	patches  int
	window   time.Duration
	foreign  int
	sizes    string
	shape    string
	roll     bool
	deadline time.Duration
	pprof    string
	// watchOnly is for the process that runs beside the contenders.
	watchOnly string
}

// part is one part of the benchmark.
type part struct {
	name string
	run  func(ctx context.Context, o *options, r *report) error
}

func parts() []part {
	return []part{
		{"planner", runPlanner},
		{"canary", runCanary},
		{"rollout", runRollout},
		{"failover", runFailover},
		{"peer", runPeer},
		{"size", runSize},
	}
}

func main() { install.Main("bench", run) }

func run(ctx context.Context) error {
	log.SetLogger(logr.Discard()) // of the library of the watches
	o := &options{}
	flag.StringVar(&o.parts, "parts", "planner,canary,rollout,failover,peer,size", "what to measure")
	flag.IntVar(&o.parents, "parents", 20, "canary, peer, failover: UnitedDeployments, of 4 subsets of 5 each; of 5 of 2 for failover")
	flag.IntVar(&o.patches, "patches", 200, "canary: partitions to patch")
	flag.DurationVar(&o.window, "window", 30*time.Second, "how long nothing is done, to see the manager at rest")
	flag.IntVar(&o.foreign, "foreign", 1000, "size: StatefulSets of 10 that are not United's")
	flag.StringVar(&o.sizes, "sizes", "20,200", "size: UnitedDeployments, in rising order")
	flag.BoolVar(&o.roll, "roll", true, "size: roll out all UnitedDeployments at once too, which takes longest")
	flag.StringVar(&o.shape, "shape", "5x10", "size: subsets of each UnitedDeployment, and replicas of each subset")
	flag.DurationVar(&o.deadline, "deadline", 2*time.Hour, "when to give up")
	flag.StringVar(&o.pprof, "pprof", "0", "address at which the manager serves profiles while it is measured, such as 127.0.0.1:6060")
	flag.StringVar(&o.watchOnly, "watch-only", "", "only watch the cluster of this kubeconfig, like United, until the program is stopped")
	flag.Parse()
	if o.watchOnly != "" {
		return watchOnly(ctx, o.watchOnly)
	}
	wanted := strings.Split(o.parts, ",")
	for _, name := range wanted {
		if !slices.ContainsFunc(parts(), func(p part) bool { return p.name == name }) {
			return fmt.Errorf("there is no part %q", name)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, o.deadline)
	defer cancel()
	r := &report{out: os.Stdout}
	r.machine()
	for _, p := range parts() {
		if !slices.Contains(wanted, p.name) {
			continue
		}
		if err := p.run(ctx, o, r); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return r.verdict()
}
