// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/checks/queries"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// serversLock is for the Secret with the Prometheus servers of checks.
var serversLock sync.Mutex

// SetServers sets Prometheus servers in the Secret of the chart; nil takes one away. The manager has it when the file that it
// reads has changed, and it looks every few seconds.
func (e *Env) SetServers(servers map[string]*queries.Server) {
	e.T.Helper()
	serversLock.Lock()
	defer serversLock.Unlock()
	secret := &corev1.Secret{}
	e.Expect(e.Get(e.Ctx, types.NamespacedName{Namespace: install.Namespace, Name: "united-prometheus"}, secret)).To(Succeed())
	var config struct {
		Servers map[string]any `json:"servers"`
	}
	e.Expect(yaml.Unmarshal(secret.Data["servers.yaml"], &config)).To(Succeed())
	for name, s := range servers {
		if delete(config.Servers, name); s != nil {
			config.Servers[name] = map[string]any{"url": s.URL, "namespaces": s.Namespaces, "timeout": "3s", "bearerToken": s.BearerToken}
		}
	}
	raw, err := yaml.Marshal(config)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(e.Client.Patch(e.Ctx, secret, client.RawPatch(types.MergePatchType, []byte(AsJSON(map[string]any{"data": map[string]any{"servers.yaml": raw}}))))).To(Succeed())
	_, err = install.FromChart(e.Ctx, e.Cluster, install.Namespace, install.Deployment) // as the kubelet does
	e.Expect(err).NotTo(HaveOccurred())
}

// Prometheus is a real one, which asks every second what the pods of a namespace have served.
type Prometheus struct {
	*Env
	URL, dir string
	process  *cluster.Process

	mu sync.Mutex
	// percent is how many requests of a hundred fail, by image. Without an entry the pod tells nothing.
	percent map[string]int
	// errors and requests are what pods have served.
	errors, requests map[string]int
}

// StartPrometheus starts one, for the pods of this namespace.
func (e *Env) StartPrometheus() *Prometheus {
	e.T.Helper()
	p := &Prometheus{Env: e, dir: e.T.TempDir(), percent: map[string]int{}, errors: map[string]int{}, requests: map[string]int{}}
	exporter := httptest.NewServer(http.HandlerFunc(p.export))
	e.T.Cleanup(exporter.Close)
	config := fmt.Sprintf("global: {scrape_interval: 1s, scrape_timeout: 1s}\nscrape_configs: [{job_name: pods, static_configs: [{targets: [%q]}]}]\n",
		strings.TrimPrefix(exporter.URL, "http://"))
	e.Expect(os.WriteFile(filepath.Join(p.dir, "prometheus.yaml"), []byte(config), 0o600)).To(Succeed())
	port, err := e.Cluster.FreePort()
	e.Expect(err).NotTo(HaveOccurred())
	p.URL = "http://" + net.JoinHostPort("127.0.0.1", fmt.Sprint(port))
	p.Start()
	e.T.Cleanup(func() { _ = p.process.Kill() })
	return p
}

// Start starts it again, with the data that it had.
func (p *Prometheus) Start() {
	p.T.Helper()
	root, err := cluster.Root()
	p.Expect(err).NotTo(HaveOccurred())
	p.process, err = p.Cluster.StartProcess("prometheus-"+p.Namespace, filepath.Join(root, "bin", "prometheus"), "--log.level=warn",
		"--config.file="+filepath.Join(p.dir, "prometheus.yaml"), "--storage.tsdb.path="+filepath.Join(p.dir, "data"),
		"--web.listen-address="+strings.TrimPrefix(p.URL, "http://"))
	p.Expect(err).NotTo(HaveOccurred())
	p.Eventually(func() error {
		response, err := http.Get(p.URL + "/-/ready") //nolint:noctx // the test ends it
		if err != nil {
			return err
		}
		if response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return errors.Join(err, response.Body.Close())
	}).Should(Succeed(), "log: %s", p.process.LogPath())
}

// Kill kills it.
func (p *Prometheus) Kill() {
	p.T.Helper()
	p.Expect(p.process.Kill()).To(Succeed())
}

// Fails lets so many of a hundred requests fail in pods with an image from now on; less than 0: they tell nothing.
func (p *Prometheus) Fails(image string, percent int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.percent[image] = percent; percent < 0 {
		delete(p.percent, image)
	}
}

// Query returns the value of a query; 0 without data.
func (p *Prometheus) Query(query string) float64 {
	p.T.Helper()
	client, err := api.NewClient(api.Config{Address: p.URL})
	p.Expect(err).NotTo(HaveOccurred())
	value, _, err := promapi.NewAPI(client).Query(p.Ctx, query, time.Time{})
	p.Expect(err).NotTo(HaveOccurred())
	if vector, ok := value.(model.Vector); ok && len(vector) > 0 {
		return float64(vector[0].Value)
	}
	return 0
}

// export tells what pods have served: a hundred requests more each time.
func (p *Prometheus) export(w http.ResponseWriter, r *http.Request) {
	pods := &corev1.PodList{}
	if err := p.List(r.Context(), pods, client.InNamespace(p.Namespace)); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range pods.Items {
		pod := &pods.Items[i]
		_, image, _ := strings.Cut(pod.Spec.Containers[0].Image, ":")
		percent, tells := p.percent[image]
		if !tells {
			continue
		}
		key := fmt.Sprintf("pod=%q,version=%q,image=%q", pod.Name, pod.Labels[v1alpha1.LabelVersion], image)
		p.errors[key] += percent
		p.requests[key] += 100
		fmt.Fprintf(w, "http_errors_total{%s} %d\nhttp_requests_total{%s} %d\n", key, p.errors[key], key, p.requests[key])
	}
}

// Opened makes it the server of that name for checks of this namespace, and of the others that are given.
func (p *Prometheus) Opened(name string, namespaces ...string) {
	p.T.Helper()
	p.SetServers(map[string]*queries.Server{name: {URL: p.URL, Namespaces: append(namespaces, p.Namespace)}})
}

// ErrorRate returns a check on how many of the requests fail, as YAML; limits are the rest of it.
func ErrorRate(server, limits string) string {
	// The pod before this one had its name, too: without the version, its errors would count.
	const of = `sum(rate(http_%s_total{pod=~"${pods}",version=~"${version}"}[4s]))`
	return fmt.Sprintf("{name: errors, prometheus: {server: %s, interval: 5s, query: '%s / %s', %s}}", server, fmt.Sprintf(of, "errors"), fmt.Sprintf(of, "requests"), limits)
}
