// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package advancedstatefulset_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

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
	"github.com/unitedworkloads/united/adapters/advancedstatefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// child returns web-a with three replicas and with members of its spec.
func child(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{}
	raw, err := yaml.YAMLToJSON([]byte(`{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet,
  metadata: {namespace: shop, name: web-a, uid: s, generation: 5},
  spec: {replicas: 3, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}}` + spec + `},
  status: {observedGeneration: 5, currentRevision: web-a-v1, updateRevision: web-a-v2, replicas: 2, readyReplicas: 1}}`))
	if err == nil {
		err = u.UnmarshalJSON(raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func pod(name, state string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name),
		Labels:          map[string]string{"app": "web", appsv1.ControllerRevisionHashLabelKey: "web-a-v1", "lifecycle.apps.kruise.io/state": state},
		OwnerReferences: []metav1.OwnerReference{{UID: "s", Controller: ptr.To(true)}},
	}}
	p.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	return p
}

func TestObserve(t *testing.T) {
	pods := []*corev1.Pod{pod("web-a-2", "Normal"), pod("web-a-0", "Updating"), pod("web-a-1", ""), pod("web-a-x", "")}
	for _, tc := range []struct{ name, spec, want string }{
		{"as a StatefulSet", ``, "ordered, partition 0: 0 web-a-0?, 1 web-a-1, 2 web-a-2, lacks "},
		{"with a partition", `, podManagementPolicy: Parallel, updateStrategy: {rollingUpdate: {partition: 2, minReadySeconds: 7}}`, "partition 2, 7s: 0 web-a-0?, 1 web-a-1, 2 web-a-2, lacks "},
		{"reserved", `, podManagementPolicy: Parallel, reserveOrdinals: [1, "3-4"]`, "partition 0: -2 web-a-1, 0 web-a-0?, 1 web-a-2, lacks web-a-5"},
		{"reserved by what is no range", `, podManagementPolicy: Parallel, reserveOrdinals: [1, "x"]`, "partition 0: 0 web-a-0?, 1 web-a-1, 2 web-a-2, lacks "},
		{"from 1 on", `, podManagementPolicy: Parallel, ordinals: {start: 1}`, "partition 0: -1 web-a-0?, 0 web-a-1, 1 web-a-2, lacks web-a-3"},
		{"without a partition", `, podManagementPolicy: Parallel, updateStrategy: {type: OnDelete}`, "none, partition 0: 0 web-a-0?, 1 web-a-1, 2 web-a-2, lacks "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, err := advancedstatefulset.New().Observe(child(t, tc.spec), adapters.Dependents{Pods: pods})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("partition %d", o.Partition)
			if o.MinReadySeconds > 0 {
				got += fmt.Sprintf(", %ds", o.MinReadySeconds)
			}
			got += ": "
			for _, m := range o.Pods {
				got += fmt.Sprintf("%d %s%s, ", m.Position, m.Name, map[bool]string{false: "?"}[m.Ready])
			}
			got += "lacks " + o.MissingName
			if o.Ordered {
				got = "ordered, " + got
			}
			if o.NoPartition {
				got = "none, " + got
			}
			if got != tc.want {
				t.Errorf("%s, want %s", got, tc.want)
			}
			if o.CurrentHash != "web-a-v1" || o.UpdateHash != "web-a-v2" || !o.SpecObserved || !o.StatusOutdated {
				t.Errorf("%+v", o)
			}
		})
	}
	other := child(t, ``)
	other.SetAPIVersion("apps/v1")
	if _, err := advancedstatefulset.New().Observe(other, adapters.Dependents{}); err == nil {
		t.Error("a StatefulSet of Kubernetes is read")
	}
}

func TestOrphans(t *testing.T) {
	var orphans []corev1.Pod
	for _, name := range []string{"web-a-1", "web-a-2"} {
		p := pod(name, "")
		p.OwnerReferences = nil
		orphans = append(orphans, *p)
	}
	for spec, want := range map[string]int32{``: 3, `, reserveOrdinals: [1]`: 2, `, reserveOrdinals: ["0-2"]`: 0} {
		if got := advancedstatefulset.New().Orphans(child(t, spec), orphans); got != want {
			t.Errorf("%q needs %d replicas, want %d", spec, got, want)
		}
	}
}

func TestOwn(t *testing.T) {
	for _, tc := range []struct {
		name, policy string
		pace         *adapters.Pace
		want         map[string]any
	}{
		{"by hand", "Parallel", nil, map[string]any{"maxUnavailable": int64(1)}},
		{"all", "Parallel", adapters.Unbounded(), map[string]any{"maxUnavailable": "100%"}},
		{"some", "Parallel", &adapters.Pace{MaxUnavailable: 2}, map[string]any{"maxUnavailable": int64(2)}},
		{"in order", "OrderedReady", adapters.Unbounded(), map[string]any{"maxUnavailable": int64(1)}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := map[string]any{
				"podManagementPolicy": tc.policy,
				"updateStrategy":      map[string]any{"rollingUpdate": map[string]any{"podUpdatePolicy": "InPlaceIfPossible"}},
			}
			c := &adapters.Child{Replicas: 3, Partition: 2, MinReadySeconds: 9, Pace: tc.pace, Parent: "web", Subset: "a"}
			if err := advancedstatefulset.New().SetControllerFields(map[string]any{"spec": spec}, c); err != nil {
				t.Fatal(err)
			}
			maps.Copy(tc.want, map[string]any{"partition": int64(2), "minReadySeconds": int64(9), "podUpdatePolicy": "InPlaceIfPossible", "paused": false})
			if diff := cmp.Diff(tc.want, spec["updateStrategy"].(map[string]any)["rollingUpdate"]); diff != "" {
				t.Error(diff)
			}
			if spec["minReadySeconds"] != nil || spec["replicas"] != int64(3) || c.MinReadySeconds != 9 {
				t.Errorf("%v", spec)
			}
		})
	}
}

func TestValidate(t *testing.T) {
	for _, tc := range []struct {
		name, rolling string
		coordinated   bool
		want          string
	}{
		{"well", `{maxUnavailable: 2, podUpdatePolicy: InPlaceIfPossible}`, false, ""},
		{"well in a coordinated rollout", `{podUpdatePolicy: InPlaceOnly}`, true, ""},
		{"a partition", `{partition: 0}`, false, "partition"},
		{"paused", `{paused: true}`, false, "paused"},
		{"another order", `{unorderedUpdate: {}}`, false, "unorderedUpdate"},
		{"how many", `{maxUnavailable: 2}`, true, "maxUnavailable"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			spec := map[string]any{}
			if err := yaml.Unmarshal([]byte(`{template: {metadata: {labels: {app: web}}}, updateStrategy: {rollingUpdate: `+tc.rolling+`}}`), &spec); err != nil {
				t.Fatal(err)
			}
			parent := &v1alpha1.UnitedDeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}
			if tc.coordinated {
				parent.UpdateStrategy.Type = v1alpha1.RollingUpdateStrategy
			}
			var fields []string
			for _, err := range advancedstatefulset.New().Validate(parent, map[string]any{"spec": spec}, field.NewPath("at")) {
				fields = append(fields, strings.TrimPrefix(err.Field, "at.spec.updateStrategy.rollingUpdate."))
			}
			if got := strings.Join(fields, " "); got != tc.want {
				t.Errorf("refused %q, want %q", got, tc.want)
			}
			if patch := advancedstatefulset.New().ValidatePatch(map[string]any{"spec": spec}, parent.Selector, field.NewPath("at")); (len(patch) > 0) != (tc.want != "" && !tc.coordinated) {
				t.Errorf("in a patch: %v", patch)
			}
		})
	}
}

// TestFirstOrdinal: the first ordinal, which the kind ignores, is refused, in a template and in a patch.
func TestFirstOrdinal(t *testing.T) {
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	for start, refused := range map[any]bool{nil: false, int64(0): false, int64(2): true, "x": true} {
		workload := map[string]any{"spec": map[string]any{"ordinals": map[string]any{"start": start}, "template": map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
		}}}
		errs := advancedstatefulset.New().Validate(&v1alpha1.UnitedDeploymentSpec{Selector: selector}, workload, field.NewPath("at"))
		errs = append(errs, advancedstatefulset.New().ValidatePatch(workload, selector, field.NewPath("at"))...)
		if (len(errs) == 2 && errs[0].Field == "at.spec.ordinals.start") != refused {
			t.Errorf("%v: %v", start, errs)
		}
	}
}

// TestCheckChange: reserveOrdinals may not change the ordinals of replicas that exist.
func TestCheckChange(t *testing.T) {
	guard := advancedstatefulset.New().(adapters.Guarding)
	set := func(replicas int, reserved string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		text := fmt.Sprintf(`{apiVersion: apps.kruise.io/v1beta1, kind: StatefulSet, metadata: {name: web-a}, spec: {replicas: %d, reserveOrdinals: %s}}`, replicas, reserved)
		if err := yaml.Unmarshal([]byte(text), &u.Object); err != nil {
			t.Fatal(err)
		}
		return u
	}
	for _, tc := range []struct {
		has      int
		reserved string
		to       int
		want     string
		refused  string
	}{
		{3, `[]`, 3, `[]`, ""},
		{3, `[1]`, 3, `["1"]`, ""},
		{3, `[1]`, 3, `[1, 9]`, ""},
		{3, `["4-6"]`, 3, `[]`, ""},
		{0, `[]`, 3, `[0]`, ""},
		{3, `[]`, 0, `[0]`, ""},
		{3, `[]`, 3, `[0]`, "from nothing while"},
		{3, `[]`, 3, `[2]`, "web-a-2 would become web-a-3"},
		{3, `[1]`, 3, `[]`, "from [1] while"},
		{3, `[1, "5-6"]`, 5, `["1-2"]`, `from [1, 5-6] while`},
		{5, `[]`, 2, `[4]`, "web-a-4 would become web-a-5"},
	} {
		err := guard.CheckChange(set(tc.to, tc.want), set(tc.has, tc.reserved))
		if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%d %s to %d %s: %v", tc.has, tc.reserved, tc.to, tc.want, err)
		}
	}
}
