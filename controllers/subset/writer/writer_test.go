// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/subset/ownership"
)

// epoch is the current time in these tests.
func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// bench is a writer on a fake API server. Applies never reach that server, because it does not implement them
// faithfully; end-to-end tests cover their effects. The bench stores them.
type bench struct {
	Writer
	t       *testing.T
	server  client.WithWatch
	applied []*unstructured.Unstructured
	options []client.ApplyOptions
	// idle: an apply does not change anything on the server.
	idle bool
	// applyErr is the server's error for an apply.
	applyErr error
	deleted  []string
	patchErr error
	// labels are the labels of a patched object on the server; nil if they are unchanged.
	labels map[string]string
	// patches is the number of such patches.
	patches int
	// reminded are the patches of a status, and remindErr is the server's error for them.
	reminded  []string
	remindErr error
	// change is the server's change of an applied object; undo is what somebody does after it.
	change, undo func(*unstructured.Unstructured)
}

func newBench(t *testing.T, objects ...client.Object) *bench {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{appsv1.AddToScheme, corev1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	b := &bench{t: t, server: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()}
	b.Adapter, b.Live = statefulset.New(), b.server
	b.Client = interceptor.NewClient(b.server, interceptor.Funcs{
		Apply: func(_ context.Context, _ client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			u := &unstructured.Unstructured{Object: o.(runtime.Unstructured).UnstructuredContent()}
			options := client.ApplyOptions{}
			options.ApplyOptions(opts)
			b.applied, b.options = append(b.applied, u.DeepCopy()), append(b.options, options)
			if b.applyErr == nil && !b.idle {
				u.SetResourceVersion("78")
			}
			if b.change != nil {
				u.SetResourceVersion(strconv.Itoa(1000 + len(b.applied)))
				b.change(u)
			}
			return b.applyErr
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			options := client.DeleteOptions{}
			options.ApplyOptions(opts)
			text := o.GetName()
			if options.Preconditions != nil {
				text += " if " + string(ptr.Deref(options.Preconditions.UID, "")) + " at " + ptr.Deref(options.Preconditions.ResourceVersion, "any")
			}
			if options.PropagationPolicy != nil {
				text += " " + string(*options.PropagationPolicy)
			}
			b.deleted = append(b.deleted, text)
			return c.Delete(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if b.patchErr != nil {
				return b.patchErr
			}
			b.patches++
			if b.labels != nil {
				o.SetLabels(b.labels)
				return nil
			}
			return c.Patch(ctx, o, p, opts...)
		},
		SubResourcePatch: func(_ context.Context, _ client.Client, subResource string, o client.Object, p client.Patch, _ ...client.SubResourcePatchOption) error {
			raw, err := p.Data(o)
			if err != nil {
				return err
			}
			b.reminded = append(b.reminded, subResource+" "+o.GetName()+" "+string(raw))
			if b.remindErr == nil {
				o.SetResourceVersion("79")
			}
			return b.remindErr
		},
	})
	return b
}

func (b *bench) carry(s subset.Step, current *unstructured.Unstructured) (*unstructured.Unstructured, bool, error) {
	return b.Execute(b.t.Context(), s, current)
}

// childSpec returns the child of subset zone-a of web.
func childSpec() adapters.Child {
	return adapters.Child{
		Namespace: "shop", Name: "web-zone-a", Parent: "web", Subset: "zone-a",
		Owner:    metav1.OwnerReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "web", UID: "u-1", Controller: ptr.To(true)},
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
		Template: map[string]any{"spec": map[string]any{"serviceName": "web"}},
		RevisionTemplate: map[string]any{
			"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
			"spec":     map[string]any{"containers": []any{map[string]any{"name": "web", "image": "a:1"}}},
		},
		Replicas: 3, Partition: 2, Revision: "web-2", ProtectedRevision: "web-1", ParentGeneration: 5,
	}
}

func set(edits ...func(*appsv1.StatefulSet)) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-zone-a", UID: "s-1",
		Labels:          map[string]string{v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "zone-a"},
		OwnerReferences: []metav1.OwnerReference{childSpec().Owner},
	}}
	for _, edit := range edits {
		edit(s)
	}
	return s
}

func orphan(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: name, UID: types.UID("uid-" + name),
		Labels: map[string]string{v1alpha1.LabelName: "web", v1alpha1.LabelSubset: "zone-a", "app": "web"},
	}}
}

func TestCarryDoesNothing(t *testing.T) {
	b := newBench(t)
	current := &unstructured.Unstructured{}
	for _, action := range []subset.Action{subset.ActionWait, subset.ActionHalt} {
		if after, wrote, err := b.carry(subset.Step{Action: action}, current); after != current || wrote || err != nil {
			t.Error(action, after, wrote, err)
		}
		if after, wrote, err := b.carry(subset.Step{Action: action}, nil); after != nil || wrote || err != nil {
			t.Error(action, after, wrote, err)
		}
	}
	if len(b.applied)+len(b.deleted) > 0 {
		t.Error(b.applied, b.deleted)
	}
}

func TestCreate(t *testing.T) {
	for _, action := range []subset.Action{subset.ActionCreate, subset.ActionSeed} {
		b := newBench(t)
		after, wrote, err := b.carry(subset.Step{Action: action, Child: childSpec()}, nil)
		if err != nil || !wrote || after.GetName() != "web-zone-a" || len(b.applied) != 1 {
			t.Fatal(action, after, wrote, err)
		}
		u := b.applied[0]
		if u.GetResourceVersion() != "1" || u.GetUID() != "" {
			t.Error(action, "is not fenced by the resourceVersion that stands for an absent object:", u.GetResourceVersion(), u.GetUID())
		}
		if o := b.options[0]; o.FieldManager != v1alpha1.FieldManager || o.Force == nil || !*o.Force {
			t.Errorf("%+v", o)
		}
		if u.GetAnnotations()[v1alpha1.AnnotationFingerprint] == "" || u.GetAnnotations()[v1alpha1.AnnotationRevision] != "web-2" {
			t.Error(u.GetAnnotations())
		}
	}
}

func TestCreateWhereSomethingIs(t *testing.T) {
	for _, tc := range []struct {
		name  string
		there *appsv1.StatefulSet
		want  error
		// relabelled: its labels are restored.
		relabelled bool
	}{
		{"a stranger", set(func(s *appsv1.StatefulSet) { s.OwnerReferences = nil }), subset.ErrNameConflict, false},
		{"the child of another", set(func(s *appsv1.StatefulSet) {
			s.OwnerReferences[0].UID, s.OwnerReferences[0].Name = "u-2", "other"
		}), subset.ErrNameConflict, false},
		{"of an earlier parent of the name", set(func(s *appsv1.StatefulSet) { s.OwnerReferences[0].UID = "u-0" }), subset.ErrPredecessor, false},
		{"one that we do not control", set(func(s *appsv1.StatefulSet) { s.OwnerReferences[0].Controller = nil }), subset.ErrNameConflict, false},
		{"our own, which the cache does not show yet", set(), subset.ErrStale, false},
		{"our own without labels", set(func(s *appsv1.StatefulSet) { s.Labels = nil }), subset.ErrStale, true},
		{"our own with another's label", set(func(s *appsv1.StatefulSet) { s.Labels[v1alpha1.LabelSubset] = "zone-b" }), subset.ErrStale, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, action := range []subset.Action{subset.ActionCreate, subset.ActionSeed} {
				b := newBench(t, tc.there.DeepCopy())
				after, wrote, err := b.carry(subset.Step{Action: action, Child: childSpec()}, nil)
				if !errors.Is(err, tc.want) || wrote || after != nil || len(b.applied) > 0 {
					t.Fatal(action, after, wrote, err)
				}
				if waits := (*subset.WaitError)(nil); errors.As(err, &waits) != errors.Is(err, subset.ErrStale) {
					t.Error("it does not say what it waits for:", err)
				}
				live := &appsv1.StatefulSet{}
				if err := b.server.Get(t.Context(), client.ObjectKeyFromObject(tc.there), live); err != nil {
					t.Fatal(err)
				}
				want := tc.there.DeepCopy()
				if tc.relabelled {
					want.Labels = set().Labels
				}
				live.ResourceVersion = ""
				if diff := cmp.Diff(want, live); diff != "" {
					t.Error("want -, have +\n", diff)
				}
			}
		})
	}
}

func TestRelabelErrors(t *testing.T) {
	kind := schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	for _, tc := range []struct {
		answer error
		stale  bool
	}{
		{apierrors.NewConflict(kind, "web-zone-a", errors.New("x")), true},
		{apierrors.NewForbidden(kind, "web-zone-a", errors.New("x")), false},
	} {
		b := newBench(t, set(func(s *appsv1.StatefulSet) { s.Labels = nil }))
		b.patchErr = tc.answer
		_, _, err := b.carry(subset.Step{Action: subset.ActionCreate, Child: childSpec()}, nil)
		if errors.Is(err, subset.ErrStale) != tc.stale || err == nil {
			t.Error(err)
		}
	}
}

func TestApplyErrors(t *testing.T) {
	kind := schema.GroupResource{Group: "apps", Resource: "statefulsets"}
	for _, tc := range []struct {
		name   string
		answer error
		stale  bool
	}{
		{"conflict", apierrors.NewConflict(kind, "web-zone-a", errors.New("x")), true},
		{"exists", apierrors.NewAlreadyExists(kind, "web-zone-a"), true},
		{"invalid", apierrors.NewInvalid(schema.GroupKind{}, "web-zone-a", nil), false},
		{"server error", apierrors.NewInternalError(errors.New("x")), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			b.applyErr = tc.answer
			current := b.asStored(childSpec(), nil)
			for _, try := range []func() (*unstructured.Unstructured, bool, error){
				func() (*unstructured.Unstructured, bool, error) {
					return b.carry(subset.Step{Action: subset.ActionCreate, Child: childSpec()}, nil)
				},
				func() (*unstructured.Unstructured, bool, error) {
					c := childSpec()
					c.Replicas++
					return b.carry(subset.Step{Action: subset.ActionApply, Child: c}, current)
				},
			} {
				_, wrote, err := try()
				if wrote || err == nil || errors.Is(err, subset.ErrStale) != tc.stale || (!tc.stale && !errors.Is(err, tc.answer)) {
					t.Error(wrote, err)
				}
			}
		})
	}
}

// A seed keeps the pods that outlived an earlier child, on the revisions that they run. If they were orphaned after the
// decision, the seed is not created.
func TestSeedKeepsOrphans(t *testing.T) {
	for _, tc := range []struct {
		name                string
		action              subset.Action
		replicas, partition int32
		pods                []client.Object
		wantReplicas        int32
		wantPartition       int32
	}{
		{"none", subset.ActionSeed, 0, 2, nil, 0, 2},
		{"none, some are protected", subset.ActionSeed, 2, 2, nil, 2, 2},
		{"fewer than are to be made", subset.ActionSeed, 5, 9, []client.Object{orphan("web-zone-a-0"), orphan("web-zone-a-3")}, 5, 9},
		{"more than are to be made", subset.ActionSeed, 2, 2, []client.Object{orphan("web-zone-a-3")}, 4, 4},
		{"fewer than are protected", subset.ActionSeed, 0, 9, []client.Object{orphan("web-zone-a-0"), orphan("web-zone-a-3")}, 4, 9},
		{"more than are protected", subset.ActionSeed, 0, 2, []client.Object{orphan("web-zone-a-10"), orphan("web-zone-a-9")}, 11, 11},
		{"of another subset", subset.ActionSeed, 0, 2, []client.Object{labelled(orphan("web-zone-a-3"), v1alpha1.LabelSubset, "zone-b")}, 0, 2},
		{"in another namespace", subset.ActionSeed, 0, 2, []client.Object{elsewhere(orphan("web-zone-a-3"))}, 0, 2},
		{"with nothing to protect they may be replaced", subset.ActionCreate, 3, 0, []client.Object{orphan("web-zone-a-7")}, 3, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, tc.pods...)
			c := childSpec()
			c.Replicas, c.Partition = tc.replicas, tc.partition
			step := subset.Step{Action: tc.action, Child: c}
			outlived, err := b.Outlived(t.Context(), c.Namespace, c.Parent, c.Subset)
			if err != nil {
				t.Fatal(err)
			}
			u, err := adapters.Build(b.Adapter, &c)
			if err != nil {
				t.Fatal(err)
			}
			around := subset.KeepOutlived(step, statefulset.New().Orphans(u, outlived))
			if around.Child.Replicas != step.Child.Replicas {
				if _, wrote, err := b.carry(step, nil); !errors.Is(err, subset.ErrStale) || wrote || len(b.applied) > 0 {
					t.Fatal("a child is made that deletes pods, which were orphaned after it was decided on:", wrote, err)
				}
			}
			if _, _, err := b.carry(around, nil); err != nil {
				t.Fatal(err)
			}
			o, err := b.Adapter.Observe(b.applied[0], adapters.Dependents{})
			if err != nil {
				t.Fatal(err)
			}
			if o.Replicas != tc.wantReplicas || o.Partition != tc.wantPartition {
				t.Error(o.Replicas, o.Partition)
			}
		})
	}
}

func labelled(p *corev1.Pod, key, v string) *corev1.Pod { p.Labels[key] = v; return p }

func elsewhere(p *corev1.Pod) *corev1.Pod { p.Namespace = "other"; return p }

// asStored returns a child as the API server would have it after an apply, without the fields that drift removes from
// managedFields.
func (b *bench) asStored(c adapters.Child, drift func(*fieldpath.Set)) *unstructured.Unstructured {
	b.t.Helper()
	u, err := b.build(&c)
	if err != nil {
		b.t.Fatal(err)
	}
	fields := fieldpath.SetFromValue(value.NewValueInterface(ownership.WithoutIdentity(u.Object)))
	if drift != nil {
		drift(fields)
	}
	raw, err := fields.ToJSON()
	if err != nil {
		b.t.Fatal(err)
	}
	u.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: v1alpha1.FieldManager, Operation: metav1.ManagedFieldsOperationApply, FieldsV1: metav1.NewFieldsV1(string(raw)),
	}})
	u.SetUID("s-1")
	u.SetResourceVersion("77")
	return u
}

func TestUpdate(t *testing.T) {
	change := func(edit func(*adapters.Child)) adapters.Child {
		c := childSpec()
		edit(&c)
		return c
	}
	for _, tc := range []struct {
		name  string
		child adapters.Child
		wrote bool
	}{
		{"at rest", childSpec(), false},
		{"the parent's generation rides along", change(func(c *adapters.Child) { c.ParentGeneration = 9 }), false},
		{"the protected revision rides along", change(func(c *adapters.Child) { c.ProtectedRevision = "web-2" }), false},
		{"the protected revision goes, along", change(func(c *adapters.Child) { c.ProtectedRevision = "" }), false},
		{"the child's own revision rides along", change(func(c *adapters.Child) { c.ProtectedHash = "web-zone-a-1" }), false},
		{"what was released rides along", change(func(c *adapters.Child) { c.ReleasedFrom, c.ReleasedBefore = 2, 2 }), false},
		{"a seed ends", change(func(c *adapters.Child) { c.Seeding = true }), true},
		{"replicas", change(func(c *adapters.Child) { c.Replicas = 4 }), true},
		{"partition", change(func(c *adapters.Child) { c.Partition = 1 }), true},
		{"revision", change(func(c *adapters.Child) { c.Revision = "web-3" }), true},
		{"template", change(func(c *adapters.Child) { c.Template = map[string]any{"spec": map[string]any{"serviceName": "other"}} }), true},
		{"minReadySeconds", change(func(c *adapters.Child) { c.MinReadySeconds = 7 }), true},
		{"pods", change(func(c *adapters.Child) { c.RevisionTemplate["spec"] = map[string]any{"containers": []any{}} }), true},
		{"tolerations", change(func(c *adapters.Child) { c.Tolerations = []corev1.Toleration{{Key: "k"}} }), true},
		{"selector", change(func(c *adapters.Child) { c.Selector.MatchLabels["app"] = "x" }), true},
		{"owner", change(func(c *adapters.Child) { c.Owner.BlockOwnerDeletion = ptr.To(true) }), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			for _, action := range []subset.Action{subset.ActionApply, subset.ActionSeed} {
				b := newBench(t)
				current := b.asStored(childSpec(), nil)
				before := current.DeepCopy()
				after, wrote, err := b.carry(subset.Step{Action: action, Child: tc.child}, current)
				if err != nil || wrote != tc.wrote || len(b.applied) != map[bool]int{true: 1}[wrote] {
					t.Fatal(action, wrote, err, len(b.applied))
				}
				if !wrote {
					if after != current {
						t.Error("another child is given")
					}
				} else if u := b.applied[0]; u.GetUID() != "s-1" || u.GetResourceVersion() != "77" {
					t.Error("it is not fenced:", u.GetUID(), u.GetResourceVersion())
				}
				if diff := cmp.Diff(before, current); diff != "" {
					t.Error("what the cache holds was changed:", diff)
				}
			}
		})
	}
}

func TestUpdatePutsDriftRight(t *testing.T) {
	for name, path := range map[string]fieldpath.Path{
		"replicas":   fieldpath.MakePathOrDie("spec", "replicas"),
		"label":      fieldpath.MakePathOrDie("metadata", "labels", v1alpha1.LabelName),
		"template":   fieldpath.MakePathOrDie("spec", "serviceName"),
		"pod label":  fieldpath.MakePathOrDie("spec", "template", "metadata", "labels", "app"),
		"annotation": fieldpath.MakePathOrDie("metadata", "annotations", v1alpha1.AnnotationRevision),
	} {
		b := newBench(t)
		current := b.asStored(childSpec(), func(owned *fieldpath.Set) {
			*owned = *owned.Difference(fieldpath.NewSet(path))
		})
		if _, wrote, err := b.carry(subset.Step{Action: subset.ActionApply, Child: childSpec()}, current); err != nil || !wrote {
			t.Error(name, "was taken, and is not taken back:", err)
		}
	}
	// Fields that do not justify a write are restored nevertheless if somebody takes them.
	for _, path := range []string{
		v1alpha1.AnnotationParentGeneration, v1alpha1.AnnotationProtectedRevision, v1alpha1.AnnotationPartition,
		v1alpha1.AnnotationProtectedHash, v1alpha1.AnnotationReleasedFrom, v1alpha1.AnnotationSeeding,
	} {
		b := newBench(t)
		current := b.asStored(childSpec(), func(owned *fieldpath.Set) {
			*owned = *owned.Difference(fieldpath.NewSet(fieldpath.MakePathOrDie("metadata", "annotations", path)))
		})
		if _, wrote, err := b.carry(subset.Step{Action: subset.ActionApply, Child: childSpec()}, current); err != nil || !wrote {
			t.Error(path, "was taken, and is not taken back:", err)
		}
	}
}

// If somebody else sets the partition or the replicas of a child, both are restored. If the value happens to be the
// desired one, it is recorded nevertheless.
func TestUpdatePutsForeignNumbersRight(t *testing.T) {
	for _, tc := range []struct {
		name  string
		edit  func(*unstructured.Unstructured)
		asked int32
		wrote bool
	}{
		{"the partition", func(u *unstructured.Unstructured) {
			setNumber(u, 0, "spec", "updateStrategy", "rollingUpdate", "partition")
		}, 2, true},
		{"the partition, to what is asked for now", func(u *unstructured.Unstructured) {
			setNumber(u, 0, "spec", "updateStrategy", "rollingUpdate", "partition")
		}, 0, true},
		{"the replicas", func(u *unstructured.Unstructured) { setNumber(u, 9, "spec", "replicas") }, 2, true},
		{"a child of an earlier version of United", func(u *unstructured.Unstructured) {
			unstructured.RemoveNestedField(u.Object, "metadata", "annotations", v1alpha1.AnnotationPartition)
		}, 2, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t)
			current, c := b.asStored(childSpec(), nil), childSpec()
			tc.edit(current)
			c.Partition = tc.asked
			if _, wrote, err := b.carry(subset.Step{Action: subset.ActionApply, Child: c}, current); err != nil || wrote != tc.wrote {
				t.Fatal(wrote, err)
			}
			if tc.wrote {
				o, err := b.Adapter.Observe(b.applied[0], adapters.Dependents{})
				if err != nil || o.Partition != tc.asked || subset.RecordedPartition(o) != tc.asked || o.Replicas != 3 {
					t.Error(o, err)
				}
			}
		})
	}
}

func setNumber(u *unstructured.Unstructured, n int64, path ...string) {
	if err := unstructured.SetNestedField(u.Object, n, path...); err != nil {
		panic(err)
	}
}

// An apply that changes nothing does not count as a write: replicas that block progress are deleted only if there is
// nothing to write.
func TestUpdateThatChangesNothing(t *testing.T) {
	for _, idle := range []bool{true, false} {
		b := newBench(t)
		b.idle = idle
		current := b.asStored(childSpec(), func(owned *fieldpath.Set) {
			*owned = *owned.Difference(fieldpath.NewSet(fieldpath.MakePathOrDie("spec", "replicas")))
		})
		_, wrote, err := b.carry(subset.Step{Action: subset.ActionApply, Child: childSpec()}, current)
		if err != nil || wrote == idle || len(b.applied) != 1 {
			t.Error(idle, wrote, err, len(b.applied))
		}
	}
}

func TestCarryRefusesABadPatch(t *testing.T) {
	c := childSpec()
	c.Patch = map[string]any{"spec": "text"}
	b := newBench(t)
	for _, s := range []subset.Step{{Action: subset.ActionCreate, Child: c}, {Action: subset.ActionSeed, Child: c}} {
		var invalid *field.Error
		if _, _, err := b.carry(s, nil); !errors.As(err, &invalid) || invalid.Field != "spec.topology.subsets[zone-a].patch.spec" {
			t.Error(s.Action, err)
		}
	}
	var invalid *field.Error
	current := b.asStored(childSpec(), nil)
	if after, _, err := b.carry(subset.Step{Action: subset.ActionApply, Child: c}, current); !errors.As(err, &invalid) || after != current {
		t.Error(err)
	}
	if len(b.applied) > 0 {
		t.Error(b.applied)
	}
}

func TestShrink(t *testing.T) {
	b := newBench(t, set())
	stored := &appsv1.StatefulSet{}
	if err := b.server.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-zone-a"}, stored); err != nil {
		t.Fatal(err)
	}
	current := b.asStored(childSpec(), nil)
	current.SetUID(stored.UID)
	current.SetResourceVersion(stored.ResourceVersion)
	after, err := b.Shrink(t.Context(), current, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	if replicas, _, _ := unstructured.NestedInt64(after.Object, "spec", "replicas"); replicas != 1 {
		t.Error(replicas)
	}
	if replicas, _, _ := unstructured.NestedInt64(current.Object, "spec", "replicas"); replicas == 1 {
		t.Error("what was read is changed")
	}
	if _, err := b.Shrink(t.Context(), current, 0, false); !errors.Is(err, subset.ErrStale) {
		t.Error("an old child is shrunk:", err)
	}
	current.SetName("web-zone-x")
	if _, err := b.Shrink(t.Context(), current, 0, false); !errors.Is(err, subset.ErrStale) {
		t.Error("a child that is gone:", err)
	}
}

func TestRemoveAndFree(t *testing.T) {
	b := newBench(t, set(), orphan("web-zone-a-2"))
	current := b.asStored(childSpec(), nil)
	if err := b.Remove(t.Context(), current); !errors.Is(err, subset.ErrStale) {
		t.Error("one that has changed since is removed:", err)
	}
	b.deleted = nil
	current.SetResourceVersion("999") // the version on the fake server
	replica := adapters.Replica{Name: "web-zone-a-2", UID: "uid-web-zone-a-2"}
	for range 2 { // it is no error if it is already gone
		if err := b.Remove(t.Context(), current); err != nil {
			t.Error(err)
		}
		if err := b.DeleteReplica(t.Context(), "shop", replica); err != nil {
			t.Error(err)
		}
	}
	if diff := cmp.Diff([]string{"web-zone-a if s-1 at 999 Background", "web-zone-a-2 if uid-web-zone-a-2 at any"}, b.deleted[:2]); diff != "" {
		t.Error("want -, have +\n", diff)
	}
}
