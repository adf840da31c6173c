// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package unreadable ensures that an object that cannot be decoded does not prevent all others of its kind from being
// read.
//
// The API server accepts objects that Go's decoders reject: those that are nested so deeply that the surrounding list
// exceeds the decoders' limit, and those that a schema allows and a Go type does not. A client decodes a list as a
// whole and a watch event by event, so one such object fails the list, ends the watch, and stops a controller for the
// whole cluster. This package replaces such an object with a stand-in before anything is decoded: its metadata, and an
// annotation with the reason (see Annotation). So in the caches it exists, changes and is deleted like any other
// object, and the code that uses it sees that it cannot be read.
//
// The package changes the bodies of the responses, because that is the only place that all lists, watches, and initial
// events of watches pass through.
package unreadable

import (
	"bufio"
	"bytes"
	"io"
	"mime"
	"net/http"
	"path"
	"strconv"

	"k8s.io/client-go/transport"
)

// Wrap returns a function for rest.Config.Wrap. The checks are by resource, such as "uniteddeployments"; for other
// resources only the depth is checked, because the API server has validated their types. Responses that are not JSON
// pass through: the binary encoding has no such limit.
func Wrap(checks map[string]Check) transport.WrapperFunc {
	return func(base http.RoundTripper) http.RoundTripper { return &tripper{base, checks} }
}

type tripper struct {
	base   http.RoundTripper
	checks map[string]Check
}

// WrappedRoundTripper returns the underlying one, for callers that search for it.
func (t *tripper) WrappedRoundTripper() http.RoundTripper { return t.base }

// RoundTrip makes lists and watches in the responses readable.
func (t *tripper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.base.RoundTrip(req)
	if err != nil || req.Method != http.MethodGet || resp.StatusCode != http.StatusOK {
		return resp, err
	}
	if kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return resp, nil
	}
	check := t.checks[path.Base(req.URL.Path)]
	if watch, err := strconv.ParseBool(req.URL.Query().Get("watch")); err == nil && watch {
		resp.Body = &events{Closer: resp.Body, from: bufio.NewReader(resp.Body), check: check}
		return resp, nil
	}
	// A response that is not a list has no items, and stays as it is.
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(body), broken{err}))
		return resp, nil
	}
	body = check.list(body)
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	resp.Header.Del("Content-Length")
	return resp, nil
}

// broken is the rest of a body that could not be read: it returns the error to the client.
type broken struct{ err error }

func (b broken) Read([]byte) (int, error) { return 0, b.err }

// events is the body of a watch: a sequence of JSON objects.
type events struct {
	io.Closer
	from  *bufio.Reader
	check Check
	ready []byte
	err   error
}

// Read returns each event as soon as it is complete.
func (e *events) Read(into []byte) (int, error) {
	for len(e.ready) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.ready, e.err = e.next()
	}
	n := copy(into, e.ready)
	e.ready = e.ready[n:]
	return n, nil
}

func (e *events) next() ([]byte, error) {
	var frame []byte
	s := scanner{}
	for {
		if _, err := e.from.Peek(1); err != nil {
			return frame, err
		}
		buffered, _ := e.from.Peek(e.from.Buffered())
		n, whole := s.feed(buffered)
		frame = append(frame, buffered[:n]...)
		_, _ = e.from.Discard(n)
		if whole {
			return e.check.event(frame), nil
		}
	}
}
