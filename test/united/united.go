// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package united installs United into a cluster of test/cluster and runs its
// manager there as it runs in production: the real binary, under the token and
// the rights of its own ServiceAccount, with leader election.
package united

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/unitedworkloads/united/test/cluster"
)

// Where and as whom the manager runs.
const (
	Namespace      = "united-system"
	ServiceAccount = "united-manager"
	Lease          = "united-manager"
)

// startTimeout is how long a manager may take to hold the Lease, also when
// another one died with it.
const startTimeout = time.Minute

// Install installs the CRD, the admission policy and the RBAC of config/, and
// waits until the policy is in force.
func Install(ctx context.Context, c *cluster.Cluster) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	for _, part := range []string{"crd", "rbac", "admission"} {
		if err := c.Apply(ctx, filepath.Join(root, "config", part)); err != nil {
			return fmt.Errorf("install config/%s: %w", part, err)
		}
	}
	return nil
}

// Manager is a running manager.
type Manager struct {
	*cluster.Process
	// Identity is what it calls itself in the Lease; known once it holds it.
	Identity string
}

// Start starts a manager and waits until it holds the Lease. Args are added to
// its own. name tells it from others and names its log file.
func Start(ctx context.Context, c *cluster.Cluster, name string, args ...string) (*Manager, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	before, err := holder(ctx, client)
	if err != nil {
		return nil, err
	}
	m, err := Launch(ctx, c, name, args...)
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-m.Done():
			return false, fmt.Errorf("the manager ended; see %s", m.LogPath())
		default:
		}
		m.Identity, err = holder(ctx, client)
		return m.Identity != "" && m.Identity != before, err
	})
	if err != nil {
		_ = m.Kill()
		return nil, fmt.Errorf("wait until %s holds the Lease (log: %s): %w", name, m.LogPath(), err)
	}
	return m, nil
}

// Launch starts a manager without waiting for it.
func Launch(ctx context.Context, c *cluster.Cluster, name string, args ...string) (*Manager, error) {
	kubeconfig := filepath.Join(c.Dir(), name+".kubeconfig")
	if err := c.WriteServiceAccountKubeconfig(ctx, Namespace, ServiceAccount, kubeconfig); err != nil {
		return nil, err
	}
	process, err := c.StartProcess(name, "united-manager", append([]string{
		"--kubeconfig", kubeconfig,
		"--leader-election-namespace", Namespace,
		"--metrics-bind-address", "0",
		"--health-probe-bind-address", "0",
	}, args...)...)
	if err != nil {
		return nil, fmt.Errorf("start the manager: %w", err)
	}
	return &Manager{Process: process}, nil
}

func holder(ctx context.Context, client kubernetes.Interface) (string, error) {
	lease, err := client.CoordinationV1().Leases(Namespace).Get(ctx, Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the Lease: %w", err)
	}
	return holderOf(lease), nil
}

func holderOf(lease *coordinationv1.Lease) string {
	if lease.Spec.HolderIdentity == nil {
		return ""
	}
	return *lease.Spec.HolderIdentity
}
