// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/test/simulation"
)

// scene is a simulation that a test controls step by step.
type scene struct{ *simulation.World }

// newScene returns a scene with 4 replicas of v1 in subsets a and b, Parallel, everything held, before the first pass.
func newScene(t *testing.T) *scene {
	return &scene{simulation.New(t, "Parallel", "a", "b")}
}

// ordered sets the pod management policy OrderedReady.
func (s *scene) ordered() *scene {
	s.Edit("OrderedReady", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Template = simulation.TemplateOf("v1", "OrderedReady") })
	return s
}

func (s *scene) policy() string {
	if strings.Contains(string(s.Parent().Spec.Template.StatefulSetTemplate.Raw), "OrderedReady") {
		return "OrderedReady"
	}
	return "Parallel"
}

// settled runs everything until nothing changes.
func (s *scene) settled() *scene { s.Settle(); return s }

func (s *scene) image(image string) *scene {
	policy := s.policy()
	s.Edit("image "+image, func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Template = simulation.TemplateOf(image, policy) })
	return s
}

// partition sets the partition of a subset; "" is the default one.
func (s *scene) partition(subset, to string) *scene {
	s.Edit("partition "+subset+" "+to, func(spec *v1alpha1.UnitedDeploymentSpec) { simulation.SetPartition(spec, subset, intstr.Parse(to)) })
	return s
}

func (s *scene) replicas(n int32) *scene {
	s.Edit(fmt.Sprint("replicas ", n), func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Replicas = &n })
	return s
}

func (s *scene) paused(paused bool) *scene {
	s.Edit(fmt.Sprint("paused ", paused), func(spec *v1alpha1.UnitedDeploymentSpec) { spec.Paused = paused })
	return s
}

func (s *scene) wish(subset, replicas string) *scene {
	s.EditSubset("wish", subset, func(sub *v1alpha1.Subset) { sub.Replicas = ptr.To(intstr.Parse(replicas)) })
	return s
}

func (s *scene) comeOrGo(subset string) *scene {
	s.Edit("come or go "+subset, func(spec *v1alpha1.UnitedDeploymentSpec) { simulation.ComeOrGo(spec, subset) })
	return s
}

// rolling sets the strategy RollingUpdate.
func (s *scene) rolling() *scene {
	s.Edit("rolling", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{}}
	})
	return s
}

// holding is rolling, with everything held.
func (s *scene) holding() *scene {
	s.Edit("holding", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{Partition: ptr.To(intstr.FromString("100%"))}}
	})
	return s
}

// stepwise is rolling, with a step in which half of each subset waits for approval.
func (s *scene) stepwise() *scene {
	s.Edit("steps", func(spec *v1alpha1.UnitedDeploymentSpec) {
		spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{
			Steps: []v1alpha1.RolloutStep{{Subsets: []string{v1alpha1.AllSubsets}, Partition: ptr.To(intstr.FromString("50%")), Pause: &v1alpha1.RolloutPause{}}},
		}}
	})
	return s
}

// deadline sets progressDeadlineSeconds.
func (s *scene) deadline(seconds int32) *scene {
	s.Edit("deadline", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.ProgressDeadlineSeconds = &seconds })
	return s
}

// minReady sets minReadySeconds.
func (s *scene) minReady(seconds int32) *scene {
	s.Edit("minReadySeconds", func(spec *v1alpha1.UnitedDeploymentSpec) { spec.MinReadySeconds = seconds })
	return s
}

// pass runs a pass of the controller, with an up-to-date cache.
func (s *scene) pass() *scene {
	s.API.Refresh()
	s.Reconcile()
	return s
}

// passes runs several passes, half a minute apart.
func (s *scene) passes(n int) *scene {
	for range n {
		s.later(31 * time.Second).pass()
	}
	return s
}

// stranger creates a StatefulSet that the parent does not control.
func (s *scene) stranger(name string) *scene {
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": map[string]any{"name": name, "namespace": "shop", "uid": "stranger"},
	}}
	s.API.Live.Sets[name] = u
	return s
}

// lose deletes the revision of an image without the controller.
func (s *scene) lose(image string) *scene {
	for name, cr := range s.API.Live.Revisions {
		if strings.Contains(string(cr.Data.Raw), fmt.Sprintf("%q", image)) {
			delete(s.API.Live.Revisions, name)
		}
	}
	return s
}

// moves runs a pass of the StatefulSet controller over the sets of the subsets.
func (s *scene) moves(subsets ...string) *scene {
	for _, name := range subsets {
		s.Sync("web-" + name)
	}
	return s
}

// kubelets advances each of the pods by one step.
func (s *scene) kubelets(pods ...string) *scene {
	for _, name := range pods {
		s.Sets.Kubelet("web-" + name)
		s.Look()
	}
	return s
}

// ready sets whether a pod is ready.
func (s *scene) ready(pod string, ready bool) *scene {
	s.Sets.SetReady(s.API.Live.Pods["web-"+pod], ready)
	return s
}

// later advances the clock.
func (s *scene) later(d time.Duration) *scene {
	s.Clock.SetTime(s.Clock.Now().Add(d))
	return s
}

func (s *scene) delete(subset string, orphan bool) *scene {
	s.Sets.DeleteSet("web-"+subset, orphan)
	return s
}

// refuses makes the API server reject the child of a subset; nil accepts it.
func (s *scene) refuses(subset string, err error) *scene {
	s.API.Refuse = map[string]error{subset: err}
	return s
}

func (s *scene) status() *v1alpha1.UnitedDeploymentStatus { return &s.Parent().Status }

// told returns a short form of the status: a line for the whole, for each condition that is not as it is at rest, and
// for each subset. Revisions are shown as their images, and times are omitted.
func (s *scene) told() string {
	status := s.status()
	lines := []string{fmt.Sprintf("%s: %s of %s; current %s, update %s", kstatus(s.Parent()), counts(status.ReplicaCounts),
		fmt.Sprint(ptr.Deref(s.Parent().Spec.Replicas, 1)), status.CurrentRevision, status.UpdateRevision)}
	for _, c := range []struct {
		name string
		rest metav1.ConditionStatus
	}{
		{v1alpha1.ConditionReady, ""}, {v1alpha1.ConditionAvailable, metav1.ConditionTrue}, {v1alpha1.ConditionProgressing, ""},
		{v1alpha1.ConditionStalled, metav1.ConditionFalse}, {v1alpha1.ConditionInitialized, metav1.ConditionTrue},
		{v1alpha1.ConditionReplicasHonored, metav1.ConditionTrue},
	} {
		got := meta.FindStatusCondition(status.Conditions, c.name)
		switch {
		case got == nil:
			lines = append(lines, c.name+" is missing")
		case got.ObservedGeneration != s.Parent().Generation:
			lines = append(lines, c.name+" is of another generation")
		case c.name == v1alpha1.ConditionReady:
			lines = append(lines, fmt.Sprintf("Ready %s %s: %s", got.Status, got.Reason, got.Message))
		case c.name == v1alpha1.ConditionProgressing:
			// It must follow Ready, with the same text.
			if ready := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady); got.Message != ready.Message || got.Reason != ready.Reason {
				lines = append(lines, "Progressing speaks for itself: "+got.Reason+": "+got.Message)
			}
			lines = append(lines, "Progressing "+string(got.Status))
		case got.Status != c.rest:
			lines = append(lines, fmt.Sprintf("%s %s %s", c.name, got.Status, got.Reason))
		}
	}
	for _, sub := range status.Subsets {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("%s %s: %s of %d; partition %d lets %d; %s -> %s; %s", sub.Name, sub.Phase,
			counts(sub.ReplicaCounts), sub.DesiredReplicas, sub.Partition, sub.ExpectedUpdatedReplicas, sub.CurrentRevision, sub.UpdateRevision, sub.Message)))
	}
	return s.words(strings.Join(lines, "\n"))
}

// counts returns the numbers of replicas that exist, are ready, available, updated, and updated and ready.
func counts(c v1alpha1.ReplicaCounts) string {
	return fmt.Sprintf("%d/%d/%d/%d/%d", c.Replicas, c.ReadyReplicas, c.AvailableReplicas, c.UpdatedReplicas, c.UpdatedReadyReplicas)
}

var clockTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:]*Z`)

// words replaces names of revisions with their images, and times with "then".
func (s *scene) words(text string) string {
	names := make([]string, 0, len(s.API.Live.Revisions))
	for name := range s.API.Live.Revisions {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		r, err := revision.Parse(s.API.Live.Revisions[name])
		if err != nil {
			s.Fail("%v", err)
		}
		s.Oracle.Before = s.API.Live
		is := s.Oracle.ContentIn(s.API.Live, r.Name)("-")
		text = strings.ReplaceAll(strings.ReplaceAll(text, r.Name, is), known.Short(r.Name), is)
	}
	return clockTime.ReplaceAllString(text, "then")
}

// kstatus returns the status of an object according to kstatus, which is what `helm --wait` uses.
func kstatus(parent *v1alpha1.UnitedDeployment) string {
	conditions := parent.Status.Conditions
	ready := meta.FindStatusCondition(conditions, v1alpha1.ConditionReady)
	switch {
	case parent.Status.ObservedGeneration != parent.Generation:
		return "InProgress"
	case meta.IsStatusConditionTrue(conditions, v1alpha1.ConditionStalled):
		return "Failed"
	case ready == nil || ready.Status != metav1.ConditionTrue:
		return "InProgress"
	}
	return "Current"
}

func requestFor(parent *v1alpha1.UnitedDeployment) ctrl.Request {
	return ctrl.Request{NamespacedName: client.ObjectKeyFromObject(parent)}
}
