// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package statefulset_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// object parses YAML like a template: integers are int64.
func object(t testing.TB, text string) map[string]any {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(data, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func matchLabels(labels map[string]string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: labels}
}

func TestValidate(t *testing.T) {
	web := matchLabels(map[string]string{"app": "web"})
	const good = "template: {metadata: {labels: {app: web}}}"
	const at = "spec.template.statefulSetTemplate."
	for _, tc := range []struct {
		name, spec string
		selector   *metav1.LabelSelector
		want       []string
	}{
		{"good", good, web, nil},
		{"nulls are absent", good + "\nreplicas: null\nselector: null\nupdateStrategy: {type: null, rollingUpdate: {partition: null}}", web, nil},
		{"other members of the strategy", good + "\nupdateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}", web, nil},
		{"replicas", good + "\nreplicas: 3", web, []string{at + "spec.replicas: Forbidden: "}},
		{"replicas of 0", good + "\nreplicas: 0", web, []string{at + "spec.replicas: Forbidden: "}},
		{"partition", good + "\nupdateStrategy: {rollingUpdate: {partition: 0}}", web, []string{at + "spec.updateStrategy.rollingUpdate.partition: Forbidden: "}},
		{"OnDelete", good + "\nupdateStrategy: {type: OnDelete}", web, []string{at + "spec.updateStrategy.type: Unsupported value: \"OnDelete\": supported values: \"RollingUpdate\""}},
		{"a strategy of the future", good + "\nupdateStrategy: {type: Magic}", web, []string{at + "spec.updateStrategy.type: Unsupported value"}},
		{"a strategy of another type", good + "\nupdateStrategy: {type: 5}", web, []string{at + "spec.updateStrategy.type: Unsupported value: 5"}},
		{"a strategy that is no object", good + "\nupdateStrategy: x", web, []string{at + "spec.updateStrategy: Invalid value: \"string\": must be an object"}},
		{"rollingUpdate is no object", good + "\nupdateStrategy: {rollingUpdate: []}", web, []string{at + "spec.updateStrategy.rollingUpdate: Invalid value: \"array\""}},
		{"several at once", good + "\nreplicas: 3\nupdateStrategy: {type: OnDelete}", web, []string{at + "spec.replicas: ", at + "spec.updateStrategy.type: "}},

		{"the same selector", good + "\nselector: {matchLabels: {app: web}}", web, nil},
		{
			"the same selector in another order",
			"template: {metadata: {labels: {a: x, b: q}}}\nselector: {matchExpressions: [{key: b, operator: In, values: [q, z]}, {key: a, operator: Exists}]}",
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpExists}, {Key: "b", Operator: metav1.LabelSelectorOpIn, Values: []string{"z", "q"}},
			}}, nil,
		},
		{"another selector", good + "\nselector: {matchLabels: {app: web, x: q}}", web, []string{at + "spec.selector: Invalid value: \"app=web,x=q\": must be absent or equal to spec.selector"}},
		{"an empty selector", good + "\nselector: {}", web, []string{at + "spec.selector: Invalid"}},
		{"a misspelt selector", good + "\nselector: {matchLables: {app: web}}", web, []string{at + "spec.selector: Invalid"}},
		{"a selector that is none", good + "\nselector: {matchExpressions: [{key: a, operator: Like}]}", web, []string{at + "spec.selector: Invalid"}},
		{"a selector that is no object", good + "\nselector: [x]", web, []string{at + "spec.selector: Invalid value: \"array\": must be an object"}},
		{"selector values of another type", good + "\nselector: {matchLabels: {app: 1}}", web, []string{at + "spec.selector: Invalid"}},

		{"other pod labels", "template: {metadata: {labels: {app: x}}}", web, []string{at + "spec.template.metadata.labels: Invalid value: \"app=x\": must match spec.selector, which asks for app=web"}},
		{"no pod labels", "template: {}", web, []string{at + "spec.template.metadata.labels: Invalid"}},
		{"no pod template", "serviceName: x", web, []string{at + "spec.template.metadata.labels: Invalid"}},
		{"a pod template that is no object", "template: x", web, []string{at + "spec.template: Invalid value: \"string\""}},
		{"pod metadata that is no object", "template: {metadata: []}", web, []string{at + "spec.template.metadata: Invalid value: \"array\""}},
		{"pod labels that are no object", "template: {metadata: {labels: x}}", web, []string{at + "spec.template.metadata.labels: Invalid value: \"string\""}},
		{"a pod label that is no string", "template: {metadata: {labels: {app: 1}}}", web, []string{at + "spec.template.metadata.labels[app]: Invalid value: \"number\""}},
		{
			"matchExpressions only", good,
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "api"}}}}, nil,
		},
		{"the labels that we add may be selected on", "template: {}", matchLabels(map[string]string{"united.dev/name": "web", "united.dev/subset": "zone-a"}), nil},

		{"no selector", good, nil, []string{"spec.selector: Required"}},
		{"an empty parent selector", good, &metav1.LabelSelector{}, []string{"spec.selector: Required"}},
		{
			"a bad parent selector", good + "\nreplicas: 1",
			&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}},
			[]string{"spec.selector: Invalid", at + "spec.replicas: Forbidden"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			template := map[string]any{"spec": object(t, tc.spec)}
			errs := statefulset.New().Validate(&v1alpha1.UnitedDeploymentSpec{Selector: tc.selector}, template, field.NewPath("spec", "template", "statefulSetTemplate"))
			ok := len(errs) == len(tc.want)
			for i := range errs {
				ok = ok && strings.HasPrefix(errs[i].Error(), tc.want[i])
			}
			if !ok {
				t.Errorf("want %q\nhave %v", tc.want, errs)
			}
		})
	}
	errs := statefulset.New().Validate(&v1alpha1.UnitedDeploymentSpec{Selector: web}, object(t, "spec: []"), field.NewPath("t"))
	if len(errs) != 1 || errs[0].Error() != "t.spec: Invalid value: \"array\": must be an object" {
		t.Error(errs)
	}
}

// A patch is checked like a template, except for pod labels.
func TestValidatePatch(t *testing.T) {
	web := matchLabels(map[string]string{"app": "web"})
	const at = "spec.topology.subsets[zone-a].patch."
	for _, tc := range []struct{ name, patch, want string }{
		{"nothing", "{}", ""},
		{"no spec", "metadata: {name: x}", ""},
		{"null spec", "spec: null", ""},
		{"nulls are absent", "spec: {replicas: null, selector: null, updateStrategy: {type: null, rollingUpdate: {partition: null}}}", ""},
		{"null strategy", "spec: {updateStrategy: null}", ""},
		{"null rolling update", "spec: {updateStrategy: {rollingUpdate: null}}", ""},
		{"what is not ours", "spec: {minReadySeconds: 1, updateStrategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2}}}", ""},
		{"the same selector", "spec: {selector: {matchLabels: {app: web}}}", ""},
		{"other pod labels", "spec: {template: {metadata: {labels: {app: x}}}}", ""},

		{"replicas", "spec: {replicas: 3}", at + "spec.replicas: Forbidden: "},
		{"replicas of 0", "spec: {replicas: 0}", at + "spec.replicas: Forbidden: "},
		{"replicas of another type", "spec: {replicas: x}", at + "spec.replicas: Forbidden: "},
		{"partition", "spec: {updateStrategy: {rollingUpdate: {partition: 0}}}", at + "spec.updateStrategy.rollingUpdate.partition: Forbidden: "},
		{"OnDelete", "spec: {updateStrategy: {type: OnDelete}}", at + "spec.updateStrategy.type: Unsupported value: \"OnDelete\""},
		{"a strategy that is no object", "spec: {updateStrategy: x}", at + "spec.updateStrategy: Invalid value: \"string\""},
		{"rollingUpdate is no object", "spec: {updateStrategy: {rollingUpdate: [x]}}", at + "spec.updateStrategy.rollingUpdate: Invalid value: \"array\""},
		{"another selector", "spec: {selector: {matchLabels: {app: web, x: q}}}", at + "spec.selector: Invalid value: \"app=web,x=q\": must be absent or equal"},
		{"part of a selector", "spec: {selector: {matchExpressions: [{key: x, operator: Exists}]}}", at + "spec.selector: Invalid value"},
		{"an empty selector", "spec: {selector: {}}", at + "spec.selector: Invalid"},
		{"a selector that is no object", "spec: {selector: x}", at + "spec.selector: Invalid value: \"string\""},
		{"spec that is no object", "spec: [x]", at + "spec: Invalid value: \"array\""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			errs := statefulset.New().ValidatePatch(object(t, tc.patch), web, field.NewPath("spec", "topology", "subsets").Key("zone-a").Child("patch"))
			if tc.want == "" && len(errs) > 0 || tc.want != "" && (len(errs) != 1 || !strings.HasPrefix(errs[0].Error(), tc.want)) {
				t.Errorf("want %q\nhave %v", tc.want, errs)
			}
		})
	}
	if errs := statefulset.New().ValidatePatch(object(t, "spec: {selector: {}}"), nil, nil); len(errs) != 0 {
		t.Error("the parent's selector is not the patch's to answer for:", errs)
	}
}

func TestOwn(t *testing.T) {
	c := &adapters.Child{
		Parent: "web", Subset: "zone-a", Replicas: 4, Partition: 9, MinReadySeconds: 30,
		Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpExists}}},
	}
	const owned = `
replicas: 4
selector:
  matchLabels: {united.dev/name: web, united.dev/subset: zone-a}
  matchExpressions: [{key: app, operator: Exists}]
`
	const defaults = "ordinals: {start: 0}\nupdateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 9, maxUnavailable: 1}}\n"
	for name, tc := range map[string]struct{ spec, want string }{
		"nothing there":             {"{}", defaults + "minReadySeconds: 30"},
		"the template's own wins":   {"minReadySeconds: 5", defaults + "minReadySeconds: 5"},
		"the template's own 0 wins": {"minReadySeconds: 0", defaults + "minReadySeconds: 0"},
		"the rest of the strategy stays": {
			"minReadySeconds: 1\nordinals: {start: 3}\nupdateStrategy: {type: OnDelete, future: 1, rollingUpdate: {partition: 1, maxUnavailable: 25%}}",
			"minReadySeconds: 1\nordinals: {start: 3}\nupdateStrategy: {type: RollingUpdate, future: 1, rollingUpdate: {partition: 9, maxUnavailable: 25%}}",
		},
	} {
		t.Run(name, func(t *testing.T) {
			workload := map[string]any{"spec": object(t, tc.spec)}
			if err := statefulset.New().SetControllerFields(workload, c); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string]any{"spec": object(t, owned+tc.want)}, workload); diff != "" {
				t.Error("want -, have +\n", diff)
			}
		})
	}
	if len(c.Selector.MatchLabels) != 0 {
		t.Error("the parent's selector was changed")
	}
	bare := map[string]any{}
	if err := statefulset.New().SetControllerFields(bare, &adapters.Child{}); err != nil {
		t.Error(err)
	}
	if spec := bare["spec"].(map[string]any); spec["minReadySeconds"] != any(int64(0)) {
		t.Error("minReadySeconds of 0 was not written, so that of somebody else would stay")
	}
}

func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

func after(seconds int) metav1.Time {
	return metav1.NewTime(epoch().Add(time.Duration(seconds) * time.Second))
}

// pod returns a pod of the StatefulSet with uid s-1, changed by edits.
func pod(name string, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: name, Namespace: "shop", UID: types.UID("uid-" + name), CreationTimestamp: after(0),
		Labels:          map[string]string{"controller-revision-hash": "h1", "app": "web"},
		OwnerReferences: []metav1.OwnerReference{{UID: "s-1", Controller: ptr.To(true)}},
	}}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

func ready(status corev1.ConditionStatus, at metav1.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Conditions = append(p.Status.Conditions,
			corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: after(99)},
			corev1.PodCondition{Type: corev1.PodReady, Status: status, LastTransitionTime: at})
	}
}

func waiting(reason string) corev1.ContainerStatus {
	return corev1.ContainerStatus{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}
}

func TestObserve(t *testing.T) {
	set := &unstructured.Unstructured{Object: object(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web-zone-a, namespace: shop, uid: s-1, generation: 4, annotations: {united.dev/revision: web-2}}
spec:
  replicas: 3
  minReadySeconds: 7
  ordinals: {start: 2}
  updateStrategy: {type: RollingUpdate, rollingUpdate: {partition: 1}}
  template: {spec: {containers: of-another-type}}
  volumeClaimTemplates: 5
status: {observedGeneration: 4, currentRevision: h1, updateRevision: h2, replicas: 4, readyReplicas: 1, updatedReplicas: 1}
`)}
	pods := []*corev1.Pod{
		pod("web-zone-a-10", ready(corev1.ConditionTrue, after(5))),
		pod("web-zone-a-2", ready(corev1.ConditionFalse, after(6)), func(p *corev1.Pod) {
			p.Labels["controller-revision-hash"] = "h2"
			p.Status.ContainerStatuses = []corev1.ContainerStatus{waiting("ContainerCreating"), waiting("CrashLoopBackOff")}
		}),
		pod("web-zone-a-3", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(after(1)) }),
		pod("web-zone-a-0"),

		pod("web-zone-a-4", func(p *corev1.Pod) { p.OwnerReferences[0].UID = "s-2" }),
		pod("web-zone-a-5", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }),
		pod("web-zone-a-6", func(p *corev1.Pod) { p.OwnerReferences = nil }),
		pod("web-zone-a-7", func(p *corev1.Pod) { p.Namespace = "other" }),
		pod("web-zone-a-08"), pod("web-zone-a-+8"), pod("web-zone-a--8"), pod("web-zone-a-"), pod("web-zone-a"),
		pod("web-zone-a-8-0"), pod("web-zone-a-x"), pod("web-zone-b-8"), pod("web-zone-a-2147483648"), pod("web-zone-a-99999999999999999999"),
	}
	got, err := statefulset.New().Observe(set, adapters.Dependents{Pods: pods})
	if err != nil {
		t.Fatal(err)
	}
	if got.Meta.Name != "web-zone-a" || got.Meta.UID != "s-1" || got.Meta.Annotations["united.dev/revision"] != "web-2" {
		t.Error(got.Meta)
	}
	got.Meta = metav1.ObjectMeta{}
	want := &adapters.Observed{
		Traits:   statefulset.New().Traits(),
		Replicas: 3, Partition: 1, MinReadySeconds: 7, Ordered: true, SpecObserved: true, CurrentHash: "h1", UpdateHash: "h2",
		Pods: []adapters.Replica{
			{Name: "web-zone-a-0", UID: "uid-web-zone-a-0", Position: -2, Hash: "h1", Created: epoch(), Since: epoch(), NeverReady: true},
			{Name: "web-zone-a-2", UID: "uid-web-zone-a-2", Position: 0, Hash: "h2", Created: epoch(), Since: after(6).Time, Failure: "CrashLoopBackOff"},
			{Name: "web-zone-a-3", UID: "uid-web-zone-a-3", Position: 1, Hash: "h1", Created: epoch(), Since: epoch(), Terminating: true, NeverReady: true},
			{Name: "web-zone-a-10", UID: "uid-web-zone-a-10", Position: 8, Hash: "h1", Created: epoch(), Since: epoch(), Ready: true, ReadySince: after(5).Time},
		},
		MissingName: "web-zone-a-4", // the first ordinal is 2
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("want -, have +\n", diff)
	}
}

// TestTrailing counts like the StatefulSet controller: a terminating replica is a replica, perhaps ready, but not an
// updated one.
func TestTrailing(t *testing.T) {
	updated := func(p *corev1.Pod) { p.Labels["controller-revision-hash"] = "h2" }
	pods := []*corev1.Pod{
		pod("web-zone-a-0", ready(corev1.ConditionTrue, after(1))),
		pod("web-zone-a-1", ready(corev1.ConditionTrue, after(1)), updated),
		pod("web-zone-a-2", ready(corev1.ConditionTrue, after(1)), updated, func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(after(1)) }),
	}
	for status, want := range map[string]bool{
		"replicas: 3, readyReplicas: 3, updatedReplicas: 1": false,
		"replicas: 2, readyReplicas: 3, updatedReplicas: 1": true,
		"replicas: 3, readyReplicas: 2, updatedReplicas: 1": true,
		"replicas: 3, readyReplicas: 3, updatedReplicas: 2": true,
		"": true,
	} {
		set := &unstructured.Unstructured{Object: object(t, `{apiVersion: apps/v1, kind: StatefulSet,
metadata: {name: web-zone-a, namespace: shop, uid: s-1}, status: {updateRevision: h2, `+status+`}}`)}
		got, err := statefulset.New().Observe(set, adapters.Dependents{Pods: pods})
		if err != nil || got.StatusOutdated != want {
			t.Errorf("%q: %v, %v", status, got, err)
		}
	}
}

func TestObserveDefaultsAndKinds(t *testing.T) {
	a := statefulset.New()
	set := &unstructured.Unstructured{Object: object(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: web, generation: 2}
spec: {podManagementPolicy: Parallel}
status: {observedGeneration: 1}
`)}
	got, err := a.Observe(set, adapters.Dependents{})
	if err != nil {
		t.Fatal(err)
	}
	got.Meta = metav1.ObjectMeta{}
	if diff := cmp.Diff(&adapters.Observed{Traits: a.Traits(), Replicas: 1, MissingName: "web-0"}, got); diff != "" {
		t.Error("want -, have +\n", diff)
	}
	for name, odd := range map[string]*unstructured.Unstructured{
		"nil":          nil,
		"empty":        {},
		"another kind": {Object: object(t, "{apiVersion: apps/v1, kind: Deployment}")},
		"replicas":     {Object: object(t, "{apiVersion: apps/v1, kind: StatefulSet, spec: {replicas: x}}")},
		"spec":         {Object: object(t, "{apiVersion: apps/v1, kind: StatefulSet, spec: x}")},
	} {
		if _, err := a.Observe(odd, adapters.Dependents{}); err == nil {
			t.Error(name, "was read")
		}
		if n := a.Orphans(odd, []corev1.Pod{*pod("web-0")}); n != 0 {
			t.Error(name, "has orphans")
		}
	}
}

func TestReadiness(t *testing.T) {
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	deleted := func(at int, grace int64) func(*corev1.Pod) { // at is the deletionTimestamp
		return func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = ptr.To(after(at)), &grace }
	}
	for _, tc := range []struct {
		name       string
		pod        *corev1.Pod
		readySince int // seconds; -1: not ready
		since      int
	}{
		{"no condition", pod("w-0"), -1, 0},
		{"ready", pod("w-0", phase(corev1.PodRunning), ready(corev1.ConditionTrue, after(3))), 3, 0},
		{"ready since before it was created", pod("w-0", ready(corev1.ConditionTrue, metav1.Time{})), 0, 0},
		{"not ready any more", pod("w-0", ready(corev1.ConditionFalse, after(3))), -1, 3},
		{"unknown", pod("w-0", ready(corev1.ConditionUnknown, after(3))), -1, 3},
		{"not ready, time unknown", pod("w-0", ready(corev1.ConditionFalse, metav1.Time{})), -1, 0},
		{"ready but failed", pod("w-0", phase(corev1.PodFailed), ready(corev1.ConditionTrue, after(3))), -1, 3},
		{"ready and being deleted", pod("w-0", phase(corev1.PodRunning), ready(corev1.ConditionTrue, after(3)), deleted(34, 30)), 3, 4},
		{"not ready since it is being deleted", pod("w-0", ready(corev1.ConditionFalse, after(6)), deleted(34, 30)), -1, 4},
		{"deleted since it is not ready", pod("w-0", ready(corev1.ConditionFalse, after(3)), deleted(34, 30)), -1, 3},
		{"ready but succeeded", pod("w-0", phase(corev1.PodSucceeded), ready(corev1.ConditionTrue, after(3))), -1, 3},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := observeOne(t, tc.pod)
			var since time.Time
			if tc.readySince >= 0 {
				since = after(tc.readySince).Time
			}
			if r.Ready != (tc.readySince >= 0) || !r.ReadySince.Equal(since) || !r.Since.Equal(after(tc.since).Time) {
				t.Errorf("%+v", r)
			}
		})
	}
}

func TestFailure(t *testing.T) {
	containers := func(reasons ...string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{})
			for _, reason := range reasons {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, waiting(reason))
			}
		}
	}
	failed := func(reason string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, reason }
	}
	inits := func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{waiting("ImagePullBackOff")}
	}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want string
	}{
		{"none", pod("w-0"), ""},
		{"starting", pod("w-0", containers("ContainerCreating", "PodInitializing")), ""},
		{"init container", pod("w-0", inits, containers("PodInitializing")), "ImagePullBackOff"},
		{"failed", pod("w-0", failed("")), "Failed"},
		{"evicted", pod("w-0", failed("Evicted"), containers("CrashLoopBackOff")), "Evicted"},
		{"a reason without failure", pod("w-0", func(p *corev1.Pod) { p.Status.Reason = "NodeLost" }), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := observeOne(t, tc.pod).Failure; got != tc.want {
				t.Errorf("want %q, have %q", tc.want, got)
			}
		})
	}
	for _, reason := range []string{
		"CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "ErrImageNeverPull",
		"CreateContainerConfigError", "CreateContainerError", "RunContainerError",
	} {
		if got := observeOne(t, pod("w-0", containers("ContainerCreating", reason))).Failure; got != reason {
			t.Errorf("want %q, have %q", reason, got)
		}
	}
}

// A pod that has never been ready has no Ready condition, or one that is as old as its start.
func TestNeverReady(t *testing.T) {
	condition := func(status corev1.ConditionStatus, started, changed int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.StartTime = ptr.To(after(started))
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: after(changed)}}
		}
	}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"not started", pod("w-0"), true},
		{"not ready since it started", pod("w-0", condition(corev1.ConditionFalse, 5, 5)), true},
		{"ready", pod("w-0", condition(corev1.ConditionTrue, 5, 5)), false},
		{"ready before", pod("w-0", condition(corev1.ConditionFalse, 5, 6)), false},
		{"without a start", pod("w-0", func(p *corev1.Pod) {
			condition(corev1.ConditionFalse, 5, 5)(p)
			p.Status.StartTime = nil
		}), false},
	} {
		if r := observeOne(t, tc.pod); r.NeverReady != tc.want {
			t.Errorf("%s: want %v, have %v", tc.name, tc.want, r.NeverReady)
		}
	}
}

// Between two attempts of a crash loop, a container runs, or has just ended.
func TestCrashed(t *testing.T) {
	ended := func(code int32) *corev1.ContainerStateTerminated {
		return &corev1.ContainerStateTerminated{ExitCode: code}
	}
	status := func(s corev1.ContainerStatus) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, corev1.ContainerStatus{Ready: true}, s)
		}
	}
	now, before := corev1.ContainerStatus{}, corev1.ContainerStatus{}
	now.State.Terminated, before.LastTerminationState.Terminated = ended(1), ended(137)
	wellAgain, done := before, now
	born := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	wellAgain.Ready, done.State.Terminated = true, ended(0)
	runs := before
	runs.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(born.Add(time.Minute))}
	unreadySince := func(d time.Duration) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = []corev1.PodCondition{{
				Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(born.Add(d)),
			}}
		}
	}
	for _, tc := range []struct {
		name string
		pod  *corev1.Pod
		want bool
	}{
		{"never", pod("w-0", status(corev1.ContainerStatus{})), false},
		{"just now", pod("w-0", status(now)), true},
		{"before, and not ready since", pod("w-0", status(before)), true},
		{"before, and runs again, not ready since", pod("w-0", status(runs), unreadySince(0)), true},
		{"before, was ready again, and ceased to be", pod("w-0", status(runs), unreadySince(time.Hour)), false},
		{"before, and ready now", pod("w-0", status(wellAgain)), false},
		{"ended well", pod("w-0", status(done)), false},
		{"an init container", pod("w-0", func(p *corev1.Pod) { p.Status.InitContainerStatuses = []corev1.ContainerStatus{now} }), true},
	} {
		if r := observeOne(t, tc.pod); r.Crashed != tc.want {
			t.Errorf("%s: want %v, have %v", tc.name, tc.want, r.Crashed)
		}
	}
}

// observeOne observes StatefulSet w with one pod.
func observeOne(t *testing.T, p *corev1.Pod) adapters.Replica {
	t.Helper()
	set := &unstructured.Unstructured{Object: object(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: w, namespace: shop, uid: s-1}}")}
	got, err := statefulset.New().Observe(set, adapters.Dependents{Pods: []*corev1.Pod{p}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Pods) != 1 {
		t.Fatal(got.Pods)
	}
	return got.Pods[0]
}

func TestOrphans(t *testing.T) {
	set := func(spec string) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: object(t, "{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: w, namespace: shop}, spec: "+spec+"}")}
	}
	const selector = "selector: {matchLabels: {app: web}}"
	orphan := func(name string, edits ...func(*corev1.Pod)) corev1.Pod {
		return *pod(name, append(edits, func(p *corev1.Pod) { p.OwnerReferences = nil })...)
	}
	for _, tc := range []struct {
		name, spec string
		pods       []corev1.Pod
		want       int32
	}{
		{"none", "{" + selector + "}", nil, 0},
		{"by number", "{" + selector + "}", []corev1.Pod{orphan("w-2"), orphan("w-10"), orphan("w-9")}, 11},
		{"from the first ordinal on", "{ordinals: {start: 5}, " + selector + "}", []corev1.Pod{orphan("w-2"), orphan("w-7")}, 3},
		{"below the first ordinal", "{ordinals: {start: 5}, " + selector + "}", []corev1.Pod{orphan("w-2")}, 0},
		{"not ours to adopt", "{" + selector + "}", []corev1.Pod{
			*pod("w-2"),
			orphan("w-3", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(after(1)) }),
			orphan("w-4", func(p *corev1.Pod) { p.Labels = nil }),
			orphan("w-5", func(p *corev1.Pod) { p.Namespace = "other" }),
			orphan("x-6"),
			orphan("w-2147483647"),
		}, 0},
		{"an owner that does not control", "{" + selector + "}", []corev1.Pod{*pod("w-2", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil })}, 3},
		{"the highest", "{" + selector + "}", []corev1.Pod{orphan("w-2147483646")}, math.MaxInt32},
		{"a selector that is none", "{selector: {matchExpressions: [{key: a, operator: Like}]}}", []corev1.Pod{orphan("w-2")}, 0},
		{"no selector", "{}", []corev1.Pod{orphan("w-2")}, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := statefulset.New().Orphans(set(tc.spec), tc.pods); got != tc.want {
				t.Errorf("want %d, have %d", tc.want, got)
			}
		})
	}
}
