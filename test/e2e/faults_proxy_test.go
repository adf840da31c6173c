// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// call is a request of a manager to the API server.
type call struct {
	*http.Request
	Body    []byte
	replica *replica
}

// send sends a call to the API server and returns its answer.
type send func() (*http.Response, error)

// hook stands between a manager and the API server: it can act before or after the call is sent, not
// send it, or lose the answer (errCut).
type hook func(c *call, s send) (*http.Response, error)

// errCut cuts the connection instead of returning an answer.
var errCut = errors.New("the connection is cut")

// startProxy starts a reverse proxy to the API server for a replica. It forwards the token of the
// replica, and with it the replica's rights. (Trap: clients do not send tokens over plain HTTP.)
func startProxy(r *replica) (*httptest.Server, error) {
	config := r.pair.cluster.Config()
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
	c := &call{Request: r, replica: t.replica}
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

func (c *call) writes() bool { return c.Method != http.MethodGet }

func (c *call) watches() bool { return c.URL.Query().Get("watch") != "" }

func (c *call) String() string { return c.Method + " " + c.URL.Path }

// elections reports whether a call belongs to the leader election, or writes an event. Such calls
// change no part of a workload.
func (c *call) elections() bool {
	return strings.Contains(c.URL.Path, "/leases") || strings.Contains(c.URL.Path, "/events")
}

// on reports whether the call has the method, and is for the resource (with a subresource, if any) of
// the group apps or apps.united.dev.
func (c *call) on(method, resource string) bool {
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

// child reads a write of a child; it returns nil for any other call.
func (c *call) child() *writtenChild {
	if !c.on(http.MethodPatch, children) {
		return nil
	}
	w := &writtenChild{}
	if err := json.Unmarshal(c.Body, w); err != nil {
		panic(fmt.Sprintf("a child is not written as JSON: %v", err))
	}
	return w
}

// seeds reports whether the write seeds the child with the revision that it protects: the child then
// has only that revision, and only the replicas that run it.
func (w *writtenChild) seeds() bool {
	return w.Metadata.Annotations[v1alpha1.AnnotationSeeding] == "true"
}

// refusal returns an answer that the API server could give.
func refusal(c *call, code int, reason metav1.StatusReason) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: "injected by the test: " + string(reason),
	})
	if err != nil {
		panic(fmt.Sprintf("refusal: %v", err))
	}
	answer := &http.Response{
		StatusCode: code, ProtoMajor: 1, ProtoMinor: 1, Request: c.Request,
		Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if code == http.StatusTooManyRequests {
		answer.Header.Set("Retry-After", "1")
	}
	return answer
}

// drop discards an answer.
func drop(answer *http.Response) {
	if answer != nil {
		_ = answer.Body.Close()
	}
}

func accepted(answer *http.Response) bool { return answer != nil && answer.StatusCode < 300 }
