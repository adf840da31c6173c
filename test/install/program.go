// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/unitedworkloads/united/test/cluster"
)

// Main runs a program that has to clean up after itself, and exits: with 0, with 1 if run fails, or
// with 130 if run fails because it was interrupted.
//
// The context ends with the first signal. Later signals change nothing: a second Ctrl-C must not leave
// half a cluster behind. (Under make one Ctrl-C arrives twice anyway, from the terminal and from make.)
// SIGPIPE is among the signals, because `make demo | head` must be cleaned up too.
func Main(name string, run func(ctx context.Context) error) {
	log.SetLogger(logr.Discard()) // of the libraries, which would print a stack otherwise
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGPIPE)
	err := run(ctx)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case err == nil:
	case interrupted && errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, name+": interrupted")
		os.Exit(130)
	default:
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Up starts a cluster with United installed and a manager that holds the Lease. If it fails it leaves
// nothing running. It adds args to those of helm, such as --set=....
func Up(ctx context.Context, o cluster.Options, args ...string) (*cluster.Cluster, *Manager, error) {
	return up(ctx, o, func(c *cluster.Cluster) (*Manager, error) {
		if err := Chart(ctx, c, args...); err != nil {
			return nil, err
		}
		return Start(ctx, c, "united-manager")
	})
}

// UpWithoutHelm is Up with the objects of config/, which are those of the chart with its default values
// (TestDerived in test/chart), except for its Deployment.
func UpWithoutHelm(ctx context.Context, o cluster.Options) (*cluster.Cluster, *Manager, error) {
	return up(ctx, o, func(c *cluster.Cluster) (*Manager, error) {
		if err := applyConfig(ctx, c); err != nil {
			return nil, err
		}
		return Options{Namespace: Namespace, ServiceAccount: ServiceAccount}.Start(ctx, c, "united-manager")
	})
}

func up(ctx context.Context, o cluster.Options, install func(*cluster.Cluster) (*Manager, error)) (*cluster.Cluster, *Manager, error) {
	c, err := cluster.Start(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	m, err := install(c)
	if err != nil {
		return nil, nil, errors.Join(err, c.Stop())
	}
	return c, m, nil
}

func applyConfig(ctx context.Context, c *cluster.Cluster) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	config := filepath.Join(root, "config")
	if err := c.Apply(ctx, filepath.Join(config, "crd"), filepath.Join(config, "rbac"), filepath.Join(config, "admission")); err != nil {
		return err
	}
	return WaitPolicy(ctx, c)
}
