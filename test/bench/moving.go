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
	"github.com/unitedworkloads/united/test/fixtures"
)

// patchWhilePodsMove releases one subset of each parent, and a bare StatefulSet for each parent,
// replica by replica: every patch moves a pod, and the next patch does not wait for it. So the API
// server, the StatefulSet controller and the manager work on the pods of all of them.
func (c *canary) patchWhilePodsMove(ctx context.Context, r *report) error {
	if err := c.stage(ctx, "moving"); err != nil {
		return err
	}
	mark, err := c.cluster.AuditMark(ctx)
	if err != nil {
		return err
	}
	before, err := c.manager.usage(ctx)
	if err != nil {
		return err
	}
	zone := zones()[canarySubsets-1]
	generations := map[client.ObjectKey]int64{}
	var through, direct samples
	for partition := int32(canaryEach - 1); partition >= 0; partition-- {
		for i, key := range c.parents {
			took, err := c.timed(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-" + zone}, partition, func() (err error) {
				generations[key], err = c.patchParent(ctx, key, types.MergePatchType,
					fmt.Appendf(nil, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{%q:%d}}}}}`, zone, partition))
				return err
			})
			if err != nil {
				return err
			}
			through = append(through, took)
			took, err = c.timed(ctx, c.bare[i], partition, func() error {
				_, err := c.patchSet(ctx, c.bare[i], types.MergePatchType,
					fmt.Appendf(nil, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, partition))
				return err
			})
			if err != nil {
				return err
			}
			direct = append(direct, took)
		}
	}
	if err := c.moved(ctx, generations); err != nil {
		return err
	}
	after, err := c.manager.usage(ctx)
	if err != nil {
		return err
	}
	written, err := c.writes(ctx, mark)
	if err != nil {
		return err
	}
	t := r.table(fmt.Sprintf("A partition patch while pods roll, %d parents", len(c.parents)), "what", "measured")
	for _, p := range []int{50, 95} {
		t.row(fmt.Sprintf("patch on a StatefulSet -> seen by a watch, p%d", p), millis(direct.percentile(p)))
		t.row(fmt.Sprintf("patch on the parent -> child seen by a watch, p%d", p), millis(through.percentile(p)))
		t.row(fmt.Sprintf("ratio, p%d", p), times(ratio(through.percentile(p), direct.percentile(p))))
	}
	t.row(fmt.Sprintf("child writes for %d patches, what was refused included", len(through)), written.of("statefulsets", ""))
	t.row("conflicts", written.conflicts())
	t.row("status writes", written.of("uniteddeployments", "status"))
	t.row(fmt.Sprintf("CPU of the manager for %d patches and their pods", len(through)), seconds(after.cpu-before.cpu))
	t.row("CPU of the manager for each patch and its pod", millis((after.cpu-before.cpu)/time.Duration(len(through))))
	t.print()
	return nil
}

// stage sets another image in all parents and all bare StatefulSets, and releases nothing.
func (c *canary) stage(ctx context.Context, tag string) error {
	if err := inParallel(c.parents, func(key client.ObjectKey) error {
		return c.patchAndWait(ctx, key, types.JSONPatchType, rolls(tag, hold(nil)))
	}); err != nil {
		return err
	}
	for _, key := range c.bare {
		generation, err := c.patchSet(ctx, key, types.JSONPatchType, fmt.Appendf(nil,
			`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q},{"op":"replace","path":"/spec/updateStrategy/rollingUpdate/partition","value":%d}]`,
			fixtures.Image(tag), canaryEach))
		if err != nil {
			return err
		}
		if err := await(ctx, c.sight, &appsv1.StatefulSet{}, key, func(s *appsv1.StatefulSet) bool {
			return s.Status.ObservedGeneration >= generation
		}); err != nil {
			return err
		}
	}
	return c.manager.idle(ctx)
}

// moved waits until all released replicas have moved.
func (c *canary) moved(ctx context.Context, generations map[client.ObjectKey]int64) error {
	for _, key := range c.parents {
		if err := await(ctx, c.sight, &v1alpha1.UnitedDeployment{}, key, ready(generations[key])); err != nil {
			return err
		}
	}
	for _, key := range c.bare {
		if err := await(ctx, c.sight, &appsv1.StatefulSet{}, key, whole); err != nil {
			return err
		}
	}
	return c.manager.idle(ctx)
}
