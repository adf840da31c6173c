// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Call is a request of a manager to the API server.
type Call struct {
	*http.Request
	Body    []byte
	Replica *replica
}

// Send sends a call to the API server and returns its answer.
type Send func() (*http.Response, error)

// Hook stands between a manager and the API server: it can act before or after the call is sent, not
// send it, or lose the answer (errCut).
type Hook func(c *Call, s Send) (*http.Response, error)

// ErrCut cuts the connection instead of returning an answer.
var ErrCut = errors.New("the connection is cut")

// startProxy starts a reverse proxy to the API server for a replica. It forwards the token of the
// replica, and with it the replica's rights. (Trap: clients do not send tokens over plain HTTP.)
func startProxy(r *replica) (*httptest.Server, error) {
	config := r.pair.Cluster.Config()
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	// Use only the CA of the test's configuration, not its credentials.
	upstream, err := rest.TransportFor(&rest.Config{
		Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData},
	})
	if err != nil {
		return nil, err
	}
	return httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(server) },
		Transport:     &tap{replica: r, upstream: upstream},
		FlushInterval: -1, // for watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // closes the connection without an answer
		},
	}), nil
}

// tap sends the calls of a replica through the hook of its managerPair.
type tap struct {
	replica  *replica
	upstream http.RoundTripper
}

// RoundTrip handles one call.
func (t *tap) RoundTrip(r *http.Request) (*http.Response, error) {
	c := &Call{Request: r, Replica: t.replica}
	if r.Body != nil {
		var err error
		if c.Body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	return t.replica.pair.current()(c, func() (*http.Response, error) {
		ctx := r.Context()
		if c.writes() {
			// A request that was sent takes effect, even if the sender dies.
			ctx = context.WithoutCancel(ctx)
		}
		sent := r.Clone(ctx)
		if sent.Body = http.NoBody; len(c.Body) > 0 {
			sent.Body = io.NopCloser(bytes.NewReader(c.Body))
		}
		answer, err := t.upstream.RoundTrip(sent)
		if err == nil && c.writes() {
			t.replica.note(c, answer.StatusCode)
		}
		return answer, err
	})
}

func (c *Call) writes() bool { return c.Method != http.MethodGet }

func (c *Call) Watches() bool { return c.URL.Query().Get("watch") != "" }

func (c *Call) String() string { return c.Method + " " + c.URL.Path }

// elections reports whether a call belongs to the leader election, or writes an event. Such calls
// change no part of a workload.
func (c *Call) elections() bool {
	return strings.Contains(c.URL.Path, "/leases") || strings.Contains(c.URL.Path, "/events")
}

// On reports whether the call has the method, and is for the resource (with a subresource, if any) of
// the group apps or apps.united.dev.
func (c *Call) On(method, resource string) bool {
	if c.Method != method {
		return false
	}
	_, rest, _ := strings.Cut(c.URL.Path, "/namespaces/")
	part := strings.Split(rest, "/") // namespace, resource, name, subresource
	wanted, subresource, _ := strings.Cut(resource, "/")
	switch len(part) {
	case 2, 3:
		return part[1] == wanted && subresource == ""
	case 4:
		return part[1] == wanted && part[3] == subresource
	}
	return false
}

// writtenChild is the part of a child that the tests read from a write.
type writtenChild struct {
	Metadata metav1.ObjectMeta
}

// Seeds reports whether the write seeds the child with the revision that it protects: the child then
// has only that revision, and only the replicas that run it.
func (w *writtenChild) Seeds() bool {
	return w.Metadata.Annotations[v1alpha1.AnnotationSeeding] == "true"
}

// Drop discards an answer.
func Drop(answer *http.Response) {
	if answer != nil {
		_ = answer.Body.Close()
	}
}

func accepted(answer *http.Response) bool { return answer != nil && answer.StatusCode < 300 }
