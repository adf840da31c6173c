// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// API groups of kinds that are not built into Kubernetes.
const (
	KruiseGroup = "apps.kruise.io"
	LWSGroup    = "leaderworkerset.x-k8s.io"
)

// Foreign is a kind of children that is not built into Kubernetes. name is the name of the parent.
// memory is the kind of the object that has a child's name and remembers what its replicas ran before,
// usually the child itself. pods is the path of its pod template in its spec.
type Foreign struct {
	Name, Member string
	Kind, Memory schema.GroupVersionKind
	Pods         []string
}

func (f Foreign) template(tag string) string {
	text := fmt.Sprintf(`{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"web","image":%q}]}}`, f.Name, fixtures.Image(tag))
	for _, step := range slices.Backward(f.Pods) {
		text = fmt.Sprintf(`{%q:%s}`, step, text)
	}
	return fmt.Sprintf(`{"spec":%s}`, text)
}

// steps returns the steps of the scenario for a kind that protects replicas by what an object
// remembers.
func (f Foreign) steps(s *scenario) []step {
	do := func(format string, args ...any) func(context.Context) error {
		return func(ctx context.Context) error { return Patch(ctx, s.Namespace, f.Name, format, args...) }
	}
	ready := func(ctx context.Context) (string, error) { return Settled(ctx, s.Namespace, f.Name, 4) }
	return []step{
		{"install " + f.Name, func(ctx context.Context) error { return f.install(ctx, s) }, ready},
		{"stage a version", do(`{"spec":{"template":{%q:%s}}}`, f.Member, f.template("v2")), ready},
		{"canary", do(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-a":1}}}}}`), ready},
		{"forget what is protected", func(ctx context.Context) error { return f.forget(ctx, s) }, func(ctx context.Context) (string, error) { return f.reminded(ctx, s) }},
		{"remove a subset", do(`{"spec":{"topology":{"subsets":[{"name":"zone-a"}]}}}`), func(ctx context.Context) (string, error) {
			if err := s.Get(ctx, f.key(s, "zone-b"), f.object()); !apierrors.IsNotFound(err) {
				return "zone-b is there", err
			}
			return ready(ctx)
		}},
	}
}

func (f Foreign) install(ctx context.Context, s *scenario) error {
	d := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: f.Name}}
	d.Spec.Replicas = ptr.To[int32](4)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": f.Name}}
	switch template := (&runtime.RawExtension{Raw: []byte(f.template("v1"))}); f.Member {
	case "cloneSetTemplate":
		d.Spec.Template.CloneSetTemplate = template
	case "advancedStatefulSetTemplate":
		d.Spec.Template.AdvancedStatefulSetTemplate = template
	default:
		d.Spec.Template.LeaderWorkerSetTemplate = template
	}
	d.Spec.Topology.Subsets = []v1alpha1.Subset{{Name: "zone-a"}, {Name: "zone-b"}}
	d.Spec.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{}
	return s.Create(ctx, d)
}

func (f Foreign) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(f.Kind)
	return u
}

// remembers returns an object of the kind memory.
func (f Foreign) remembers() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(f.Memory)
	return u
}

func (f Foreign) key(s *scenario, subset string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.Namespace, Name: f.Name + "-" + subset}
}

// revisions returns the object that remembers the revisions of zone-b's child, and the current and the
// update revision.
func (f Foreign) revisions(ctx context.Context, s *scenario) (child *unstructured.Unstructured, current, update string, err error) {
	child = f.remembers()
	err = s.Get(ctx, f.key(s, "zone-b"), child)
	current, _, _ = unstructured.NestedString(child.Object, "status", "currentRevision")
	update, _, _ = unstructured.NestedString(child.Object, "status", "updateRevision")
	return child, current, update, err
}

// forget makes the child of zone-b forget what its protected replicas run.
func (f Foreign) forget(ctx context.Context, s *scenario) error {
	child, _, update, err := f.revisions(ctx, s)
	if err != nil {
		return err
	}
	return s.Status().Patch(ctx, child, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"currentRevision":%q}}`, update)))
}

// reminded reports whether the child of zone-b remembers it again.
func (f Foreign) reminded(ctx context.Context, s *scenario) (string, error) {
	child, current, update, err := f.revisions(ctx, s)
	if current == update {
		return child.GetName() + " has forgotten what it protects", err
	}
	return "", err
}
