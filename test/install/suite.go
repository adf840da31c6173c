// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
)

// Suite configures how the tests of a package that share one cluster run.
type Suite struct {
	Cluster cluster.Options
	// Timeout bounds the start of the cluster, and SetUp.
	Timeout time.Duration
	// Parallel is how many tests run at once, unless -parallel overrides it: they wait more than they
	// compute, so the number of processors is not the limit. The default is that of go test.
	Parallel string
	// SetUp is called when the cluster has started.
	SetUp func(ctx context.Context, c *cluster.Cluster) error
	// TearDown, if any, is called after the tests and before the cluster is stopped.
	TearDown func() error
}

// Run is for TestMain: it runs the tests of m and returns the exit code, which is also 1 if anything
// else failed.
func (s Suite) Run(m interface{ Run() int }) (code int) {
	fail := func(err error) {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	flag.Parse()
	if err := s.setParallel(); err != nil {
		fail(err)
		return code
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.Timeout)
	defer cancel()
	c, err := cluster.Start(ctx, s.Cluster)
	if err != nil {
		fail(err)
		return code
	}
	defer func() {
		if err := c.Stop(); err != nil {
			fail(err)
		}
	}()
	if err := s.SetUp(ctx, c); err != nil {
		fail(err)
		return code
	}
	code = m.Run()
	if s.TearDown != nil {
		if err := s.TearDown(); err != nil {
			fail(err)
		}
	}
	return code
}

func (s Suite) setParallel() error {
	chosen := s.Parallel == ""
	flag.Visit(func(f *flag.Flag) { chosen = chosen || f.Name == "test.parallel" })
	if chosen {
		return nil
	}
	return flag.Set("test.parallel", s.Parallel)
}

// NewClient returns a client with all rights that knows the kinds of Kubernetes and the
// UnitedDeployment, even if its CRD is installed later.
func NewClient(c *cluster.Cluster) (client.Client, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	return client.New(c.Config(), client.Options{Scheme: scheme})
}
