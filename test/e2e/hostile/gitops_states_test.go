// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

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
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/gitops"
)

var updateStates = flag.Bool("update-states", false, "write the objects of TestGitOpsStates to test/gitops/testdata")

// TestGitOpsStates brings about every state of docs/gitops.md, and checks what Argo CD, kstatus and
// Flux make of the objects, with the files of config/argocd and config/flux.
func TestGitOpsStates(t *testing.T) {
	t.Parallel()
	tools, err := gitops.Load(filepath.Join("..", "..", ".."))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	bring := gitOpsStates()
	for _, state := range gitops.States() {
		t.Run(state.Name, func(t *testing.T) {
			t.Parallel()
			e := NewEnv(t)
			e.Expect(bring).To(HaveKey(state.Name))
			object := bring[state.Name](e)
			e.Expect(tools.Verdicts(state.Name, object.Object)).To(Equal(state), "%v", gitops.Ready(object.Object))
			if *updateStates {
				store(e, state.Name, object)
			}
		})
	}
	NewWithT(t).Expect(bring).To(HaveLen(len(gitops.States())))
}

// store writes an object to testdata, as kubectl get -o yaml prints it.
func store(e *Env, name string, object *unstructured.Unstructured) {
	e.T.Helper()
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	text, err := yaml.Marshal(object.Object)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(os.WriteFile(filepath.Join("..", "..", "gitops", "testdata", name+".yaml"), text, 0o600)).To(Succeed())
}

type bringAbout = func(e *Env) *unstructured.Unstructured

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
	settled := func(e *Env, edits ...Edit) *Workload {
		w := e.Create(NewDraft("web", append([]Edit{Replicas(4), Zones("", "")}, edits...)...))
		w.Settle()
		return w
	}
	return map[string]bringAbout{
		"new": func(e *Env) *unstructured.Unstructured {
			parent, err := NewDraft("web", Zones("")).Object()
			e.Expect(err).NotTo(HaveOccurred())
			parent.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("UnitedDeployment"))
			text, err := yaml.Marshal(parent)
			e.Expect(err).NotTo(HaveOccurred())
			object := &unstructured.Unstructured{}
			e.Expect(yaml.Unmarshal(text, &object.Object)).To(Succeed())
			unstructured.RemoveNestedField(object.Object, "status")
			object.SetNamespace(e.Namespace)
			e.Expect(e.Client.Create(e.Ctx, object)).To(Succeed()) // its answer is the object before any controller saw it
			return object
		},
		"not-observed": func(e *Env) *unstructured.Unstructured {
			object := settled(e).Object()
			patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":6}}`))
			e.Expect(e.Client.Patch(e.Ctx, object, patch)).To(Succeed())
			return object
		},
		"complete": func(e *Env) *unstructured.Unstructured { return settled(e).ShowsReady(v1alpha1.ReasonRolloutComplete) },
		"being-deleted": func(e *Env) *unstructured.Unstructured {
			w := settled(e)
			w.Patch(`{"metadata":{"finalizers":["test.united.dev/wait"]}}`)
			w.Expect(w.Delete(w.Ctx, w.Parent())).To(Succeed())
			object := w.Object()
			w.Patch(`{"metadata":{"finalizers":null}}`)
			return object
		},
		"awaiting-approval": func(e *Env) *unstructured.Unstructured {
			w := settled(e, Rolling(`{steps: [{subsets: [zone-a], partition: "0%", pause: {}}]}`))
			w.SetImage("v2")
			w.AwaitApproval(0)
			return w.Object()
		},
		"rollout-held": func(e *Env) *unstructured.Unstructured {
			w := settled(e, Rolling(`{partition: "50%"}`))
			w.SetImage("v2")
			return w.ShowsReady(v1alpha1.ReasonRolloutHeld)
		},
		"held-by-hand": func(e *Env) *unstructured.Unstructured {
			w := settled(e, Partitions(Parts{"zone-a": 0}))
			w.SetImage("v2")
			return w.ShowsReady(v1alpha1.ReasonRolloutHeld)
		},
		"paused": func(e *Env) *unstructured.Unstructured {
			w := settled(e, Rolling(`{}`))
			w.Patch(`{"spec":{"paused":true}}`)
			w.SetImage("v2")
			return w.ShowsReady(v1alpha1.ReasonPaused)
		},
		"replicas-not-honored": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Zones("3", "3")))
			return w.ShowsReady(v1alpha1.ReasonReplicasNotHonored)
		},
		"held-and-not-honored": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Zones("3", "3"), Hold()))
			w.Settle()
			w.SetImage("v2")
			w.SetPartitions(Parts{"zone-a": 0})
			return w.ShowsReady(v1alpha1.ReasonReplicasNotHonored)
		},
	}
}

// movingStates are the states in which the controller continues by itself.
func movingStates() map[string]bringAbout {
	const no = metav1.ConditionFalse
	return map[string]bringAbout{
		"rolling-out": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Rolling(`{}`)))
			w.Settle()
			w.SetImage("quiet-v2")
			return w.NotReady(v1alpha1.ReasonRollingOut, no)
		},
		"step-paused": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Rolling(`{steps: [{subsets: [zone-a], partition: "0%", pause: {duration: 1h}}]}`)))
			w.Settle()
			w.SetImage("v2")
			return w.NotReady(v1alpha1.ReasonStepPaused, no)
		},
		"blocked": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Plain("one", ""), Rolling(`{}`)))
			w.Settle()
			w.MarkUnready("one", 0)
			w.SetImage("v2")
			return w.NotReady(v1alpha1.ReasonBlocked, no)
		},
		"reconciling": func(e *Env) *unstructured.Unstructured {
			oneChild(e) // a write that fails is tried again, before it counts as failed
			next := watchFor(e, v1alpha1.ReasonReconciling)
			e.Create(NewDraft("web", Replicas(4), Zones("", "")))
			return next()
		},
		"scaling": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(2), FirstImage("quiet"), Zones("", "")))
			w.RemindKubeletsUntil("zone-a", 1)
			w.RemindKubeletsUntil("zone-b", 1)
			w.Settle()
			w.Scale(6) // in order: the third of each zone waits for the second
			return w.NotReady(v1alpha1.ReasonScaling, no)
		},
		"replicas-unavailable": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Zones("", "")))
			w.Settle()
			w.MarkUnready("zone-a", 0)
			return w.NotReady(v1alpha1.ReasonReplicasUnavailable, no)
		},
	}
}

// watchFor returns the first object of the namespace that has this reason in its condition Ready, from
// now on.
func watchFor(e *Env, reason string) func() *unstructured.Unstructured {
	e.T.Helper()
	d, err := dynamic.NewForConfig(e.Cluster.Config())
	e.Expect(err).NotTo(HaveOccurred())
	events, err := d.Resource(v1alpha1.GroupVersion.WithResource("uniteddeployments")).Namespace(e.Namespace).Watch(e.Ctx, metav1.ListOptions{})
	e.Expect(err).NotTo(HaveOccurred())
	e.T.Cleanup(events.Stop)
	return func() (found *unstructured.Unstructured) {
		e.T.Helper()
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
func oneChild(e *Env) {
	e.T.Helper()
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "one"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/statefulsets.apps": resource.MustParse("1")}},
	}
	e.Expect(e.Client.Create(e.Ctx, quota)).To(Succeed())
	e.Eventually(func(g Gomega) {
		g.Expect(e.Get(e.Ctx, e.Key("one"), quota)).To(Succeed())
		g.Expect(quota.Status.Used).To(HaveLen(1), "it is in force")
	}).Should(Succeed())
}

// troubledStates are the states that do not end without help.
func troubledStates() map[string]bringAbout {
	const yes = metav1.ConditionTrue
	return map[string]bringAbout{
		"replica-failed": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Rolling(`{}`)))
			w.Settle()
			w.SetImage("broken-v2")
			return w.NotReady(v1alpha1.ReasonReplicaFailed, yes)
		},
		"check-failed": func(e *Env) *unstructured.Unstructured {
			w := checkedBy(e, Smoke("fail"))
			w.SetImage("v2")
			return w.NotReady(v1alpha1.ReasonCheckFailed, yes)
		},
		"revision-rejected": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Zones("", ""), Rolling(`{onFailure: Rollback}`)))
			w.Settle()
			w.SetImage("broken-v2")
			w.NotReady(v1alpha1.ReasonRevisionRejected, yes)
			w.Runs(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"})
			w.Eventually(func() v1alpha1.RolloutPhase { return w.Parent().Status.Rollout.Phase }).Should(Equal(v1alpha1.RolloutDone))
			return w.Object()
		},
		"blocked-by-crash": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Plain("one", ""), Rolling(`{}`)))
			w.Settle()
			w.Crash("one", 0)
			w.SetImage("v2")
			return w.NotReady(v1alpha1.ReasonBlocked, yes)
		},
		"apply-refused": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(4), Zones("", "")))
			w.Settle()
			w.JSONPatch(`[{"op":"add","path":"%s/spec/template/spec/containers/0/imagePullPolicy","value":"Sometimes"}]`, TemplatePath)
			return w.NotReady(v1alpha1.ReasonApplyRefused, yes)
		},
		"apply-failed": func(e *Env) *unstructured.Unstructured {
			oneChild(e)
			return e.Create(NewDraft("web", Replicas(4), Zones("", ""))).NotReady(v1alpha1.ReasonApplyFailed, yes)
		},
		"progress-deadline-exceeded": func(e *Env) *unstructured.Unstructured {
			w := e.Create(NewDraft("web", Replicas(2), Plain("one", "")))
			w.Settle()
			w.MarkUnready("one", 0)
			w.Patch(`{"spec":{"progressDeadlineSeconds":2}}`)
			return w.NotReady(v1alpha1.ReasonProgressDeadlineExceeded, yes)
		},
	}
}
