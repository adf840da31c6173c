// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests United end to end: the real manager binary, as the Helm chart runs it, with the
// real Kubernetes controllers around it. The tests share one control plane; each test has its own
// namespace.
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		e := newEnv(t)
//		w := e.Create(draft("web", replicas(6), zones("1", "50%", ""), hold()))
//		w.Settle()
//		e.Step("a staged image moves no pod", func() {
//			still := e.History.Forbid(anyNewPod)
//			w.SetImage("v2")
//			w.Settle()
//			still.Holds()
//			w.SetPartitions(parts{"zone-a": 0})
//			w.Settle()
//			still.Fires() // the positive control
//			e.Expect(w.Images()).To(Equal(images{"zone-a": "v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1"}))
//		})
//	}
//
// The tag of the image decides the fate of a pod, see test/cluster: broken..., slow..., quiet...,
// pull...; a pod with any other tag is ready at once.
//
// The tests delete nothing at their end: at rest the manager does nothing, and with UNITED_KEEP=1 in
// the environment everything is left for inspection.
package e2e

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
	"github.com/unitedworkloads/united/test/podmetrics"
)

const (
	startTimeout = 5 * time.Minute
	// waitTimeout bounds how long an expected event may take. It is a bound for a busy machine, not a
	// measurement.
	waitTimeout = 90 * time.Second
	interval    = 100 * time.Millisecond
)

// shared is the state that all tests of the package use.
var shared struct {
	cluster *cluster.Cluster
	manager *install.Manager
	client  client.Client
	watch   *podWatch
	metrics *podmetrics.Server
	// zones has the zone of each node.
	zones map[string]string
}

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(waitTimeout)
	SetDefaultEventuallyPollingInterval(interval)
	os.Exit(install.Suite{
		Cluster: cluster.Options{Log: os.Stderr, APIServerArgs: []string{
			// A restarted API server does not know the past of the objects that it caches. The watch of
			// the pods must not miss any event, so it reads from etcd.
			"--watch-cache-sizes=pods#0",
		}},
		Timeout: startTimeout, Parallel: "6", SetUp: setUp, TearDown: tearDown,
	}.Run(m))
}

func setUp(ctx context.Context, c *cluster.Cluster) (err error) {
	shared.cluster = c
	if err := install.Chart(ctx, c, values...); err != nil {
		return err
	}
	if shared.client, err = install.NewClient(c); err != nil {
		return err
	}
	nodes := &corev1.NodeList{}
	if err := shared.client.List(ctx, nodes); err != nil {
		return err
	}
	shared.zones = map[string]string{}
	for _, node := range nodes.Items {
		shared.zones[node.Name] = node.Labels[corev1.LabelTopologyZone]
	}
	if shared.watch, err = startPodWatch(ctx, c); err != nil {
		return err
	}
	if shared.metrics, err = podmetrics.Start(ctx, c); err != nil {
		return err
	}
	shared.manager, err = install.Start(ctx, c, "united-manager")
	return err
}

// tearDown stops the manager, the watch and the metrics: graceful shutdown is part of the test.
func tearDown() error {
	defer shared.watch.stop()
	return errors.Join(shared.manager.Stop(), shared.metrics.Stop(context.Background()))
}

// values make the manager log what the log of a failed test needs, and take over the Lease of a killed
// manager soon. Nobody restarts a manager that has lost its Lease.
var values = []string{
	"--set=log.level=debug",
	"--set=leaderElection.leaseDuration=15s,leaderElection.renewDeadline=13s,leaderElection.retryPeriod=500ms",
}
