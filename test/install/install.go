// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package install installs United into a cluster of test/cluster with its Helm chart, and runs its
// manager there as in production: the real binary, with the arguments of the chart's Deployment, the
// token and the rights of its own ServiceAccount, and leader election. The pods of that Deployment are
// simulated, and do nothing.
//
// Suite is the TestMain of packages whose tests share a cluster.
package install

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
)

// The namespace and the user of the manager.
const (
	Namespace      = "united-system"
	ServiceAccount = "united-manager"
	Deployment     = "united-manager"
	Lease          = "united-manager"
)

// startTimeout is how long a manager may take to acquire the Lease, even if another manager died while
// holding it.
const startTimeout = time.Minute

// Chart installs charts/united as release united in the namespace united-system, which it creates with
// the restricted Pod Security Standard, and waits until the admission policy is in force. It adds args
// to those of helm, such as --set=....
func Chart(ctx context.Context, c *cluster.Cluster, args ...string) error {
	chart, err := ChartDir("united")
	if err != nil {
		return err
	}
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	if err := c.Apply(ctx, filepath.Join(root, "config", "rbac", "00_namespace.yaml")); err != nil {
		return err
	}
	if _, err := Helm(ctx, c, append([]string{"upgrade", "--install", "united", chart, "--namespace=" + Namespace}, args...)...); err != nil {
		return err
	}
	return WaitPolicy(ctx, c)
}

// WaitPolicy waits until the admission policy refuses what it should: the API server learns about a
// policy through a watch, a moment after its creation.
func WaitPolicy(ctx context.Context, c *cluster.Cluster) error {
	client, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return fmt.Errorf("client: %w", err)
	}
	deployments := client.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(metav1.NamespaceDefault)
	refused := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": v1alpha1.Kind,
		"metadata": map[string]any{"name": "probe"},
		"spec": map[string]any{
			"selector": map[string]any{"matchLabels": map[string]any{"app": "probe"}},
			"template": map[string]any{"statefulSetTemplate": map[string]any{"spec": map[string]any{
				"replicas": int64(1), // only the policy refuses it
				"template": map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "probe"}}},
			}}},
		},
	}}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = deployments.Create(ctx, refused, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return apierrors.IsInvalid(last), nil
	})
	if err != nil {
		return fmt.Errorf("wait until the admission policy is in force: %w", errors.Join(err, last))
	}
	return nil
}

// Manager is a running manager.
type Manager struct {
	*cluster.Process
	// Identity is the name of the manager in the Lease; known once it holds the Lease.
	Identity string
	// logFrom is where the manager's part of the log file begins.
	logFrom int
}

// Options describe how a manager runs, and as which user. FromChart returns those of a release.
type Options struct {
	// Namespace of the ServiceAccount and of the Lease.
	Namespace      string
	ServiceAccount string
	// Args are added to the arguments that a manager needs here, and override them.
	Args []string
	// Program is the path of the manager; by default the one that make build makes.
	Program string
	// Env are environment variables in addition to those of the test, each KEY=value.
	Env []string
}

// Start starts the manager as the Deployment of the release that Chart has installed runs it, and waits
// until it holds the Lease. name identifies the manager and names its log file.
func Start(ctx context.Context, c *cluster.Cluster, name string) (*Manager, error) {
	d, err := FromChart(ctx, c, Namespace, Deployment)
	if err != nil {
		return nil, err
	}
	return d.Start(ctx, c, name)
}

// Start starts a manager and waits until it holds the Lease.
func (o Options) Start(ctx context.Context, c *cluster.Cluster, name string) (*Manager, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("client: %w", err)
	}
	m, err := o.Launch(ctx, c, name)
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		select {
		case <-m.Done():
			return false, fmt.Errorf("the manager ended; see %s", m.LogPath())
		default:
		}
		leads, err := m.Leads()
		if err != nil || !leads {
			return false, err
		}
		m.Identity, err = Holder(ctx, client, o.Namespace)
		return m.Identity != "", err
	})
	if err != nil {
		_ = m.Kill()
		return nil, fmt.Errorf("wait until %s holds the Lease (log: %s): %w", name, m.LogPath(), err)
	}
	return m, nil
}

// Launch starts a manager without waiting for it.
func (o Options) Launch(ctx context.Context, c *cluster.Cluster, name string) (*Manager, error) {
	kubeconfig := filepath.Join(c.Dir(), name+".kubeconfig")
	if err := c.WriteServiceAccountKubeconfig(ctx, o.Namespace, o.ServiceAccount, kubeconfig); err != nil {
		return nil, err
	}
	earlier, err := os.ReadFile(filepath.Join(c.Dir(), "logs", name+".log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("start the manager: %w", err)
	}
	process, err := c.StartProcessWithEnv(o.Env, name, cmp.Or(o.Program, "united-manager"), append([]string{
		"--kubeconfig", kubeconfig,
		"--leader-election-namespace", o.Namespace,
		"--metrics-bind-address", "0",
		"--health-probe-bind-address", "0",
	}, o.Args...)...)
	if err != nil {
		return nil, fmt.Errorf("start the manager: %w", err)
	}
	return &Manager{Process: process, logFrom: len(earlier)}, nil
}

// Leads reports whether this process holds the Lease. The Lease itself does not show that: a process
// derives its identity from the host name, which all processes of a test share, and a random part that
// it does not reveal. But each process logs (at the level info) when it acquires the Lease, and ends
// when it loses it.
func (m *Manager) Leads() (bool, error) {
	select {
	case <-m.Done():
		return false, nil
	default:
	}
	log, err := os.ReadFile(m.LogPath())
	if err != nil {
		return false, fmt.Errorf("who leads: %w", err)
	}
	return bytes.Contains(log[m.logFrom:], []byte("Successfully acquired lease")), nil
}

// Holder returns the holder of the Lease of a namespace; empty if there is none.
func Holder(ctx context.Context, client kubernetes.Interface, namespace string) (string, error) {
	lease, err := client.CoordinationV1().Leases(namespace).Get(ctx, Lease, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the Lease: %w", err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, ""), nil
}
