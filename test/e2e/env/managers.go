// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"context"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// ManagerPair runs two managers that work only in the namespace of a test. They elect their leader
// there, with a Lease that expires after 2 seconds, and each has its own proxy to the API server.
type ManagerPair struct {
	*Env
	replicas []*replica

	mu   sync.Mutex
	hook Hook
	// kills counts the processes that the test killed.
	kills int
}

// NewManagerPair creates a namespace with its own managers. The manager of the control plane must not run.
func (p *Plane) NewManagerPair(t *testing.T) *ManagerPair {
	t.Helper()
	k := &ManagerPair{Env: p.NewEnv(t), hook: Pass}
	k.copyElectionRights()
	ctx, cancel := context.WithCancel(context.Background())
	for _, name := range []string{"a", "b"} {
		r := &replica{pair: k, name: "manager-" + k.Namespace + "-" + name, gone: make(chan struct{})}
		k.replicas = append(k.replicas, r)
		k.Expect(r.prepare(ctx)).To(Succeed())
		go r.run(ctx)
	}
	t.Cleanup(func() {
		cancel()
		for _, r := range k.replicas {
			<-r.gone
			r.proxy.CloseClientConnections()
			r.proxy.Close()
			if r.err != nil {
				t.Error(r.err)
			}
			r.report(t)
		}
	})
	return k
}

// copyElectionRights grants the managers in this namespace the leader election rights that they have
// where they are installed.
func (k *ManagerPair) copyElectionRights() {
	k.T.Helper()
	roles, bindings := &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}
	k.Expect(k.List(k.Ctx, roles, client.InNamespace(install.Namespace))).To(Succeed())
	k.Expect(k.List(k.Ctx, bindings, client.InNamespace(install.Namespace))).To(Succeed())
	for i := range roles.Items {
		role := &roles.Items[i]
		role.ObjectMeta = metav1.ObjectMeta{Namespace: k.Namespace, Name: role.Name}
		k.Expect(k.Client.Create(k.Ctx, role)).To(Succeed())
	}
	for i := range bindings.Items {
		binding := &bindings.Items[i]
		binding.ObjectMeta = metav1.ObjectMeta{Namespace: k.Namespace, Name: binding.Name}
		k.Expect(k.Client.Create(k.Ctx, binding)).To(Succeed())
	}
}

// Use sends all calls through a hook from now on.
func (k *ManagerPair) Use(h Hook) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hook = h
}

func (k *ManagerPair) current() Hook {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.hook
}

// Pass is the hook that does nothing.
func Pass(_ *Call, s Send) (*http.Response, error) { return s() }

// Kills returns how many processes were killed so far.
func (k *ManagerPair) Kills() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.kills
}

// replica is one manager: a process, which is restarted when it ends, as a kubelet does.
type replica struct {
	pair  *ManagerPair
	name  string
	proxy *httptest.Server
	args  []string
	gone  chan struct{} // closed when everything has ended
	err   error         // why no process could be started; read it only after gone is closed

	mu      sync.Mutex
	process *cluster.Process
	writes  []written
}

// written is the API server's answer to a write, except for leader elections and events.
type written struct {
	Pid  int
	Call string
	Code int
}

func (r *replica) prepare(ctx context.Context) error {
	proxy, err := startProxy(r)
	if err != nil {
		return err
	}
	r.proxy = proxy
	path := filepath.Join(r.pair.Cluster.Dir(), r.name+".kubeconfig")
	if err := r.pair.Cluster.WriteServiceAccountKubeconfig(ctx, install.Namespace, install.ServiceAccount, path); err != nil {
		return err
	}
	config, err := clientcmd.LoadFromFile(path)
	if err != nil {
		return err
	}
	for _, server := range config.Clusters {
		server.Server = proxy.URL
		server.CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: proxy.Certificate().Raw})
	}
	r.args = []string{
		"--kubeconfig", path,
		"--watch-namespaces", r.pair.Namespace,
		"--leader-election-namespace", r.pair.Namespace,
		"--leader-election-lease-duration=2s", "--leader-election-renew-deadline=1500ms", "--leader-election-retry-period=200ms",
		"--metrics-bind-address", "0",
		"--health-probe-bind-address", "0",
		"--zap-log-level=debug",
	}
	return clientcmd.WriteToFile(*config, path)
}

// run keeps a process running until ctx ends.
func (r *replica) run(ctx context.Context) {
	defer close(r.gone)
	for ctx.Err() == nil {
		process, err := r.pair.Cluster.StartProcess(r.name, "united-manager", r.args...)
		if err != nil {
			r.err = err
			return
		}
		r.mu.Lock()
		r.process = process
		r.mu.Unlock()
		select {
		case <-process.Done():
		case <-ctx.Done():
			_ = process.Kill()
		}
		select { // a process that fails at once must not cause a busy loop
		case <-time.After(Interval):
		case <-ctx.Done():
		}
	}
}

// Process returns the process that runs, or ran last.
func (r *replica) Process() *cluster.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.process
}

// Other returns the other replica.
func (k *ManagerPair) Other(r *replica) *replica {
	return k.replicas[1-slices.Index(k.replicas, r)]
}

// Kill ends the process with SIGKILL.
func (r *replica) Kill() {
	_ = r.Process().Kill()
	r.pair.mu.Lock()
	defer r.pair.mu.Unlock()
	r.pair.kills++
}

func (r *replica) note(c *Call, code int) {
	if c.elections() {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes = append(r.writes, written{r.process.Pid(), c.String(), code})
}

// Writes returns the writes of one process so far.
func (r *replica) Writes(process *cluster.Process) []written {
	r.mu.Lock()
	defer r.mu.Unlock()
	var list []written
	for _, w := range r.writes {
		if w.Pid == process.Pid() {
			list = append(list, w)
		}
	}
	return list
}

// Accepted counts the writes of all its processes that took effect.
func (r *replica) Accepted() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := 0
	for _, w := range r.writes {
		if w.Code < 300 {
			n++
		}
	}
	return n
}

// report logs the end of the manager's log if the test has failed.
func (r *replica) report(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	const lines = 150
	text, err := os.ReadFile(r.Process().LogPath())
	all := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
	t.Logf("%s: %v\n%s", r.name, err, bytes.Join(all[max(0, len(all)-lines):], []byte("\n")))
}

// SoundEnv is newEnv for a test that tries to crash the manager.
func SoundEnv(t *testing.T) *Env {
	t.Helper()
	return Shared.SoundEnv(t)
}

func (p *Plane) SoundEnv(t *testing.T) *Env {
	t.Helper()
	t.Cleanup(func() {
		select {
		case <-p.Manager.Done():
			t.Errorf("the manager ended, see %s", p.Manager.LogPath())
		default:
		}
		log, err := os.ReadFile(p.Manager.LogPath())
		if err != nil {
			t.Error(err)
		}
		if panics := PanicsIn(log); len(panics) > 0 {
			t.Errorf("the manager panicked, see %s:\n%s", p.Manager.LogPath(), strings.Join(panics, "\n"))
		}
	})
	return p.NewEnv(t)
}

// PanicsIn returns the lines of a log that report a panic. A panic in Reconcile does not end the
// process: controller-runtime recovers it and logs it.
func PanicsIn(log []byte) []string {
	var panics []string
	for line := range bytes.Lines(log) {
		if bytes.Contains(line, []byte("panic")) || bytes.Contains(line, []byte("goroutine ")) {
			panics = append(panics, string(line))
		}
	}
	return panics
}

// RestartManager stops the manager gracefully, calls meanwhile, and starts another one. It adds args to
// those of the chart.
func (e *Env) RestartManager(meanwhile func(), args ...string) *install.Deployed {
	e.T.Helper()
	e.Expect(e.Manager.Stop()).To(Succeed())
	meanwhile()
	return e.StartManager(args...)
}

func (e *Env) StartManager(args ...string) *install.Deployed {
	e.T.Helper()
	began := time.Now()
	d, err := install.FromChart(e.Ctx, e.Cluster, install.Namespace, install.Deployment)
	e.Expect(err).NotTo(HaveOccurred())
	d.Args = append(d.Args, args...)
	e.Manager, err = d.Start(e.Ctx, e.Cluster, "united-manager")
	e.Expect(err).NotTo(HaveOccurred())
	e.T.Logf("a manager works after %s", time.Since(began).Round(time.Millisecond))
	return d
}

// ReviveManager starts another manager if the current one ends because it could not renew its Lease in
// time, as its Deployment would. A manager that has renewed its Lease continues.
func (e *Env) ReviveManager() {
	e.T.Helper()
	now := time.Now()
	e.Eventually(func() bool {
		select {
		case <-e.Manager.Done():
			e.StartManager()
			return true
		default:
		}
		lease := &coordinationv1.Lease{}
		err := e.Get(e.Ctx, types.NamespacedName{Namespace: install.Namespace, Name: install.Lease}, lease)
		return err == nil && lease.Spec.RenewTime.After(now)
	}).Should(BeTrue())
}
