// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"flag"
	"fmt"
	"path/filepath"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	"sigs.k8s.io/controller-runtime/pkg/metrics/filters"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united"
)

// options are the flags of the manager.
type options struct {
	metricsAddress string
	metricsSecure  bool
	probeAddress   string
	pprofAddress   string
	workers        int
	certDir        string
	namespaces     []string
	objects        []string
	servers        string

	leaderElect             bool
	leaderElectionNamespace string
	leaseDuration           time.Duration
	renewDeadline           time.Duration
	retryPeriod             time.Duration

	log zap.Options
}

func newCommand() *cobra.Command {
	o := &options{}
	cmd := &cobra.Command{
		Use:           "united-manager",
		Short:         "Runs the controllers of United",
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.StringVar(&o.metricsAddress, "metrics-bind-address", ":8443", `address of the metrics endpoint; "0" turns it off`)
	f.BoolVar(&o.metricsSecure, "metrics-secure", true, "serve metrics over HTTPS to clients that may get the non-resource URL /metrics")
	f.StringVar(&o.certDir, "metrics-cert-dir", "", "directory with tls.crt and tls.key for the metrics, which are read again when they change; without it, the certificate is self-signed")
	f.StringVar(&o.probeAddress, "health-probe-bind-address", ":8081", `address of /healthz and /readyz; "0" turns them off`)
	f.StringVar(&o.pprofAddress, "pprof-bind-address", "0", `address of /debug/pprof, which is open to everybody who reaches it; "0" turns it off`)
	f.IntVar(&o.workers, "workers", 8, "number of UnitedDeployments that are reconciled at the same time")
	f.StringSliceVar(&o.namespaces, "watch-namespaces", nil, "namespaces to watch; all if not given")
	f.StringSliceVar(&o.objects, "check-objects", nil, "resources that checks of type objectCondition may name, such as mysqlclusters.moco.cybozu.com, or services")
	f.StringVar(&o.servers, "prometheus-servers", "", "file with the Prometheus servers of checks; it is read again when it changes")
	f.BoolVar(&o.leaderElect, "leader-elect", true, "run only while holding the Lease united-manager")
	f.StringVar(&o.leaderElectionNamespace, "leader-election-namespace", "", "namespace of the Lease; that of the pod if not given")
	f.DurationVar(&o.leaseDuration, "leader-election-lease-duration", 15*time.Second, "how long standby replicas wait after the last renewal before one takes over")
	f.DurationVar(&o.renewDeadline, "leader-election-renew-deadline", 10*time.Second, "how long the leader tries to renew before it gives up")
	f.DurationVar(&o.retryPeriod, "leader-election-retry-period", 2*time.Second, "time between two attempts")
	goFlags := flag.NewFlagSet("", flag.ContinueOnError)
	o.log.BindFlags(goFlags)
	config.RegisterFlags(goFlags) // --kubeconfig
	f.AddGoFlagSet(goFlags)
	return cmd
}

// run runs the manager until ctx is done, then waits for work in progress to end.
func (o *options) run(ctx context.Context) error {
	ctrl.SetLogger(newLogger(zap.UseFlagOptions(&o.log)))
	limitMemory()
	united.LimitGarbage()
	restConfig, err := config.GetConfig()
	if err != nil {
		return fmt.Errorf("find the cluster: %w", err)
	}
	// Leave the rate limit to the API server's priority and fairness.
	restConfig.QPS = -1
	restConfig.Wrap(united.Transport())
	if err := o.hasCertificate(); err != nil {
		return err
	}
	mgr, err := o.newManager(restConfig)
	if err != nil {
		return err
	}
	if err := united.SetUp(ctx, mgr, all.Registry(), o.workers, o.cachedNamespaces(), o.checkObjects(), o.servers); err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// memoryLimitFraction is the fraction of the container's memory limit at which the garbage collector
// works harder. The rest is for memory that it does not count.
const memoryLimitFraction = 0.9

// limitMemory tells the garbage collector the memory limit of the container, unless GOMEMLIMIT is
// set. Trap: without a limit, the heap grows to twice the memory in use, and a manager that starts
// while there are many large objects is killed with half of its memory free.
func limitMemory() {
	limit, err := memlimit.Set(memlimit.WithRatio(memoryLimitFraction), memlimit.WithProvider(memlimit.FromCgroup))
	if err != nil { // there is no limit, or this is not Linux
		ctrl.Log.V(1).Info("no memory limit", "reason", err.Error())
		return
	}
	ctrl.Log.V(1).Info("memory limit", "bytes", limit)
}

func (o *options) newManager(restConfig *rest.Config) (ctrl.Manager, error) {
	cached, err := united.CacheOptions()
	if err != nil {
		return nil, err
	}
	cached.DefaultNamespaces = o.cachedNamespaces()
	mgr, err := ctrl.NewManager(restConfig, ctrl.Options{
		Scheme: newScheme(),
		Cache:  cached,
		Client: client.Options{
			// A pass must see what the passes before it wrote.
			Cache: &client.CacheOptions{Unstructured: true, EnableReadYourWritesConsistency: ptr.To(true)},
		},
		Metrics:                       o.metricsOptions(),
		HealthProbeBindAddress:        o.probeAddress,
		PprofBindAddress:              o.pprofAddress,
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              "united-manager",
		LeaderElectionNamespace:       o.leaderElectionNamespace,
		LeaderElectionReleaseOnCancel: true,
		LeaseDuration:                 &o.leaseDuration,
		RenewDeadline:                 &o.renewDeadline,
		RetryPeriod:                   &o.retryPeriod,
	})
	if err != nil {
		return nil, fmt.Errorf("set up manager: %w", err)
	}
	if err := mgr.AddHealthzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("set up health probe: %w", err)
	}
	if err := mgr.AddReadyzCheck("ping", healthz.Ping); err != nil {
		return nil, fmt.Errorf("set up ready probe: %w", err)
	}
	return mgr, nil
}

func newScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	utilruntime.Must(clientgoscheme.AddToScheme(scheme))
	utilruntime.Must(v1alpha1.AddToScheme(scheme))
	return scheme
}

func (o *options) cachedNamespaces() map[string]cache.Config {
	if len(o.namespaces) == 0 {
		return nil
	}
	namespaces := map[string]cache.Config{}
	for _, name := range o.namespaces {
		namespaces[name] = cache.Config{}
	}
	return namespaces
}

// checkObjects are the resources that checks may name.
func (o *options) checkObjects() (objects []schema.GroupResource) {
	for _, resource := range o.objects {
		objects = append(objects, schema.ParseGroupResource(resource))
	}
	return objects
}

// hasCertificate refuses to start without the certificate that is asked for. Trap: controller-runtime would make one of its own.
func (o *options) hasCertificate() error {
	if o.certDir == "" || !o.metricsSecure {
		return nil
	}
	_, err := tls.LoadX509KeyPair(filepath.Join(o.certDir, "tls.crt"), filepath.Join(o.certDir, "tls.key"))
	if err != nil {
		return fmt.Errorf("--metrics-cert-dir must have tls.crt and tls.key, as a Secret of type kubernetes.io/tls has them: %w", err)
	}
	return nil
}

func (o *options) metricsOptions() metricsserver.Options {
	m := metricsserver.Options{BindAddress: o.metricsAddress, SecureServing: o.metricsSecure}
	if o.metricsSecure {
		m.CertDir = o.certDir // the names of the files are those in a Secret of type kubernetes.io/tls
		m.FilterProvider = filters.WithAuthenticationAndAuthorization
		// HTTP/2 has a history of denial-of-service attacks by stream resets, and nothing here needs
		// it.
		m.TLSOpts = []func(*tls.Config){func(c *tls.Config) { c.NextProtos = []string{"http/1.1"} }}
	}
	return m
}
