// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package deployment_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/deployment"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

var born = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

// child returns the Deployment web-a with two replicas, image v2, and members of spec and status.
func child(t *testing.T, spec, status string) *unstructured.Unstructured {
	t.Helper()
	return object(t, `{apiVersion: apps/v1, kind: Deployment,
  metadata: {namespace: shop, name: web-a, uid: d, generation: 5, annotations: {united.dev/partition: "0"}},
  spec: {replicas: 2, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: v2}]}}`+spec+`},
  status: {observedGeneration: 5`+status+`}}`)
}

// replicaSet returns a ReplicaSet of an image.
func replicaSet(t *testing.T, image string, edits ...func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	u := object(t, fmt.Sprintf(`{apiVersion: apps/v1, kind: ReplicaSet,
  metadata: {namespace: shop, name: web-a-%[1]s, uid: %[1]s, labels: {app: web, pod-template-hash: h-%[1]s}, creationTimestamp: "2026-01-01T00:00:00Z",
    ownerReferences: [{apiVersion: apps/v1, kind: Deployment, name: web-a, uid: d, controller: true}]},
  spec: {template: {metadata: {labels: {app: web, pod-template-hash: h-%[1]s}}, spec: {containers: [{name: web, image: %[1]s}]}}}}`, image))
	for _, edit := range edits {
		edit(u)
	}
	return u
}

// scaled sets the replicas of a ReplicaSet.
func scaled(replicas int64) func(*unstructured.Unstructured) {
	return func(u *unstructured.Unstructured) {
		_ = unstructured.SetNestedField(u.Object, replicas, "spec", "replicas")
	}
}

func pod(name, image string, ready bool, edits ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID(name), CreationTimestamp: metav1.NewTime(born),
		Labels:          map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "h-" + image},
		OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", UID: types.UID(image), Controller: ptr.To(true)}},
	}}
	p.Status.Phase = corev1.PodRunning
	condition := corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse, LastTransitionTime: metav1.NewTime(born.Add(time.Second))}
	if ready {
		condition.Status = corev1.ConditionTrue
	}
	p.Status.Conditions = []corev1.PodCondition{condition}
	for _, edit := range edits {
		edit(p)
	}
	return p
}

// told formats the observed state: the hashes, whether the status is current, and the replicas.
func told(o *adapters.Observed) string {
	var members []string
	for i, m := range o.Pods {
		if m.Position != int32(i) {
			return fmt.Sprint("ranks: ", o.Pods)
		}
		text := m.Name + " " + m.Hash
		switch {
		case m.Terminating:
			text += "~"
		case !m.Ready:
			text += "?"
		}
		members = append(members, text)
	}
	return fmt.Sprintf("%s/%s %v: %s", o.CurrentHash, o.UpdateHash, o.SpecObserved, strings.Join(members, ", "))
}

// observe observes a child as it is, and as it is in the cache, which must be the same.
func observe(t *testing.T, child *unstructured.Unstructured, have adapters.Dependents) (*adapters.Observed, error) {
	t.Helper()
	cached := child.DeepCopy()
	packed := adapters.Dependents{Pods: have.Pods}
	for _, set := range have.Related {
		packed.Related = append(packed.Related, set.DeepCopy())
	}
	for _, u := range append(packed.Related, cached) {
		for range 2 { // an informer passes packed objects to Pack again
			if err := adapters.Pack(u); err != nil {
				t.Fatal(err)
			}
		}
	}
	o, err := deployment.New().Observe(child, have)
	again, errAgain := deployment.New().Observe(cached, packed)
	if !reflect.DeepEqual(o, again) || (err == nil) != (errAgain == nil) {
		t.Errorf("packed, it is %+v (%v), and otherwise %+v (%v)", again, errAgain, o, err)
	}
	return o, err
}

func TestObserve(t *testing.T) {
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(born.Add(time.Minute))) }
	phase := func(phase corev1.PodPhase) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.Phase = phase }
	}
	const available = `, conditions: [{type: Progressing, status: "True", reason: NewReplicaSetAvailable}]`
	for _, tc := range []struct {
		name, spec, status string
		related            []*unstructured.Unstructured
		pods               []*corev1.Pod
		want               string
	}{
		{"nothing yet", "", "", nil, nil, "/ true: "},
		{"not observed", "", ", observedGeneration: 4", []*unstructured.Unstructured{replicaSet(t, "v2")}, nil, "/h-v2 false: "},
		{
			"not observed, and all is as asked for", "", ", observedGeneration: 4",
			[]*unstructured.Unstructured{replicaSet(t, "v1", scaled(0)), replicaSet(t, "v2", scaled(2))},
			[]*corev1.Pod{pod("a", "v2", true), pod("b", "v2", true)}, "h-v2/h-v2 true: a h-v2, b h-v2",
		},
		{
			"not observed, and to scale down", "", ", observedGeneration: 4",
			[]*unstructured.Unstructured{replicaSet(t, "v2", scaled(3))},
			[]*corev1.Pod{pod("a", "v2", true), pod("b", "v2", true)}, "/h-v2 false: a h-v2, b h-v2",
		},
		{
			"not observed, and earlier ones are asked for", "", ", observedGeneration: 4",
			[]*unstructured.Unstructured{replicaSet(t, "v1", scaled(1)), replicaSet(t, "v2", scaled(2))},
			[]*corev1.Pod{pod("a", "v2", true), pod("b", "v2", true)}, "/h-v2 false: a h-v2, b h-v2",
		},
		{
			"not observed, and one is not ready", "", ", observedGeneration: 4",
			[]*unstructured.Unstructured{replicaSet(t, "v2", scaled(2))},
			[]*corev1.Pod{pod("a", "v2", true), pod("b", "v2", false)}, "/h-v2 false: a h-v2, b h-v2?",
		},
		{
			"on its way: the worst last, and those of the template behind those before it", "", "",
			[]*unstructured.Unstructured{replicaSet(t, "v1"), replicaSet(t, "v2")},
			[]*corev1.Pod{pod("a", "v2", true), pod("b", "v1", false), pod("c", "v1", true), pod("d", "v2", true, deleted)},
			"/h-v2 true: c h-v1, a h-v2, b h-v1?, d h-v2~",
		},
		{
			"all ready on its template", "", "",
			[]*unstructured.Unstructured{replicaSet(t, "v1"), replicaSet(t, "v2")},
			[]*corev1.Pod{pod("a", "v2", true), pod("b", "v2", true)}, "h-v2/h-v2 true: a h-v2, b h-v2",
		},
		{
			"one too few", "", "", []*unstructured.Unstructured{replicaSet(t, "v2")}, []*corev1.Pod{pod("a", "v2", true)}, "/h-v2 true: a h-v2",
		},
		{
			"one of before is still there", "", "",
			[]*unstructured.Unstructured{replicaSet(t, "v1"), replicaSet(t, "v2")},
			[]*corev1.Pod{pod("a", "v2", true), pod("b", "v2", true), pod("c", "v1", true, deleted)}, "/h-v2 true: a h-v2, b h-v2, c h-v1~",
		},
		{
			"it had finished, and one is not ready now", "", available + ", replicas: 2, updatedReplicas: 2",
			[]*unstructured.Unstructured{replicaSet(t, "v2")},
			[]*corev1.Pod{pod("a", "v2", true), pod("b", "v2", false)}, "h-v2/h-v2 true: a h-v2, b h-v2?",
		},
		{
			"its controller has finished what was before", "", available + ", replicas: 2, updatedReplicas: 0",
			[]*unstructured.Unstructured{replicaSet(t, "v1"), replicaSet(t, "v2")},
			[]*corev1.Pod{pod("a", "v1", true), pod("b", "v1", true)}, "/h-v2 true: a h-v1, b h-v1",
		},
		{"no replicas finish nothing", ", replicas: 0", available, []*unstructured.Unstructured{replicaSet(t, "v2")}, nil, "/h-v2 true: "},
		{
			"what has ended is no replica", "", "", []*unstructured.Unstructured{replicaSet(t, "v2")},
			[]*corev1.Pod{pod("a", "v2", false, phase(corev1.PodFailed)), pod("b", "v2", false, phase(corev1.PodSucceeded)), pod("c", "v2", true)},
			"/h-v2 true: c h-v2",
		},
		{
			"what is not its own", "", "",
			[]*unstructured.Unstructured{replicaSet(t, "v2", func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) })},
			[]*corev1.Pod{pod("a", "v2", true), pod("b", "v9", true), pod("c", "v2", true, func(p *corev1.Pod) { p.OwnerReferences = nil })}, "/ true: ",
		},
		{
			"of two with its template the oldest", "", "",
			[]*unstructured.Unstructured{
				replicaSet(t, "v2", func(u *unstructured.Unstructured) {
					u.SetUID("young")
					u.SetCreationTimestamp(metav1.NewTime(born.Add(time.Hour)))
					u.SetLabels(map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "young"})
				}),
				replicaSet(t, "v2"),
			}, nil, "/h-v2 true: ",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o, err := observe(t, child(t, tc.spec, tc.status), adapters.Dependents{Pods: tc.pods, Related: tc.related})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, told(o)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What the API server answers to the controllers of the kind is in conditions: of a ReplicaSet that lacks pods, also while the
// Deployment is paused, or of a Deployment without a ReplicaSet for its template.
func TestRefused(t *testing.T) {
	says := func(reason, message string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			_ = unstructured.SetNestedSlice(u.Object, []any{
				map[string]any{"type": "Other", "status": "True", "reason": "FailedCreate", "message": "other"},
				map[string]any{"type": "ReplicaFailure", "status": "True", "reason": reason, "message": message},
			}, "status", "conditions")
		}
	}
	const uncreated = `, conditions: [{type: Progressing, status: "False", reason: ReplicaSetCreateError, message: no more ReplicaSets}]`
	for _, tc := range []struct {
		name, spec, status string
		related            []*unstructured.Unstructured
		want               string
	}{
		{"nothing is refused", "", "", []*unstructured.Unstructured{replicaSet(t, "v2", scaled(2))}, ""},
		{"pods", "", "", []*unstructured.Unstructured{replicaSet(t, "v1", scaled(0)), replicaSet(t, "v2", scaled(2), says("FailedCreate", "exceeded quota"))}, "exceeded quota"},
		{"pods, while it is paused", ", paused: true", "", []*unstructured.Unstructured{replicaSet(t, "v2", scaled(2), says("FailedCreate", "exceeded quota"))}, "exceeded quota"},
		{"pods of before, too", "", "", []*unstructured.Unstructured{
			replicaSet(t, "v1", scaled(1), says("FailedCreate", "of v1")), replicaSet(t, "v2", scaled(1), says("FailedCreate", "of v2")),
		}, "of v2"},
		{"a deletion", "", "", []*unstructured.Unstructured{replicaSet(t, "v2", scaled(2), says("FailedDelete", "no"))}, ""},
		{"pods that nobody asks for any longer", "", "", []*unstructured.Unstructured{replicaSet(t, "v1", scaled(0), says("FailedCreate", "exceeded quota"))}, ""},
		{"those of another", "", "", []*unstructured.Unstructured{replicaSet(t, "v2", says("FailedCreate", "no"), func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) })}, ""},
		{"a ReplicaSet", "", uncreated, []*unstructured.Unstructured{replicaSet(t, "v1", scaled(2))}, "no more ReplicaSets"},
		{"a ReplicaSet that is there now", "", uncreated, []*unstructured.Unstructured{replicaSet(t, "v2", scaled(2))}, ""},
	} {
		o, err := observe(t, child(t, tc.spec, tc.status), adapters.Dependents{Related: tc.related})
		if err != nil {
			t.Fatal(tc.name, err)
		}
		if o.Refused != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, o.Refused, tc.want)
		}
	}
}

// The partition exists only in the record. If it cannot be parsed, everything is protected.
func TestPartitionOnRecord(t *testing.T) {
	for text, want := range map[string]int32{"0": 0, "2": 2, "2147483647": 2147483647, "": 2, "-1": 2, "x": 2} {
		u := child(t, "", "")
		u.SetAnnotations(map[string]string{v1alpha1.AnnotationPartition: text})
		o, err := observe(t, u, adapters.Dependents{})
		if err != nil || o.Partition != want {
			t.Errorf("%q: %d, %v", text, o.Partition, err)
		}
	}
}

func TestPace(t *testing.T) {
	for spec, want := range map[string]*adapters.Pace{
		"":                             nil,
		", strategy: {type: Recreate}": nil,
		", strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: 0}}":               {MaxUnavailable: 1},
		", strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 50%, maxSurge: 0}}":             {MaxUnavailable: 1},
		", strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 10%, maxSurge: 0%}}":            {MaxUnavailable: 1},
		", strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%, maxSurge: 25%}}":           {MaxUnavailable: 0},
		", strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 9, maxSurge: 1}}":               {MaxUnavailable: 2},
		", strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: what, maxSurge: 1}}":            nil,
		", strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}, paused: true": {MaxUnavailable: 0},
	} {
		o, err := observe(t, child(t, spec, ""), adapters.Dependents{})
		if err != nil {
			t.Fatal(spec, err)
		}
		if diff := cmp.Diff(want, o.Pace); diff != "" || o.Paused != strings.Contains(spec, "paused") {
			t.Error(spec, diff, o.Paused)
		}
	}
}

func TestOwn(t *testing.T) {
	c := &adapters.Child{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Parent: "web", Subset: "a", Replicas: 3, MinReadySeconds: 5,
	}
	const own = `replicas: 3, minReadySeconds: 5, selector: {matchLabels: {app: web, united.dev/name: web, united.dev/subset: a}}`
	const defaults = "strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%, maxSurge: 25%}}"
	for _, tc := range []struct {
		name, spec string
		pace       *adapters.Pace
		paused     bool
		want       string
	}{
		{"as its template says", "strategy: {type: Recreate}", nil, false, "paused: false, strategy: {type: Recreate}"},
		{"handed two", "", &adapters.Pace{MaxUnavailable: 2}, false, "paused: false, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 2, maxSurge: 0}}"},
		{
			"handed one, with room", "strategy: {rollingUpdate: {maxSurge: 30%}}", &adapters.Pace{MaxUnavailable: 1}, false,
			"paused: false, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: 30%}}",
		},
		{"handed none", "", &adapters.Pace{}, false, "paused: false, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 1}}"},
		{"paused", "", nil, true, "paused: true, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%, maxSurge: 2}}"},
		{
			"paused, with room", "strategy: {rollingUpdate: {maxSurge: 30%, maxUnavailable: 0}}", nil, true,
			"paused: true, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 0, maxSurge: 2}}",
		},
		{"paused while it was handed some", "", &adapters.Pace{MaxUnavailable: 3}, true, "paused: true, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 3, maxSurge: 2}}"},
		{"paused with Recreate", "strategy: {type: Recreate}", nil, true, "paused: true, strategy: {type: Recreate}"},
		{"half a strategy", "strategy: {rollingUpdate: {maxSurge: 1}}", nil, false, "paused: false, strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 25%, maxSurge: 1}}"},
		{"a strategy without a type", "strategy: {type: ''}", nil, false, "paused: false, " + defaults},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c.Surplus = 2
			workload := object(t, "{apiVersion: v1, kind: X, spec: {"+tc.spec+"}}").Object
			c.Pace, c.Paused = tc.pace, tc.paused
			if err := deployment.New().SetControllerFields(workload, c); err != nil {
				t.Fatal(err)
			}
			want := object(t, "{apiVersion: v1, kind: X, spec: {"+own+", "+tc.want+"}}").Object
			if diff := cmp.Diff(want, workload); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The API server refuses a strategy in which maxSurge and maxUnavailable are both 0.
func TestPausedStrategyIsValid(t *testing.T) {
	for unavailable, want := range map[string]any{"0": int64(1), "0%": int64(1), "2": int64(2), "25%": "25%"} {
		workload := object(t, "{apiVersion: v1, kind: X, spec: {strategy: {rollingUpdate: {maxUnavailable: "+unavailable+"}}}}").Object
		if err := deployment.New().SetControllerFields(workload, &adapters.Child{Paused: true, Selector: &metav1.LabelSelector{}}); err != nil {
			t.Fatal(err)
		}
		if got, _, _ := unstructured.NestedFieldNoCopy(workload, "spec", "strategy", "rollingUpdate", "maxUnavailable"); got != want {
			t.Errorf("maxUnavailable %s: got %v, want %v", unavailable, got, want)
		}
	}
}

func TestSurplus(t *testing.T) {
	sets := []*unstructured.Unstructured{
		replicaSet(t, "v1", scaled(3)), replicaSet(t, "v2", scaled(2)),
		replicaSet(t, "v3", scaled(9), func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }),
	}
	const rolling = ", strategy: {type: RollingUpdate, rollingUpdate: {maxUnavailable: 1, maxSurge: %s}}"
	for spec, want := range map[string]int32{
		"":                        3, // of the 2 that it is asked for it has 5
		fmt.Sprintf(rolling, "0"): 3,
		", paused: true":          0, // without a strategy
		fmt.Sprintf(rolling, "1") + ", paused: true":   1, // it keeps what it was told
		fmt.Sprintf(rolling, "60%") + ", paused: true": 2,
		", strategy: {type: Recreate}, paused: true":   0,
	} {
		o, err := observe(t, child(t, spec, ""), adapters.Dependents{Related: sets})
		if err != nil || o.Surplus != want {
			t.Errorf("%s: got %d, want %d; %v", spec, o.Surplus, want, err)
		}
	}
}

// The ReplicaSets show what the controller is about to do, also before it has made one for the template.
func TestDesired(t *testing.T) {
	huge := scaled(3_000_000_000)
	for _, tc := range []struct {
		name            string
		related         []*unstructured.Unstructured
		updated, others int32
	}{
		{"none", nil, 0, 0},
		{"of both", []*unstructured.Unstructured{replicaSet(t, "v0", scaled(1)), replicaSet(t, "v1", scaled(3)), replicaSet(t, "v2", scaled(2))}, 2, 4},
		{"none with its template", []*unstructured.Unstructured{replicaSet(t, "v1", scaled(2))}, 0, 2},
		{"more than there can be", []*unstructured.Unstructured{replicaSet(t, "v0", huge), replicaSet(t, "v1", huge)}, 0, 2147483647},
		{"not its own", []*unstructured.Unstructured{replicaSet(t, "v1", scaled(2), func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) })}, 0, 0},
	} {
		o, err := observe(t, child(t, "", ""), adapters.Dependents{Related: tc.related})
		if err != nil || o.DesiredUpdated != tc.updated || o.DesiredOthers != tc.others {
			t.Errorf("%s: got %d and %d, want %d and %d; %v", tc.name, o.DesiredUpdated, o.DesiredOthers, tc.updated, tc.others, err)
		}
	}
}

func TestValidate(t *testing.T) {
	manual := func(partitions map[string]intstr.IntOrString, rest *intstr.IntOrString) v1alpha1.UpdateStrategy {
		return v1alpha1.UpdateStrategy{Type: v1alpha1.ManualUpdateStrategy, ManualUpdate: &v1alpha1.ManualUpdate{Partitions: partitions, DefaultPartition: rest}}
	}
	rolling := func(r v1alpha1.RollingUpdate) v1alpha1.UpdateStrategy {
		return v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &r}
	}
	half, all := intstr.FromString("50%"), intstr.FromString("100%")
	const strategy = "spec.updateStrategy."
	for _, tc := range []struct {
		name, spec string
		strategy   v1alpha1.UpdateStrategy
		want       []string
	}{
		{"all or nothing", "", manual(map[string]intstr.IntOrString{"a": intstr.FromInt(0), "b": intstr.FromString("0%"), "c": all}, &all), nil},
		{"a part", "", manual(map[string]intstr.IntOrString{"b": intstr.FromInt(1), "a": half}, &half), []string{
			strategy + "manualUpdate.partitions[a]: Unsupported", strategy + "manualUpdate.partitions[b]: Unsupported",
			strategy + "manualUpdate.defaultPartition: Unsupported",
		}},
		{"a part in a coordinated rollout", "", rolling(v1alpha1.RollingUpdate{Partition: &half, MaxSkew: "10%", Steps: []v1alpha1.RolloutStep{{Partition: &all}, {Partition: &half}}}), []string{
			strategy + "rollingUpdate.partition: Unsupported", strategy + "rollingUpdate.maxSkew: Forbidden", strategy + "rollingUpdate.steps[1].partition: Unsupported",
		}},
		{"what the controller decides", ", replicas: 2, paused: true, selector: {matchLabels: {app: api}}", v1alpha1.UpdateStrategy{}, []string{
			"t.spec.replicas: Forbidden", "t.spec.paused: Forbidden", "t.spec.selector: Invalid",
		}},
		{"all at once, by hand", ", strategy: {type: Recreate}", v1alpha1.UpdateStrategy{}, nil},
		{"all at once, coordinated", ", strategy: {type: Recreate}", rolling(v1alpha1.RollingUpdate{}), []string{"t.spec.strategy.type: Unsupported"}},
		{"a bound of its own", ", strategy: {rollingUpdate: {maxUnavailable: 1}}", rolling(v1alpha1.RollingUpdate{}), []string{"t.spec.strategy.rollingUpdate.maxUnavailable: Forbidden"}},
		{"misshapen", ", strategy: []", rolling(v1alpha1.RollingUpdate{}), []string{"t.spec.strategy: Invalid"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			template := object(t, "{apiVersion: apps/v1, kind: Deployment, spec: {template: {metadata: {labels: {app: web}}}"+tc.spec+"}}").Object
			spec := &v1alpha1.UnitedDeploymentSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, UpdateStrategy: tc.strategy}
			errs := deployment.New().Validate(spec, template, field.NewPath("t"))
			ok := len(errs) == len(tc.want)
			for i := range errs {
				ok = ok && strings.HasPrefix(errs[i].Error(), tc.want[i])
			}
			if !ok {
				t.Errorf("want %q\nhave %v", tc.want, errs)
			}
		})
	}
}
