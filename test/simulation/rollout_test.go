// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Coordinated rollouts, over random histories. In a calm world, only the controller makes replicas unavailable: there the
// invariants must hold for the real pods. In a wild world everything happens, and they must hold for what the controller
// saw when it wrote. Both kinds must finish.
func TestRolloutsKeepTheirInvariants(t *testing.T) {
	for i, version := range Versions() {
		for _, policy := range policies {
			for _, calm := range []bool{true, false} {
				t.Run(fmt.Sprintf("%s/%s/calm=%v", version, policy, calm), func(t *testing.T) {
					playRollouts(t, version, policy, calm, 3*i)
				})
			}
		}
	}
}

// playRollouts plays three rounds (one with -short), beginning with the given one, each of as many worlds as -rapid.checks says: 300.
func playRollouts(t *testing.T, version Version, policy appsv1.PodManagementPolicyType, calm bool, first int) {
	checked, worlds, rounds := map[string]int{}, 0, 3
	if testing.Short() {
		rounds = 1
	}
	for round := range rounds {
		worldsFrom(t, 100*(first+round))
		rapid.Check(t, func(t *rapid.T) {
			names := []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "subsets")]
			d := &drive{World: New(t, string(policy), names...), t: t, policy: string(policy), calm: calm}
			d.Sets.Version = version
			d.drawBatching(t)
			play(t, d)
			worlds++
			for what, n := range d.Oracle.Checked {
				checked[what] += n
			}
		})
	}
	t.Logf("judged in %d worlds: %v", worlds, checked)
	for _, what := range []string{"I2", "I2 of a subset", "I4", "I5", "release", "deletion", "step", "promoted", "spent"} {
		if checked[what] == 0 && worlds >= 200 {
			t.Errorf("in no world was anything judged by %s", what)
		}
	}
}

// drive draws what happens in a world.
type drive struct {
	*World
	t      *rapid.T
	policy string
	calm   bool
	// manual: the user never asks for a coordinated rollout.
	manual bool
	// each is called after each step, unless it is nil.
	each func()
}

// play lets things happen to parents of one cluster, and then lets all of them finish.
func play(t *rapid.T, all ...*drive) {
	for _, d := range all {
		d.startCoordinated()
	}
	cluster := all[0].Cluster
	if all[0].calm || rapid.IntRange(0, 3).Draw(t, "started") > 0 {
		cluster.Rest()
	}
	for _, d := range all {
		d.Oracle.Calm = d.calm
	}
	for range rapid.IntRange(0, 80*len(all)).Draw(t, "steps") {
		d := all[0]
		if len(all) > 1 {
			d = pick(t, "parent", all)
		}
		if rapid.IntRange(0, 7).Draw(t, "who") == 0 {
			d.user()
		} else {
			d.cluster()
		}
		if d.each != nil {
			d.each()
		}
	}
	cluster.Quiet()
	cluster.Rest()
	for _, d := range all {
		d.ends()
	}
}

func (d *drive) startCoordinated() {
	if d.manual {
		return
	}
	d.Edit("a coordinated strategy", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.Replicas = ptr.To(rapid.Int32Range(1, 8).Draw(d.t, "replicas"))
		spec.UpdateStrategy.Type = v1alpha1.RollingUpdateStrategy
		spec.UpdateStrategy.RollingUpdate = d.strategy(spec)
		spec.ProgressDeadlineSeconds = ptr.To[int32](60)
		if rapid.IntRange(0, 3).Draw(d.t, "minReady") == 0 {
			spec.MinReadySeconds = 5
		}
	})
}

// ends checks that a good template arrives everywhere above the floor, and then everywhere.
func (d *drive) ends() {
	if d.manual {
		d.Finish(d.policy)
		return
	}
	if s := strategyOf(d.Parent()); s.Partition != nil {
		d.Edit("v8", func(spec *v1alpha1.UnitedDeploymentSpec) {
			spec.Paused, spec.Template = false, d.template("v8", d.policy)
			spec.UpdateStrategy.Type = v1alpha1.RollingUpdateStrategy
		})
		d.Ends()
		d.Judge(false)
	}
	d.Edit("v9 everywhere", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.Paused, spec.Template = false, d.template("v9", d.policy)
		spec.UpdateStrategy.Type = v1alpha1.RollingUpdateStrategy
		if len(spec.Topology.Subsets) == 0 {
			ComeOrGo(spec, "a")
		}
		if s := spec.UpdateStrategy.RollingUpdate; s != nil {
			s = s.DeepCopy()
			s.Partition = nil
			spec.UpdateStrategy.RollingUpdate = s
		}
	})
	d.Ends()
	d.Judge(true)
	status := &d.Parent().Status
	if status.CurrentRevision != status.UpdateRevision && replicasOf(d.Parent()) > 0 {
		d.Fail("the current revision is %s, not %s", status.CurrentRevision, status.UpdateRevision)
	}
}

func amountOf(text string) *intstr.IntOrString { return ptr.To(intstr.Parse(text)) }

func (d *drive) strategy(spec *v1alpha1.UnitedDeploymentSpec) *v1alpha1.RollingUpdate {
	t := d.t
	s := &v1alpha1.RollingUpdate{
		Partition:      pick(t, "floor", []*intstr.IntOrString{nil, nil, nil, amountOf("1"), amountOf("50%"), amountOf("80%"), amountOf("100%"), amountOf("9")}),
		MaxUnavailable: pick(t, "maxUnavailable", []*intstr.IntOrString{nil, amountOf("1"), amountOf("2"), amountOf("3"), amountOf("30%"), amountOf("100%")}),
		Order:          pick(t, "order", []v1alpha1.RolloutOrder{v1alpha1.ParallelOrder, "", v1alpha1.SequentialOrder}),
	}
	if s.Order != v1alpha1.SequentialOrder {
		s.MaxSkew = pick(t, "maxSkew", []string{"", "", "0%", "10%", "34%", "100%"})
	}
	s.MaxUnavailablePerSubset = pick(t, "maxUnavailablePerSubset", []*intstr.IntOrString{nil, nil, amountOf("1"), amountOf("2"), amountOf("50%")})
	for _, sub := range spec.Topology.Subsets {
		if s.MaxSkew != "" && rapid.IntRange(0, 3).Draw(t, "skewed") == 0 {
			s.MaxSkewSubsets = append(s.MaxSkewSubsets, sub.Name)
		}
	}
	for range max(0, rapid.IntRange(-2, 3).Draw(t, "waves")) {
		step := v1alpha1.RolloutStep{
			Partition: pick(t, "step", []*intstr.IntOrString{amountOf("0%"), amountOf("90%"), amountOf("50%"), amountOf("1"), amountOf("9"), amountOf("100%")}),
			Pause:     pick(t, "pause", []*v1alpha1.RolloutPause{nil, {}, {Duration: "20s"}, {Duration: "90s"}}),
		}
		for _, sub := range spec.Topology.Subsets {
			if rapid.Bool().Draw(t, "named") {
				step.Subsets = append(step.Subsets, sub.Name)
			}
		}
		if len(step.Subsets) == 0 {
			step.Subsets = []string{v1alpha1.AllSubsets}
		}
		s.Steps = append(s.Steps, step)
	}
	s.RollbackRevisions = []*int32{nil, ptr.To[int32](0), nil, ptr.To[int32](2)}[len(s.Steps)%4]
	return s
}

var rollImages = []string{"v1", "v2", "v3", "v4", "pull1", "crash1", "broken1"}

// user does one thing that a user may do.
func (d *drive) user() {
	if d.manual {
		d.World.user(d.t, d.policy)
		return
	}
	switch what := rapid.IntRange(0, 10).Draw(d.t, "user"); what {
	case 0, 1, 2, 3:
		d.image(pick(d.t, "image", rollImages), d.policy)
	case 4:
		d.pause()
	case 5, 6:
		d.approve()
	case 7:
		d.tune()
	default:
		if !d.calm {
			d.disturb()
		}
	}
}

// approve sets the current approval key, and sometimes another one.
func (d *drive) approve() {
	if rapid.IntRange(0, 3).Draw(d.t, "promotes") == 0 {
		d.Annotate(v1alpha1.AnnotationPromote, d.named("promote"))
		return
	}
	var keys []string
	for _, w := range d.worlds {
		keys = append(keys, slices.Sorted(maps.Keys(w.Oracle.published))...)
	}
	if r := d.Parent().Status.Rollout; r != nil && r.ApprovalKey != "" {
		keys = append(keys, r.ApprovalKey, r.ApprovalKey, r.ApprovalKey)
	}
	if len(keys) > 0 {
		d.Annotate(v1alpha1.AnnotationApproved, pick(d.t, "key", keys))
	}
}

// tune edits the strategy, except for what determines how many replicas may be unavailable.
func (d *drive) tune() {
	d.Edit("strategy", func(spec *v1alpha1.UnitedDeploymentSpec) {
		next := d.strategy(spec)
		if was := spec.UpdateStrategy.RollingUpdate; d.calm && was != nil {
			// What began under another bound must not be judged by this one.
			next.MaxUnavailable, next.MaxSkew, next.Order = was.MaxUnavailable, was.MaxSkew, was.Order
			next.MaxUnavailablePerSubset, next.MaxSkewSubsets = was.MaxUnavailablePerSubset, was.MaxSkewSubsets
			if was.MaxSkew != "" {
				next.Partition, next.Steps = was.Partition, was.Steps
			}
		}
		spec.UpdateStrategy.RollingUpdate = next
	})
}

// disturb adds what makes a world wild.
func (d *drive) disturb() {
	t := d.t
	switch what := rapid.IntRange(0, 12).Draw(t, "disturb"); what {
	case 0:
		d.Edit("Manual or not", func(spec *v1alpha1.UnitedDeploymentSpec) {
			if spec.UpdateStrategy.Type = pick(t, "type", []v1alpha1.UpdateStrategyType{v1alpha1.ManualUpdateStrategy, v1alpha1.RollingUpdateStrategy}); spec.UpdateStrategy.Type == v1alpha1.ManualUpdateStrategy {
				SetPartition(spec, pick(t, "subset", append(subsetNames(), "")), pick(t, "partition", partitions))
			}
		})
	case 1:
		d.Annotate(v1alpha1.AnnotationForceUpdate, d.named("force"))
	case 2:
		seconds := pick(t, "seconds", []int32{0, 3, 10})
		d.Edit(fmt.Sprint("minReadySeconds ", seconds), func(spec *v1alpha1.UnitedDeploymentSpec) { spec.MinReadySeconds = seconds })
	default:
		d.meddle(t)
	}
}

// named returns a value of an annotation that moves the rollout to a revision: of any, or none.
func (d *drive) named(what string) string {
	update := d.Parent().Status.UpdateRevision
	name := pick(d.t, what, append(slices.Sorted(maps.Keys(d.API.Live.Revisions)), update, update, update, "", "web-0"))
	if name == "" {
		return name
	}
	return name + pick(d.t, "text", []string{"", "/1", "/2"})
}

// cluster lets one of the others act.
func (d *drive) cluster() {
	t := d.t
	switch what := rapid.IntRange(0, 21).Draw(t, "cluster"); {
	case what < 4:
		d.API.Refresh()
		d.Note("controller looks")
		d.Reconcile()
	case what < 7:
		var fresh []string
		for _, kind := range Kinds() {
			if rapid.Bool().Draw(t, kind) {
				d.API.RefreshKind(kind)
				fresh = append(fresh, kind)
			}
		}
		d.Note("controller looks, up to date only with %v", fresh)
		d.Reconcile()
	case what < 11:
		d.Sync(d.Child(pick(t, "subset", subsetNames())))
	case what < 14:
		for _, name := range slices.Sorted(maps.Keys(d.API.Live.Pods)) {
			if rapid.IntRange(0, 2).Draw(t, "pod moves") > 0 {
				d.kubelet(name)
			}
		}
	case what < 16:
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			d.Everybody()
		}
	case what == 16:
		d.Sets.Collect()
		d.Clock.SetTime(d.Clock.Now().Add(pick(t, "time passes", []time.Duration{5 * time.Second, 30 * time.Second, 2 * time.Minute})))
	case what == 17 && !d.calm:
		d.nodes()
	case what == 18 && !d.calm:
		d.flaps(t)
	case what == 19:
		d.serverRestarts(t, d.calm)
	default:
		d.fault()
	}
}

func (d *drive) kubelet(name string) {
	d.Sets.Kubelet(name)
	d.Look()
}

// nodes makes nodes fail or come back, and pods flap and crash.
func (d *drive) nodes() {
	t := d.t
	set := d.Child(pick(t, "zone", subsetNames()))
	pods := d.PodsOf(set)
	switch what := rapid.IntRange(0, 3).Draw(t, "nodes"); {
	case what < 2 && d.Sets.Down[set]:
		d.Note("the nodes of %s are back", set)
		delete(d.Sets.Down, set)
	case what == 0:
		d.Note("the nodes of %s are lost", set)
		d.Sets.Down = map[string]bool{set: true}
		for _, p := range pods {
			if IsReady(p) {
				d.Sets.SetReady(p, false)
			}
		}
	case len(pods) > 0:
		p := pick(t, "pod", pods)
		if what == 1 && IsReady(p) {
			d.Note("%s is not ready", p.Name)
			d.Sets.SetReady(p, false)
		} else if !broken(PodContent(p)) {
			d.Note("%s crashes", p.Name)
			d.Sets.SetFailure(p, pick(t, "reason", []string{"", "CrashLoopBackOff"}))
		}
	}
}

// fault lets something fail that may fail at any time.
func (d *drive) fault() {
	t := d.t
	switch rapid.IntRange(0, 4).Draw(t, "fault") {
	case 0:
		d.Note("the controller restarts")
		d.Restart()
	case 1:
		d.Note("the next write fails")
		d.API.Fail = apierrors.NewInternalError(errors.New("etcd is away"))
	case 2:
		d.Note("the response to the next write is lost")
		d.API.Lost = apierrors.NewInternalError(errors.New("the connection broke"))
	case 3:
		d.Note("the next write is in conflict")
		d.API.Fail = apierrors.NewConflict(schema.GroupResource{}, "it", errors.New("it has changed"))
	case 4:
		d.API.Crash, d.API.CrashAfter = rapid.IntRange(1, 4).Draw(t, "write"), rapid.Bool().Draw(t, "after")
		d.Note("the controller will crash at write %d, after it %v", d.API.Crash, d.API.CrashAfter)
	}
}
