// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// env is a cluster with United in it.
type env struct {
	client.Client
	cluster *cluster.Cluster
	sight   *sight
	manager *manager
	// pprof is the address at which the manager serves profiles; "0" disables them.
	pprof string
}

// with runs a part in its own cluster.
func with(ctx context.Context, o *options, run func(context.Context, *env) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	c, err := cluster.Start(ctx, cluster.Options{Zones: zones(), AuditReads: true, Log: os.Stderr})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	if err := install.Chart(ctx, c); err != nil {
		return err
	}
	e := &env{cluster: c, pprof: o.pprof}
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return err
	}
	if e.Client, err = client.New(c.Config(), client.Options{Scheme: scheme}); err != nil {
		return fmt.Errorf("client: %w", err)
	}
	e.sight, err = newSight(ctx, c.Config(), scheme, &appsv1.StatefulSet{}, &v1alpha1.UnitedDeployment{})
	if err != nil {
		return err
	}
	if e.manager, err = startManager(ctx, c, o.pprof); err != nil {
		return err
	}
	return run(ctx, e)
}

// namespace creates a namespace in which pods can be created.
func (e *env) namespace(ctx context.Context, name string) error {
	if err := e.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
		return err
	}
	return poll(ctx, func(ctx context.Context) (bool, error) {
		err := e.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// createParents creates UnitedDeployments with the shape, named <name>-<from> and up, and waits until
// all are Ready.
func (e *env) createParents(ctx context.Context, s shape, from, to int) ([]client.ObjectKey, error) {
	var keys []client.ObjectKey
	name := s.name
	for i := from; i < to; i++ {
		s.name = fmt.Sprintf("%s-%d", name, i)
		parent, err := s.parent()
		if err != nil {
			return nil, err
		}
		if err := e.Create(ctx, parent); err != nil {
			return nil, err
		}
		keys = append(keys, client.ObjectKeyFromObject(parent))
	}
	return keys, inParallel(keys, func(key client.ObjectKey) error {
		return await(ctx, e.sight, &v1alpha1.UnitedDeployment{}, key, ready(1))
	})
}

// patchParent patches a UnitedDeployment and returns its generation.
func (e *env) patchParent(ctx context.Context, key client.ObjectKey, kind types.PatchType, patch []byte) (int64, error) {
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := e.Patch(ctx, parent, client.RawPatch(kind, patch), client.FieldOwner("kubectl-patch"))
	return parent.Generation, err
}

// patchAndWait patches a UnitedDeployment and waits until it is Ready.
func (e *env) patchAndWait(ctx context.Context, key client.ObjectKey, kind types.PatchType, patch []byte) error {
	generation, err := e.patchParent(ctx, key, kind, patch)
	if err != nil {
		return err
	}
	return await(ctx, e.sight, &v1alpha1.UnitedDeployment{}, key, ready(generation))
}

// patchSet patches a StatefulSet and returns its generation.
func (e *env) patchSet(ctx context.Context, key client.ObjectKey, kind types.PatchType, patch []byte) (int64, error) {
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	err := e.Patch(ctx, set, client.RawPatch(kind, patch), client.FieldOwner("kubectl-patch"))
	return set.Generation, err
}

// writes are the writes of the manager since a mark, including refused ones, but not those of its Lease
// and its events.
type writes []cluster.Event

func (e *env) writes(ctx context.Context, mark int64) (writes, error) {
	manager := cluster.ByServiceAccount(install.Namespace, install.ServiceAccount)
	return e.cluster.Writes(ctx, mark, func(w cluster.Event) bool {
		return manager(w) && !slices.Contains([]string{"leases", "events"}, w.Resource)
	})
}

// etcdWrites returns how many keys etcd has written and deleted since it started, whoever asked for it. Events and
// Leases are among them.
func (e *env) etcdWrites(ctx context.Context) (int, error) {
	families, err := scrape(ctx, e.cluster.EtcdMetrics())
	if err != nil {
		return 0, fmt.Errorf("metrics of etcd: %w", err)
	}
	sum := 0.0
	for _, name := range []string{"etcd_mvcc_put_total", "etcd_mvcc_delete_total"} {
		metrics := families[name].GetMetric()
		if len(metrics) != 1 {
			return 0, fmt.Errorf("metrics of etcd: %d of %s", len(metrics), name)
		}
		sum += metrics[0].GetCounter().GetValue()
	}
	return int(sum), nil
}

// of counts the writes of a resource, and of its subresource if given.
func (w writes) of(resource, subresource string) int {
	return w.count(func(e cluster.Event) bool { return e.Resource == resource && e.Subresource == subresource })
}

// conflicts counts the writes that were refused because the object had changed.
func (w writes) conflicts() int { return w.count(conflicting) }

// conflicting reports whether a write was refused by its precondition. For a status that is a JSON
// patch test (RFC 6902), which returns 422.
func conflicting(e cluster.Event) bool {
	return e.Code == http.StatusConflict || e.Code == http.StatusUnprocessableEntity
}

func (w writes) count(like func(cluster.Event) bool) int {
	n := 0
	for _, e := range w {
		if like(e) {
			n++
		}
	}
	return n
}

// inParallel calls do for all items at once.
func inParallel[T any](items []T, do func(T) error) error {
	errs := make([]error, len(items))
	var group sync.WaitGroup
	for i, item := range items {
		group.Go(func() { errs[i] = do(item) })
	}
	group.Wait()
	return errors.Join(errs...)
}
