// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

const (
	// foreignEach is the number of replicas of each foreign StatefulSet, creators is how many are created in parallel.
	foreignEach = 10
	creators    = 10
)

// sizing measures what the manager uses for workloads that are not its own.
type sizing struct {
	*env
	options *options
	table   *table
	parents []client.ObjectKey
	// subsets of each UnitedDeployment, each with so many replicas.
	subsets int
	each    int32
}

func runSize(ctx context.Context, o *options, r *report) error {
	var sizes []int
	for text := range strings.SplitSeq(o.sizes, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n <= 0 || len(sizes) > 0 && n <= sizes[len(sizes)-1] {
			return fmt.Errorf("sizes %q are not numbers in rising order", o.sizes)
		}
		sizes = append(sizes, n)
	}
	var subsets int
	var each int32
	if n, err := fmt.Sscanf(o.shape, "%dx%d", &subsets, &each); n != 2 || subsets <= 0 || each <= 0 {
		return fmt.Errorf("shape %q is not of the form 5x10: %w", o.shape, err)
	}
	return with(ctx, o, func(ctx context.Context, e *env) error {
		s := &sizing{env: e, options: o, subsets: subsets, each: each, table: r.table(
			fmt.Sprintf("The manager, %d subsets of %d each, beside %d pods that are not its own", subsets, each, o.foreign*foreignEach),
			"parents (pods)", "RSS", "Go heap", "time to start", "CPU to start", "writes to start", "CPU at rest", "writes at rest", "roll of all", "CPU of the roll", "writes of the roll", "conflicts", "etcd writes of the roll, by all", "peak RSS")}
		if err := s.foreign(ctx); err != nil {
			return err
		}
		if err := e.namespace(ctx, "size"); err != nil {
			return err
		}
		defer s.table.print() // print the finished rows, even if a size is too much for the machine
		for i, n := range append([]int{0}, sizes...) {
			if err := s.measure(ctx, n, fmt.Sprintf("v%d", i+2)); err != nil {
				return fmt.Errorf("%d parents: %w", n, err)
			}
		}
		return nil
	})
}

// foreign creates StatefulSets without United's labels, and waits for their pods.
func (s *sizing) foreign(ctx context.Context) error {
	const namespace = "foreign"
	if err := s.namespace(ctx, namespace); err != nil {
		return err
	}
	errs := make([]error, s.options.foreign)
	workqueue.ParallelizeUntil(ctx, creators, s.options.foreign, func(i int) {
		shape := shape{namespace: namespace, name: fmt.Sprintf("other-%d", i), each: foreignEach, policy: appsv1.ParallelPodManagement, tag: "v1"}
		set := shape.bare(zones()[i%len(zones())], 0)
		if errs[i] = s.Create(ctx, set); errs[i] == nil {
			errs[i] = await(ctx, s.sight, &appsv1.StatefulSet{}, client.ObjectKeyFromObject(set), whole)
		}
	})
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// measure increases the parents to n, measures a manager that has just started, and then rolls out all
// of them at once, without a hold.
func (s *sizing) measure(ctx context.Context, n int, tag string) error {
	created, err := s.createParents(ctx, shape{
		namespace: "size", name: "web", subsets: s.subsets, each: s.each, policy: appsv1.ParallelPodManagement, tag: "v1",
		strategy: v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy},
	}, len(s.parents), n)
	if err != nil {
		return err
	}
	s.parents = append(s.parents, created...)
	if err := s.manager.idle(ctx); err != nil {
		return err
	}
	toStart, starting, err := s.restarted(ctx)
	if err != nil {
		return err
	}
	mark, err := s.cluster.AuditMark(ctx)
	if err != nil {
		return err
	}
	started, err := s.manager.usage(ctx)
	if err != nil {
		return err
	}
	share, err := s.manager.rest(ctx, s.options.window)
	if err != nil {
		return err
	}
	resting, err := s.writes(ctx, mark)
	if err != nil {
		return err
	}
	before, err := s.manager.usage(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "%d parents at rest: RSS %s, heap %s, CPU %.2f%% of one, %d writes; rolling them out\n",
		n, mebi(before.rss), mebi(before.heap), 100*share, len(resting))
	rolled, err := s.roll(ctx, tag)
	if err != nil {
		return err
	}
	after, err := s.manager.usage(ctx)
	if err != nil {
		return err
	}
	what := fmt.Sprintf("%d (%d)", n, n*s.subsets*int(s.each))
	s.table.row(what, mebi(before.rss), mebi(before.heap), seconds(toStart), seconds(started.cpu), len(starting), fmt.Sprintf("%.2f%% of one", 100*share), len(resting),
		seconds(rolled.took), seconds(after.cpu-before.cpu), len(rolled.writes), rolled.conflicts(), rolled.etcd, mebi(after.peak))
	s.table.must(len(starting) == 0, "%s: a new leader writes %v", what, starting)
	s.table.must(len(resting) == 0, "%s: %d writes at rest", what, len(resting))
	s.table.must(rolled.conflicts() == 0, "%s: %d conflicts: %v", what, rolled.conflicts(), first(rolled.writes))
	return nil
}

// restarted restarts the manager, and returns how long it took until it had reconciled everything once, and what it wrote.
func (s *sizing) restarted(ctx context.Context) (time.Duration, writes, error) {
	mark, err := s.cluster.AuditMark(ctx)
	if err != nil {
		return 0, nil, err
	}
	began := time.Now()
	if err := s.restart(ctx); err != nil {
		return 0, nil, err
	}
	took := time.Since(began)
	written, err := s.writes(ctx, mark)
	return took, written, err
}

// rollout is what a rollout of everything took, and the writes of the manager.
type rollout struct {
	writes
	took time.Duration
	// etcd counts the keys that etcd wrote, for all clients of the API server.
	etcd int
}

func (s *sizing) roll(ctx context.Context, tag string) (*rollout, error) {
	if !s.options.roll {
		return &rollout{}, nil
	}
	mark, err := s.cluster.AuditMark(ctx)
	if err != nil {
		return nil, err
	}
	stored, err := s.etcdWrites(ctx)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	patch := rolls(tag, v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy})
	if err := inParallel(s.parents, func(key client.ObjectKey) error {
		return s.patchAndWait(ctx, key, types.JSONPatchType, patch)
	}); err != nil {
		return nil, err
	}
	r := &rollout{took: time.Since(began)}
	if err := s.manager.idle(ctx); err != nil {
		return nil, err
	}
	r.etcd, err = s.etcdWrites(ctx)
	if err != nil {
		return nil, err
	}
	r.etcd -= stored
	r.writes, err = s.writes(ctx, mark)
	return r, err
}
