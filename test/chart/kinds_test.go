// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"context"
	"fmt"

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

const kruiseGroup = "apps.kruise.io"

// foreign is a kind of children that is not Kubernetes' own. name is that of the parent.
type foreign struct {
	name, member string
	kind         schema.GroupVersionKind
}

func foreignKinds() []foreign {
	return []foreign{
		{"clones", "cloneSetTemplate", schema.GroupVersionKind{Group: kruiseGroup, Version: "v1alpha1", Kind: "CloneSet"}},
		{"advanced", "advancedStatefulSetTemplate", schema.GroupVersionKind{Group: kruiseGroup, Version: "v1beta1", Kind: "StatefulSet"}},
	}
}

func (f foreign) template(tag string) string {
	return fmt.Sprintf(`{"spec":{"template":{"metadata":{"labels":{"app":%q}},"spec":{"containers":[{"name":"web","image":%q}]}}}}`, f.name, fixtures.Image(tag))
}

// steps are what a kind lives through that is protected by what it remembers.
func (f foreign) steps(s *scenario) []step {
	do := func(format string, args ...any) func(context.Context) error {
		return func(ctx context.Context) error { return patch(ctx, s.namespace, f.name, format, args...) }
	}
	ready := func(ctx context.Context) (string, error) { return settled(ctx, s.namespace, f.name, 4) }
	return []step{
		{"install " + f.name, func(ctx context.Context) error { return f.install(ctx, s) }, ready},
		{"stage a version", do(`{"spec":{"template":{%q:%s}}}`, f.member, f.template("v2")), ready},
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

func (f foreign) install(ctx context.Context, s *scenario) error {
	d := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: f.name}}
	d.Spec.Replicas = ptr.To[int32](4)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": f.name}}
	template := &runtime.RawExtension{Raw: []byte(f.template("v1"))}
	if d.Spec.Template.CloneSetTemplate = template; f.member != "cloneSetTemplate" {
		d.Spec.Template = v1alpha1.WorkloadTemplate{AdvancedStatefulSetTemplate: template}
	}
	d.Spec.Topology.Subsets = []v1alpha1.Subset{{Name: "zone-a"}, {Name: "zone-b"}}
	d.Spec.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{}
	return s.Create(ctx, d)
}

func (f foreign) object() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(f.kind)
	return u
}

func (f foreign) key(s *scenario, subset string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: f.name + "-" + subset}
}

// revisions are the current and the update revision of zone-b's child.
func (f foreign) revisions(ctx context.Context, s *scenario) (child *unstructured.Unstructured, current, update string, err error) {
	child = f.object()
	err = s.Get(ctx, f.key(s, "zone-b"), child)
	current, _, _ = unstructured.NestedString(child.Object, "status", "currentRevision")
	update, _, _ = unstructured.NestedString(child.Object, "status", "updateRevision")
	return child, current, update, err
}

// forget lets the child of zone-b forget what its protected replicas run.
func (f foreign) forget(ctx context.Context, s *scenario) error {
	child, _, update, err := f.revisions(ctx, s)
	if err != nil {
		return err
	}
	return s.Status().Patch(ctx, child, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"status":{"currentRevision":%q}}`, update)))
}

// reminded reports whether it remembers it again.
func (f foreign) reminded(ctx context.Context, s *scenario) (string, error) {
	child, current, update, err := f.revisions(ctx, s)
	if current == update {
		return child.GetName() + " has forgotten what it protects", err
	}
	return "", err
}
