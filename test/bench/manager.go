// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// manager is the running manager.
type manager struct {
	*install.Manager
	cluster *cluster.Cluster
	metrics string
}

// startManager starts the manager as the chart does, except that everybody can read its metrics: with
// the metrics of the chart each read would cost the manager a TokenReview, which is a write.
func startManager(ctx context.Context, c *cluster.Cluster, pprof string) (*manager, error) {
	m, err := runManager(ctx, c, "united-manager", pprof, install.Options.Start)
	if err != nil {
		return nil, err
	}
	if err := m.idle(ctx); err != nil {
		return nil, err
	}
	return m, nil
}

// startStandby starts another manager, and waits until it tries to acquire the Lease. No other process has had the
// name, which is that of the log file too.
func startStandby(ctx context.Context, c *cluster.Cluster, name string) (*manager, error) {
	m, err := runManager(ctx, c, name, "0", install.Options.Launch)
	if err != nil {
		return nil, err
	}
	waits := func(context.Context) (bool, error) {
		log, err := os.ReadFile(m.LogPath())
		return strings.Contains(string(log), "Attempting to acquire leader lease"), err
	}
	if err := poll(ctx, waits); err != nil {
		return nil, err
	}
	return m, nil
}

// runManager calls run, which starts a manager, with the options of the chart.
func runManager(ctx context.Context, c *cluster.Cluster, name, pprof string,
	run func(install.Options, context.Context, *cluster.Cluster, string) (*install.Manager, error),
) (*manager, error) {
	d, err := install.FromChart(ctx, c, install.Namespace, install.Deployment)
	if err != nil {
		return nil, err
	}
	d.Args = append(d.Args, "--metrics-secure=false", "--pprof-bind-address="+pprof)
	started, err := run(d.Options, ctx, c, name)
	if err != nil {
		return nil, err
	}
	return &manager{Manager: started, cluster: c, metrics: "http://" + d.Metrics + "/metrics"}, nil
}

// restart restarts the manager, so that its memory reflects only the current state.
func (e *env) restart(ctx context.Context) error {
	if err := e.manager.Stop(); err != nil {
		return err
	}
	var err error
	e.manager, err = startManager(ctx, e.cluster, e.pprof)
	return err
}

// usage is the resource usage of the manager.
type usage struct {
	// rss and peak are the current and the maximum resident memory, heap is the memory allocated in Go;
	// all in bytes.
	rss, peak, heap float64
	cpu             time.Duration
}

// idle waits until the queue of the manager is empty and no worker is active.
func (m *manager) idle(ctx context.Context) error {
	before := -1.0
	return poll(ctx, func(ctx context.Context) (bool, error) {
		families, err := m.scrape(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // it may not serve them yet
		}
		added := ofController(families["workqueue_adds_total"]).GetCounter().GetValue()
		done := float64(ofController(families["workqueue_work_duration_seconds"]).GetHistogram().GetSampleCount())
		earlier := before
		before = done
		// By then the manager had ended as many passes as were ever added up to now, so nothing was
		// left in between.
		return added == earlier, nil
	})
}

// passes returns how many passes the manager has ended.
func (m *manager) passes(ctx context.Context) (float64, error) {
	families, err := m.scrape(ctx)
	if err != nil {
		return 0, fmt.Errorf("metrics of the manager: %w", err)
	}
	return float64(ofController(families["workqueue_work_duration_seconds"]).GetHistogram().GetSampleCount()), nil
}

func ofController(family *dto.MetricFamily) *dto.Metric {
	for _, m := range family.GetMetric() {
		for _, label := range m.GetLabel() {
			if label.GetName() == "name" && label.GetValue() == "uniteddeployment" {
				return m
			}
		}
	}
	return nil
}

func (m *manager) scrape(ctx context.Context) (map[string]*dto.MetricFamily, error) {
	return scrape(ctx, m.metrics)
}

// scrape reads the metrics at a URL, by name.
func scrape(ctx context.Context, url string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close() //nolint:errcheck // read only
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(response.Body)
}

// usage reads the resource usage. The peak is not among the metrics; without /proc it is 0.
func (m *manager) usage(ctx context.Context) (usage, error) {
	families, err := m.scrape(ctx)
	if err != nil {
		return usage{}, fmt.Errorf("metrics of the manager: %w", err)
	}
	gauge := func(name string) float64 {
		if metrics := families[name].GetMetric(); len(metrics) == 1 {
			return metrics[0].GetGauge().GetValue() + metrics[0].GetCounter().GetValue()
		}
		return 0
	}
	peak, err := peakOf(m.Pid())
	u := usage{
		rss: gauge("process_resident_memory_bytes"), heap: gauge("go_memstats_heap_alloc_bytes"), peak: peak,
		cpu: time.Duration(gauge("process_cpu_seconds_total") * float64(time.Second)),
	}
	if err == nil && (u.rss == 0 || u.heap == 0 || u.cpu == 0) {
		err = fmt.Errorf("metrics of the manager: resident memory, heap or CPU is not among them")
	}
	return u, err
}

func peakOf(pid int) (float64, error) {
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	defer f.Close() //nolint:errcheck // read only
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if text, found := strings.CutPrefix(lines.Text(), "VmHWM:"); found {
			kibi, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64)
			return kibi * 1024, err
		}
	}
	return 0, lines.Err()
}

// rest leaves the manager alone for a while, and returns the share of one CPU that it used.
func (m *manager) rest(ctx context.Context, window time.Duration) (float64, error) {
	before, err := m.usage(ctx)
	if err != nil {
		return 0, err
	}
	began := time.Now()
	select {
	case <-time.After(window):
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	after, err := m.usage(ctx)
	return float64(after.cpu-before.cpu) / float64(time.Since(began)), err
}

func poll(ctx context.Context, done func(context.Context) (bool, error)) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, waitTimeout, true, done)
}
