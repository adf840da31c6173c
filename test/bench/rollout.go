// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
	"github.com/unitedworkloads/united/test/install"
)

const (
	rolloutZones = 3
	rolloutEach  = 20
)

// contestant is a rollout over 3 zones with 20 replicas each.
type contestant struct {
	name, namespace string
	policy          appsv1.PodManagementPolicyType
	// maxUnavailable of the RollingUpdate; 0 means three bare StatefulSets.
	maxUnavailable int32

	took time.Duration
}

func contestants() []*contestant {
	const ordered, parallel = appsv1.OrderedReadyPodManagement, appsv1.ParallelPodManagement
	return []*contestant{
		{name: "3 StatefulSets, OrderedReady", namespace: "bare-ordered", policy: ordered},
		{name: "3 StatefulSets, Parallel", namespace: "bare-parallel", policy: parallel},
		{name: "maxUnavailable 3, OrderedReady", namespace: "three-ordered", policy: ordered, maxUnavailable: 3},
		{name: "maxUnavailable 3, Parallel", namespace: "three-parallel", policy: parallel, maxUnavailable: 3},
		{name: "maxUnavailable 12, Parallel", namespace: "twelve-parallel", policy: parallel, maxUnavailable: 12},
	}
}

// runRollout rolls out all contestants at the same time. A new pod is ready 5 to 6 seconds after its
// start. A rollout waits mainly for that, so a busy machine and the other contestants change little.
func runRollout(ctx context.Context, o *options, r *report) error {
	return with(ctx, o, func(ctx context.Context, e *env) error {
		all := contestants()
		if err := inParallel(all, func(c *contestant) error { return c.setUp(ctx, e) }); err != nil {
			return err
		}
		if err := e.manager.idle(ctx); err != nil {
			return err
		}
		mark, err := e.cluster.AuditMark(ctx)
		if err != nil {
			return err
		}
		if err := inParallel(all, func(c *contestant) error { return c.roll(ctx, e) }); err != nil {
			return err
		}
		if err := e.manager.idle(ctx); err != nil {
			return err
		}
		calls, _, err := e.cluster.Requests(ctx, mark, nil)
		if err != nil {
			return err
		}
		t := r.table(fmt.Sprintf("A rollout of %d zones of %d, pods ready after 5 to 6 s", rolloutZones, rolloutEach),
			"", "time", "ratio", "child writes", "pods deleted", "status writes", "events", "live reads", "conflicts", "StatefulSet controller")
		for _, c := range all {
			base := all[0].took
			if c.policy == appsv1.ParallelPodManagement {
				base = all[1].took
			}
			c.addRow(t, calls, base)
		}
		t.print()
		return nil
	})
}

func (c *contestant) shape() shape {
	return shape{
		namespace: c.namespace, name: "web", subsets: rolloutZones, each: rolloutEach, policy: c.policy, tag: "v1",
		strategy: v1alpha1.UpdateStrategy{
			Type:          v1alpha1.RollingUpdateStrategy,
			RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: ptr.To(intstr.FromInt32(c.maxUnavailable))},
		},
	}
}

func (c *contestant) parent() client.ObjectKey {
	return client.ObjectKey{Namespace: c.namespace, Name: "web"}
}

func (c *contestant) set(zone string) client.ObjectKey {
	return client.ObjectKey{Namespace: c.namespace, Name: "web-" + zone}
}

func (c *contestant) setUp(ctx context.Context, e *env) error {
	if err := e.namespace(ctx, c.namespace); err != nil {
		return err
	}
	s := c.shape()
	if c.maxUnavailable > 0 {
		parent, err := s.parent()
		if err != nil {
			return err
		}
		if err := e.Create(ctx, parent); err != nil {
			return err
		}
		return await(ctx, e.sight, &v1alpha1.UnitedDeployment{}, c.parent(), ready(1))
	}
	return inParallel(zones()[:rolloutZones], func(zone string) error {
		if err := e.Create(ctx, s.bare(zone, 0)); err != nil {
			return err
		}
		return await(ctx, e.sight, &appsv1.StatefulSet{}, c.set(zone), whole)
	})
}

func (c *contestant) roll(ctx context.Context, e *env) error {
	began := time.Now()
	defer func() { c.took = time.Since(began) }()
	if c.maxUnavailable > 0 {
		return e.patchAndWait(ctx, c.parent(), types.JSONPatchType, rolls("slow-v2", c.shape().strategy))
	}
	patch := fmt.Appendf(nil, `[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, fixtures.Image("slow-v2"))
	return inParallel(zones()[:rolloutZones], func(zone string) error {
		generation, err := e.patchSet(ctx, c.set(zone), types.JSONPatchType, patch)
		if err != nil {
			return err
		}
		return await(ctx, e.sight, &appsv1.StatefulSet{}, c.set(zone), func(s *appsv1.StatefulSet) bool {
			return s.Generation >= generation && whole(s)
		})
	})
}

// addRow adds a row. base is the time that the bare StatefulSets of that policy took.
func (c *contestant) addRow(t *table, calls []cluster.Event, base time.Duration) {
	manager := cluster.ByServiceAccount(install.Namespace, install.ServiceAccount)
	native := cluster.ByServiceAccount("kube-system", "statefulset-controller")
	var ours writes
	reads, events, theirs := 0, 0, 0
	for _, w := range calls {
		switch reading := slices.Contains([]string{"get", "list", "watch"}, w.Verb); {
		case w.Namespace != c.namespace:
		case native(w) && w.Resource != "events":
			theirs++
		case !manager(w):
		case reading:
			reads++
		case w.Resource == "events":
			events++
		default:
			ours = append(ours, w)
		}
	}
	t.row(c.name, seconds(c.took), times(ratio(c.took, base)), ours.of("statefulsets", ""), ours.of("pods", ""),
		ours.of("uniteddeployments", "status"), events, reads, ours.conflicts(), theirs)
	// With Parallel another replica of the child may become ready, which writes its status, during a
	// release. Nobody can avoid such a conflict.
	t.must(ours.conflicts() == 0 || c.policy == appsv1.ParallelPodManagement, "%s: %d conflicts: %v", c.name, ours.conflicts(), first(ours))
}
