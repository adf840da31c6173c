// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/api"
	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

// maxAnswer is how long an answer may be. That of one series is a few hundred bytes.
const maxAnswer = 1 << 20

var (
	errRedirect     = errors.New("the server answers with a redirect, which is not followed")
	errNoPrometheus = errors.New("the answer is not one of the Prometheus API")
	errNoNumber     = errors.New("the server answered without a number")
	errTooLarge     = fmt.Errorf("the answer is longer than %d MiB: the query must return one series", maxAnswer>>20)
)

// statusError is an answer that is not one to a query.
type statusError int

func (e statusError) Error() string {
	return fmt.Sprintf("the server answered %d %s", int(e), http.StatusText(int(e)))
}

// errNoAnswer says that a server did not answer in time.
type errNoAnswer struct{ within time.Duration }

func (e errNoAnswer) Error() string { return "no answer within " + e.within.String() }

// guard bounds what a server can do.
type guard struct {
	next    http.RoundTripper
	headers map[string]string
}

// RoundTrip sends a request. Trap: the client of Prometheus would repeat a query as GET, with all of it in the URL, if the server
// refused it.
func (g *guard) RoundTrip(r *http.Request) (*http.Response, error) {
	if len(g.headers) > 0 {
		r = r.Clone(r.Context())
		for name, value := range g.headers {
			r.Header.Set(name, value)
		}
	}
	answer, err := g.next.RoundTrip(r)
	if err != nil {
		return nil, err //nolint:wrapcheck // the client wraps it
	}
	switch answer.StatusCode {
	case http.StatusForbidden, http.StatusMethodNotAllowed, http.StatusNotImplemented:
		_ = answer.Body.Close()
		return nil, statusError(answer.StatusCode)
	}
	answer.Body = &bounded{ReadCloser: answer.Body, left: maxAnswer}
	return answer, nil
}

// bounded is a body that must not be too long.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err //nolint:wrapcheck // io.EOF must remain itself
}

// numeric refuses an answer whose value is not one number. Trap: the client of Prometheus takes 0 for a value that is missing or
// null, and ignores what follows a value.
type numeric struct{ api.Client }

// Do sends a request. What is not an answer to a query is left to the client of Prometheus, which has the errors for it.
func (n numeric) Do(ctx context.Context, r *http.Request) (*http.Response, []byte, error) {
	answer, body, err := n.Client.Do(ctx, r)
	said := struct {
		Status string
		Data   struct {
			ResultType model.ValueType
			Result     json.RawMessage
		}
	}{}
	if err == nil && answer.StatusCode/100 == 2 && json.Unmarshal(body, &said) == nil && (said.Status == "" || !isNumeric(said.Data.ResultType, said.Data.Result)) {
		err = errNoNumber
	}
	return answer, body, err //nolint:wrapcheck // describe tells them apart
}

func isNumeric(kind model.ValueType, result []byte) bool {
	switch kind {
	case model.ValScalar:
		return isSample(result)
	case model.ValVector:
		var series []struct{ Value, Histogram json.RawMessage }
		if json.Unmarshal(result, &series) != nil || series == nil {
			return false
		}
		return len(series) != 1 || len(series[0].Histogram) > 0 && series[0].Value == nil || isSample(series[0].Value)
	}
	return true
}

// isSample reports whether JSON is a time with one text. The client refuses a text that is no number.
func isSample(raw []byte) bool {
	var (
		pair  []json.RawMessage
		value *string
	)
	return json.Unmarshal(raw, &pair) == nil && len(pair) == 2 && json.Unmarshal(pair[1], &value) == nil && value != nil
}

// describe returns an error that says the same each time, and does not say where the server is: users of a namespace read it.
func describe(err error, timeout time.Duration) error {
	var (
		answered  *promapi.Error
		status    statusError
		unknown   *net.DNSError
		untrusted *tls.CertificateVerificationError
		timedOut  net.Error
		failed    *url.Error
	)
	switch {
	case errors.Is(err, errRedirect):
		return errRedirect
	case errors.Is(err, errTooLarge):
		return errTooLarge
	case errors.Is(err, errNoNumber):
		return errNoNumber
	case errors.As(err, &status):
		return status
	case errors.As(err, &answered):
		return said(answered)
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timedOut) && timedOut.Timeout():
		return errNoAnswer{timeout}
	case errors.Is(err, context.Canceled):
		return context.Canceled
	case errors.As(err, &unknown):
		return errors.New("the name of the server cannot be resolved")
	case errors.As(err, &untrusted), errors.As(err, &x509.UnknownAuthorityError{}), errors.As(err, &x509.HostnameError{}):
		return errors.New("the certificate of the server is not trusted")
	case errors.Is(err, syscall.ECONNREFUSED):
		return errors.New("the server refuses connections")
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return errors.New("a file that the configuration of the server names cannot be read")
	case errors.As(err, &failed), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("the connection to the server failed")
	case strings.Contains(err.Error(), `"string"`):
		return errors.New("the query returned a string: a number, or one series, is needed")
	}
	return errNoPrometheus
}

// said returns what the server says of a query.
func said(e *promapi.Error) error {
	const most = 300
	text := strings.ToValidUTF8(strings.Join(strings.Fields(e.Msg), " "), "")
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	switch e.Type {
	case promapi.ErrBadResponse:
		return errNoPrometheus
	case promapi.ErrClient, promapi.ErrServer:
		return errors.New("the server answered: " + text)
	}
	return fmt.Errorf("the server cannot evaluate the query: %s", text)
}
