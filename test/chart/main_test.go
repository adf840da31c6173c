// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package chart tests the charts with the real helm, against the real control
// plane. What kwok plays is only that the pods of the chart's Deployment run: the
// manager itself is the real process, under the ServiceAccount, the rights and
// the arguments that the chart gives it.
//
// The API server enforces who may own whom
// (OwnerReferencesPermissionEnforcement), as OpenShift does, and its audit log
// has the reads of ServiceAccounts too.
package chart

import (
	"context"
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
)

const (
	startTimeout = 5 * time.Minute
	// patience is how long something that is to happen may take. It is a bound on
	// a busy machine, not a figure.
	patience = 90 * time.Second
	interval = 100 * time.Millisecond
	// parallel is how many tests run at once, unless -parallel says otherwise:
	// they wait more than they work.
	parallel = "6"
)

// shared is what all tests of the package use.
var shared struct {
	cluster *cluster.Cluster
	client  client.Client
}

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
	c, err := cluster.Start(ctx, cluster.Options{
		Log: os.Stderr, AuditReads: true,
		APIServerArgs: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
	})
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
	shared.cluster = c
	if shared.client, err = newClient(c); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

func newClient(c *cluster.Cluster) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, rbacv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	// Lazily: the CRD comes and goes.
	return client.New(c.Config(), client.Options{Scheme: scheme})
}
