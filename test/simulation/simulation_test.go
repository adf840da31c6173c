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

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/publish"
)

var (
	images     = []string{"v1", "v2", "v3", "broken1"}
	partitions = []intstr.IntOrString{
		intstr.FromInt32(0), intstr.FromInt32(1), intstr.FromInt32(2), intstr.FromInt32(9), intstr.FromString("50%"), intstr.FromString("100%"),
	}
	wishes = []*intstr.IntOrString{nil, nil, ptr.To(intstr.FromInt32(1)), ptr.To(intstr.FromInt32(3)), ptr.To(intstr.FromString("50%")), ptr.To(intstr.FromString("0%"))}
)

func pick[T any](t *rapid.T, label string, from []T) T {
	return from[rapid.IntRange(0, len(from)-1).Draw(t, label)]
}

// user does one thing that a user may do under Manual.
func (s *World) user(t *rapid.T, policy string) {
	switch what := rapid.IntRange(0, 15).Draw(t, "user"); {
	case what < 3:
		s.image(pick(t, "image", images), policy)
	case what < 7:
		name, to := pick(t, "subset", append(subsetNames(), "")), pick(t, "partition", partitions)
		s.Edit("partition "+name+" "+to.String(), func(spec *v1alpha1.UnitedDeploymentSpec) { SetPartition(spec, name, to) })
	case what == 7:
		s.pause()
	default:
		s.meddle(t)
	}
}

func subsetNames() []string { return []string{"a", "b", "c"} }

func (s *World) image(image, policy string) {
	s.Edit("image "+image, func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Template = s.template(image, policy) })
}

func (s *World) pause() {
	paused := !s.Parent().Spec.Paused
	s.Edit(fmt.Sprint("paused ", paused), func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Paused = paused })
}

// meddle does one thing that a user may do to subsets, children and pods, with any strategy.
func (s *World) meddle(t *rapid.T) {
	switch what := rapid.IntRange(0, 10).Draw(t, "meddles"); {
	case what < 3:
		n := rapid.Int32Range(0, 8).Draw(t, "replicas")
		s.Edit(fmt.Sprint("replicas ", n), func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Replicas = &n })
	case what < 5:
		name, wish := pick(t, "subset", subsetNames()), pick(t, "wish", wishes)
		s.EditSubset("wish", name, func(sub *v1alpha1.Subset) { sub.Replicas = wish })
	case what == 5:
		name, word := pick(t, "subset", subsetNames()), pick(t, "patch", []string{"", "x", "y"})
		s.EditSubset("patch "+word, name, func(sub *v1alpha1.Subset) { sub.Patch = PatchOf(word) })
	case what < 8:
		name := pick(t, "subset", subsetNames())
		s.Edit("come or go "+name, func(spec *v1alpha1.UnitedDeploymentSpec) { ComeOrGo(spec, name) })
	case what == 9:
		subset, name := pick(t, "subset", subsetNames()), pick(t, "name", []string{"debug", "0-x", "9"})
		owner := ""
		if name == "9" || rapid.Bool().Draw(t, "of one that is gone") {
			owner = "gone" // its ordinal alone would let a set adopt it
		}
		if s.API.Live.Pods[s.Child(subset)+"-"+name] == nil {
			s.Stray(subset, name, owner)
		}
	case what == 8:
		if pods := slices.Sorted(maps.Keys(s.API.Live.Pods)); len(pods) > 0 {
			name := pick(t, "pod", pods)
			s.Note("user: deletes %s", name)
			s.API.DeletePod(s.API.Live.Pods[name])
		}
	default:
		if sets := slices.Sorted(maps.Keys(s.API.Live.Sets)); len(sets) > 0 {
			name, orphan := pick(t, "set", sets), rapid.Bool().Draw(t, "orphan")
			s.Note("user: deletes %s, orphan %v", name, orphan)
			s.Sets.DeleteSet(name, orphan)
		}
	}
}

// cluster lets one of the others act.
func (s *World) cluster(t *rapid.T) {
	switch what := rapid.IntRange(0, 14).Draw(t, "cluster"); {
	case what < 4:
		s.API.Refresh()
		s.Note("controller looks")
		s.Reconcile()
	case what == 4:
		s.Note("controller looks at an old cache")
		s.Reconcile()
	case what < 8:
		s.Sync(s.Child(pick(t, "subset", subsetNames())))
	case what < 10:
		if pods := slices.Sorted(maps.Keys(s.API.Live.Pods)); len(pods) > 0 {
			s.Sets.Kubelet(pick(t, "pod", pods))
			s.Look()
		}
	case what == 10:
		for range rapid.IntRange(1, 4).Draw(t, "rounds") {
			s.Everybody()
		}
	case what == 11:
		s.Sets.Collect()
	case what == 12:
		s.flaps(t)
	case what == 13:
		s.serverRestarts(t, false)
	default:
		if rapid.Bool().Draw(t, "restart") {
			s.Note("the controller restarts")
			s.Restart()
		} else {
			s.Note("the next write fails")
			s.API.Fail = apierrors.NewInternalError(errors.New("etcd is away"))
		}
	}
}

// flaps makes a pod, or all pods of a zone, unready for some seconds.
func (s *World) flaps(t *rapid.T) {
	set := s.Child(pick(t, "zone", subsetNames()))
	long := time.Duration(rapid.IntRange(1, 10).Draw(t, "seconds")) * time.Second
	if rapid.Bool().Draw(t, "all of it") {
		s.Blip(set, long)
		return
	}
	ready := slices.DeleteFunc(s.PodsOf(set), func(p *corev1.Pod) bool { return !IsReady(p) })
	if len(ready) > 0 {
		s.Flap(pick(t, "pod", ready), long)
	}
}

// serverRestarts restarts the API server, and each watch resumes at its own time. A new child forgets what it must
// protect in the seconds after that: so this may create one then, and delete one of its pods.
func (s *World) serverRestarts(t *rapid.T, calm bool) {
	kinds := map[string]time.Duration{}
	for _, kind := range Kinds() {
		kinds[kind] = time.Duration(max(0, rapid.IntRange(-5, 10).Draw(t, kind))) * time.Second
	}
	s.RestartServer(time.Duration(rapid.IntRange(0, 20).Draw(t, "revisions of sets"))*time.Second, kinds)
	if rapid.Bool().Draw(t, "refused") {
		s.API.Fail = apierrors.NewInternalError(errors.New("connection refused"))
	}
	if calm || rapid.IntRange(0, 2).Draw(t, "a new child") == 0 {
		return
	}
	name := pick(t, "subset", subsetNames())
	if child := s.Child(name); s.API.Live.Sets[child] != nil {
		orphan := rapid.Bool().Draw(t, "orphan")
		s.Note("user: deletes %s, orphan %v", child, orphan)
		s.Sets.DeleteSet(child, orphan)
	} else {
		s.Edit("come or go "+name, func(spec *v1alpha1.UnitedDeploymentSpec) { ComeOrGo(spec, name) })
	}
	for range rapid.IntRange(1, 8).Draw(t, "rounds") {
		s.Everybody()
	}
	if pods := s.PodsOf(s.Child(name)); len(pods) > 0 {
		p := pick(t, "pod", pods)
		s.Note("user: deletes %s", p.Name)
		s.API.DeletePod(p)
	}
}

// The promise of United, over random histories: protected replicas are neither updated, nor created again or newly
// created on another revision, nor deleted; and in the end everything arrives where it must.
func TestProtectedReplicasStay(t *testing.T) {
	for _, version := range Versions() {
		for _, policy := range policies {
			t.Run(fmt.Sprintf("%s/%s", version, policy), func(t *testing.T) {
				worldsFrom(t, 0)
				checked := map[string]int{}
				rapid.Check(t, func(t *rapid.T) { simulate(t, version, string(policy), checked) })
				t.Logf("judged: %v", checked)
			})
		}
	}
}

// drawBatching draws how long a status waits: not at all, as long as in the manager, or longer than most decisions take.
func (s *Cluster) drawBatching(t *rapid.T) {
	s.Batches(rapid.SampledFrom([]publish.Batching{
		{},
		{Delay: 200 * time.Millisecond, Interval: 2 * time.Second, ProvisioningInterval: 10 * time.Second},
		{Delay: 5 * time.Second, Interval: 30 * time.Second, ProvisioningInterval: time.Minute},
	}).Draw(t, "status waits"))
}

func simulate(t *rapid.T, version Version, policy string, checked map[string]int) {
	s := New(t, policy, []string{"a", "b"}[:rapid.IntRange(1, 2).Draw(t, "subsets")]...)
	s.Sets.Version = version
	s.drawBatching(t)
	s.Parent().Spec.RevisionHistoryLimit = ptr.To(rapid.Int32Range(0, 2).Draw(t, "revisionHistoryLimit"))
	s.Restart()
	if rapid.Bool().Draw(t, "started") {
		s.Settle()
		s.Judge(true)
	}
	for range rapid.IntRange(0, 60).Draw(t, "steps") {
		if rapid.IntRange(0, 3).Draw(t, "who") == 0 {
			s.user(t, policy)
		} else {
			s.cluster(t)
		}
	}
	s.Quiet()
	s.Settle()
	s.Judge(false)
	s.Finish(policy)
	for what, n := range s.Oracle.Checked {
		checked[what] += n
	}
}

// While paused, whatever the user asks for and however it scales, no existing replica is updated: the partition is above
// every replica that is not updated.
func TestPausedMovesNothing(t *testing.T) {
	for _, version := range Versions() {
		t.Run(version.String(), func(t *testing.T) { pausedMovesNothing(t, version) })
	}
}

func pausedMovesNothing(t *testing.T, version Version) {
	worldsFrom(t, 0)
	rapid.Check(t, func(t *rapid.T) {
		s := New(t, "Parallel", "a")
		s.Sets.Version = version
		s.Settle()
		s.Edit("image v2", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Template = TemplateOf("v2", "Parallel") })
		s.Edit("partition", func(spec *v1alpha1.UnitedDeploymentSpec) { SetPartition(spec, "a", pick(t, "partition", partitions)) })
		for range rapid.IntRange(0, 6).Draw(t, "moves") {
			s.Everybody()
		}
		s.Edit("paused", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Paused = true })
		s.API.Refresh()
		s.Reconcile()
		s.Everybody()
		before := map[string]string{}
		for name, p := range s.API.Live.Pods {
			if p.DeletionTimestamp == nil {
				before[name] = PodContent(p)
			}
		}
		n := rapid.Int32Range(0, 6).Draw(t, "replicas")
		to := pick(t, "partition", partitions)
		s.Edit(fmt.Sprintf("replicas %d partition %s", n, to.String()), func(spec *v1alpha1.UnitedDeploymentSpec) {
			spec.Replicas = &n
			SetPartition(spec, "a", to)
			spec.Template = TemplateOf("v3", "Parallel")
		})
		s.Settle()
		for name, p := range s.API.Live.Pods {
			was, is := before[name], PodContent(p)
			if is == "v3" || was != "" && was != is {
				s.Fail("%s was %q and is %q", name, was, is)
			}
			if was == "" && is != "v1" && OrdinalOf("web-a", name) >= int32(len(before)) {
				s.Fail("%s is new, and on %s", name, is)
			}
		}
	})
}
