// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/unitedworkloads/united/test/simulation"
)

// wrong is a StatefulSet controller that gets one rule wrong, and the trace that shows it.
type wrong struct {
	rule, trace string
	policy      appsv1.PodManagementPolicyType
	spoil       func(api *simulation.API, pass func())
}

const (
	ordered = appsv1.OrderedReadyPodManagement
	atOnce  = appsv1.ParallelPodManagement
)

var wrongs = []wrong{
	{"OrderedReady does not wait for unready pods", "unready low ordinal", ordered, seeing(as(atOnce))},
	{"scaling down does not wait for unready pods", "down with unready pods on top", ordered, seeing(asWhenScaledDown(atOnce))},
	{"Parallel waits for unready pods", "scale-up is stuck", atOnce, seeing(as(ordered))},
	{"the partition is one too high", "partition raised and lowered", ordered, seeing(partitionPlus(1))},
	{"a partition above the replicas is none", "partition above the replicas", atOnce, seeing(partitionAbove)},
	{"the current revision is not remembered", "protected pods deleted in mid-canary", ordered, seeing(noCurrent)},
	{"the current revision is remembered at 0", "to 0 and back while held", atOnce, remembering(func(set *appsv1.StatefulSet) bool { return *set.Spec.Replicas == 0 })},
	{"an update is never complete", "all updated and ready", ordered, remembering(func(*appsv1.StatefulSet) bool { return true })},
	{"a broken pod is replaced", "broken on top, then corrected", ordered, dropping(brokenAndOld)},
	{"a raised partition brings pods back", "partition raised and lowered", atOnce, dropping(protectedAndNew)},
	{"terminating pods are not waited for", "terminating replica", ordered, dropping(terminating)},
	{"orphans are not adopted", "orphans seeded", atOnce, dropping(orphaned)},
	{"unready pods count as ready", "broken on top, then corrected", atOnce, miscounting("readyReplicas", "replicas")},
	{"all pods count as updated", "partition raised and lowered", atOnce, miscounting("updatedReplicas", "replicas")},
}

// TestWrongOnesAreFoundOut is the positive control: the results of the real controllers expose each of these controllers.
func TestWrongOnesAreFoundOut(t *testing.T) {
	for _, w := range wrongs {
		t.Run(w.rule, func(t *testing.T) {
			t.Parallel()
			trace := traceOf(t, w.trace)
			simulated := simulation.NewSimulated(version, w.policy, 0)
			simulated.Spoil = w.spoil
			lines, err := simulation.Play(simulated, trace.Steps)
			if err != nil {
				t.Fatal(err)
			}
			text := differ(lines, record(t, trace, w.policy))
			if text == "" {
				t.Error("it is not found out")
			}
			t.Log(text)
		})
	}
}

// TestOtherVersionsAreFoundOut: the results also expose a controller of another version.
func TestOtherVersionsAreFoundOut(t *testing.T) {
	trace := traceOf(t, "an unready protected replica and a released one")
	for _, other := range simulation.Versions() {
		if other == version {
			continue
		}
		t.Run(other.String(), func(t *testing.T) {
			t.Parallel()
			lines, err := simulation.Play(simulation.NewSimulated(other, atOnce, 0), trace.Steps)
			if err != nil {
				t.Fatal(err)
			}
			text := differ(lines, record(t, trace, atOnce))
			if text == "" {
				t.Errorf("it is not told from %s", version)
			}
			t.Log(text)
		})
	}
}

func typed(set *unstructured.Unstructured) *appsv1.StatefulSet {
	out := &appsv1.StatefulSet{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(set.Object, out); err != nil {
		panic(err)
	}
	return out
}

func put(set *unstructured.Unstructured, value any, path ...string) {
	if err := unstructured.SetNestedField(set.Object, value, path...); err != nil {
		panic(err)
	}
}

// seeing shows the controller a modified set.
func seeing(change func(*unstructured.Unstructured)) func(*simulation.API, func()) {
	return func(api *simulation.API, pass func()) {
		there := api.Live.Sets[simulation.TraceSet]
		seen := there.DeepCopy()
		change(seen)
		api.Live.Sets[simulation.TraceSet] = seen
		pass()
		after := api.Live.Sets[simulation.TraceSet].DeepCopy()
		after.Object["spec"] = there.Object["spec"]
		api.Live.Sets[simulation.TraceSet] = after
	}
}

func as(policy appsv1.PodManagementPolicyType) func(*unstructured.Unstructured) {
	return func(set *unstructured.Unstructured) { put(set, string(policy), "spec", "podManagementPolicy") }
}

func asWhenScaledDown(policy appsv1.PodManagementPolicyType) func(*unstructured.Unstructured) {
	return func(set *unstructured.Unstructured) {
		if set := typed(set); set.Status.Replicas <= *set.Spec.Replicas {
			return
		}
		as(policy)(set)
	}
}

func setPartition(set *unstructured.Unstructured, partition int32) {
	put(set, int64(partition), "spec", "updateStrategy", "rollingUpdate", "partition")
}

func partitionPlus(n int32) func(*unstructured.Unstructured) {
	return func(set *unstructured.Unstructured) {
		setPartition(set, *typed(set).Spec.UpdateStrategy.RollingUpdate.Partition+n)
	}
}

func partitionAbove(set *unstructured.Unstructured) {
	if spec := typed(set).Spec; *spec.UpdateStrategy.RollingUpdate.Partition > *spec.Replicas {
		setPartition(set, 0)
	}
}

func noCurrent(set *unstructured.Unstructured) {
	unstructured.RemoveNestedField(set.Object, "status", "currentRevision")
}

// after modifies the status that the controller writes.
func after(change func(before, after *unstructured.Unstructured)) func(*simulation.API, func()) {
	return func(api *simulation.API, pass func()) {
		before := api.Live.Sets[simulation.TraceSet]
		pass()
		after := api.Live.Sets[simulation.TraceSet].DeepCopy()
		change(before, after)
		api.Live.Sets[simulation.TraceSet] = after
	}
}

// remembering keeps the current revision of some sets.
func remembering(which func(*appsv1.StatefulSet) bool) func(*simulation.API, func()) {
	return after(func(before, after *unstructured.Unstructured) {
		if current := typed(before).Status.CurrentRevision; current != "" && which(typed(after)) {
			put(after, current, "status", "currentRevision")
		}
	})
}

// miscounting replaces a number of the status.
func miscounting(what, is string) func(*simulation.API, func()) {
	return after(func(_, after *unstructured.Unstructured) {
		n, _, _ := unstructured.NestedInt64(after.Object, "status", is)
		put(after, n, "status", what)
	})
}

// dropping removes some pods before a sync.
func dropping(which func(*appsv1.StatefulSet, *corev1.Pod) bool) func(*simulation.API, func()) {
	return func(api *simulation.API, pass func()) {
		set := typed(api.Live.Sets[simulation.TraceSet])
		for name, pod := range api.Live.Pods {
			if which(set, pod) {
				delete(api.Live.Pods, name)
			}
		}
		pass()
	}
}

func isNew(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	return pod.Labels[appsv1.ControllerRevisionHashLabelKey] == set.Status.UpdateRevision
}

func brokenAndOld(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	return !simulation.IsReady(pod) && !isNew(set, pod)
}

func protectedAndNew(set *appsv1.StatefulSet, pod *corev1.Pod) bool {
	return set.Status.CurrentRevision != set.Status.UpdateRevision && isNew(set, pod) &&
		simulation.OrdinalOf(set.Name, pod.Name) < *set.Spec.UpdateStrategy.RollingUpdate.Partition
}

func terminating(_ *appsv1.StatefulSet, pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil }

func orphaned(_ *appsv1.StatefulSet, pod *corev1.Pod) bool { return metav1.GetControllerOf(pod) == nil }
