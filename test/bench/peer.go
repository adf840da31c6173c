// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	kruisev1alpha1 "github.com/openkruise/kruise-api/apps/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
	"github.com/unitedworkloads/united/test/install"
)

// The operations.
const (
	makeThem    = "make them"
	stageImage  = "stage another image, held everywhere"
	patchAtRest = "a partition patch at rest"
	patchMoving = "a partition patch while pods roll"
	touchThem   = "touch all children during a canary"
	rollThem    = "roll all of them out at once"
	// watchedToo is a roll beside a manager that only watches: what that spends is the least that a controller spends.
	watchedToo = "roll them out again, beside a manager that only watches"
)

// partitions are the partitions of a parent's subsets.
type partitions = map[string]int32

// contender is a controller that creates workloads from subsets, with the workloads of its test. All
// checks read the StatefulSets, not the contender's own status.
type contender struct {
	*env
	name, namespace string
	// wrote reports whether the contender made a request; pid is its process.
	wrote func(cluster.Event) bool
	pid   int
	// object returns parent i with an image and partitions; nil partitions protect nothing.
	object func(i int, tag string, p partitions) (client.Object, error)
	// children are the StatefulSets of the parents, by parent and zone.
	children []map[string]client.ObjectKey
	phases   []phase
	// watcher is the process that only watches.
	watcher int
	// passes returns how many passes it has run; nil if it does not say.
	passes func(context.Context) (float64, error)
}

// phase is the cost of one operation.
type phase struct {
	name    string
	took    time.Duration
	written writes
	// cpu is that of the contender, all that of the whole control plane with it, watching that of a manager that only
	// watches.
	cpu, all, watching time.Duration
	// passes is how many passes the contender ran, if it says so.
	passes float64
	// samples are the times from a patch of a parent until its child shows the change.
	samples samples
}

// runPeer runs the same operations with OpenKruise's UnitedDeployment and with United, one after the
// other, on one control plane.
func runPeer(ctx context.Context, o *options, r *report) error {
	return with(ctx, o, func(ctx context.Context, e *env) error {
		if err := e.cluster.StartKruise(ctx); err != nil {
			return err
		}
		if err := kruisev1alpha1.AddToScheme(e.Scheme()); err != nil {
			return err
		}
		peer, united := kruiseContender(e), unitedContender(e)
		var err error
		if peer.pid, err = e.cluster.Pid("kruise-manager"); err != nil {
			return err
		}
		united.pid = e.manager.Pid()
		united.passes = e.manager.passes
		if err := peer.run(ctx, o.parents); err != nil {
			return fmt.Errorf("%s: %w", peer.name, err)
		}
		// OpenKruise watches all pods and StatefulSets, also those of others: that would be on United's account.
		if err := syscall.Kill(peer.pid, syscall.SIGSTOP); err != nil {
			return fmt.Errorf("suspend %s: %w", peer.name, err)
		}
		defer syscall.Kill(peer.pid, syscall.SIGCONT) //nolint:errcheck // it ends with the cluster
		if err := united.run(ctx, o.parents); err != nil {
			return fmt.Errorf("%s: %w", united.name, err)
		}
		watcher, stop, err := startWatcher(ctx, e.cluster.Kubeconfig())
		if err != nil {
			return err
		}
		defer stop()
		united.watcher = watcher
		if err := united.measure(ctx, watchedToo, func(*phase) error { return united.all(ctx, "v4", inAll(0)) }); err != nil {
			return fmt.Errorf("%s: %w", united.name, err)
		}
		return compare(r, peer, united, o.parents)
	})
}

func kruiseContender(e *env) *contender {
	c := &contender{env: e, name: "OpenKruise", namespace: "peer", wrote: func(w cluster.Event) bool { return w.User == "kruise-manager" }}
	c.object = func(i int, tag string, p partitions) (client.Object, error) {
		name := fmt.Sprintf("web-%d", i)
		s := shape{namespace: c.namespace, name: name, subsets: canarySubsets, each: canaryEach, policy: appsv1.OrderedReadyPodManagement, tag: tag}
		set := s.bare("", 0)
		labels := map[string]string{"app": name}
		u := &kruisev1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}}
		u.Spec = kruisev1alpha1.UnitedDeploymentSpec{
			Replicas: ptr.To(int32(canarySubsets * canaryEach)), Selector: &metav1.LabelSelector{MatchLabels: labels}, RevisionHistoryLimit: ptr.To(int32(10)),
			Template: kruisev1alpha1.SubsetTemplate{StatefulSetTemplate: &kruisev1alpha1.StatefulSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: appsv1.StatefulSetSpec{
					ServiceName: name, PodManagementPolicy: set.Spec.PodManagementPolicy, Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: podTemplate(name, tag, nil),
				},
			}},
			UpdateStrategy: kruisev1alpha1.UnitedDeploymentUpdateStrategy{
				Type: kruisev1alpha1.ManualUpdateStrategyType, ManualUpdate: &kruisev1alpha1.ManualUpdate{Partitions: p},
			},
		}
		for _, zone := range zones()[:canarySubsets] {
			u.Spec.Topology.Subsets = append(u.Spec.Topology.Subsets, kruisev1alpha1.Subset{
				Name: zone, NodeSelectorTerm: fixtures.InZone(zone).NodeSelectorTerms[0], Replicas: ptr.To(intstr.FromInt32(canaryEach)),
			})
		}
		return u, nil
	}
	return c
}

func unitedContender(e *env) *contender {
	c := &contender{env: e, name: "United", namespace: "united", wrote: cluster.ByServiceAccount(install.Namespace, install.ServiceAccount)}
	c.object = func(i int, tag string, p partitions) (client.Object, error) {
		s := shape{
			namespace: c.namespace, name: fmt.Sprintf("web-%d", i), subsets: canarySubsets, each: canaryEach,
			policy: appsv1.OrderedReadyPodManagement, tag: tag, strategy: v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy},
		}
		if p != nil {
			of := map[string]intstr.IntOrString{}
			for zone, n := range p {
				of[zone] = intstr.FromInt32(n)
			}
			s.strategy = hold(of)
		}
		return s.parent()
	}
	return c
}

// inAll returns the same partition for every subset.
func inAll(partition int32) partitions {
	p := partitions{}
	for _, zone := range zones()[:canarySubsets] {
		p[zone] = partition
	}
	return p
}

// run runs all operations of a contender: it creates the workloads, stages a canary in all of them,
// moves partitions at rest and while pods roll, touches the children, and rolls out all workloads at
// once.
func (c *contender) run(ctx context.Context, parents int) error {
	if err := c.provision(ctx, parents); err != nil {
		return err
	}
	if err := c.measure(ctx, stageImage, func(*phase) error { return c.all(ctx, "v2", inAll(canaryEach)) }); err != nil {
		return err
	}
	zone := zones()[canarySubsets-1]
	if err := c.measure(ctx, patchAtRest, func(p *phase) error {
		return c.step(ctx, p, zone, canaryEach-1, true)
	}); err != nil {
		return err
	}
	if err := c.measure(ctx, patchMoving, func(p *phase) error {
		for n := int32(canaryEach - 2); n >= 1; n-- {
			if err := c.step(ctx, p, zone, n, false); err != nil {
				return err
			}
		}
		return c.settled(ctx, zone, 1)
	}); err != nil {
		return err
	}
	if err := c.measure(ctx, touchThem, c.touch(ctx)); err != nil {
		return err
	}
	return c.measure(ctx, rollThem, func(*phase) error { return c.all(ctx, "v3", inAll(0)) })
}

func (c *contender) provision(ctx context.Context, parents int) error {
	if err := c.env.namespace(ctx, c.namespace); err != nil {
		return err
	}
	return c.measure(ctx, makeThem, func(*phase) error {
		for i := range parents {
			parent, err := c.object(i, "v1", nil)
			if err != nil {
				return err
			}
			if err := c.Create(ctx, parent); err != nil {
				return err
			}
		}
		return c.findChildren(ctx, parents)
	})
}

// findChildren waits until every parent has its children, and all children are complete. A child of
// OpenKruise has a generated name, so findChildren gets its zone from the node affinity.
func (c *contender) findChildren(ctx context.Context, parents int) error {
	if err := poll(ctx, func(ctx context.Context) (bool, error) {
		list := &appsv1.StatefulSetList{}
		if err := c.List(ctx, list, client.InNamespace(c.namespace)); err != nil {
			return false, err
		}
		c.children = make([]map[string]client.ObjectKey, parents)
		found := 0
		for i := range list.Items {
			set := &list.Items[i]
			owner, zone := metav1.GetControllerOf(set), zoneOf(set)
			if owner == nil || zone == "" || !whole(set) || ptr.Deref(set.Spec.Replicas, 0) != canaryEach {
				continue
			}
			n, err := strconv.Atoi(strings.TrimPrefix(owner.Name, "web-"))
			if err != nil || n >= parents {
				return false, fmt.Errorf("%s belongs to %s", set.Name, owner.Name)
			}
			if c.children[n] == nil {
				c.children[n] = map[string]client.ObjectKey{}
			}
			c.children[n][zone] = client.ObjectKeyFromObject(set)
			found++
		}
		return found == parents*canarySubsets, nil
	}); err != nil {
		return fmt.Errorf("the children never came: %w", err)
	}
	return nil
}

// zoneOf returns the zone that a StatefulSet's pods need.
func zoneOf(set *appsv1.StatefulSet) string {
	affinity := set.Spec.Template.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, e := range term.MatchExpressions {
			if i := slices.IndexFunc(zones(), func(zone string) bool { return slices.Contains(e.Values, zone) }); i >= 0 {
				return zones()[i]
			}
		}
	}
	return ""
}

// measure calls do, waits until the contender has written nothing for a while, and records the cost.
func (c *contender) measure(ctx context.Context, name string, do func(*phase) error) error {
	mark, err := c.cluster.AuditMark(ctx)
	if err != nil {
		return err
	}
	before, err := c.cost(ctx)
	if err != nil {
		return err
	}
	p := phase{name: name}
	began := time.Now()
	if err := do(&p); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.took = time.Since(began)
	if p.written, err = c.quiet(ctx, mark); err != nil {
		return err
	}
	after, err := c.cost(ctx)
	p.cpu, p.all, p.watching, p.passes = after.cpu-before.cpu, after.all-before.all, after.watching-before.watching, after.passes-before.passes
	c.phases = append(c.phases, p)
	return err
}

// cost returns what the contender, and everything beside it, has cost so far.
func (c *contender) cost(ctx context.Context) (p phase, err error) {
	if p.cpu, err = cpuOf(c.pid); err != nil {
		return p, err
	}
	if p.watching, err = cpuOf(c.watcher); err != nil {
		return p, err
	}
	for _, pid := range c.cluster.Pids() {
		cpu, err := cpuOf(pid)
		if err != nil {
			return p, err
		}
		p.all += cpu
	}
	if c.passes != nil {
		p.passes, err = c.passes(ctx)
	}
	return p, err
}

// quietFor is how long a contender must have written nothing to count as at rest.
const quietFor = 3 * time.Second

func (c *contender) quiet(ctx context.Context, mark int64) (writes, error) {
	var written writes
	last := time.Now()
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		all, err := c.cluster.Writes(ctx, mark, func(w cluster.Event) bool {
			return c.wrote(w) && w.Namespace == c.namespace && !slices.Contains([]string{"leases", "events"}, w.Resource)
		})
		if len(all) != len(written) {
			written, last = all, time.Now()
		}
		return time.Since(last) >= quietFor, err
	})
	return written, err
}

// all sets an image and partitions in every parent at once, and waits until their children match.
func (c *contender) all(ctx context.Context, tag string, p partitions) error {
	indexes := make([]int, len(c.children))
	for i := range indexes {
		indexes[i] = i
	}
	if err := inParallel(indexes, func(i int) error { return c.patch(ctx, i, tag, p) }); err != nil {
		return err
	}
	for i := range c.children {
		for zone, key := range c.children[i] {
			if err := await(ctx, c.sight, &appsv1.StatefulSet{}, key, func(s *appsv1.StatefulSet) bool {
				return s.Spec.Template.Spec.Containers[0].Image == fixtures.Image(tag) && stands(s, p[zone])
			}); err != nil {
				return err
			}
		}
	}
	return nil
}

// patch sets an image and partitions in a parent, by a merge patch as kubectl sends it.
func (c *contender) patch(ctx context.Context, i int, tag string, p partitions) error {
	was, err := c.object(i, "", nil)
	if err != nil {
		return err
	}
	wanted, err := c.object(i, tag, p)
	if err != nil {
		return err
	}
	return c.Patch(ctx, wanted, client.MergeFrom(was), client.FieldOwner("kubectl-patch"))
}

// stands reports whether a StatefulSet has a partition, and all its replicas are ready and match the
// partition.
func stands(s *appsv1.StatefulSet, partition int32) bool {
	return s.Status.ObservedGeneration == s.Generation && partitionOf(s) == partition && s.Status.ReadyReplicas == canaryEach &&
		(s.Status.UpdatedReplicas == canaryEach-partition && s.Status.CurrentRevision != s.Status.UpdateRevision || partition == 0 && whole(s))
}

// step lowers the partition of one subset of every parent, one parent after the other. With alone it
// waits each time until the replicas that the previous patch released have moved.
func (c *contender) step(ctx context.Context, p *phase, zone string, partition int32, alone bool) error {
	for i := range c.children {
		key := c.children[i][zone]
		seen := expect(c.sight, key, func(s *appsv1.StatefulSet) bool { return partitionOf(s) == partition })
		began := time.Now()
		raw := fmt.Appendf(nil, `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{%q:%d}}}}}`, zone, partition)
		parent, err := c.object(i, "", nil)
		if err != nil {
			return err
		}
		if err := c.Patch(ctx, parent, client.RawPatch(types.MergePatchType, raw), client.FieldOwner("kubectl-patch")); err != nil {
			return err
		}
		at, err := seen.wait(ctx)
		if err != nil {
			return err
		}
		p.samples = append(p.samples, at.Sub(began))
		if !alone {
			continue
		}
		if err := await(ctx, c.sight, &appsv1.StatefulSet{}, key, func(s *appsv1.StatefulSet) bool { return stands(s, partition) }); err != nil {
			return err
		}
	}
	return nil
}

// settled waits until one subset of every parent matches its partition.
func (c *contender) settled(ctx context.Context, zone string, partition int32) error {
	for i := range c.children {
		if err := await(ctx, c.sight, &appsv1.StatefulSet{}, c.children[i][zone], func(s *appsv1.StatefulSet) bool { return stands(s, partition) }); err != nil {
			return err
		}
	}
	return nil
}

// touch returns a function that annotates every child.
func (c *contender) touch(ctx context.Context) func(*phase) error {
	return func(*phase) error {
		for i := range c.children {
			for _, key := range c.children[i] {
				if _, err := c.patchSet(ctx, key, types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/touched":"yes"}}}`)); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// compare prints both results, and records where United fails to be as good as it must be.
func compare(r *report, peer, united *contender, parents int) error {
	t := r.table(fmt.Sprintf("Beside OpenKruise's UnitedDeployment, %d parents of %d subsets of %d, in one run", parents, canarySubsets, canaryEach),
		"what", "", peer.name, united.name)
	for i := range peer.phases {
		a, b := &peer.phases[i], &united.phases[i]
		if len(b.samples) > 0 {
			for _, p := range []int{50, 95} {
				t.row(a.name, fmt.Sprintf("patch -> child seen by a watch, p%d", p), millis(a.samples.percentile(p)), millis(b.samples.percentile(p)))
			}
		} else {
			t.row(a.name, "took", seconds(a.took), seconds(b.took))
		}
		t.row(a.name, "child writes", verbs(a.written, "statefulsets", ""), verbs(b.written, "statefulsets", ""))
		t.row(a.name, "status writes", verbs(a.written, "uniteddeployments", "status"), verbs(b.written, "uniteddeployments", "status"))
		t.row(a.name, "all writes, of those refused by a conflict", ofAll(a.written), ofAll(b.written))
		t.row(a.name, "CPU of the manager", seconds(a.cpu), seconds(b.cpu))
		t.row(a.name, "CPU of the whole control plane", seconds(a.all), seconds(b.all))
		t.row(a.name, "passes, and starts that had to wait for others", "", fmt.Sprintf("%.0f", b.passes))
	}
	beside := united.phase(watchedToo)
	t.row(watchedToo, "CPU of the manager", "", seconds(beside.cpu))
	t.row(watchedToo, "CPU of a manager that only watches", "", seconds(beside.watching))
	t.row(watchedToo, "times that", "", times(ratio(beside.cpu, beside.watching)))
	united.judge(t, parents)
	var errs []error
	memory := make([]any, 0, 2)
	for _, c := range []*contender{peer, united} {
		peak, err := peakOf(c.pid)
		errs, memory = append(errs, err), append(memory, mebi(peak))
	}
	t.row(append([]any{"all of it", "peak RSS of the manager"}, memory...)...)
	t.print()
	return errors.Join(errs...)
}

// judge records where United writes more than it must.
func (c *contender) judge(t *table, parents int) {
	children, replicas := parents*canarySubsets, parents*canarySubsets*canaryEach
	const unbounded = math.MaxInt
	patches := func(name string) int { return len(c.phase(name).samples) + c.phase(name).written.conflicts() }
	for _, must := range []struct {
		name               string
		children, statuses int // the most writes
	}{
		{makeThem, unbounded, most(mostToMake, parents)},
		{stageImage, children, most(mostToStage, parents)},
		{patchAtRest, patches(patchAtRest), unbounded},
		{patchMoving, patches(patchMoving), unbounded},
		{touchThem, 0, unbounded},
		{rollThem, unbounded, most(mostToRoll, replicas)},
	} {
		written := c.phase(must.name).written
		sets, statuses := written.of("statefulsets", ""), written.of("uniteddeployments", "status")
		t.must(sets <= must.children, "%s: %d child writes, at most %d", must.name, sets, must.children)
		t.must(statuses <= must.statuses, "%s: %d status writes, at most %d", must.name, statuses, must.statuses)
	}
	rolled := c.phase(rollThem)
	t.must(rolled.written.conflicts() == 0, "%d conflicts when everything is rolled out", rolled.written.conflicts())
}

func (c *contender) phase(name string) *phase {
	for i := range c.phases {
		if c.phases[i].name == name {
			return &c.phases[i]
		}
	}
	return &phase{name: name}
}

// verbs formats the number of writes of a resource by verb.
func verbs(w writes, resource, subresource string) string {
	var text []string
	for _, verb := range []string{"create", "update", "patch", "delete"} {
		if n := w.count(func(e cluster.Event) bool {
			return e.Resource == resource && e.Subresource == subresource && e.Verb == verb
		}); n > 0 {
			text = append(text, fmt.Sprintf("%d %s", n, verb))
		}
	}
	if len(text) == 0 {
		return "0"
	}
	return strings.Join(text, ", ")
}

func ofAll(w writes) string { return fmt.Sprintf("%d, %d", len(w), w.conflicts()) }

// cpuOf returns the CPU time of a process, from /proc; 0 if there is none.
func cpuOf(pid int) (time.Duration, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	// The name in parentheses may contain spaces. utime and stime are the 14th and 15th field, in ticks
	// of 10 ms.
	_, rest, _ := strings.Cut(string(raw), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat: %q", pid, raw)
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, err
}
