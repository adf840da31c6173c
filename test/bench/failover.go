// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

const (
	// failoverEach is the number of replicas of each subset, failoverRounds how often the leader ends in each way.
	failoverEach   = 2
	failoverRounds = 3
)

// failover measures how long it takes until a standby manager takes over. Everything is held, so the patches
// of partitions move no pod.
type failover struct {
	*env
	parents []client.ObjectKey
	patched int
}

func runFailover(ctx context.Context, o *options, r *report) error {
	return with(ctx, o, func(ctx context.Context, e *env) error {
		const namespace = "failover"
		if err := e.namespace(ctx, namespace); err != nil {
			return err
		}
		f := &failover{env: e}
		var err error
		f.parents, err = e.createParents(ctx, shape{
			namespace: namespace, name: "web", subsets: len(zones()), each: failoverEach,
			policy: appsv1.ParallelPodManagement, tag: "v1", strategy: hold(nil),
		}, 0, o.parents)
		if err != nil {
			return err
		}
		t := r.table(fmt.Sprintf("Another manager takes over, %d parents of %d subsets of %d", len(f.parents), len(zones()), failoverEach),
			"the leader", "p50 until the first write of the next", "longest", "child writes", "must be", "conflicts", "must be")
		for _, way := range []struct {
			what string
			end  func() error
		}{
			{"ends (SIGTERM)", func() error { return f.manager.Stop() }},
			{"is killed (SIGKILL)", func() error { return f.manager.Kill() }},
		} {
			if err := f.measure(ctx, t, way.what, way.end); err != nil {
				return fmt.Errorf("%s: %w", way.what, err)
			}
		}
		t.print()
		return nil
	})
}

// measure ends the leader several times, and adds a row.
func (f *failover) measure(ctx context.Context, t *table, what string, end func() error) error {
	var took samples
	children, conflicts := 0, 0
	for range failoverRounds {
		d, written, err := f.round(ctx, end)
		if err != nil {
			return err
		}
		took = append(took, d)
		children, conflicts = children+written.of("statefulsets", ""), conflicts+written.conflicts()
	}
	t.row(what, seconds(took.percentile(50)), seconds(took.percentile(100)), children, failoverRounds, conflicts, 0)
	t.must(children == failoverRounds, "%s: %d child writes for %d patches", what, children, failoverRounds)
	t.must(conflicts == 0, "%s: %d conflicts", what, conflicts)
	return nil
}

// round ends the leader while another manager stands by, patches a partition, and returns how long after the
// end of the leader the child had it, and what the next leader wrote until it had reconciled everything.
func (f *failover) round(ctx context.Context, end func() error) (time.Duration, writes, error) {
	f.patched++
	next, err := startStandby(ctx, f.cluster, fmt.Sprintf("standby-%d", f.patched))
	if err != nil {
		return 0, nil, err
	}
	mark, err := f.cluster.AuditMark(ctx)
	if err != nil {
		return 0, nil, err
	}
	key := f.parents[f.patched%len(f.parents)]
	partition := int32(failoverEach + f.patched)
	zone := zones()[0]
	seen := expect(f.sight, client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-" + zone},
		func(s *appsv1.StatefulSet) bool { return partitionOf(s) == partition })
	began := time.Now()
	if err := end(); err != nil {
		return 0, nil, err
	}
	f.manager = next
	generation, err := f.patchParent(ctx, key, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{%q:%d}}}}}`, zone, partition))
	if err != nil {
		return 0, nil, err
	}
	at, err := seen.wait(ctx)
	if err != nil {
		return 0, nil, err
	}
	if err := await(ctx, f.sight, &v1alpha1.UnitedDeployment{}, key, ready(generation)); err != nil {
		return 0, nil, err
	}
	if err := next.idle(ctx); err != nil {
		return 0, nil, err
	}
	written, err := f.writes(ctx, mark)
	return at.Sub(began), written, err
}
