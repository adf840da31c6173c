// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package podmetrics is a stub of metrics-server: it serves the pods of metrics.k8s.io to the API server of a test cluster,
// which aggregates it as it does the real one. The pods use what a test says:
//
//	server, err := podmetrics.Start(ctx, c)
//	defer server.Stop()
//	server.Use("shop", "app=web", resource.MustParse("1200m"))
//
// All ready pods that a selector matches share the CPU equally, so a HorizontalPodAutoscaler with the target
// AverageValue 100m wants 12 of them, however many there are.
package podmetrics

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"github.com/unitedworkloads/united/test/cluster"
)

const (
	group   = "metrics.k8s.io"
	version = "v1beta1"
	// root is the path of everything that is served.
	root      = "/apis/" + group + "/" + version
	service   = "united-test-metrics"
	namespace = metav1.NamespaceSystem
	// startTimeout bounds the time until the API server has found the server.
	startTimeout = time.Minute
)

var apiServices = schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}

// Server serves the metrics of one cluster. Its methods may be called from several goroutines.
type Server struct {
	client kubernetes.Interface
	apis   dynamic.ResourceInterface
	http   *httptest.Server

	mu   sync.Mutex
	uses []use
}

// use is what the pods of a selector use together.
type use struct {
	namespace string
	selector  labels.Selector
	cpu       resource.Quantity
}

// Start starts a server on 127.0.0.1, registers it, and returns once the API server answers with its metrics.
func Start(ctx context.Context, c *cluster.Cluster) (*Server, error) {
	client, err := kubernetes.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("pod metrics: %w", err)
	}
	objects, err := dynamic.NewForConfig(c.Config())
	if err != nil {
		return nil, fmt.Errorf("pod metrics: %w", err)
	}
	s := &Server{client: client, apis: objects.Resource(apiServices)}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+root, s.discover)
	mux.HandleFunc("GET "+root+"/namespaces/{namespace}/pods", s.list)
	s.http = httptest.NewTLSServer(mux)
	if err := s.register(ctx); err != nil {
		s.http.Close()
		return nil, fmt.Errorf("pod metrics: %w", err)
	}
	return s, nil
}

// register leads the API server to the address. An APIService can name only a Service; one of type ExternalName needs neither
// endpoints, which may not have a loopback address, nor a route to the address of the Service.
func (s *Server) register(ctx context.Context) error {
	host, port, err := net.SplitHostPort(s.http.Listener.Addr().String())
	if err != nil {
		return err
	}
	number, err := strconv.ParseInt(port, 10, 32)
	if err != nil {
		return err
	}
	_, err = s.client.CoreV1().Services(namespace).Create(ctx, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: service},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: host},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = s.apis.Create(ctx, &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
		"metadata": map[string]any{"name": version + "." + group},
		"spec": map[string]any{
			"group": group, "version": version, "groupPriorityMinimum": int64(100), "versionPriority": int64(100),
			"insecureSkipTLSVerify": true,
			"service":               map[string]any{"name": service, "namespace": namespace, "port": number},
		},
	}}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	var last error
	err = wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, startTimeout, true, func(ctx context.Context) (bool, error) {
		_, last = s.client.Discovery().RESTClient().Get().AbsPath(root + "/namespaces/default/pods").DoRaw(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for the API server: %w", last)
	}
	return nil
}

// Stop removes the API again, and then stops the server. An APIService without a server would be an error in every
// discovery, on which the garbage collector and the deletion of namespaces depend.
func (s *Server) Stop(ctx context.Context) error {
	defer s.http.Close()
	err := s.apis.Delete(ctx, version+"."+group, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("pod metrics: %w", err)
	}
	return nil
}

// Use sets what the pods that a selector matches use together, from now on. It replaces what an earlier call said about
// the same selector. Pods that nothing was said about use nothing.
func (s *Server) Use(namespace, selector string, cpu resource.Quantity) error {
	matches, err := labels.Parse(selector)
	if err != nil {
		return fmt.Errorf("pod metrics: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, u := range s.uses {
		if u.namespace == namespace && u.selector.String() == matches.String() {
			s.uses[i].cpu = cpu
			return nil
		}
	}
	s.uses = append(s.uses, use{namespace: namespace, selector: matches, cpu: cpu})
	return nil
}

func (s *Server) discover(w http.ResponseWriter, _ *http.Request) {
	answer(w, metav1.APIResourceList{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "APIResourceList"}, GroupVersion: group + "/" + version,
		APIResources: []metav1.APIResource{{
			Name: "pods", SingularName: "pod", Namespaced: true, Kind: "PodMetrics", Verbs: metav1.Verbs{"list"},
		}},
	})
}

// podMetrics has the JSON form of PodMetrics in k8s.io/metrics.
type podMetrics struct {
	Metadata   metav1.ObjectMeta  `json:"metadata"`
	Timestamp  metav1.Time        `json:"timestamp"`
	Window     metav1.Duration    `json:"window"`
	Containers []containerMetrics `json:"containers"`
}

type containerMetrics struct {
	Name  string              `json:"name"`
	Usage corev1.ResourceList `json:"usage"`
}

func (s *Server) list(w http.ResponseWriter, r *http.Request) {
	pods, err := s.client.CoreV1().Pods(r.PathValue("namespace")).List(r.Context(), metav1.ListOptions{LabelSelector: r.URL.Query().Get("labelSelector")})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	answer(w, map[string]any{
		"apiVersion": group + "/" + version, "kind": "PodMetricsList", "metadata": metav1.ListMeta{},
		"items": metricsOf(pods.Items, s.uses, metav1.Now()),
	})
}

// metricsOf returns the metrics of the running pods. Those that are not ready use nothing.
func metricsOf(pods []corev1.Pod, uses []use, now metav1.Time) []podMetrics {
	items := []podMetrics{}
	for i := range pods {
		p := &pods[i]
		if p.Status.Phase != corev1.PodRunning {
			continue
		}
		cpu := resource.NewMilliQuantity(0, resource.DecimalSI)
		if works(p) {
			cpu.SetMilli(share(p, pods, uses))
		}
		m := podMetrics{Metadata: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, Labels: p.Labels}, Timestamp: now, Window: metav1.Duration{Duration: time.Second}}
		for j, c := range p.Spec.Containers {
			usage := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("0"), corev1.ResourceMemory: resource.MustParse("16Mi")}
			if j == 0 {
				usage[corev1.ResourceCPU] = *cpu
			}
			m.Containers = append(m.Containers, containerMetrics{Name: c.Name, Usage: usage})
		}
		items = append(items, m)
	}
	return items
}

// share returns what a pod uses, in millicores.
func share(p *corev1.Pod, pods []corev1.Pod, uses []use) (milli int64) {
	for _, u := range uses {
		if u.namespace != p.Namespace || !u.selector.Matches(labels.Set(p.Labels)) {
			continue
		}
		sharers := int64(0)
		for i := range pods {
			if works(&pods[i]) && u.selector.Matches(labels.Set(pods[i].Labels)) {
				sharers++
			}
		}
		milli += u.cpu.MilliValue() / sharers
	}
	return milli
}

// works reports whether a pod is ready and not being deleted.
func works(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client has gone
}
