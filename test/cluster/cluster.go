// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// startTimeout bounds the start of each part. The whole is up in seconds; a busy machine gets its time.
	startTimeout = 2 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// Options say what cluster to start. The zero value is a good one.
type Options struct {
	// Dir is where data, logs and credentials are kept; it must be empty or absent, and Stop leaves it in place. By
	// default it is a temporary directory that Stop removes, unless UNITED_KEEP is set in the environment. It is in
	// memory where there is room.
	Dir string
	// Zones are the values of the label topology.kubernetes.io/zone. Default: zone-a, zone-b, zone-c.
	Zones []string
	// NodesPerZone is the number of nodes of each zone, 2 by default. They are named <zone>-1, <zone>-2 and so on.
	NodesPerZone int
	// APIServerArgs are added to the arguments of kube-apiserver.
	APIServerArgs []string
	// AuditReads adds the reads of ServiceAccounts outside of kube-system to the audit log, without bodies. A watch is
	// logged when it ends.
	AuditReads bool
	// Log receives a few lines about the progress, and a note when a part of the control plane dies. Default: discarded.
	Log io.Writer
}

// Cluster is a running control plane. Its methods may be called from several goroutines.
type Cluster struct {
	opts    Options
	dir     string
	bin     string
	keep    bool
	config  *rest.Config
	client  kubernetes.Interface
	etcdURL string

	spawner *spawner
	nodes   atomic.Int32 // how many were created

	logMu     sync.Mutex
	mu        sync.Mutex // of what follows
	ports     []io.Closer
	processes []*Process // in the order of their start
	apiserver *Process
	scheduler *Process
	stopped   bool
}

// Start starts a control plane and returns once it works: the API server is ready, the nodes accept pods, and the
// default ServiceAccount is there. ctx bounds the start only; the cluster runs until Stop. When Start fails it leaves
// nothing running, and the error has the end of the log of the part that failed.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := c.start(ctx); err != nil {
		_ = c.Stop() // it could only say again what died
		return nil, err
	}
	c.logf("cluster is up after %s in %s", time.Since(began).Round(100*time.Millisecond), c.dir)
	return c, nil
}

func newCluster(o Options) (*Cluster, error) {
	if len(o.Zones) == 0 {
		o.Zones = []string{"zone-a", "zone-b", "zone-c"}
	}
	if o.NodesPerZone == 0 {
		o.NodesPerZone = 2
	}
	if o.Log == nil {
		o.Log = io.Discard
	}
	bin, err := BinDir()
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: o, bin: bin, dir: o.Dir, keep: o.Dir != "" || os.Getenv("UNITED_KEEP") != ""}
	if c.dir == "" {
		if c.dir, err = tempDir(c.keep); err != nil {
			return nil, fmt.Errorf("cluster directory: %w", err)
		}
	} else if c.dir, err = filepath.Abs(c.dir); err != nil {
		return nil, fmt.Errorf("cluster directory: %w", err)
	}
	c.spawner = newSpawner()
	return c, nil
}

// tempDir makes a temporary directory: in memory where there is room, unless it is to be kept or $TMPDIR asks for
// another place. Trap: while others write much to the disk, such as a build, each write to it can take seconds, which
// etcd and the audit log of the API server wait for; and whoever has to renew a Lease loses it.
func tempDir(keep bool) (string, error) {
	const pattern, memory, room = "united-cluster-", "/dev/shm", 4 << 30
	var fs syscall.Statfs_t
	if !keep && os.Getenv("TMPDIR") == "" && syscall.Statfs(memory, &fs) == nil && fs.Bavail*uint64(fs.Bsize) >= room {
		if dir, err := os.MkdirTemp(memory, pattern); err == nil {
			return dir, nil
		}
	}
	return os.MkdirTemp("", pattern)
}

func (c *Cluster) start(ctx context.Context) error {
	for _, phase := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"directory", c.makeDir},
		{"credentials", c.writeCredentials},
		{"etcd", c.startEtcd},
		{"kube-apiserver", c.startAPIServer},
		{"controllers", c.startControllers},
		{"nodes", c.createNodes},
		{"readiness", c.waitUsable},
	} {
		ctx, cancel := context.WithTimeout(ctx, startTimeout)
		err := phase.run(ctx)
		cancel()
		if err != nil {
			return fmt.Errorf("starting a cluster: %s: %w", phase.name, err)
		}
	}
	return nil
}

// makeDir refuses a directory that is in use: data of another cluster would be taken for this one's.
func (c *Cluster) makeDir(context.Context) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if len(entries) > 0 {
		return fmt.Errorf("%s is not empty", c.dir)
	}
	return os.MkdirAll(c.path("logs"), 0o755)
}

// Stop ends every process of the cluster, those of StartProcess included, in the reverse order of their start, and
// removes the directory if it is a temporary one. A part of the control plane that had died before is an error. Calls
// after the first do nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return nil
	}
	c.stopped = true
	processes := slices.Clone(c.processes)
	c.mu.Unlock()

	var errs []error
	for _, p := range slices.Backward(processes) {
		errs = append(errs, p.end())
	}
	c.spawner.close()
	for _, port := range c.ports {
		errs = append(errs, port.Close())
	}
	if !c.keep {
		errs = append(errs, os.RemoveAll(c.dir))
	}
	return errors.Join(errs...)
}

// Config is the configuration of a client with all rights (user admin, group system:masters) and without a rate limit
// on its side. The caller owns the copy.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// ServerVersion is what kube-apiserver says it is.
func (c *Cluster) ServerVersion() (*version.Info, error) { return c.client.Discovery().ServerVersion() }

// Kubeconfig is the path of a kubeconfig file with all rights.
func (c *Cluster) Kubeconfig() string { return c.path("admin.kubeconfig") }

// Dir is the directory of the cluster, an absolute path.
func (c *Cluster) Dir() string { return c.dir }

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *Cluster) logf(format string, args ...any) {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	fmt.Fprintf(c.opts.Log, format+"\n", args...)
}

// poll calls ok until it returns true. It gives up when ctx ends or when one of the processes does, and then says why:
// the last error of ok, and the end of the log of the process.
func (c *Cluster) poll(ctx context.Context, ok func(context.Context) (bool, error), needs ...*Process) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		for _, p := range needs {
			if p.exited() {
				return false, p.deathError()
			}
		}
		done, err := ok(ctx)
		last = err
		return done && err == nil, nil
	})
	if err == nil {
		return nil
	}
	errs := []error{err, last}
	if ctx.Err() != nil {
		for _, p := range needs {
			errs = append(errs, fmt.Errorf("%s", p.tail()))
		}
	}
	return errors.Join(errs...)
}

func loadConfig(kubeconfig string) (*rest.Config, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", kubeconfig, err)
	}
	config.QPS = -1 // no limit: zero would mean 5 requests a second
	return config, nil
}
