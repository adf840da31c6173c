// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/publish"
)

// World is one UnitedDeployment, and the cluster in which it lives.
type World struct {
	*Cluster
	// Name is the parent's name.
	Name string
	// mark is the suffix of its images, so that they differ from those of other parents.
	mark   string
	Oracle *Oracle
	// Wake is when the last pass asked to be woken, 0 for never; wakeAt is the time.
	Wake   time.Duration
	wakeAt time.Time
	// rollout is the last recorded state of the rollout.
	rollout string
	// last is the parent as the last pass read it.
	last *v1alpha1.UnitedDeployment
	// seen is the last change of the API that the last pass could see; again: the pass must be retried.
	seen  int
	again bool
}

// New returns a world of 4 replicas of v1 in the given subsets of web, with everything held, in which nothing has
// happened yet.
func New(t TestingT, policy string, subsets ...string) *World {
	return newCluster(t).add("web", policy, subsets)
}

// Beside returns another world in the same cluster, with another parent. It has its own images: v1 is v1@<name>.
func (s *World) Beside(name, policy string, subsets ...string) *World {
	return s.add(name, policy, subsets)
}

// Parent returns the parent as stored on the server.
func (s *World) Parent() *v1alpha1.UnitedDeployment { return s.API.Live.Parents[s.Name] }

// Child returns the name of the child of a subset.
func (s *World) Child(subset string) string { return s.Name + "-" + subset }

// Note adds a line about this parent to what has happened.
func (s *World) Note(format string, args ...any) { s.Cluster.Note(s.about()+format, args...) }

// Fail fails the test because of this parent.
func (s *World) Fail(format string, args ...any) {
	s.T.Helper()
	s.Cluster.Fail(s.about()+format, args...)
}

// about names the parent, if there are others.
func (s *World) about() string {
	if len(s.worlds) == 1 {
		return ""
	}
	return "[" + s.Name + "] "
}

// template is TemplateOf with an image of this parent.
func (s *World) template(image, policy string) v1alpha1.WorkloadTemplate {
	return TemplateOf(image+s.mark, policy)
}

// TemplateOf returns a template with an image and a pod management policy.
func TemplateOf(image, policy string) v1alpha1.WorkloadTemplate {
	raw, err := json.Marshal(map[string]any{"spec": map[string]any{
		"podManagementPolicy": policy,
		"template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": image}}},
		},
	}})
	if err != nil {
		panic(err)
	}
	return v1alpha1.WorkloadTemplate{StatefulSetTemplate: &runtime.RawExtension{Raw: raw}}
}

// PatchOf returns a patch that adds a word to the pod template; nil for "".
func PatchOf(word string) *runtime.RawExtension {
	if word == "" {
		return nil
	}
	return &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"spec": {"template": {"metadata": {"annotations": {"patch": %q}}}}}`, word)}
}

// Edit changes the spec.
func (s *World) Edit(what string, change func(*v1alpha1.UnitedDeploymentSpec)) {
	parent := s.Parent().DeepCopy()
	change(&parent.Spec)
	parent.Generation++
	s.API.PutParent(parent)
	s.Oracle.specChanged()
	s.Note("user: %s", what)
}

// Reconcile runs one pass of the controller.
func (s *World) Reconcile() {
	s.Clock.SetTime(s.Clock.Now().Add(time.Second))
	failing := s.API.failing()
	s.Oracle.beforePass()
	s.Oracle.gathers = !s.askedForPass() && s.Reconciler.Gathers(client.ObjectKeyFromObject(s.Parent()))
	s.seen = s.API.Heard()
	last := s.API.Last
	rejectedStatuses := s.API.rejectedStatuses
	crashed, err := s.pass()
	s.again = err != nil || crashed
	if parent := s.Parent(); s.API.Last == last+1 && s.seen == last && s.Reconciler.WroteQuietly(client.ObjectKeyFromObject(parent), parent.ResourceVersion) {
		s.seen = s.API.Last // the watch starts no pass, and the pass has written nothing else
	}
	if r := s.Parent().Status.Rollout; r != nil {
		if text := fmt.Sprintf("  rollout: step %d %s: %s", r.Step, r.Phase, r.Message); text != s.rollout {
			s.rollout = text
			s.Note("%s", text)
		}
	}
	if err != nil && !apierrors.IsInternalError(err) && !apierrors.IsConflict(err) {
		s.Fail("reconcile: %v", err)
	}
	s.Oracle.afterPass((failing == 0 || s.API.failing() == failing) && s.API.rejectedStatuses == rejectedStatuses)
	if crashed {
		s.Note("  the controller crashes")
		s.Restart()
	}
}

// askedForPass reports whether the parent starts this pass: somebody has changed what it asks for since the last one, or the
// last one has written a status by which a pass may decide.
func (s *World) askedForPass() bool {
	before, now := s.last, s.API.Cached.Parents[s.Name]
	s.last = now
	return before == nil || now == nil || before.Generation != now.Generation ||
		!maps.Equal(before.Annotations, now.Annotations) || publish.Decides(&before.Status, &now.Status)
}

// pass runs a pass, which may end in a crash.
func (s *World) pass() (hasCrashed bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			if _, hasCrashed = r.(crashed); !hasCrashed {
				panic(r)
			}
		}
	}()
	ctx := ctrl.LoggerInto(s.T.Context(), ctrl.Log.WithSink(log.NullLogSink{}))
	result, err := s.Reconciler.Reconcile(ctx, ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s.Parent())})
	s.Wake = result.RequeueAfter
	return false, err
}

// Released returns partitions that release everything.
func Released() *v1alpha1.ManualUpdate {
	return &v1alpha1.ManualUpdate{DefaultPartition: ptr.To(intstr.FromInt32(0))}
}

// SetPartition sets the partition of a subset under Manual; "" sets the default one and removes all others.
func SetPartition(spec *v1alpha1.UnitedDeploymentSpec, name string, to intstr.IntOrString) {
	manual := spec.UpdateStrategy.ManualUpdate
	if name == "" {
		manual.DefaultPartition, manual.Partitions = &to, nil
		return
	}
	if manual.Partitions == nil {
		manual.Partitions = map[string]intstr.IntOrString{}
	}
	manual.Partitions[name] = to
}

// Annotate sets an annotation of the parent, which does not change its generation.
func (s *World) Annotate(key, value string) {
	parent := s.Parent().DeepCopy()
	if parent.Annotations == nil {
		parent.Annotations = map[string]string{}
	}
	parent.Annotations[key] = value
	s.API.PutParent(parent)
	s.Note("user: annotates %s=%s", key, value)
}

// EditSubset changes one subset in the spec.
func (s *World) EditSubset(what, name string, change func(*v1alpha1.Subset)) {
	s.Edit(what+" "+name, func(spec *v1alpha1.UnitedDeploymentSpec) {
		for i := range spec.Topology.Subsets {
			if spec.Topology.Subsets[i].Name == name {
				change(&spec.Topology.Subsets[i])
			}
		}
	})
}

// ComeOrGo adds a subset, or removes it, and with it the steps that name it, which would be rejected.
func ComeOrGo(spec *v1alpha1.UnitedDeploymentSpec, name string) {
	before := len(spec.Topology.Subsets)
	spec.Topology.Subsets = slices.DeleteFunc(spec.Topology.Subsets, func(s v1alpha1.Subset) bool { return s.Name == name })
	if len(spec.Topology.Subsets) == before {
		spec.Topology.Subsets = append(spec.Topology.Subsets, v1alpha1.Subset{Name: name})
		return
	}
	if s := spec.UpdateStrategy.RollingUpdate; s != nil {
		s.Steps = slices.DeleteFunc(s.Steps, func(step v1alpha1.RolloutStep) bool { return slices.Contains(step.Subsets, name) })
		if slices.Contains(s.MaxSkewSubsets, name) {
			s.MaxSkewSubsets = slices.DeleteFunc(slices.Clone(s.MaxSkewSubsets), func(other string) bool { return other == name })
		}
	}
}

// statusOf returns the status of a subset; nil if there is none.
func statusOf(status *v1alpha1.UnitedDeploymentStatus, name string) *v1alpha1.SubsetStatus {
	i := slices.IndexFunc(status.Subsets, func(s v1alpha1.SubsetStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &status.Subsets[i]
}

func replicasOf(parent *v1alpha1.UnitedDeployment) int32 {
	return ptr.Deref(parent.Spec.Replicas, 1)
}
