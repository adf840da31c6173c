// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package queries

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	promapi "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// lookAgain is after how long the file with the servers is read again. The kubelet needs up to a minute to bring a changed
// Secret.
const lookAgain = 5 * time.Second

// errNotPermitted says that a server is not there for a namespace. Whether it is there for others is not said.
type errNotPermitted struct{ server, namespace string }

func (e *errNotPermitted) Error() string {
	return fmt.Sprintf("server %s is not open to namespace %s, or does not exist: whoever runs United sets checks.prometheus.servers.%s.namespaces, and its url, in the values of its Helm chart",
		e.server, e.namespace, e.server)
}

// IsNotPermitted reports whether a namespace may not use the server that its check names.
func IsNotPermitted(err error) bool {
	refused := (*errNotPermitted)(nil)
	return errors.As(err, &refused)
}

// Servers are the servers of a file. They change with it: what is not in it any more is asked no more. If it gets unusable, the
// servers remain as they were.
type Servers struct {
	file  string
	clock clock.PassiveClock

	mu      sync.Mutex
	read    time.Time
	raw     []byte
	servers map[string]*server
	failed  string
}

type server struct {
	Server
	api promapi.API
}

// NewServers returns the servers of a file; none if there is no file.
func NewServers(file string, c clock.PassiveClock) *Servers { return &Servers{file: file, clock: c} }

// find returns a server that a namespace may use.
func (s *Servers) find(ctx context.Context, name, namespace string) (*server, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := s.clock.Now(); s.file != "" && (s.read.IsZero() || now.Sub(s.read) >= lookAgain) {
		s.read = now
		s.reload(ctx)
	}
	if found := s.servers[name]; found != nil && found.permits(namespace) {
		return found, nil
	}
	if s.servers == nil && s.failed != "" {
		return nil, errors.New("the configuration of Prometheus servers cannot be used; United's log says why")
	}
	return nil, &errNotPermitted{name, namespace}
}

// reload reads the file if it has changed. s.mu is held.
func (s *Servers) reload(ctx context.Context) {
	raw, err := os.ReadFile(s.file)
	if err == nil && s.servers != nil && bytes.Equal(raw, s.raw) {
		return
	}
	if err == nil {
		err = s.use(raw)
	}
	if err == nil {
		s.failed = ""
		return
	}
	if s.failed != err.Error() {
		s.failed = err.Error()
		log.FromContext(ctx).Error(err, "the file with Prometheus servers cannot be used", "file", s.file)
	}
}

func (s *Servers) use(raw []byte) error {
	config, err := ReadConfig(raw)
	if err != nil {
		return err
	}
	servers := map[string]*server{}
	for name, c := range config.Servers {
		client, err := c.client(filepath.Dir(s.file))
		if err != nil {
			return fmt.Errorf("servers[%s]: %w", name, err)
		}
		servers[name] = &server{Server: c, api: promapi.NewAPI(numeric{client})}
	}
	s.raw, s.servers = raw, servers
	return nil
}

// maxSeries is how many series a server is asked for: more than one is an error.
const maxSeries = 2

// Query asks a server, for a namespace, for the value of a query; nil if there is no data. What an error says does not change
// from one time to the next.
func (s *Servers) Query(ctx context.Context, name, namespace, query string) (*float64, error) {
	found, err := s.find(ctx, name, namespace)
	if err != nil {
		return nil, err
	}
	timeout := found.Timeout.Duration
	if timeout == 0 {
		timeout = defaultTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	value, _, err := found.api.Query(ctx, query, time.Time{}, promapi.WithTimeout(timeout), promapi.WithLimit(maxSeries))
	if err != nil {
		return nil, describe(err, timeout)
	}
	return valueOf(value)
}

func valueOf(value model.Value) (*float64, error) {
	switch v := value.(type) {
	case *model.Scalar:
		return new(float64(v.Value)), nil
	case model.Vector:
		switch {
		case len(v) == 0:
			return nil, nil //nolint:nilnil // there is no data
		case len(v) > 1:
			return nil, errors.New("the query returned more than one series: aggregate them, for example with sum()")
		case v[0].Histogram != nil:
			return nil, errors.New("the query returned a histogram: use histogram_quantile() or a part of it")
		}
		return new(float64(v[0].Value)), nil
	case nil:
		return nil, errors.New("the server did not answer with a value")
	}
	return nil, fmt.Errorf("the query returned a %s: a number, or one series, is needed", value.Type())
}
