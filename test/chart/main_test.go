// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart tests the charts with the real helm, against a real control plane. kwok only simulates
// that the pods of the chart's Deployment run: the manager itself is the real process, with the
// ServiceAccount, the rights and the arguments of the chart.
//
// The API server checks who may set an owner (OwnerReferencesPermissionEnforcement), as OpenShift does,
// and its audit log also contains the reads of ServiceAccounts.
package chart

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

// shared is the state that all tests of the package use.
var shared struct {
	cluster *cluster.Cluster
	client  client.Client
}

func TestMain(m *testing.M) {
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
	shared.cluster = c
	shared.client, err = install.NewClient(c)
	return err
}
