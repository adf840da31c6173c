// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package e2e tests United end to end: the real manager binary, as the Helm chart runs it, with the
// real Kubernetes controllers around it. The tests share one control plane; each test has its own
// namespace. A test that disturbs more than its namespace, such as the manager or the API server, has a
// control plane for itself (newPlaneOf).
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
// The tests delete nothing at their end but what never is at rest (deleteAtEnd): at rest the manager does
// nothing, and with UNITED_KEEP=1 in the environment everything is left for inspection.
package e2e

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

const (
	startTimeout = 5 * time.Minute
	// waitTimeout bounds how long an expected event may take. It is a bound for a busy machine, not a
	// measurement.
	waitTimeout = 90 * time.Second
	// interval is the time between two tries of what a test does repeatedly.
	interval = 100 * time.Millisecond
	// pollInterval is the time between two reads of what a test waits for: they cost the API server much of
	// its time.
	pollInterval = 500 * time.Millisecond
)

// shared is the control plane of the tests that do not need one for themselves.
var shared *plane

func TestMain(m *testing.M) {
	SetDefaultEventuallyTimeout(waitTimeout)
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	os.Exit(install.Suite{
		Cluster: forAll(), Timeout: startTimeout, Parallel: "8",
		SetUp: func(ctx context.Context, c *cluster.Cluster) (err error) {
			shared, err = newPlane(ctx, c)
			return err
		},
		TearDown: func() error { return errors.Join(shared.stop(), stopIdle()) },
	}.Run(m))
}

// values make the manager log what the log of a failed test needs, and give it more time to renew its Lease on a busy
// machine: nobody restarts a manager that has lost its Lease.
var values = []string{"--set=log.level=debug", "--set=leaderElection.renewDeadline=13s"}
