// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkerset_test

import (
	"fmt"
	"reflect"
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
	lwsv1 "sigs.k8s.io/lws/api/leaderworkerset/v1"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/leaderworkerset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func object(t testing.TB, text string) (out map[string]any) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

var web = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}

func TestValidate(t *testing.T) {
	const at = "spec.template.leaderWorkerSetTemplate.spec."
	const pods = "{metadata: {labels: {app: web}}}"
	for name, tc := range map[string]struct {
		spec        string
		coordinated bool
		want        string
	}{
		"workers alone":                   {"leaderWorkerTemplate: {workerTemplate: " + pods + "}", false, ""},
		"both":                            {"leaderWorkerTemplate: {workerTemplate: " + pods + ", leaderTemplate: " + pods + "}", false, ""},
		"workers of another label":        {"leaderWorkerTemplate: {workerTemplate: {}}", false, at + "leaderWorkerTemplate.workerTemplate.metadata.labels"},
		"leaders of another label":        {"leaderWorkerTemplate: {workerTemplate: " + pods + ", leaderTemplate: {spec: {}}}", false, at + "leaderWorkerTemplate.leaderTemplate.metadata.labels"},
		"leaders that are no object":      {"leaderWorkerTemplate: {workerTemplate: " + pods + ", leaderTemplate: x}", false, at + "leaderWorkerTemplate.leaderTemplate"},
		"nothing":                         {"{}", false, at + "leaderWorkerTemplate.workerTemplate.metadata.labels"},
		"replicas":                        {"replicas: 3", false, at + "replicas"},
		"a selector":                      {"selector: {matchLabels: {app: web}}", false, at + "selector: Forbidden"},
		"another strategy":                {"rolloutStrategy: {type: Recreate}", false, at + "rolloutStrategy.type"},
		"a strategy that is no object":    {"rolloutStrategy: x", false, at + "rolloutStrategy"},
		"one whose members are no object": {"rolloutStrategy: {rollingUpdateConfiguration: []}", false, at + "rolloutStrategy.rollingUpdateConfiguration"},
		"a partition":                     {"rolloutStrategy: {rollingUpdateConfiguration: {partition: 0}}", false, at + "rolloutStrategy.rollingUpdateConfiguration.partition"},
		"surge":                           {"rolloutStrategy: {rollingUpdateConfiguration: {maxSurge: 1}}", false, at + "rolloutStrategy.rollingUpdateConfiguration.maxSurge"},
		"surge in percent":                {"rolloutStrategy: {rollingUpdateConfiguration: {maxSurge: 10%}}", true, at + "rolloutStrategy.rollingUpdateConfiguration.maxSurge"},
		"no surge":                        {"leaderWorkerTemplate: {workerTemplate: " + pods + "}\nrolloutStrategy: {rollingUpdateConfiguration: {maxSurge: 0}}", true, ""},
		"maxUnavailable":                  {"leaderWorkerTemplate: {workerTemplate: " + pods + "}\nrolloutStrategy: {rollingUpdateConfiguration: {maxUnavailable: 2}}", false, ""},
		"maxUnavailable, coordinated":     {"rolloutStrategy: {rollingUpdateConfiguration: {maxUnavailable: 2}}", true, at + "rolloutStrategy.rollingUpdateConfiguration.maxUnavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			parent := &v1alpha1.UnitedDeploymentSpec{Selector: web}
			if tc.coordinated {
				parent.UpdateStrategy.Type = v1alpha1.RollingUpdateStrategy
			}
			errs := leaderworkerset.New().Validate(parent, map[string]any{"spec": object(t, tc.spec)}, field.NewPath("spec", "template", "leaderWorkerSetTemplate"))
			if tc.want == "" && len(errs) > 0 || tc.want != "" && !strings.Contains(errs.ToAggregate().Error(), tc.want) {
				t.Errorf("want %q\nhave %v", tc.want, errs)
			}
		})
	}
	patch := map[string]any{"spec": object(t, "rolloutStrategy: {rollingUpdateConfiguration: {partition: 1}}\nleaderWorkerTemplate: {workerTemplate: {}}")}
	if errs := leaderworkerset.New().ValidatePatch(patch, web, field.NewPath("patch")); len(errs) != 1 || !strings.Contains(errs[0].Error(), "patch.spec.rolloutStrategy") {
		t.Error(errs)
	}
}

func TestBuild(t *testing.T) {
	template := object(t, `
spec:
  rolloutStrategy: {rollingUpdateConfiguration: {maxUnavailable: 3}}
  leaderWorkerTemplate:
    size: 4
    leaderTemplate: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: v1}]}}
    workerTemplate: {metadata: {labels: {app: web}}, spec: {containers: [{name: a, image: v1}]}}
`)
	patch := object(t, `
spec:
  leaderWorkerTemplate:
    size: 2
    leaderTemplate: {spec: {containers: [{name: a, env: [{name: ROLE, value: leader}]}]}}
    workerTemplate: {spec: {containers: [{name: a, env: [{name: ROLE, value: worker}]}]}}
`)
	a := leaderworkerset.New()
	c := &adapters.Child{
		Namespace: "ns", Name: "web-zone-a", Parent: "web", Subset: "zone-a", Selector: web, Template: template, Patch: patch,
		Replicas: 3, Partition: 2, MinReadySeconds: 30,
		NodeSelector: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}},
		}}}},
		Tolerations: []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}},
	}
	var err error
	if c.RevisionTemplate, err = adapters.RevisionData(a, template); err != nil {
		t.Fatal(err)
	}
	if c.RevisionPatch, err = adapters.RevisionData(a, patch); err != nil {
		t.Fatal(err)
	}
	u, err := adapters.Build(a, c)
	if err != nil {
		t.Fatal(err)
	}
	pods := func(role string) string {
		return fmt.Sprintf(`
    %sTemplate:
      metadata: {labels: {app: web, united.dev/name: web, united.dev/subset: zone-a}}
      spec:
        affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
        tolerations: [{key: gpu, operator: Exists}]
        containers: [{name: a, image: v1, env: [{name: ROLE, value: %s}]}]`, role, role)
	}
	want := object(t, `
spec:
  replicas: 3
  rolloutStrategy: {type: RollingUpdate, rollingUpdateConfiguration: {maxUnavailable: 3, maxSurge: 0, partition: 2}}
  leaderWorkerTemplate:
    size: 2`+pods("leader")+pods("worker"))
	if diff := cmp.Diff(want["spec"], u.Object["spec"]); diff != "" {
		t.Error("want -, have +\n", diff)
	}
	if got := u.GetAnnotations()[v1alpha1.AnnotationMinReadySeconds]; got != "30" {
		t.Error(got)
	}

	c.Pace = adapters.Unbounded()
	if err := adapters.Renew(a, u, c); err != nil {
		t.Fatal(err)
	}
	if got, _, _ := unstructured.NestedFieldNoCopy(u.Object, "spec", "rolloutStrategy", "rollingUpdateConfiguration", "maxUnavailable"); got != "100%" {
		t.Error(got)
	}
}

// These objects were read from the API server, as lws-manager 0.9.0 had created them.
const (
	liveSpec = `
  leaderWorkerTemplate:
    leaderTemplate: {metadata: {labels: {united.dev/name: web, united.dev/subset: zone-a}}, spec: {hostNetwork: false, automountServiceAccountToken: false, containers: [{name: w, image: v1, stdin: false, resources: {limits: {memory: 1Gi}}}]}}
    restartPolicy: RecreateGroupOnPodRestart
    size: 2
    workerTemplate: {metadata: {labels: {united.dev/name: web, united.dev/subset: zone-a}}, spec: {containers: [{name: w, image: %s, resources: {}, env: [{name: A, value: ""}]}]}}
  networkConfig: {subdomainPolicy: Shared}`
	revisionSpec = `
  leaderWorkerTemplate:
    $patch: replace
    leaderTemplate: {metadata: {labels: {united.dev/name: web, united.dev/subset: zone-a}}, spec: {automountServiceAccountToken: false, containers: [{name: w, image: v1, resources: {limits: {memory: 1Gi}}}]}}
    restartPolicy: RecreateGroupOnPodRestart
    size: 2
    workerTemplate: {metadata: {creationTimestamp: null, labels: {united.dev/name: web, united.dev/subset: zone-a}}, spec: {containers: [{name: w, image: %s, resources: {}, env: [{name: A}]}]}}
  networkConfig: {$patch: replace, subdomainPolicy: Shared}`
)

// world is a LeaderWorkerSet of two groups with its second revision and partition 1.
type world struct {
	set, leaders, first, second *unstructured.Unstructured
	workers                     []*unstructured.Unstructured
	pods                        []*corev1.Pod
}

func parsed(t testing.TB, text string, args ...any) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON(fmt.Appendf(nil, text, args...))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u
}

var noon = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{
		set: parsed(t, `
apiVersion: leaderworkerset.x-k8s.io/v1
kind: LeaderWorkerSet
metadata: {namespace: ns, name: web-a, uid: set, generation: 4, annotations: {united.dev/min-ready-seconds: "7"}}
spec:
  replicas: 2
  rolloutStrategy: {rollingUpdateConfiguration: {partition: 1}}`+liveSpec+`
status: {observedGeneration: 4, replicas: 2, readyReplicas: 2, updatedReplicas: 1}`, "v2"),
		leaders: parsed(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  namespace: ns
  name: web-a
  uid: leaders
  generation: 9
  labels: {leaderworkerset.sigs.k8s.io/name: web-a, leaderworkerset.sigs.k8s.io/template-revision-hash: key2}
  annotations: {leaderworkerset.sigs.k8s.io/replicas: "2"}
  ownerReferences: [{apiVersion: x/v1, kind: LeaderWorkerSet, name: web-a, uid: set, controller: true}]
  managedFields: [{manager: lws}, {manager: united, subresource: status, time: "2026-11-23T12:00:00Z", fieldsV1: {a: b}}]
spec:
  replicas: 2
  updateStrategy: {rollingUpdate: {partition: 1}}
  template: {metadata: {labels: {united.dev/name: web, united.dev/subset: a}}, spec: {containers: []}}
status: {observedGeneration: 9, currentRevision: web-a-one, updateRevision: web-a-two}`),
	}
	w.first, w.second = w.revision(t, 1), w.revision(t, 2)
	for i := range 2 {
		w.workers = append(w.workers, parsed(t, `
apiVersion: apps/v1
kind: StatefulSet
metadata:
  namespace: ns
  name: web-a-%[1]d
  uid: workers-%[1]d
  labels: {leaderworkerset.sigs.k8s.io/name: web-a}
  ownerReferences: [{apiVersion: v1, kind: Pod, name: web-a-%[1]d, uid: leader-%[1]d, controller: true}]
spec: {replicas: 1, template: {metadata: {labels: {united.dev/name: web, united.dev/subset: a}}}}`, i))
		w.pods = append(w.pods,
			w.pod(fmt.Sprintf("web-a-%d", i), fmt.Sprintf("leader-%d", i), "leaders", []string{"web-a-one", "web-a-two"}[i]),
			w.pod(fmt.Sprintf("web-a-%d-1", i), fmt.Sprintf("worker-%d", i), fmt.Sprintf("workers-%d", i), "of-workers"))
	}
	return w
}

func (w *world) revision(t testing.TB, n int) *unstructured.Unstructured {
	return parsed(t, `
apiVersion: apps/v1
kind: ControllerRevision
metadata:
  namespace: ns
  name: web-a-key%[1]d-%[1]d
  labels: {leaderworkerset.sigs.k8s.io/name: web-a, leaderworkerset.sigs.k8s.io/template-revision-hash: key%[1]d}
  ownerReferences: [{apiVersion: x/v1, kind: LeaderWorkerSet, name: web-a, uid: set, controller: true}]
data:
 spec:`+strings.ReplaceAll(fmt.Sprintf(revisionSpec, fmt.Sprintf("v%d", n)), "\n", "\n "), n)
}

func (w *world) pod(name, uid, owner, hash string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID(uid), CreationTimestamp: metav1.NewTime(noon),
		Labels:          map[string]string{"controller-revision-hash": hash},
		OwnerReferences: []metav1.OwnerReference{{Kind: "StatefulSet", Name: strings.TrimSuffix(name, name[strings.LastIndexByte(name, '-'):]), UID: types.UID(owner), Controller: ptr.To(true)}},
	}}
	w.ready(p, true, time.Minute)
	return p
}

func (w *world) ready(p *corev1.Pod, yes bool, after time.Duration) {
	status := corev1.ConditionFalse
	if yes {
		status = corev1.ConditionTrue
	}
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: status, LastTransitionTime: metav1.NewTime(noon.Add(after))}}
}

func (w *world) observe(t testing.TB) *adapters.Observed {
	t.Helper()
	a := leaderworkerset.New()
	have := adapters.Dependents{Pods: w.pods}
	for _, object := range append([]*unstructured.Unstructured{w.leaders, w.first, w.second}, w.workers...) {
		if object != nil {
			object = object.DeepCopy()
			a.Reduce(object)
			have.Related = append(have.Related, object)
		}
	}
	o, err := a.Observe(w.set, have)
	if err != nil {
		t.Fatal(err)
	}
	cached := w.set.DeepCopy()
	if err := adapters.Pack(cached); err != nil {
		t.Fatal(err)
	}
	if packed, err := a.Observe(cached, have); err != nil || !reflect.DeepEqual(o, packed) {
		t.Errorf("packed, it is %+v (%v), and otherwise %+v", packed, err, o)
	}
	return o
}

func TestObserve(t *testing.T) {
	w := newWorld(t)
	o := w.observe(t)
	if !o.SpecObserved || o.CurrentHash != "web-a-one" || o.UpdateHash != "web-a-two" || o.Replicas != 2 || o.Partition != 1 || o.MinReadySeconds != 7 ||
		o.Missing() != -1 || o.ReplicaOwner != "leaders" || o.Kept != 1 || o.StatusOutdated {
		t.Errorf("%+v", o)
	}
	want := []adapters.Replica{
		{Name: "web-a-0", UID: "leader-0", Position: 0, Hash: "web-a-one", Ready: true, ReadySince: noon.Add(time.Minute), Created: noon, Since: noon},
		{Name: "web-a-1", UID: "leader-1", Position: 1, Hash: "web-a-two", Ready: true, ReadySince: noon.Add(time.Minute), Created: noon, Since: noon},
	}
	if diff := cmp.Diff(want, o.Pods); diff != "" {
		t.Error("want -, have +\n", diff)
	}
}

// The cached objects that a LeaderWorkerSet has created can be older than the cached LeaderWorkerSet.
func TestSpecObserved(t *testing.T) {
	set := func(u *unstructured.Unstructured, value any, path ...string) {
		if err := unstructured.SetNestedField(u.Object, value, path...); err != nil {
			panic(err)
		}
	}
	for name, edit := range map[string]func(w *world){
		"the child has not been observed": func(w *world) { set(w.set, int64(3), "status", "observedGeneration") },
		"there are no leaders":            func(w *world) { w.leaders = nil },
		"the leaders are of an earlier child": func(w *world) {
			w.leaders.SetOwnerReferences([]metav1.OwnerReference{{Kind: "LeaderWorkerSet", Name: "web-a", UID: "other", Controller: ptr.To(true)}})
		},
		"the leaders are orphaned":      func(w *world) { w.leaders.SetOwnerReferences(nil) },
		"the leaders are being deleted": func(w *world) { w.leaders.SetDeletionTimestamp(ptr.To(metav1.NewTime(noon))) },
		"their controller is behind":    func(w *world) { set(w.leaders, int64(8), "status", "observedGeneration") },
		"other replicas": func(w *world) {
			w.leaders.SetAnnotations(map[string]string{"leaderworkerset.sigs.k8s.io/replicas": "3"})
		},
		"a lower partition": func(w *world) { set(w.leaders, int64(0), "spec", "updateStrategy", "rollingUpdate", "partition") },
		"the revision before": func(w *world) {
			set(w.leaders, "key1", "metadata", "labels", "leaderworkerset.sigs.k8s.io/template-revision-hash")
		},
		"a revision that is not known": func(w *world) { w.second = nil },
		"workers of another template": func(w *world) {
			set(w.set, object(t, "spec:"+fmt.Sprintf(liveSpec, "v3"))["spec"].(map[string]any)["leaderWorkerTemplate"], "spec", "leaderWorkerTemplate")
		},
		"another size":    func(w *world) { set(w.set, int64(3), "spec", "leaderWorkerTemplate", "size") },
		"another network": func(w *world) { set(w.set, "UniquePerReplica", "spec", "networkConfig", "subdomainPolicy") },
		"a token that is not said to be": func(w *world) {
			unstructured.RemoveNestedField(w.set.Object, "spec", "leaderWorkerTemplate", "leaderTemplate", "spec", "automountServiceAccountToken")
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			edit(w)
			if o := w.observe(t); o.SpecObserved {
				t.Errorf("%+v", o)
			}
		})
	}
	for name, edit := range map[string]func(w *world){
		"nothing":                func(*world) {},
		"a revision of no owner": func(w *world) { w.second.SetOwnerReferences(nil) },
		"a higher partition":     func(w *world) { set(w.leaders, int64(2), "spec", "updateStrategy", "rollingUpdate", "partition") },
		"no network":             func(w *world) { unstructured.RemoveNestedField(w.set.Object, "spec", "networkConfig") },
		"a field of another type": func(w *world) {
			set(w.set, "x", "spec", "leaderWorkerTemplate", "size")
			set(w.second, "x", "data", "spec", "leaderWorkerTemplate", "size")
			same(w)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			edit(w)
			if o := w.observe(t); !o.SpecObserved {
				t.Errorf("%+v", o)
			}
		})
	}
}

// same makes the content of the revision textually equal to that of the child.
func same(w *world) {
	spec, _, _ := unstructured.NestedMap(w.set.Object, "spec")
	for _, key := range []string{"leaderWorkerTemplate", "networkConfig"} {
		part := spec[key].(map[string]any)
		part["$patch"] = "replace"
		if err := unstructured.SetNestedField(w.second.Object, part, "data", "spec", key); err != nil {
			panic(err)
		}
	}
}

// A template from which its controller cannot create a StatefulSet has no effect, and must not be waited for.
func TestUnmade(t *testing.T) {
	number := func(u *unstructured.Unstructured, n int64) { u.Object["revision"] = n }
	w := newWorld(t)
	number(w.first, 1)
	number(w.second, 2)
	if o := w.observe(t); o.Unmade {
		t.Error("all is well: ", o)
	}
	w.leaders.SetLabels(w.first.GetLabels())
	if o := w.observe(t); !o.Unmade || o.SpecObserved {
		t.Errorf("it has the second for its latest, and the leaders are of the first: %+v", o)
	}
	number(w.first, 3)
	if o := w.observe(t); o.Unmade {
		t.Error("it has another for its latest: it has not got to this one yet")
	}
}

// The state of a group is that of its leader and its workers together.
func TestGroups(t *testing.T) {
	crashed := []corev1.ContainerStatus{{State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}}}
	deleted := func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.NewTime(noon.Add(time.Hour))) }
	for name, tc := range map[string]struct {
		edit func(w *world)
		want func(r *adapters.Replica)
	}{
		"as it is": {func(*world) {}, func(*adapters.Replica) {}},
		"a worker that was ready later": {func(w *world) { w.ready(w.pods[3], true, time.Hour) },
			func(r *adapters.Replica) { r.ReadySince = noon.Add(time.Hour) }},
		"a worker that is not ready": {func(w *world) { w.ready(w.pods[3], false, time.Hour) },
			func(r *adapters.Replica) { r.Ready, r.ReadySince, r.Since = false, time.Time{}, noon.Add(time.Hour) }},
		"both are not": {func(w *world) { w.ready(w.pods[3], false, time.Hour); w.ready(w.pods[2], false, time.Minute) },
			func(r *adapters.Replica) { r.Ready, r.ReadySince, r.Since = false, time.Time{}, noon.Add(time.Minute) }},
		"a worker that never was": {func(w *world) { w.pods[3].Status.Conditions = nil },
			func(r *adapters.Replica) { r.Ready, r.ReadySince, r.NeverReady = false, time.Time{}, true }},
		"a worker that crashes": {func(w *world) { w.ready(w.pods[3], false, time.Hour); w.pods[3].Status.ContainerStatuses = crashed },
			func(r *adapters.Replica) {
				r.Ready, r.ReadySince, r.Since, r.Failure = false, time.Time{}, noon.Add(time.Hour), "CrashLoopBackOff"
			}},
		"a worker that is missing": {func(w *world) { w.pods = w.pods[:3] },
			func(r *adapters.Replica) { r.Ready, r.ReadySince, r.Lacks = false, time.Time{}, "has 0 of 1 workers" }},
		"a worker that is being deleted": {func(w *world) { deleted(w.pods[3]) },
			func(r *adapters.Replica) { r.Ready, r.ReadySince, r.Lacks = false, time.Time{}, "has 0 of 1 workers" }},
		"a worker of an earlier leader": {func(w *world) {
			w.workers[1].SetOwnerReferences([]metav1.OwnerReference{{Kind: "Pod", Name: "web-a-1", UID: "old", Controller: ptr.To(true)}})
		},
			func(r *adapters.Replica) { r.Ready, r.ReadySince, r.Lacks = false, time.Time{}, "has no workers yet" }},
		"a leader whose revision is gone": {func(w *world) {
			w.pods[2].Labels[lwsv1.RevisionKey] = "gone"
			w.workers[1].SetOwnerReferences([]metav1.OwnerReference{{Kind: "Pod", Name: "web-a-1", UID: "old", Controller: ptr.To(true)}})
		},
			func(r *adapters.Replica) {
				r.Ready, r.ReadySince = false, time.Time{}
				r.Lacks = "gets no workers because the LeaderWorkerSet has deleted its revision; release it, or go back to its version"
			}},
		"a leader that is being deleted": {func(w *world) { deleted(w.pods[2]) },
			func(r *adapters.Replica) { r.Terminating, r.Since = true, noon.Add(time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			want := w.observe(t).Pods
			tc.edit(w)
			tc.want(&want[1])
			if diff := cmp.Diff(want, w.observe(t).Pods); diff != "" {
				t.Error("want -, have +\n", diff)
			}
		})
	}
	w := newWorld(t)
	w.workers, w.pods = nil, []*corev1.Pod{w.pods[0], w.pods[2]}
	if err := unstructured.SetNestedField(w.set.Object, int64(1), "spec", "leaderWorkerTemplate", "size"); err != nil {
		t.Fatal(err)
	}
	for _, r := range w.observe(t).Pods {
		if !r.Ready {
			t.Errorf("a leader alone: %+v", r)
		}
	}
}

// A group without a worker is not broken, however long ago it was complete: nothing shows since when the worker is
// missing.
func TestLackingIsNotBroken(t *testing.T) {
	w := newWorld(t)
	w.pods = w.pods[:3]
	o := w.observe(t)
	terms := adapters.Terms{Now: noon.Add(1000 * time.Hour), Deadline: time.Minute}
	if broken, at := terms.Broken(&o.Pods[1], []string{"web-a-two"}); broken || !at.IsZero() || o.Pods[1].WhyUnavailable() != "has 0 of 1 workers" {
		t.Error(broken, at, o.Pods[1].WhyUnavailable())
	}
	w = newWorld(t)
	w.ready(w.pods[3], false, time.Hour)
	o = w.observe(t)
	if broken, _ := terms.Broken(&o.Pods[1], []string{"web-a-two"}); !broken {
		t.Error("the control: a worker that is not ready for so long is")
	}
}

func TestReduce(t *testing.T) {
	w := newWorld(t)
	a := leaderworkerset.New()
	a.Reduce(w.leaders)
	a.Reduce(w.second)
	for _, u := range []*unstructured.Unstructured{w.leaders, w.second} {
		if u.GetLabels()["united.dev/name"] != "web" {
			t.Error(u.GetKind(), u.GetLabels())
		}
		if u.GetLabels()["leaderworkerset.sigs.k8s.io/name"] != "web-a" {
			t.Error(u.GetKind(), u.GetLabels())
		}
	}
	if managed := w.leaders.GetManagedFields(); len(managed) != 1 || managed[0].Manager != "united" || managed[0].FieldsV1 != nil {
		t.Error(managed)
	}
	if _, found, _ := unstructured.NestedFieldNoCopy(w.leaders.Object, "spec", "template", "spec"); found || w.second.Object["data"] != nil {
		t.Error("what is large is kept")
	}
	for _, u := range []*unstructured.Unstructured{w.leaders, w.second} {
		again := u.DeepCopy()
		a.Reduce(again)
		if diff := cmp.Diff(u.Object, again.Object); diff != "" {
			t.Error("reduced twice: ", diff)
		}
	}
	strange := parsed(t, "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: x}\nspec: []\n")
	a.Reduce(strange) // must not panic
	if adapters.DelegateOf(a, "web-a", []*unstructured.Unstructured{strange, w.second, w.leaders}) != w.leaders {
		t.Error("the leaders are what it delegates to")
	}
}

func TestOrphans(t *testing.T) {
	w := newWorld(t)
	a := leaderworkerset.New().(adapters.Adopting)
	all := func() (pods []corev1.Pod) {
		for _, p := range w.pods {
			pods = append(pods, *p)
		}
		return pods
	}
	if n := a.Orphans(w.set, all()); n != 2 {
		t.Error(n)
	}
	w.pods[2].DeletionTimestamp = ptr.To(metav1.NewTime(noon))
	if n := a.Orphans(w.set, all()); n != 1 {
		t.Error(n)
	}
	w.pods[0].OwnerReferences = nil
	if n := a.Orphans(w.set, all()); n != 0 {
		t.Error("no StatefulSet has those: ", n)
	}
}

func TestNotOfTheKind(t *testing.T) {
	if _, err := leaderworkerset.New().Observe(parsed(t, "apiVersion: apps/v1\nkind: StatefulSet\n"), adapters.Dependents{}); err == nil {
		t.Error("no error")
	}
}
