// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package look_test

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/all"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/look"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/pass"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/report"
)

// canary begins the values of all environment variables.
const canary = "canary"

// TestSavedDecidesTheSame compares what is decided on what was saved with what is decided on the objects themselves, for every
// kind, in the middle of a rollout between two revisions that differ only in the values of environment variables.
func TestSavedDecidesTheSame(t *testing.T) {
	for _, sample := range []string{"web", "deployment", "cloneset", "advancedstatefulset", "leaderworkerset"} {
		plain := ""
		for _, c := range []struct {
			name string
			// turn changes the objects.
			turn func(*stage)
			// differs: another decision is made than without it.
			differs bool
		}{
			{"plain", func(*stage) {}, false},
			{"annotations taken", func(s *stage) { s.children(func(u *unstructured.Unstructured) { u.SetManagedFields(nil) }) }, false},
			{"record forged", func(s *stage) { s.forge(); s.parent.Status.Subsets = nil }, true},
			{"record forged, with a whole copy", func(s *stage) { s.forge() }, false},
			{"copy torn", func(s *stage) {
				s.forge()
				for i := range s.parent.Status.Subsets {
					s.parent.Status.Subsets[i].ChildRecord.Annotations[v1alpha1.AnnotationPartition] = "7"
				}
			}, true},
			{"revision lost", func(s *stage) { s.drop(1) }, true},
			{"update revision deleted", func(s *stage) { s.drop(2) }, false},
			{"a message quotes a value", func(s *stage) {
				s.parent.Status.Subsets[0].Message = `got "` + canary + `-two"`
				s.children(func(u *unstructured.Unstructured) {
					said := map[string]any{"type": "Quoted", "status": "True", "message": "value: " + canary + "-one, " + canary + "-two"}
					set(s.t, u.Object, []any{said}, "status", "conditions")
				})
			}, false},
			{"a revision without label and owner", func(s *stage) {
				for _, u := range s.objects {
					if u.GetKind() == "ControllerRevision" && u.GetLabels()[v1alpha1.LabelName] != "" && u.GetLabels()[v1alpha1.LabelSubset] == "" {
						u.SetLabels(nil)
						u.SetOwnerReferences(nil)
					}
				}
			}, false},
			{"bound to the update revision", func(s *stage) {
				s.parent.Spec.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{Revision: s.parent.Status.UpdateRevision, DefaultPartition: ptr.To(intstr.FromInt32(0))}
			}, true},
		} {
			t.Run(sample+" "+c.name, func(t *testing.T) {
				s := newStage(t, sample)
				s.passes(2)
				s.setEnv(canary + "-two")
				s.passes(2)
				c.turn(s)
				got := s.compare(t)
				if plain == "" {
					plain = got
				}
				if (got != plain) != c.differs {
					t.Errorf("the decision is\n%s\nwithout that it is\n%s", got, plain)
				}
			})
		}
	}
}

// TestSavedKeys does the same for a coordinated rollout, with all that is hashed of the name of the revision, and of a check.
func TestSavedKeys(t *testing.T) {
	for _, c := range []struct {
		name string
		turn func(s *stage, r *v1alpha1.RolloutStatus, update string)
		want string
	}{
		{"waits", func(*stage, *v1alpha1.RolloutStatus, string) {}, "rollout AwaitingApproval, step 0, forced false, promoted false: step 1 of 1 reached"},
		{"approved", func(s *stage, r *v1alpha1.RolloutStatus, _ string) {
			s.annotate(v1alpha1.AnnotationApproved, r.ApprovalKey)
		}, "continuing after step 1"},
		{"forced", func(s *stage, _ *v1alpha1.RolloutStatus, update string) {
			s.annotate(v1alpha1.AnnotationForceUpdate, update+"/1")
		}, "forced true"},
		{"spent", func(s *stage, r *v1alpha1.RolloutStatus, update string) {
			s.annotate(v1alpha1.AnnotationForceUpdate, update+"/1")
			r.Spent = coordination.SpentBy(s.parent.Annotations)
		}, "step 0, forced false"},
		{"failed", func(*stage, *v1alpha1.RolloutStatus, string) {}, "rollout CheckFailed"},
		{"failed, retried", func(s *stage, _ *v1alpha1.RolloutStatus, update string) {
			s.annotate(v1alpha1.AnnotationRetry, update+"/1")
		}, "rollout Progressing"},
		{"failed, retried before", func(s *stage, r *v1alpha1.RolloutStatus, update string) {
			s.annotate(v1alpha1.AnnotationRetry, update+"/1")
			r.Retried = coordination.RetryKey(update + "/1")
		}, "rollout CheckFailed"},
		{"failed, retried before it was left", func(s *stage, _ *v1alpha1.RolloutStatus, update string) {
			s.annotate(v1alpha1.AnnotationRetry, update+"/1")
			s.objects["ControllerRevision"+update].SetAnnotations(map[string]string{v1alpha1.AnnotationLeft: "forward,retried-" + coordination.RetryKey(update+"/1")})
		}, "rollout CheckFailed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStage(t, "web")
			job := map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"restartPolicy": "Never", "containers": []any{map[string]any{"name": "smoke", "image": "smoke", "env": []any{map[string]any{"name": "TOKEN", "value": canary + "-job"}}}},
			}}}}
			s.parent.Spec.VersionLabel = v1alpha1.TemplateHashLabel
			s.parent.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{
				Steps:  []v1alpha1.RolloutStep{{Subsets: []string{"zone-a"}, Partition: ptr.To(intstr.FromInt32(0)), Pause: &v1alpha1.RolloutPause{}}},
				Checks: []v1alpha1.RolloutCheck{{Name: "smoke", Job: &v1alpha1.JobCheck{Template: &runtime.RawExtension{Raw: encoded(t, job)}}}},
			}}
			s.passes(3)
			s.setEnv(canary + "-two")
			s.passes(4)
			rollout := s.parent.Status.Rollout
			if len(rollout.Checks) != 1 || rollout.ApprovalKey == "" {
				t.Fatalf("%+v", rollout)
			}
			if strings.HasPrefix(c.name, "failed") {
				rollout.Checks[0].State, rollout.Checks[0].Message = v1alpha1.CheckHasFailed, "no, says "+rollout.Checks[0].Run
			}
			c.turn(s, rollout, s.parent.Status.UpdateRevision)
			if got := s.compare(t); !strings.Contains(got, c.want) {
				t.Errorf("it decides\n%s\nwithout %q", got, c.want)
			}
		})
	}
}

// stage plays a manager and the controllers, roughly.
type stage struct {
	t       *testing.T
	parent  *v1alpha1.UnitedDeployment
	adapter adapters.Adapter
	now     time.Time
	objects map[string]*unstructured.Unstructured
}

func newStage(t *testing.T, sample string) *stage {
	raw, err := os.ReadFile("../../../config/samples/" + sample + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{t: t, parent: &v1alpha1.UnitedDeployment{}, now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC), objects: map[string]*unstructured.Unstructured{}}
	if err := yaml.Unmarshal(raw, s.parent); err != nil {
		t.Fatal(err)
	}
	s.parent.Namespace, s.parent.UID, s.parent.Annotations = "shop", "uid-parent", map[string]string{}
	for _, a := range all.Registry() {
		if _, raw := a.TemplateField(&s.parent.Spec.Template); raw != nil {
			s.adapter = a
		}
	}
	s.setEnv(canary + "-one")
	return s
}

// setEnv sets environment variables in all pod templates, and in the patch of the first subset.
func (s *stage) setEnv(value string) {
	_, raw := s.adapter.TemplateField(&s.parent.Spec.Template)
	template, patch := decoded(s.t, raw.Raw), map[string]any{}
	for _, path := range s.adapter.PodTemplates() {
		var containers []any
		list, _, err := unstructured.NestedSlice(template, append(path, "spec", "containers")...)
		if err != nil {
			s.t.Fatal(err)
		}
		for _, c := range list {
			container := c.(map[string]any)
			container["env"] = []any{map[string]any{"name": "PASSWORD", "value": value}, map[string]any{"name": "EMPTY", "value": ""}}
			containers = append(containers, map[string]any{"name": container["name"], "env": []any{map[string]any{"name": "PATCHED", "value": canary + "-patch"}}})
		}
		set(s.t, template, list, append(path, "spec", "containers")...)
		set(s.t, patch, containers, append(path, "spec", "containers")...)
	}
	if s.parent.Spec.Template.LeaderWorkerSetTemplate != nil {
		set(s.t, template, int64(1), "spec", "leaderWorkerTemplate", "size")
	}
	raw.Raw = encoded(s.t, template)
	s.parent.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: encoded(s.t, patch)}
	s.parent.Annotations["kubectl.kubernetes.io/last-applied-configuration"] = string(encoded(s.t, map[string]any{"spec": s.parent.Spec}))
	s.parent.Generation++
}

func (s *stage) lister() lister {
	parent := &unstructured.Unstructured{Object: decoded(s.t, encoded(s.t, s.parent))}
	parent.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
	l := lister{*parent}
	for _, u := range s.objects {
		l = append(l, *u)
	}
	return l
}

func (s *stage) world() *planner.Input {
	s.t.Helper()
	in, err := look.New(s.lister()).World(s.t.Context(), s.parent, s.now)
	if err != nil {
		s.t.Fatal(err)
	}
	return in
}

// passes plays passes, each until the children have done what it asks of them.
func (s *stage) passes(n int) {
	for range n {
		if asked := s.world().Asked().Object; asked.UID == "" {
			cr := asked.DeepCopy()
			cr.TypeMeta, cr.UID, cr.ResourceVersion = metav1.TypeMeta{APIVersion: "apps/v1", Kind: "ControllerRevision"}, types.UID("uid-"+cr.Name), "1"
			s.put(encoded(s.t, cr))
		}
		in := s.world()
		p := planner.Make(in)
		results := pass.Writes(p, nil, func(w *planner.Write) *planner.Result {
			if w.Step.Child.Revision != "" {
				s.write(&w.Step.Child)
			}
			return &planner.Result{}
		})
		status, _ := report.Status(in, p, results, report.Undone{})
		s.parent.Status = *status
		s.now = s.now.Add(time.Minute)
	}
}

func (s *stage) put(raw []byte) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(raw); err != nil {
		s.t.Fatal(err)
	}
	s.objects[u.GetKind()+u.GetName()] = u
	return u
}

// write writes a child, and replaces the pods from its partition on.
func (s *stage) write(c *adapters.Child) {
	u, err := adapters.Build(s.adapter, c)
	if err != nil {
		s.t.Fatal(err)
	}
	u.Object = decoded(s.t, encoded(s.t, u.Object))
	generation, path := int64(1), s.adapter.PodTemplates()[len(s.adapter.PodTemplates())-1]
	if was := s.objects[u.GetKind()+u.GetName()]; was != nil {
		if generation = was.GetGeneration(); !reflect.DeepEqual(was.Object["spec"], u.Object["spec"]) {
			generation++
		}
	}
	owned := map[string]any{}
	for key := range u.GetAnnotations() {
		owned["f:"+key] = map[string]any{}
	}
	u.SetNamespace("shop")
	u.SetUID(types.UID("uid-" + u.GetName()))
	u.SetGeneration(generation)
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, APIVersion: u.GetAPIVersion(), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(string(encoded(s.t, map[string]any{"f:metadata": map[string]any{"f:annotations": owned}}))),
	}})
	template, _, err := unstructured.NestedMap(u.Object, path...)
	if err != nil {
		s.t.Fatal(err)
	}
	hash := adapters.Checksum(string(encoded(s.t, template)))[:8]
	owner := s.made(u, template, hash, c.Partition)
	current, updated := hash, int64(0)
	for i := range c.Replicas {
		name := fmt.Sprintf("%s-%d", u.GetName(), i)
		if was := s.objects["Pod"+name]; was != nil && i < c.Partition {
			current = was.GetLabels()[appsv1.ControllerRevisionHashLabelKey]
			continue
		}
		updated++
		s.pod(name, template, hash, owner)
	}
	set(s.t, u.Object, map[string]any{
		"observedGeneration": generation, "replicas": int64(c.Replicas), "readyReplicas": int64(c.Replicas), "availableReplicas": int64(c.Replicas),
		"updatedReplicas": updated, "updateRevision": hash, "currentRevision": current,
	}, "status")
	s.put(encoded(s.t, u))
}

// made makes what makes the pods of a child, and returns it.
func (s *stage) made(child *unstructured.Unstructured, template map[string]any, hash string, partition int32) metav1.Object {
	owned := func(name, apiVersion, kind string, labels map[string]any, rest map[string]any) *unstructured.Unstructured {
		rest["apiVersion"], rest["kind"] = apiVersion, kind
		rest["metadata"] = map[string]any{"name": name, "namespace": "shop", "uid": "uid-of-" + name, "labels": labels, "generation": int64(1)}
		u := s.put(encoded(s.t, rest))
		u.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(child, child.GroupVersionKind())})
		return u
	}
	switch child.GetKind() {
	case "Deployment":
		labels := map[string]any{v1alpha1.LabelName: s.parent.Name, v1alpha1.LabelSubset: child.GetLabels()[v1alpha1.LabelSubset]}
		return owned(child.GetName()+"-"+hash, "apps/v1", "ReplicaSet", labels, map[string]any{"spec": map[string]any{"template": template, "replicas": int64(1)}})
	case "LeaderWorkerSet":
		labels := map[string]any{"leaderworkerset.sigs.k8s.io/name": child.GetName(), "leaderworkerset.sigs.k8s.io/template-revision-hash": hash}
		spec := map[string]any{"leaderWorkerTemplate": child.Object["spec"].(map[string]any)["leaderWorkerTemplate"]}
		owned(child.GetName()+"-"+hash, "apps/v1", "ControllerRevision", labels, map[string]any{"data": map[string]any{"spec": spec}, "revision": child.GetGeneration()})
		leaders := owned(child.GetName(), "apps/v1", "StatefulSet", labels, map[string]any{"spec": map[string]any{
			"template": template, "updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": int64(partition)}},
		}})
		set(s.t, leaders.Object, map[string]any{"observedGeneration": int64(1), "currentRevision": hash, "updateRevision": hash}, "status")
		leaders.SetAnnotations(map[string]string{"leaderworkerset.sigs.k8s.io/replicas": "2"})
		return leaders
	}
	return child
}

func (s *stage) pod(name string, template map[string]any, hash string, owner metav1.Object) {
	u := s.put(encoded(s.t, map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{"name": name, "namespace": "shop", "uid": "uid-" + name}, "spec": template["spec"]}))
	labels, _, err := unstructured.NestedStringMap(template, "metadata", "labels")
	if err != nil {
		s.t.Fatal(err)
	}
	labels[appsv1.ControllerRevisionHashLabelKey], labels[appsv1.DefaultDeploymentUniqueLabelKey] = hash, hash
	u.SetLabels(labels)
	u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Any", Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true)}})
	ready := map[string]any{"type": "Ready", "status": "True", "lastTransitionTime": "2026-07-01T11:00:00Z"}
	set(s.t, u.Object, map[string]any{"phase": "Running", "conditions": []any{ready}}, "status")
}

func (s *stage) annotate(key, value string) { s.parent.Annotations[key] = value }

// children calls on with each child.
func (s *stage) children(on func(u *unstructured.Unstructured)) {
	for _, u := range s.objects {
		if u.GroupVersionKind() == s.adapter.GroupVersionKind() {
			on(u)
		}
	}
}

// forge changes what the children say that they protect, as admission would: with the checksum of another record.
func (s *stage) forge() {
	s.children(func(u *unstructured.Unstructured) {
		annotations := u.GetAnnotations()
		annotations[v1alpha1.AnnotationProtectedRevision] = s.parent.Status.UpdateRevision
		u.SetAnnotations(annotations)
	})
}

// drop deletes the revision with a number.
func (s *stage) drop(number int64) {
	for key, u := range s.objects {
		if n, _ := u.Object["revision"].(int64); u.GetKind() == "ControllerRevision" && n == number && u.GetLabels()[v1alpha1.LabelName] != "" {
			delete(s.objects, key)
			return
		}
	}
	s.t.Fatal("there is no revision", number)
}

// compare compares what is decided on the objects with what is decided on what was saved, and returns it. No value of an
// environment variable is saved.
func (s *stage) compare(t *testing.T) string {
	t.Helper()
	var have []string
	for _, u := range s.lister() {
		if strings.Contains(string(encoded(t, u.Object)), canary) {
			have = append(have, u.GetKind())
		}
	}
	for _, kind := range []string{v1alpha1.Kind, "ControllerRevision", "Pod", s.adapter.GroupVersionKind().Kind} {
		if !slices.Contains(have, kind) {
			t.Fatal("nothing is hidden in", kind, "of", have)
		}
	}
	live := s.world()
	saved, err := look.Save(t.Context(), s.lister(), kinds(), s.parent.DeepCopy(), s.now)
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.Marshal(saved)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), canary) || !strings.Contains(string(text), "redacted-3") {
		t.Errorf("values are left, or are not distinguished:\n%s", text)
	}
	for _, r := range live.Revisions {
		if strings.Contains(string(text), known.Short(r.Name)) {
			t.Error("the name of", r.Name, "is left")
		}
	}
	if r := s.parent.Status.Rollout; r != nil && len(r.Checks) > 0 && (r.Checks[0].Run == "" || strings.Contains(string(text), r.Checks[0].Run)) {
		t.Errorf("%q is left", r.Checks[0].Run)
	}
	again := &look.Saved{}
	if err := yaml.Unmarshal(text, again); err != nil {
		t.Fatal(err)
	}
	if got, want := masked(worldOf(t, again)), masked(live); got != want {
		t.Errorf("it decides\n%s\nand not\n%s", got, want)
	}
	return masked(live)
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func decoded(t *testing.T, raw []byte) map[string]any {
	t.Helper()
	v := map[string]any{}
	if err := utiljson.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func set(t *testing.T, object map[string]any, value any, path ...string) {
	t.Helper()
	if err := unstructured.SetNestedField(object, value, path...); err != nil {
		t.Fatal(err)
	}
}
