// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net/http"
	"net/url"
	"os"
)

//go:embed audit-policy.yaml
var auditPolicy []byte

// auditReads go before the rules of the policy, because the first rule that matches counts.
const auditReads = `- level: None
  userGroups: [system:serviceaccounts:kube-system]
  verbs: [get, list, watch]
- level: Metadata
  userGroups: [system:serviceaccounts]
  verbs: [get, list, watch]
`

// serviceRange does not overlap with the addresses of pods (see nodes.go).
const serviceRange = "10.0.0.0/24"

// startComponent starts a component of the control plane from the program of that name.
func (c *Cluster) startComponent(name string, env []string, args ...string) (*Process, error) {
	return c.startProcess(&Process{name: name, component: true}, name, env, args)
}

func (c *Cluster) startEtcd(ctx context.Context) error {
	port, err := c.FreePort()
	if err != nil {
		return err
	}
	c.etcdURL = fmt.Sprintf("http://127.0.0.1:%d", port)
	etcd, err := c.startComponent("etcd", nil,
		"--data-dir="+c.path("etcd"),
		"--listen-client-urls="+c.etcdURL,
		"--advertise-client-urls="+c.etcdURL,
		"--listen-peer-urls=http://127.0.0.1:0", // there are no peers
		"--unsafe-no-fsync",                     // the data need not survive a power failure
		"--quota-backend-bytes=8589934592",
		"--log-level=warn",
	)
	if err != nil {
		return err
	}
	return c.poll(ctx, c.etcdHealthy, etcd)
}

// EtcdMetrics returns the URL of etcd's metrics.
func (c *Cluster) EtcdMetrics() string { return c.etcdURL + "/metrics" }

func (c *Cluster) etcdHealthy(ctx context.Context) (bool, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.etcdURL+"/health", nil)
	if err != nil {
		return false, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false, err
	}
	return response.StatusCode == http.StatusOK, response.Body.Close()
}

func (c *Cluster) startAPIServer(ctx context.Context) error {
	policy := c.path("audit-policy.yaml")
	content := auditPolicy
	if c.opts.AuditReads {
		content = bytes.Replace(content, []byte("rules:\n"), []byte("rules:\n"+auditReads), 1)
	}
	if err := os.WriteFile(policy, content, 0o600); err != nil {
		return err
	}
	server, err := url.Parse(c.config.Host)
	if err != nil {
		return err
	}
	args := []string{
		"--etcd-servers=" + c.etcdURL,
		"--bind-address=127.0.0.1",
		"--secure-port=" + server.Port(),
		// Set explicitly, because kube-apiserver finds no address on a machine without a default route. The Endpoints of
		// the service "kubernetes" may not have a loopback address, therefore there is no reconciler.
		"--advertise-address=127.0.0.1",
		"--endpoint-reconciler-type=none",
		"--service-cluster-ip-range=" + serviceRange,
		"--tls-cert-file=" + c.path("apiserver.crt"),
		"--tls-private-key-file=" + c.path("apiserver.key"),
		"--client-ca-file=" + c.path("ca.crt"),
		"--service-account-issuer=https://kubernetes.default.svc.cluster.local",
		"--service-account-key-file=" + c.path("sa.key"),
		"--service-account-signing-key-file=" + c.path("sa.key"),
		"--authorization-mode=Node,RBAC",
		"--allow-privileged",
		"--max-requests-inflight=3000",
		"--max-mutating-requests-inflight=1500",
		"--audit-policy-file=" + policy,
		"--audit-log-path=" + c.AuditLog(),
		"--audit-log-mode=blocking-strict",
		"--audit-log-maxsize=0",                        // one file, never rotated, so offsets into it stay valid
		"--feature-gates=APIResponseCompression=false", // all clients are on this machine
		"--profiling=false",
	}
	apiserver, err := c.startComponent("kube-apiserver", c.opts.APIServerEnv, append(args, c.opts.APIServerArgs...)...)
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.apiserver = apiserver
	c.mu.Unlock()
	return c.poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := c.client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return err == nil, err
	}, apiserver)
}

// RestartAPIServer kills kube-apiserver with SIGKILL, as a crash would, starts another one on the same data and the same
// address, and returns once that is ready. Watches have to start again.
//
// It also restarts kube-scheduler. Trap: when the answer to a binding is lost, the scheduler binds the pod to another
// node, later notices that its cache is wrong, and exits; a kubelet would restart it.
func (c *Cluster) RestartAPIServer(ctx context.Context) error {
	c.mu.Lock()
	apiserver, scheduler := c.apiserver, c.scheduler
	c.mu.Unlock()
	for _, p := range []*Process{scheduler, apiserver} {
		if err := p.Kill(); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := c.startAPIServer(ctx); err != nil {
		return fmt.Errorf("restarting kube-apiserver: %w", err)
	}
	return c.startScheduler()
}

// startControllers starts the components that are clients of the API server, and does not wait, because waitUsable sees
// their effects. They serve nothing and need no ports.
func (c *Cluster) startControllers(context.Context) error {
	if err := c.writeKwokConfig(); err != nil {
		return err
	}
	if _, err := c.startComponent("kube-controller-manager", nil,
		"--kubeconfig="+c.path("kube-controller-manager.kubeconfig"),
		"--use-service-account-credentials",
		"--service-account-private-key-file="+c.path("sa.key"),
		"--root-ca-file="+c.path("ca.crt"),
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=5000", "--kube-api-burst=5000",
		"--concurrent-statefulset-syncs=20",
		"--concurrent-deployment-syncs=20",
		"--concurrent-replicaset-syncs=20",
		"--horizontal-pod-autoscaler-sync-period=1s", // 15 by default
		"--profiling=false",
	); err != nil {
		return err
	}
	if err := c.startScheduler(); err != nil {
		return err
	}
	if err := c.startKubelets(); err != nil {
		return err
	}
	// Without its own work directory, kwok would also read ~/.kwok/kwok.yaml.
	_, err := c.startComponent("kwok", []string{"KWOK_WORKDIR=" + c.path("kwok")},
		"--kubeconfig="+c.path("kwok.kubeconfig"),
		"--config="+c.kwokConfig(),
	)
	return err
}

func (c *Cluster) startScheduler() error {
	scheduler, err := c.startComponent("kube-scheduler", nil,
		"--kubeconfig="+c.path("kube-scheduler.kubeconfig"),
		"--secure-port=0",
		"--leader-elect=false",
		"--kube-api-qps=5000", "--kube-api-burst=5000",
		"--profiling=false",
	)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scheduler = scheduler
	return nil
}
