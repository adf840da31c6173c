// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

const (
	canarySubsets = 4
	canaryEach    = 5
	// latencyBound limits how many times longer a partition may take through the parent than on a bare
	// StatefulSet.
	latencyBound = 3
	// These are the most status writes, in hundredths: what was reached (docs/benchmarks.md), and a tenth of that. To make a
	// parent it was 47 for 20, to stage an image in it 40 for 20, and to roll out a replica 187 for 400.
	mostToMake, mostToStage, mostToRoll = 258, 220, 52
)

// most returns a bound in hundredths for n parents or replicas.
func most(hundredths, n int) int { return hundredths * n / 100 }

// canary has many parents in mid-canary: zone-a is on v2, and so is half of zone-b; zone-c and zone-d
// are held.
type canary struct {
	*env
	parents []client.ObjectKey
	bare    []client.ObjectKey
	// provisioned are the writes of the manager that created the parents.
	provisioned writes
}

func hold(partitions map[string]intstr.IntOrString) v1alpha1.UpdateStrategy {
	return v1alpha1.UpdateStrategy{
		Type:         v1alpha1.ManualUpdateStrategy,
		ManualUpdate: &v1alpha1.ManualUpdate{Partitions: partitions, DefaultPartition: ptr.To(intstr.FromString("100%"))},
	}
}

func runCanary(ctx context.Context, o *options, r *report) error {
	return with(ctx, o, func(ctx context.Context, e *env) error {
		c := &canary{env: e}
		if err := c.setUp(ctx, o.parents); err != nil {
			return err
		}
		if err := c.patchPartitions(ctx, o, r); err != nil {
			return err
		}
		if err := c.rest(ctx, o, r); err != nil {
			return err
		}
		if err := c.patchWhilePodsMove(ctx, r); err != nil {
			return err
		}
		if err := c.roll(ctx, r); err != nil {
			return err
		}
		return c.rollAtOnce(ctx, r)
	})
}

func (c *canary) setUp(ctx context.Context, parents int) error {
	const namespace = "canary"
	if err := c.namespace(ctx, namespace); err != nil {
		return err
	}
	s := shape{
		namespace: namespace, name: "web", subsets: canarySubsets, each: canaryEach,
		policy: appsv1.OrderedReadyPodManagement, tag: "v1", strategy: hold(nil),
	}
	mark, err := c.cluster.AuditMark(ctx)
	if err != nil {
		return err
	}
	if c.parents, err = c.createParents(ctx, s, 0, parents); err != nil {
		return err
	}
	if err := c.manager.idle(ctx); err != nil {
		return err
	}
	if c.provisioned, err = c.writes(ctx, mark); err != nil {
		return err
	}
	s.name = "bare"
	for i := range parents {
		set := s.bare(zones()[i%canarySubsets], canaryEach)
		set.Name = fmt.Sprintf("bare-%d", i)
		set.Spec.Selector.MatchLabels["app"], set.Spec.Template.Labels["app"] = set.Name, set.Name
		if err := c.Create(ctx, set); err != nil {
			return err
		}
		c.bare = append(c.bare, client.ObjectKeyFromObject(set))
	}
	for _, key := range c.bare {
		if err := await(ctx, c.sight, &appsv1.StatefulSet{}, key, whole); err != nil {
			return err
		}
		if _, err := c.patchSet(ctx, key, types.JSONPatchType, fmt.Appendf(nil,
			`[{"op":"replace","path":"/spec/template/spec/containers/0/image","value":%q}]`, fixtures.Image("v2"))); err != nil {
			return err
		}
	}
	staged := rolls("v2", hold(map[string]intstr.IntOrString{"zone-a": intstr.FromInt32(0), "zone-b": intstr.FromString("50%")}))
	if err := inParallel(c.parents, func(key client.ObjectKey) error {
		return c.patchAndWait(ctx, key, types.JSONPatchType, staged)
	}); err != nil {
		return err
	}
	return c.manager.idle(ctx)
}

// patchPartitions patches partitions of held subsets, one at a time, alternating between a parent and a
// bare StatefulSet. The partition rises above the number of replicas and back, so no pod moves.
func (c *canary) patchPartitions(ctx context.Context, o *options, r *report) error {
	mark, err := c.cluster.AuditMark(ctx)
	if err != nil {
		return err
	}
	var through, direct samples
	for i := range o.patches {
		round := i / len(c.parents)
		partition := int32(canaryEach + 1 + round%2)
		key, zone := c.parents[i%len(c.parents)], zones()[canarySubsets-1]
		took, err := c.measure(ctx, client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-" + zone}, partition, func() error {
			generation, err := c.patchParent(ctx, key, types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{%q:%d}}}}}`, zone, partition))
			if err != nil {
				return err
			}
			return await(ctx, c.sight, &v1alpha1.UnitedDeployment{}, key, ready(generation))
		})
		if err != nil {
			return err
		}
		through = append(through, took)
		key = c.bare[i%len(c.bare)]
		took, err = c.measure(ctx, key, partition, func() error {
			_, err := c.patchSet(ctx, key, types.MergePatchType,
				fmt.Appendf(nil, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, partition))
			return err
		})
		if err != nil {
			return err
		}
		direct = append(direct, took)
	}
	if err := c.manager.idle(ctx); err != nil {
		return err
	}
	written, err := c.writes(ctx, mark)
	if err != nil {
		return err
	}
	t := r.table(fmt.Sprintf("A partition patch, %d parents of %d subsets of %d", len(c.parents), canarySubsets, canaryEach), "what", "measured", "must be")
	for _, p := range []int{50, 95} {
		t.row(fmt.Sprintf("patch on a StatefulSet -> seen by a watch, p%d", p), millis(direct.percentile(p)), "")
		t.row(fmt.Sprintf("patch on the parent -> child seen by a watch, p%d", p), millis(through.percentile(p)), "")
		t.row(fmt.Sprintf("ratio, p%d", p), times(ratio(through.percentile(p), direct.percentile(p))), bound(p))
	}
	p50 := ratio(through.percentile(50), direct.percentile(50))
	t.must(p50 <= latencyBound, "p50 through the parent is %.2f times the direct one, at most %d", p50, latencyBound)
	t.exactly(fmt.Sprintf("child writes for %d patches", len(through)), written.of("statefulsets", ""), len(through))
	t.row("status writes", written.of("uniteddeployments", "status"), "")
	t.exactly("conflicts", written.conflicts(), 0)
	t.print()
	return nil
}

func bound(percentile int) string {
	if percentile != 50 {
		return ""
	}
	return fmt.Sprintf("at most %d", latencyBound)
}

// measure is timed, but returns only after the controller of the StatefulSet has observed the change,
// so that the next measurement starts at rest.
func (c *canary) measure(ctx context.Context, set client.ObjectKey, partition int32, patch func() error) (time.Duration, error) {
	took, err := c.timed(ctx, set, partition, patch)
	if err != nil {
		return 0, err
	}
	return took, await(ctx, c.sight, &appsv1.StatefulSet{}, set, func(s *appsv1.StatefulSet) bool {
		return partitionOf(s) == partition && s.Status.ObservedGeneration == s.Generation
	})
}

// timed patches an object, and returns the time until the watch shows the StatefulSet with the
// partition.
func (c *canary) timed(ctx context.Context, set client.ObjectKey, partition int32, patch func() error) (time.Duration, error) {
	seen := expect(c.sight, set, func(s *appsv1.StatefulSet) bool { return partitionOf(s) == partition })
	began := time.Now()
	if err := patch(); err != nil {
		return 0, err
	}
	at, err := seen.wait(ctx)
	return at.Sub(began), err
}

// rest measures the manager when nothing happens, and when all children are touched in mid-canary. The
// control is a child whose partition somebody else changes: the manager restores it. The event of that
// change comes after all others, so the manager has received them by then.
func (c *canary) rest(ctx context.Context, o *options, r *report) error {
	mark, err := c.cluster.AuditMark(ctx)
	if err != nil {
		return err
	}
	share, err := c.manager.rest(ctx, o.window)
	if err != nil {
		return err
	}
	resting, err := c.writes(ctx, mark)
	if err != nil {
		return err
	}
	if mark, err = c.cluster.AuditMark(ctx); err != nil {
		return err
	}
	touched := 0
	for _, key := range c.parents {
		for _, zone := range zones()[:canarySubsets] {
			child := client.ObjectKey{Namespace: key.Namespace, Name: key.Name + "-" + zone}
			if _, err := c.patchSet(ctx, child, types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/touched":"yes"}}}`)); err != nil {
				return err
			}
			touched++
		}
	}
	touching, control, err := c.drift(ctx, mark)
	if err != nil {
		return err
	}
	t := r.table("At rest, in the middle of a canary", "what", "measured", "must be")
	t.exactly(fmt.Sprintf("writes in %s", o.window), len(resting), 0)
	t.row("CPU of the manager", fmt.Sprintf("%.2f%% of one", 100*share), "")
	t.exactly(fmt.Sprintf("child writes when %d children are touched", touched), touching.of("statefulsets", ""), 0)
	t.row("all writes when they are touched", len(touching), "")
	t.exactly("control: child writes when somebody else changes a partition", control, 1)
	t.print()
	return nil
}

// drift raises the partition of a held child, which moves no pod, and waits until the manager restores
// it. It returns the writes since the mark except those to that child, and the number of the latter.
func (c *canary) drift(ctx context.Context, mark int64) (others writes, control int, err error) {
	parent := c.parents[0]
	child := client.ObjectKey{Namespace: parent.Namespace, Name: parent.Name + "-" + zones()[canarySubsets-1]}
	const foreign = 2 * canaryEach
	generation, err := c.patchSet(ctx, child, types.MergePatchType,
		fmt.Appendf(nil, `{"spec":{"updateStrategy":{"rollingUpdate":{"partition":%d}}}}`, foreign))
	if err != nil {
		return nil, 0, err
	}
	if err := await(ctx, c.sight, &appsv1.StatefulSet{}, child, func(s *appsv1.StatefulSet) bool {
		return s.Generation > generation && partitionOf(s) != foreign && s.Status.ObservedGeneration == s.Generation
	}); err != nil {
		return nil, 0, err
	}
	if err := c.manager.idle(ctx); err != nil {
		return nil, 0, err
	}
	all, err := c.writes(ctx, mark)
	if err != nil {
		return nil, 0, err
	}
	for _, w := range all {
		switch {
		case w.Name == child.Name && w.Resource == "statefulsets":
			// The manager restores the partition at once, even while the child's own controller writes
			// the status: a write that is refused because of that does not count.
			if w.Code < 300 {
				control++
			}
		case w.Name == parent.Name && w.Subresource == "status": // the status reports the same change
		default:
			others = append(others, w)
		}
	}
	return others, control, nil
}

// roll rolls out all parents at once: zone by zone as a user does it, each zone when the previous one
// is Ready, and by the controller.
func (c *canary) roll(ctx context.Context, r *report) error {
	t := r.table(fmt.Sprintf("A gated roll of %d parents of %d subsets of %d at once", len(c.parents), canarySubsets, canaryEach),
		"", "zone by zone, Manual", "RollingUpdate, maxUnavailable 2", "must be")
	byHand, handTook, err := c.counted(ctx, func(key client.ObjectKey) error {
		if err := c.patchAndWait(ctx, key, types.JSONPatchType, rolls("v3", hold(nil))); err != nil {
			return err
		}
		for _, zone := range zones()[:canarySubsets] {
			patch := fmt.Appendf(nil, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{%q:0}}}}}`, zone)
			if err := c.patchAndWait(ctx, key, types.MergePatchType, patch); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	rolling := v1alpha1.UpdateStrategy{
		Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{MaxUnavailable: ptr.To(intstr.FromInt32(2))},
	}
	byController, controllerTook, err := c.counted(ctx, func(key client.ObjectKey) error {
		return c.patchAndWait(ctx, key, types.JSONPatchType, rolls("v4", rolling))
	})
	if err != nil {
		return err
	}
	t.row("took", seconds(handTook), seconds(controllerTook), "")
	t.row("child writes", byHand.of("statefulsets", ""), byController.of("statefulsets", ""), "")
	t.row("status writes", byHand.of("uniteddeployments", "status"), byController.of("uniteddeployments", "status"), "")
	t.row("pods deleted", byHand.of("pods", ""), byController.of("pods", ""), "")
	t.row("all writes", len(byHand), len(byController), "")
	t.row("conflicts", byHand.conflicts(), byController.conflicts(), "0, 0")
	t.must(byHand.conflicts() == 0, "%d conflicts, Manual: %v", byHand.conflicts(), first(byHand))
	t.must(byController.conflicts() == 0, "%d conflicts, RollingUpdate: %v", byController.conflicts(), first(byController))
	t.print()
	return nil
}

// rollAtOnce rolls out all parents with one patch each, without a hold, as fast as their StatefulSets
// allow. Clients that watch the status receive every write of it.
func (c *canary) rollAtOnce(ctx context.Context, r *report) error {
	before, err := c.manager.usage(ctx)
	if err != nil {
		return err
	}
	rolled, took, err := c.counted(ctx, func(key client.ObjectKey) error {
		return c.patchAndWait(ctx, key, types.JSONPatchType, rolls("v5", v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy}))
	})
	if err != nil {
		return err
	}
	after, err := c.manager.usage(ctx)
	if err != nil {
		return err
	}
	parents, replicas := len(c.parents), len(c.parents)*canarySubsets*canaryEach
	provisioned, statuses := c.provisioned.of("uniteddeployments", "status"), rolled.of("uniteddeployments", "status")
	mostProvisioned, mostRolled := most(mostToMake, parents), most(mostToRoll, replicas)
	t := r.table(fmt.Sprintf("Status writes, %d parents of %d subsets of %d", parents, canarySubsets, canaryEach), "what", "measured", "must be")
	t.row("to make them", provisioned, fmt.Sprintf("at most %d, 2.58 for each parent", mostProvisioned))
	t.row("to roll all of them out at once", statuses, fmt.Sprintf("at most %d, 0.52 for each replica", mostRolled))
	t.row("which took", seconds(took), "")
	t.row("CPU of the manager for each rolled replica", millis((after.cpu-before.cpu)/time.Duration(replicas)), "")
	t.must(provisioned <= mostProvisioned, "%d status writes to make %d parents", provisioned, parents)
	t.must(statuses <= mostRolled, "%d status writes to roll out %d replicas", statuses, replicas)
	t.print()
	return nil
}

// first describes the first conflict.
func first(all writes) string {
	for _, w := range all {
		if conflicting(w) {
			return w.String() + ": " + w.Message
		}
	}
	return ""
}

// counted calls do for all parents at once, and returns what the manager wrote in the meantime.
func (c *canary) counted(ctx context.Context, do func(client.ObjectKey) error) (writes, time.Duration, error) {
	mark, err := c.cluster.AuditMark(ctx)
	if err != nil {
		return nil, 0, err
	}
	began := time.Now()
	if err := inParallel(c.parents, do); err != nil {
		return nil, 0, err
	}
	took := time.Since(began)
	if err := c.manager.idle(ctx); err != nil {
		return nil, 0, err
	}
	written, err := c.writes(ctx, mark)
	return written, took, err
}
