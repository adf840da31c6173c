// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
	"github.com/unitedworkloads/united/test/podmetrics"
)

// Plane is a control plane with a manager.
type Plane struct {
	Cluster *cluster.Cluster
	Manager *install.Manager
	client  client.Client
	watch   *podWatch
	Metrics *podmetrics.Server
	// zones has the zone of each node.
	Zones map[string]string
	// startKruise and startLWS start the managers of other kinds, and startRollouts the controller of Argo Rollouts, once.
	startKruise, startLWS, startRollouts func() error
	// expiry stops an idle control plane, see leaveIdle.
	expiry *time.Timer
}

// forAll is for the control plane that most tests share. In the end it has the objects of hundreds of tests, more than
// half a gigabyte of them: with the memory limit of make test, kube-apiserver would collect garbage all the time.
func forAll() cluster.Options {
	return cluster.Options{Log: os.Stderr, APIServerEnv: []string{"GOMEMLIMIT=4GiB"}}
}

// forDisturbance lets a test restart the API server. A restarted one does not know the past of the objects
// that it caches, and the watch of the pods must not miss any event, so it reads from etcd.
func forDisturbance() cluster.Options {
	return cluster.Options{Log: os.Stderr, APIServerArgs: []string{"--watch-cache-sizes=pods#0"}}
}

// newPlane installs United in a cluster, and starts its manager.
func newPlane(ctx context.Context, c *cluster.Cluster) (p *Plane, err error) {
	p = &Plane{
		Cluster: c, Zones: map[string]string{},
		startKruise: sync.OnceValue(func() error { return c.StartKruise(context.Background()) }),
		startLWS:    sync.OnceValue(func() error { return c.StartLWS(context.Background()) }),

		startRollouts: sync.OnceValue(func() error { return c.StartRollouts(context.Background()) }),
	}
	if err := install.Chart(ctx, c, values...); err != nil {
		return nil, err
	}
	if p.client, err = install.NewClient(c); err != nil {
		return nil, err
	}
	nodes := &corev1.NodeList{}
	if err := p.client.List(ctx, nodes); err != nil {
		return nil, err
	}
	for _, node := range nodes.Items {
		p.Zones[node.Name] = node.Labels[corev1.LabelTopologyZone]
	}
	if p.watch, err = startPodWatch(ctx, c, p.Zones); err != nil {
		return nil, err
	}
	if p.Metrics, err = podmetrics.Start(ctx, c); err != nil {
		return nil, err
	}
	p.Manager, err = install.Start(ctx, c, "united-manager")
	return p, err
}

// stop stops the manager, the watch and the metrics: graceful shutdown is part of the test.
func (p *Plane) stop() error {
	defer p.watch.stop()
	return errors.Join(p.Manager.Stop(), p.Metrics.Stop(context.Background()))
}

// own are the control planes that are started for one test.
var own = struct {
	turns chan struct{} // bounds how many there are
	sync.Mutex
	idle   []*Plane // those that no test uses now; the last one was used last
	failed []error  // of those that have expired
}{turns: make(chan struct{}, 4)}

// idleTime is how long a control plane waits for another test. Even at rest it takes 7 % of a core, in this time half as
// much as the start of another one.
const idleTime = 4 * time.Minute

// NewPlaneOf returns a control plane that no other test uses until this one ends, an idle one or a new
// one, as soon as there are not too many. It may have objects of tests that have ended, in other
// namespaces. If the test fails, no other test gets the control plane.
func NewPlaneOf(t *testing.T) *Plane {
	t.Helper()
	AwaitTurn(t)
	if p := TakeIdle(); p != nil {
		p.leaveIdle(t)
		return p
	}
	return StartPlane(t)
}

func AwaitTurn(t *testing.T) {
	t.Helper()
	select {
	case own.turns <- struct{}{}:
	case <-t.Context().Done():
		t.Fatal(t.Context().Err())
	}
	t.Cleanup(func() { <-own.turns })
}

func StartPlane(t *testing.T) *Plane {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	c, err := cluster.Start(ctx, forDisturbance())
	if err != nil {
		t.Fatal(err)
	}
	p, err := newPlane(ctx, c)
	if err != nil {
		t.Fatal(errors.Join(err, c.Stop()))
	}
	p.leaveIdle(t)
	return p
}

// leaveIdle makes the control plane idle when the test ends, for idleTime at most, or stops it if the test fails.
func (p *Plane) leaveIdle(t *testing.T) {
	t.Cleanup(func() {
		if !t.Failed() {
			own.Lock()
			defer own.Unlock()
			own.idle = append(own.idle, p)
			p.expiry = time.AfterFunc(idleTime, p.expire)
			return
		}
		if err := p.StopAll(); err != nil {
			t.Error(err)
		}
	})
}

// expire stops the control plane if it is still idle. It keeps the lock meanwhile: stopIdle waits for it.
func (p *Plane) expire() {
	own.Lock()
	defer own.Unlock()
	if i := slices.Index(own.idle, p); i >= 0 {
		own.idle = slices.Delete(own.idle, i, i+1)
		own.failed = append(own.failed, p.StopAll())
	}
}

// TakeIdle returns the control plane that was used last, or nil.
func TakeIdle() *Plane {
	own.Lock()
	defer own.Unlock()
	last := len(own.idle) - 1
	if last < 0 {
		return nil
	}
	p := own.idle[last]
	own.idle = own.idle[:last]
	p.expiry.Stop()
	return p
}

// stopIdle stops the control planes that were started for one test.
func stopIdle() error {
	var errs []error
	for p := TakeIdle(); p != nil; p = TakeIdle() {
		errs = append(errs, p.StopAll())
	}
	own.Lock()
	defer own.Unlock()
	return errors.Join(append(errs, own.failed...)...)
}

func (p *Plane) StopAll() error { return errors.Join(p.stop(), p.Cluster.Stop()) }
