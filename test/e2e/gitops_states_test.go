// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/gitops"
)

var updateStates = flag.Bool("update-states", false, "write the objects of TestGitOpsStates to test/gitops/testdata")

// TestGitOpsStates brings about every state of docs/rollouts.md, and checks what Argo CD, kstatus and
// Flux make of the objects, with the files of config/argocd and config/flux.
func TestGitOpsStates(t *testing.T) {
	t.Parallel()
	tools, err := gitops.Load(filepath.Join("..", ".."))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	bring := gitOpsStates()
	for _, state := range gitops.States() {
		t.Run(state.Name, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t)
			e.Expect(bring).To(HaveKey(state.Name))
			object := bring[state.Name](e)
			e.Expect(tools.Verdicts(state.Name, object.Object)).To(Equal(state), "%v", gitops.Ready(object.Object))
			if *updateStates {
				e.store(state.Name, object)
			}
		})
	}
	NewWithT(t).Expect(bring).To(HaveLen(len(gitops.States())))
}

// store writes an object to testdata, as kubectl get -o yaml prints it.
func (e *env) store(name string, object *unstructured.Unstructured) {
	e.t.Helper()
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	text, err := yaml.Marshal(object.Object)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(os.WriteFile(filepath.Join("..", "gitops", "testdata", name+".yaml"), text, 0o600)).To(Succeed())
}

// object reads the UnitedDeployment with all its fields, as tools see it.
func (w *Workload) object() *unstructured.Unstructured {
	w.t.Helper()
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("UnitedDeployment"))
	w.Expect(w.Get(w.ctx, w.key(w.Name), object)).To(Succeed())
	return object
}

// notReady waits until Ready is False for the reason, and Stalled has the status, and returns the object.
func (w *Workload) notReady(reason string, stalled metav1.ConditionStatus) *unstructured.Unstructured {
	w.t.Helper()
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		g.Expect(parent.Status.ObservedGeneration).To(Equal(parent.Generation))
		g.Expect(condition(parent, v1alpha1.ConditionReady).Status).To(Equal(metav1.ConditionFalse))
		g.Expect(condition(parent, v1alpha1.ConditionReady).Reason).To(Equal(reason), condition(parent, v1alpha1.ConditionReady).Message)
		g.Expect(condition(parent, v1alpha1.ConditionStalled).Status).To(Equal(stalled))
	}).Should(Succeed())
	return w.object()
}

// isReady waits until Ready is True for the reason, and returns the object.
func (w *Workload) isReady(reason string) *unstructured.Unstructured {
	w.t.Helper()
	w.IsReady(reason)
	return w.object()
}

type bringAbout = func(e *env) *unstructured.Unstructured

// gitOpsStates brings about the states of gitops.States.
func gitOpsStates() map[string]bringAbout {
	all := map[string]bringAbout{}
	for _, some := range []map[string]bringAbout{atRestStates(), movingStates(), troubledStates()} {
		for name, bring := range some {
			all[name] = bring
		}
	}
	return all
}

// atRestStates are the states in which nothing changes by itself, or no controller has looked yet.
func atRestStates() map[string]bringAbout {
	settled := func(e *env, edits ...edit) *Workload {
		w := e.Create(draft("web", append([]edit{replicas(4), zones("", "")}, edits...)...))
		w.Settle()
		return w
	}
	return map[string]bringAbout{
		"new": func(e *env) *unstructured.Unstructured {
			parent, err := draft("web", zones("")).Object()
			e.Expect(err).NotTo(HaveOccurred())
			parent.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("UnitedDeployment"))
			text, err := yaml.Marshal(parent)
			e.Expect(err).NotTo(HaveOccurred())
			object := &unstructured.Unstructured{}
			e.Expect(yaml.Unmarshal(text, &object.Object)).To(Succeed())
			unstructured.RemoveNestedField(object.Object, "status")
			object.SetNamespace(e.Namespace)
			e.Expect(e.Client.Create(e.ctx, object)).To(Succeed()) // its answer is the object before any controller saw it
			return object
		},
		"not-observed": func(e *env) *unstructured.Unstructured {
			object := settled(e).object()
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":6}}`))
			e.Expect(e.Client.Patch(e.ctx, object, patch)).To(Succeed())
			return object
		},
		"complete": func(e *env) *unstructured.Unstructured { return settled(e).isReady(v1alpha1.ReasonRolloutComplete) },
		"being-deleted": func(e *env) *unstructured.Unstructured {
			w := settled(e)
			w.Patch(`{"metadata":{"finalizers":["test.united.dev/wait"]}}`)
			w.Expect(w.Delete(w.ctx, w.Parent())).To(Succeed())
			object := w.object()
			w.Patch(`{"metadata":{"finalizers":null}}`)
			return object
		},
		"awaiting-approval": func(e *env) *unstructured.Unstructured {
			w := settled(e, rolling(`{steps: [{subsets: [zone-a], pause: {}}]}`))
			w.SetImage("v2")
			w.AwaitApproval(0)
			return w.object()
		},
		"rollout-held": func(e *env) *unstructured.Unstructured {
			w := settled(e, rolling(`{partition: "50%"}`))
			w.SetImage("v2")
			return w.isReady(v1alpha1.ReasonRolloutHeld)
		},
		"held-by-hand": func(e *env) *unstructured.Unstructured {
			w := settled(e, partitions(parts{"zone-a": 0}))
			w.SetImage("v2")
			return w.isReady(v1alpha1.ReasonRolloutHeld)
		},
		"paused": func(e *env) *unstructured.Unstructured {
			w := settled(e, rolling(`{}`))
			w.Patch(`{"spec":{"paused":true}}`)
			w.SetImage("v2")
			return w.isReady(v1alpha1.ReasonPaused)
		},
		"replicas-not-honored": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(4), zones("3", "3")))
			return w.isReady(v1alpha1.ReasonReplicasNotHonored)
		},
		"held-and-not-honored": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(4), zones("3", "3"), hold()))
			w.Settle()
			w.SetImage("v2")
			w.SetPartitions(parts{"zone-a": 0})
			return w.isReady(v1alpha1.ReasonReplicasNotHonored)
		},
	}
}

// movingStates are the states in which the controller continues by itself.
func movingStates() map[string]bringAbout {
	const no = metav1.ConditionFalse
	return map[string]bringAbout{
		"rolling-out": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(4), zones("", ""), rolling(`{}`)))
			w.Settle()
			w.SetImage("quiet-v2")
			return w.notReady(v1alpha1.ReasonRollingOut, no)
		},
		"step-paused": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(4), zones("", ""), rolling(`{steps: [{subsets: [zone-a], pause: {duration: 1h}}]}`)))
			w.Settle()
			w.SetImage("v2")
			return w.notReady(v1alpha1.ReasonStepPaused, no)
		},
		"blocked": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(4), plain("one", ""), rolling(`{}`)))
			w.Settle()
			w.MarkUnready("one", 0)
			w.SetImage("v2")
			return w.notReady(v1alpha1.ReasonBlocked, no)
		},
		"reconciling": func(e *env) *unstructured.Unstructured {
			e.oneChild() // a write that fails is tried again, before it counts as failed
			next := e.watchFor(v1alpha1.ReasonReconciling)
			e.Create(draft("web", replicas(4), zones("", "")))
			return next()
		},
		"scaling": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(2), firstImage("quiet"), zones("", "")))
			w.remindKubeletsUntil("zone-a", 1)
			w.remindKubeletsUntil("zone-b", 1)
			w.Settle()
			w.Scale(6) // in order: the third of each zone waits for the second
			return w.notReady(v1alpha1.ReasonScaling, no)
		},
		"replicas-unavailable": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(4), zones("", "")))
			w.Settle()
			w.MarkUnready("zone-a", 0)
			return w.notReady(v1alpha1.ReasonReplicasUnavailable, no)
		},
	}
}

// watchFor returns the first object of the namespace that has this reason in its condition Ready, from
// now on.
func (e *env) watchFor(reason string) func() *unstructured.Unstructured {
	e.t.Helper()
	d, err := dynamic.NewForConfig(e.cluster.Config())
	e.Expect(err).NotTo(HaveOccurred())
	events, err := d.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(e.Namespace).Watch(e.ctx, metav1.ListOptions{})
	e.Expect(err).NotTo(HaveOccurred())
	e.t.Cleanup(events.Stop)
	return func() (found *unstructured.Unstructured) {
		e.t.Helper()
		e.Eventually(events.ResultChan()).Should(Receive(Satisfy(func(event watch.Event) bool {
			object, ok := event.Object.(*unstructured.Unstructured)
			if !ok || gitops.Ready(object.Object)["reason"] != reason {
				return false
			}
			found = object
			return true
		})))
		return found
	}
}

// oneChild makes a quota refuse all StatefulSets but the first.
func (e *env) oneChild() {
	e.t.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "one"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("1")}},
	}
	e.Expect(e.Client.Create(e.ctx, quota)).To(Succeed())
	e.Eventually(func(g Gomega) {
		g.Expect(e.Get(e.ctx, e.key("one"), quota)).To(Succeed())
		g.Expect(quota.Status.Used).To(HaveLen(1), "it is in force")
	}).Should(Succeed())
}

// troubledStates are the states that do not end without help.
func troubledStates() map[string]bringAbout {
	const yes = metav1.ConditionTrue
	return map[string]bringAbout{
		"replica-failed": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(4), zones("", ""), rolling(`{}`)))
			w.Settle()
			w.SetImage("broken-v2")
			return w.notReady(v1alpha1.ReasonReplicaFailed, yes)
		},
		"blocked-by-crash": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(4), plain("one", ""), rolling(`{}`)))
			w.Settle()
			w.Crash("one", 0)
			w.SetImage("v2")
			return w.notReady(v1alpha1.ReasonBlocked, yes)
		},
		"apply-refused": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(4), zones("", "")))
			w.Settle()
			w.JSONPatch(`[{"op":"add","path":"%s/spec/template/spec/containers/0/imagePullPolicy","value":"Sometimes"}]`, templatePath)
			return w.notReady(v1alpha1.ReasonApplyRefused, yes)
		},
		"apply-failed": func(e *env) *unstructured.Unstructured {
			e.oneChild()
			return e.Create(draft("web", replicas(4), zones("", ""))).notReady(v1alpha1.ReasonApplyFailed, yes)
		},
		"progress-deadline-exceeded": func(e *env) *unstructured.Unstructured {
			w := e.Create(draft("web", replicas(2), plain("one", "")))
			w.Settle()
			w.MarkUnready("one", 0)
			w.Patch(`{"spec":{"progressDeadlineSeconds":2}}`)
			return w.notReady(v1alpha1.ReasonProgressDeadlineExceeded, yes)
		},
	}
}
