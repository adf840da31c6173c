// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package env is what the tests of the charts have in common: they run with the real helm, against a real control plane. kwok only simulates
// that the pods of the chart's Deployment run: the manager itself is the real process, with the
// ServiceAccount, the rights and the arguments of the chart.
//
// The API server checks who may set an owner (OwnerReferencesPermissionEnforcement), as OpenShift does,
// and its audit log also contains the reads of ServiceAccounts.
package env

import (
	"context"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

const (
	startTimeout = 5 * time.Minute
	// waitTimeout bounds how long an expected event may take. It is a bound for a busy machine, not a
	// measurement.
	waitTimeout = 90 * time.Second
	interval    = 100 * time.Millisecond
	// pollInterval is the time between two reads of what a test waits for: they cost the API server much of its time.
	pollInterval = 250 * time.Millisecond
)

// Shared is the state that all tests of the package use.
var Shared struct {
	Cluster *cluster.Cluster
	client  client.Client
}

// Main is for TestMain.
func Main(m *testing.M) {
	SetDefaultEventuallyTimeout(waitTimeout)
	SetDefaultEventuallyPollingInterval(pollInterval)
	SetDefaultConsistentlyPollingInterval(pollInterval)
	os.Exit(install.Suite{
		Cluster: cluster.Options{
			Log: os.Stderr, AuditReads: true,
			APIServerArgs: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
		},
		Timeout: startTimeout, Parallel: "6", SetUp: setUp,
	}.Run(m))
}

func setUp(_ context.Context, c *cluster.Cluster) (err error) {
	Shared.Cluster = c
	Shared.client, err = install.NewClient(c)
	return err
}
