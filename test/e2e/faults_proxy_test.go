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

// call is a request of a manager, on its way to the API server.
type call struct {
	*http.Request
	Body    []byte
	replica *replica
}

// send hands a call to the API server and gives its answer.
type send func() (*http.Response, error)

// hook stands between a manager and the API server: it may do something before
// or after the call is sent, not send it, or lose the answer (errCut).
type hook func(c *call, s send) (*http.Response, error)

// errCut cuts the connection instead of an answer.
var errCut = errors.New("the connection is cut")

// startProxy starts a reverse proxy of the API server for a replica. The token of
// the replica is passed on, and its rights with it. (Trap: over plain HTTP clients
// do not send tokens.)
func startProxy(r *replica) (*httptest.Server, error) {
	config := shared.cluster.Config()
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, err
	}
	// Not the credentials of the test: only how to trust the API server.
	upstream, err := rest.TransportFor(&rest.Config{
		Host: config.Host, TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData},
	})
	if err != nil {
		return nil, err
	}
	return httptest.NewTLSServer(&httputil.ReverseProxy{
		Rewrite:       func(p *httputil.ProxyRequest) { p.SetURL(server) },
		Transport:     &tap{replica: r, upstream: upstream},
		FlushInterval: -1, // watches
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {
			panic(http.ErrAbortHandler) // closes the connection without an answer
		},
	}), nil
}

// tap is where the calls of a replica pass the hook of its managerPair.
type tap struct {
	replica  *replica
	upstream http.RoundTripper
}

// RoundTrip is one call.
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
			// What was sent takes effect, also if the sender dies.
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

// elections reports whether a call or an event is one of the leader election, or an event as such. They
// change nothing that a workload is made of.
func (c *call) elections() bool {
	return strings.Contains(c.URL.Path, "/leases") || strings.Contains(c.URL.Path, "/events")
}

// on reports whether the call is of the method, on the resource (with a
// subresource, if any) of the group apps or apps.united.dev.
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

// writtenChild is what the tests read in a write of a child.
type writtenChild struct {
	Metadata metav1.ObjectMeta
}

// child reads a write of a child; nil when the call is something else.
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

// seeds reports whether the child is taught the revision that it protects: it has
// that alone, and only the replicas that run it.
func (w *writtenChild) seeds() bool {
	return w.Metadata.Annotations[v1alpha1.AnnotationSeeding] == "true"
}

// refusal is an answer that the API server could give.
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

// drop throws an answer away.
func drop(answer *http.Response) {
	if answer != nil {
		_ = answer.Body.Close()
	}
}

func accepted(answer *http.Response) bool { return answer != nil && answer.StatusCode < 300 }
