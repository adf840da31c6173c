// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package env is what the end-to-end tests of United have in common: the real manager binary, as the Helm chart runs it,
// with the real Kubernetes controllers around it. The tests of a package share one control plane; each test has its own
// namespace. A test that disturbs more than its namespace, such as the manager or the API server, has a control plane for
// itself (NewPlaneOf).
//
//	func TestSomething(t *testing.T) {
//		t.Parallel()
//		e := NewEnv(t)
//		w := e.Create(NewDraft("web", Replicas(6), Zones("1", "50%", ""), Hold()))
//		w.Settle()
//		e.Step("a staged image moves no pod", func() {
//			still := e.History.Forbid(AnyNewPod)
//			w.SetImage("v2")
//			w.Settle()
//			still.Holds()
//			w.SetPartitions(Parts{"zone-a": 0})
//			w.Settle()
//			still.Fires() // the positive control
//			e.Expect(w.Images()).To(Equal(Images{"zone-a": "v2", "zone-b": "v1 v1 v1", "zone-c": "v1 v1"}))
//		})
//	}
//
// The tag of the image decides the fate of a pod, see test/cluster: broken..., slow..., quiet...,
// pull...; a pod with any other tag is ready at once.
//
// The tests delete nothing at their end but what never is at rest (DeleteAtEnd): at rest the manager does
// nothing, and with UNITED_KEEP=1 in the environment everything is left for inspection.
package env

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
	// WaitTimeout bounds how long an expected event may take. It is a bound for a busy machine, not a
	// measurement.
	WaitTimeout = 180 * time.Second
	// Interval is the time between two tries of what a test does repeatedly.
	Interval = 100 * time.Millisecond
	// pollInterval is the time between two reads of what a test waits for: they cost the API server much of
	// its time.
	pollInterval = 500 * time.Millisecond
)

// Shared is the control plane of the tests that do not need one for themselves.
var Shared *Plane

// Main is for TestMain.
func Main(m *testing.M) {
	SetDefaultEventuallyTimeout(WaitTimeout)
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	os.Exit(install.Suite{
		Cluster: forAll(), Timeout: startTimeout, Parallel: "8",
		SetUp: func(ctx context.Context, c *cluster.Cluster) (err error) {
			Shared, err = newPlane(ctx, c)
			return err
		},
		TearDown: func() error { return errors.Join(Shared.stop(), stopIdle()) },
	}.Run(m))
}

// NamedTemplate is the only ClusterAnalysisTemplate that the manager may use.
const NamedTemplate = "named"

// values make the manager log what the log of a failed test needs, and give it more time to renew its Lease on a busy
// machine: nobody restarts a manager that has lost its Lease.
var values = []string{
	"--set=log.level=debug", "--set=leaderElection.renewDeadline=13s",
	`--set-json=checks.objects=[{"apiGroup":"moco.cybozu.com","resources":["mysqlclusters"]}]`,
	// Checks may name these too, and the manager has no permission to read them until a test gives it (MayRead).
	`--set-json=extraArgs=["--check-objects=poddisruptionbudgets.policy,laters.later.example.com,replicasets.apps"]`,
	"--set=checks.jobs=true", "--set=checks.analysis=true", "--set=checks.clusterAnalysisTemplates={" + NamedTemplate + "}",
	`--set-json=checks.prometheus.servers={"closed":{"url":"http://127.0.0.1:1","namespaces":["*"]}}`,
}
