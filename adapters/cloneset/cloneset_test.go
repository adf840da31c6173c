// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cloneset_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/cloneset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

var born = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func read(t *testing.T, text string) map[string]any {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := map[string]any{}
	if err := yaml.Unmarshal(raw, &u); err != nil {
		t.Fatal(err)
	}
	return u
}

// child returns the CloneSet web-a of four replicas, during an update from v1 to v2, with a partition.
func child(t *testing.T, partition string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(`{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet,
  metadata: {namespace: shop, name: web-a, uid: c, generation: 5},
  spec: {replicas: 4, minReadySeconds: 3, updateStrategy: {partition: ` + partition + `}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v2}]}}},
  status: {observedGeneration: 5, currentRevision: web-a-v1, updateRevision: web-a-v2, replicas: 0}}`))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// pod returns a pod of a version that became ready a number of seconds after its creation; a negative number means
// that it is not ready.
func pod(name, version string, ready int, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(born),
		Labels:          map[string]string{appsv1.ControllerRevisionHashLabelKey: "web-a-" + version, "lifecycle.apps.kruise.io/state": "Normal"},
		OwnerReferences: []metav1.OwnerReference{{Kind: "CloneSet", UID: "c", Controller: ptr.To(true)}},
	}}
	p.Status.Phase = corev1.PodRunning
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(born.Add(time.Duration(ready) * time.Second))}
	if ready < 0 {
		condition.Status, condition.LastTransitionTime = corev1.ConditionFalse, metav1.NewTime(born)
	}
	p.Status.Conditions = []corev1.PodCondition{condition}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func labelled(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Labels[key] = value }
}

// A pod that its controller has started to delete or update served until then. It has not failed, however long that
// takes.
func TestLeaving(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		what, label, value string
		failed             bool
	}{
		{"chosen to be deleted", "apps.kruise.io/specified-delete", "true", false},
		{"held by a hook before it is deleted", "lifecycle.apps.kruise.io/state", "PreparingDelete", false},
		{"held by a hook before it is updated", "lifecycle.apps.kruise.io/state", "PreparingUpdate", false},
		{"being updated in place", "lifecycle.apps.kruise.io/state", "Updating", false},
		{"held by a hook before it serves", "lifecycle.apps.kruise.io/state", "PreparingNormal", true},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			p := pod("a", "v1", 1, labelled(tc.label, tc.value))
			o, err := cloneset.New().Observe(child(t, "0"), adapters.Dependents{Pods: []*corev1.Pod{p}})
			if err != nil {
				t.Fatal(err)
			}
			terms := adapters.Terms{Now: p.CreationTimestamp.Add(24 * time.Hour), Deadline: 10 * time.Minute}
			if failed, _ := terms.Failed(&o.Pods[0]); failed != tc.failed {
				t.Errorf("failed: %v, want %v", failed, tc.failed)
			}
			if o.Pods[0].Ready {
				t.Error("it serves")
			}
		})
	}
}

// told formats the replicas in the order of their positions: "0 a v1, 3 b v2?".
func told(o *adapters.Observed) string {
	var members []string
	for _, m := range o.Pods {
		text := fmt.Sprintf("%d %s %s", m.Position, m.Name, strings.TrimPrefix(m.Hash, "web-a-"))
		switch {
		case m.Terminating:
			text += "~"
		case !m.Ready:
			text += "?"
		}
		members = append(members, text)
	}
	return strings.Join(members, ", ")
}

func TestRanks(t *testing.T) {
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(born.Add(time.Minute))) }
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	for _, tc := range []struct {
		name, partition string
		pods            []*corev1.Pod
		want            string
	}{
		{
			"the one that is ready for the shortest time goes first", "4",
			[]*corev1.Pod{pod("a", "v1", 5), pod("b", "v1", 1), pod("c", "v1", 9), pod("d", "v1", 3)},
			"0 b v1, 1 d v1, 2 a v1, 3 c v1",
		},
		{
			"but before it what is not ready, and before that what does not run", "4",
			[]*corev1.Pod{pod("a", "v1", -1, phase(corev1.PodPending)), pod("b", "v1", -1), pod("c", "v1", 9), pod("d", "v1", 3)},
			"0 d v1, 1 c v1, 2 b v1?, 3 a v1?",
		},
		{
			"what is missing lies between what stays and what is updated", "2",
			[]*corev1.Pod{pod("a", "v2", 5), pod("b", "v1", 1)},
			"0 b v1, 3 a v2",
		},
		{
			"old versions are all alike", "2",
			[]*corev1.Pod{pod("a", "v2", 5), pod("b", "v0", 1), pod("c", "v1", 2), pod("d", "v2", 4)},
			"0 b v0, 1 c v1, 2 d v2, 3 a v2",
		},
		{
			"what is being deleted is replaced already", "2",
			[]*corev1.Pod{pod("a", "v1", 5, deleted), pod("b", "v1", 1), pod("c", "v1", 2), pod("d", "v2", 4), pod("e", "v2", 5)},
			"0 b v1, 1 c v1, 2 d v2, 3 e v2, 4 a v1~",
		},
		{
			"what has ended is none, nor what another controls", "4",
			[]*corev1.Pod{pod("a", "v1", 1, phase(corev1.PodFailed)), pod("b", "v1", 1, phase(corev1.PodSucceeded)), pod("c", "v1", 1), pod("d", "v1", 1, func(p *corev1.Pod) {
				p.OwnerReferences[0].UID = "other"
			})},
			"0 c v1",
		},
		{
			"too many: what its partition has released goes first", "2",
			[]*corev1.Pod{pod("a", "v1", 1), pod("b", "v1", 2), pod("c", "v1", 3), pod("d", "v2", 4), pod("e", "v2", 5)},
			"0 a v1, 1 b v1, 2 d v2, 3 e v2, 4 c v1",
		},
		{
			"then what is updated", "4",
			[]*corev1.Pod{pod("a", "v1", 1), pod("b", "v1", 2), pod("c", "v1", 3), pod("d", "v2", 4), pod("e", "v2", -1)},
			"0 a v1, 1 b v1, 2 c v1, 3 d v2, 4 e v2?",
		},
		{
			"what it has chosen is next", "2",
			[]*corev1.Pod{pod("a", "v1", 1, labelled("apps.kruise.io/specified-delete", "true")), pod("b", "v1", -1), pod("c", "v1", 3), pod("d", "v1", 4)},
			"0 c v1, 1 d v1, 2 b v1?, 3 a v1?",
		},
		{
			"only what is in the state Normal serves", "2",
			[]*corev1.Pod{pod("a", "v1", 1), pod("b", "v2", 2, labelled("lifecycle.apps.kruise.io/state", "Updating")), pod("c", "v2", 3, labelled("lifecycle.apps.kruise.io/state", ""))},
			"0 a v1, 2 b v2?, 3 c v2",
		},
		{
			"short hashes", "2",
			[]*corev1.Pod{pod("a", "v1", 1, labelled(appsv1.ControllerRevisionHashLabelKey, "v2"))},
			"3 a v2",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, err := cloneset.New().Observe(child(t, tc.partition), adapters.Dependents{Pods: tc.pods})
			if err != nil {
				t.Fatal(err)
			}
			if got := told(o); got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
		})
	}
}

func TestObserve(t *testing.T) {
	u := child(t, `1`)
	o, err := cloneset.New().Observe(u, adapters.Dependents{Pods: []*corev1.Pod{pod("a", "v1", 1)}})
	if err != nil {
		t.Fatal(err)
	}
	if o.Replicas != 4 || o.Partition != 1 || o.MinReadySeconds != 3 || !o.SpecObserved || o.CurrentHash != "web-a-v1" || o.UpdateHash != "web-a-v2" || !o.StatusOutdated {
		t.Errorf("%+v", o)
	}
	for partition, want := range map[string]int32{`"50%"`: 2, `"99%"`: 3, `"100%"`: 4, `"1%"`: 1, `"0%"`: 0, `7`: 7, `null`: 0, `"x"`: 0} {
		if o, err = cloneset.New().Observe(child(t, partition), adapters.Dependents{}); err != nil || o.Partition != want {
			t.Errorf("partition %s is %d, want %d (%v)", partition, o.Partition, want, err)
		}
	}
	u.SetKind("StatefulSet")
	if _, err = cloneset.New().Observe(u, adapters.Dependents{}); err == nil {
		t.Error("another kind is read")
	}
}

func TestOwn(t *testing.T) {
	workload := read(t, `{spec: {updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 2, maxSurge: 1}}}`)
	c := &adapters.Child{Replicas: 3, Partition: 2, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Parent: "web", Subset: "a"}
	strategy := func(pace *adapters.Pace) map[string]any {
		t.Helper()
		c.Pace = pace
		if err := cloneset.New().SetControllerFields(workload, c); err != nil {
			t.Fatal(err)
		}
		return workload["spec"].(map[string]any)["updateStrategy"].(map[string]any)
	}
	want := map[string]any{"type": "InPlaceIfPossible", "maxUnavailable": float64(2), "maxSurge": float64(1), "partition": int64(2), "paused": false}
	if diff := cmp.Diff(want, strategy(nil)); diff != "" {
		t.Error(diff)
	}
	want["maxUnavailable"] = int64(1)
	if diff := cmp.Diff(want, strategy(&adapters.Pace{MaxUnavailable: 1})); diff != "" {
		t.Error(diff)
	}
	want["maxUnavailable"] = "100%"
	if diff := cmp.Diff(want, strategy(adapters.Unbounded())); diff != "" {
		t.Error(diff)
	}
	if replicas := workload["spec"].(map[string]any)["replicas"]; replicas != int64(3) {
		t.Errorf("replicas are %v", replicas)
	}

	workload = map[string]any{}
	want = map[string]any{"type": "ReCreate", "maxUnavailable": "20%", "maxSurge": int64(0), "partition": int64(2), "paused": false}
	if diff := cmp.Diff(want, strategy(nil)); diff != "" || workload["spec"].(map[string]any)["minReadySeconds"] != any(int64(0)) {
		t.Error("what the template does not say is not as the API server makes it", diff)
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name, spec  string
		coordinated bool
		want        string
	}{
		{"well", `{updateStrategy: {type: InPlaceIfPossible, maxUnavailable: 2, maxSurge: 1, priorityStrategy: {}}, scaleStrategy: {maxUnavailable: 1}}`, false, ""},
		{"well in a coordinated rollout", `{updateStrategy: {type: ReCreate, maxSurge: 1}}`, true, ""},
		{"a partition", `{updateStrategy: {partition: 1}}`, false, "spec.updateStrategy.partition"},
		{"paused", `{updateStrategy: {paused: true}}`, false, "spec.updateStrategy.paused"},
		{"no partition", `{updateStrategy: {type: OnDelete}}`, false, "spec.updateStrategy.type"},
		{"replicas", `{replicas: 1}`, false, "spec.replicas"},
		{"pods to delete", `{scaleStrategy: {podsToDelete: [a]}}`, false, "spec.scaleStrategy.podsToDelete"},
		{"another shape", `{updateStrategy: [], scaleStrategy: []}`, false, "spec.scaleStrategy spec.updateStrategy"},
		{"how many", `{updateStrategy: {maxUnavailable: 1}}`, true, "spec.updateStrategy.maxUnavailable"},
		{"which first", `{updateStrategy: {priorityStrategy: {}, scatterStrategy: []}}`, true, "spec.updateStrategy.priorityStrategy spec.updateStrategy.scatterStrategy"},
		{"another shape in a coordinated rollout", `{updateStrategy: x}`, true, "spec.updateStrategy"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := read(t, tc.spec)
			spec["template"] = map[string]any{"metadata": map[string]any{"labels": map[string]any{"app": "web"}}}
			parent := &v1alpha1.UnitedDeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
			if tc.coordinated {
				parent.UpdateStrategy.Type = v1alpha1.RollingUpdateStrategy
			}
			var fields []string
			for _, err := range cloneset.New().Validate(parent, map[string]any{"spec": spec}, field.NewPath("at")) {
				fields = append(fields, strings.TrimPrefix(err.Field, "at."))
			}
			if got := strings.Join(fields, " "); got != tc.want {
				t.Errorf("refused %q, want %q", got, tc.want)
			}
			delete(spec, "template")
			patch := cloneset.New().ValidatePatch(map[string]any{"spec": spec}, parent.Selector, field.NewPath("at"))
			if refused := len(patch) > 0; refused != (tc.want != "" && !tc.coordinated) && tc.name != "another shape in a coordinated rollout" {
				t.Errorf("in a patch: %v", patch)
			}
		})
	}
}
