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
	// startTimeout bounds the start of each component, and how long an object that is applied may be rejected because its
	// kind or namespace is not served yet. A cluster is up in seconds, but on a busy machine a large
	// CustomResourceDefinition alone was seen to take twelve until it is Established.
	startTimeout = 5 * time.Minute
	pollInterval = 50 * time.Millisecond
)

// Options configures a cluster. The zero value is usable.
type Options struct {
	// Dir is the directory of data, logs and credentials; it must be empty or absent, and Stop does not remove it. By
	// default it is a temporary directory that Stop removes, unless UNITED_KEEP is set in the environment. That is in
	// memory if there is room.
	Dir string
	// Zones are the values of the label topology.kubernetes.io/zone. Default: zone-a, zone-b, zone-c.
	Zones []string
	// NodesPerZone is the number of nodes of each zone, 2 by default. They are named <zone>-1, <zone>-2 and so on.
	NodesPerZone int
	// APIServerArgs are added to the arguments of kube-apiserver, APIServerEnv (each KEY=value) to its environment.
	APIServerArgs, APIServerEnv []string
	// AuditReads adds the reads of ServiceAccounts outside of kube-system to the audit log, without bodies. A watch is
	// logged when it ends.
	AuditReads bool
	// Log receives a few lines about the progress, and a note when a component dies. The default discards them.
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
	nodes   atomic.Int32 // how many have been created

	logMu     sync.Mutex
	mu        sync.Mutex // guards the fields below
	ports     []io.Closer
	processes []*Process // in the order of their start
	apiserver *Process
	scheduler *Process
	kubelets  *kubelets
	stopped   bool
}

// Start starts a control plane and returns once it works: the API server is ready, the nodes accept pods, and the default
// ServiceAccount exists. ctx bounds only the start; the cluster runs until Stop. If Start fails, it leaves nothing
// running, and the error has the end of the log of the component that failed.
func Start(ctx context.Context, o Options) (*Cluster, error) {
	c, err := newCluster(o)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if err := c.start(ctx); err != nil {
		_ = c.Stop() // err names what failed already
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

// tempDir creates a temporary directory: in memory if there is room, unless it has to be kept or $TMPDIR is set. Trap:
// while other processes write much to the disk, such as a build, each write to it can take seconds. etcd and the audit
// log of the API server wait for that, and a controller that cannot renew its Lease in time loses it.
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

// makeDir rejects a directory that is not empty: a cluster would use the data of another one.
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

// Stop ends every process of the cluster, also those of StartProcess, in the reverse order of their start, and removes
// the directory if it is a temporary one. It returns an error if a component had died before. Later calls do nothing.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	if c.stopped {
		c.mu.Unlock()
		return nil
	}
	c.stopped = true
	processes, kubelets := slices.Clone(c.processes), c.kubelets
	c.mu.Unlock()

	errs := []error{kubelets.end()}
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

// Config returns a copy of the configuration of a client with all permissions (user admin, group system:masters) and
// without a client-side rate limit.
func (c *Cluster) Config() *rest.Config { return rest.CopyConfig(c.config) }

// ServerVersion returns the version of kube-apiserver.
func (c *Cluster) ServerVersion() (*version.Info, error) { return c.client.Discovery().ServerVersion() }

// Kubeconfig returns the path of a kubeconfig file with all permissions.
func (c *Cluster) Kubeconfig() string { return c.path("admin.kubeconfig") }

// Dir returns the absolute path of the directory of the cluster.
func (c *Cluster) Dir() string { return c.dir }

// Keeps reports whether Stop leaves the directory for inspection (see Options.Dir).
func (c *Cluster) Keeps() bool { return c.keep }

func (c *Cluster) path(elem ...string) string {
	return filepath.Join(append([]string{c.dir}, elem...)...)
}

func (c *Cluster) logf(format string, args ...any) {
	c.logMu.Lock()
	defer c.logMu.Unlock()
	fmt.Fprintf(c.opts.Log, format+"\n", args...)
}

// poll calls ok until it returns true. It gives up when ctx ends or one of the processes does. The error then has the
// last error of ok, and the end of the log of the process.
func (c *Cluster) poll(ctx context.Context, ok func(context.Context) (bool, error), needs ...*Process) error {
	var last error
	err := wait.PollUntilContextCancel(ctx, pollInterval, true, func(ctx context.Context) (bool, error) {
		for _, p := range needs {
			if p.Exited() {
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
	config.QPS = -1 // no limit; zero would mean 5 requests a second
	return config, nil
}
