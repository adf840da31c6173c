// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

func TestReadRefuses(t *testing.T) {
	one := func(edit func(*v1alpha1.Subset)) func(*v1alpha1.UnitedDeployment) {
		return func(u *v1alpha1.UnitedDeployment) { edit(&u.Spec.Topology.Subsets[0]) }
	}
	template := func(text string) func(*v1alpha1.UnitedDeployment) {
		return func(u *v1alpha1.UnitedDeployment) { u.Spec.Template.StatefulSetTemplate.Raw = []byte(text) }
	}
	manual := func(name string, to intstr.IntOrString) func(*v1alpha1.UnitedDeployment) {
		return func(u *v1alpha1.UnitedDeployment) {
			u.Spec.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{name: to}}
			if name == "" {
				u.Spec.UpdateStrategy.ManualUpdate = &v1alpha1.ManualUpdate{DefaultPartition: &to}
			}
		}
	}
	const pods = `"template": {"metadata": {"labels": {"app": "web"}}, "spec": {}}`
	for _, tc := range []struct {
		name string
		edit func(*v1alpha1.UnitedDeployment)
		says string
	}{
		{"no template", func(u *v1alpha1.UnitedDeployment) { u.Spec.Template.StatefulSetTemplate = nil }, "spec.template:"},
		{"a template of text", template(`"x"`), "spec.template.statefulSetTemplate:"},
		{"an empty template", template(`{}`), "spec.template.statefulSetTemplate.spec.template"},
		{"no pods", template(`{"spec": {"serviceName": "web"}}`), "spec.template.statefulSetTemplate.spec.template"},
		{"pods of text", template(`{"spec": {"template": "x"}}`), "spec.template.statefulSetTemplate.spec.template"},
		{"a spec of text", template(`{"spec": "x"}`), "spec.template.statefulSetTemplate.spec:"},
		{"metadata of text", template(`{"metadata": "x", "spec": {` + pods + `}}`), "spec.template.statefulSetTemplate.metadata:"},
		{"another kind", template(`{"kind": "Deployment", "spec": {` + pods + `}}`), "spec.template.statefulSetTemplate.kind:"},
		{"a label that is a number", template(`{"metadata": {"labels": {"a": 1}}, "spec": {` + pods + `}}`), "spec.template.statefulSetTemplate.metadata.labels"},
		{"replicas", template(`{"spec": {"replicas": 3, ` + pods + `}}`), "spec.template.statefulSetTemplate.spec.replicas:"},
		{"a partition", template(`{"spec": {"updateStrategy": {"rollingUpdate": {"partition": 3}}, ` + pods + `}}`), "spec.template.statefulSetTemplate.spec.updateStrategy.rollingUpdate.partition:"},
		{"OnDelete", template(`{"spec": {"updateStrategy": {"type": "OnDelete"}, ` + pods + `}}`), "spec.template.statefulSetTemplate.spec.updateStrategy.type:"},
		{"another selector", template(`{"spec": {"selector": {"matchLabels": {"app": "x"}}, ` + pods + `}}`), "spec.template.statefulSetTemplate.spec.selector:"},
		{"pod labels that the selector does not match", template(`{"spec": {"template": {"metadata": {"labels": {"app": "x"}}}}}`), "spec.template.statefulSetTemplate.spec.template.metadata.labels:"},
		{"a template with too many values", template(`{"spec": {"x": [` + strings.Repeat("0,", adapters.MaxValues) + `0], ` + pods + `}}`), "spec.template.statefulSetTemplate: Invalid value: has 50009 values"},
		{"a patch with too many values", one(func(s *v1alpha1.Subset) {
			s.Patch = &runtime.RawExtension{Raw: []byte(`{"spec": {"x": [` + strings.Repeat("0,", adapters.MaxValues) + `0]}}`)}
		}), "patch: Invalid value: has 50004 values"},
		{"too many values together", func(u *v1alpha1.UnitedDeployment) {
			u.Spec.Topology.Subsets = nil
			for _, name := range []string{"a", "b", "c", "d", "e"} {
				u.Spec.Topology.Subsets = append(u.Spec.Topology.Subsets, v1alpha1.Subset{Name: name, Patch: &runtime.RawExtension{Raw: []byte(`{"spec": {"x": [` + strings.Repeat("0,", 45_000) + `0]}}`)}})
			}
		}, "spec.topology.subsets: Invalid value: the template and the patches up to that of e have 225"},
		{"a Job with too many values", func(u *v1alpha1.UnitedDeployment) {
			u.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: &v1alpha1.RollingUpdate{Checks: []v1alpha1.RolloutCheck{
				{Name: "smoke", Job: &v1alpha1.JobCheck{Template: &runtime.RawExtension{Raw: []byte(`[` + strings.Repeat("0,", adapters.MaxValues) + `0]`)}}},
			}}}
		}, "spec.updateStrategy.rollingUpdate.checks[0].job.template: Invalid value: has 50002 values"},
		{"no selector", func(u *v1alpha1.UnitedDeployment) { u.Spec.Selector = nil }, "spec.selector:"},
		{"an empty selector", func(u *v1alpha1.UnitedDeployment) { u.Spec.Selector = &metav1.LabelSelector{} }, "spec.selector:"},
		{"a selector that is none", func(u *v1alpha1.UnitedDeployment) {
			u.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Like"}}
		}, "spec.selector:"},
		{"a subset twice", one(func(s *v1alpha1.Subset) { s.Name = "b" }), "spec.topology.subsets[b].name:"},
		{"a name that is too long", one(func(s *v1alpha1.Subset) { s.Name = strings.Repeat("a", 49) }), "spec.topology.subsets[" + strings.Repeat("a", 49) + "].name:"},
		{"a patch that is a list", one(func(s *v1alpha1.Subset) {
			s.Patch = &runtime.RawExtension{Raw: []byte(`{"spec": {"template": {"metadata": {"annotations": {"patch": "x"}}}}}`)}
			s.Patch.Raw = []byte("[]")
		}), "spec.topology.subsets[a].patch:"},
		{"a partition that is negative", manual("a", intstr.FromInt32(-1)), "spec.updateStrategy.manualUpdate.partitions[a]:"},
		{"a partition above all", manual("b", intstr.FromString("101%")), "spec.updateStrategy.manualUpdate.partitions[b]:"},
		{"a default partition that is text", manual("", intstr.FromString("all")), "spec.updateStrategy.manualUpdate.defaultPartition:"},
		{"a version label of another kind", func(u *v1alpha1.UnitedDeployment) { u.Spec.VersionLabel = "Image" }, "spec.versionLabel: Unsupported value"},
		{"the label of the version", template(`{"spec": {"template": {"metadata": {"labels": {"app": "web", "united.dev/version": "1"}}, "spec": {}}}}`),
			"spec.template.statefulSetTemplate.spec.template.metadata.labels[united.dev/version]: Forbidden"},
		{"a selector with the label of the version", func(u *v1alpha1.UnitedDeployment) {
			u.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "united.dev/version", Operator: "DoesNotExist"}}
		}, "spec.selector: Forbidden: must not have united.dev/version"},
		{"another strategy", func(u *v1alpha1.UnitedDeployment) { u.Spec.UpdateStrategy.Type = "BlueGreen" }, "spec.updateStrategy.type:"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			parent := fixtures.Parent("a", "b")
			tc.edit(parent)
			read, err := Read(parent, adapters.Registry{statefulset.New()})
			if err == nil || read != nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("want an error at %s, have %v", tc.says, err)
			}
		})
	}
}

func TestRead(t *testing.T) {
	parent := fixtures.Parent("a", "b")
	parent.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "In", Values: []string{"web", "api"}}}}
	parent.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"spec": {"template": {"metadata": {"annotations": {"patch": "x"}}}}}`)}
	parent.Spec.Topology.Subsets[1].Tolerations = []corev1.Toleration{{Key: "k"}}
	// Fifty characters and the parent's name are the 52 that a child may have.
	parent.Spec.Topology.Subsets = append(parent.Spec.Topology.Subsets, v1alpha1.Subset{Name: strings.Repeat("c", 48)})
	read, err := Read(parent, adapters.Registry{statefulset.New()})
	if err != nil {
		t.Fatal(err)
	}
	if read.PodSelector != "app in (api,web),united.dev/name=web" {
		t.Error(read.PodSelector)
	}
	overlays := read.Overlays()
	if len(overlays) != 3 || overlays["a"].Patch == nil || overlays["a"].Tolerations != nil || overlays["b"].Patch != nil || overlays["b"].Tolerations == nil {
		t.Errorf("%+v", overlays)
	}
	// If the pod part of a patch cannot be extracted, this affects only its own subset.
	parent.Spec.Topology.Subsets[0].Patch.Raw = []byte(`{"spec": {"template": "x"}}`)
	if _, err := Read(parent, adapters.Registry{statefulset.New()}); err != nil {
		t.Error(err)
	}
	if RevisionLimit(&v1alpha1.UnitedDeployment{}) != 10 || RevisionLimit(parent) != 0 || Replicas(&v1alpha1.UnitedDeployment{}) != 1 {
		t.Error("the defaults are not those of the CRD")
	}
}

// The version depends only on the template: neither on what subsets change in it, nor on what makes no pods.
func TestVersionLabelIsOfTheTemplate(t *testing.T) {
	version := func(change func(*v1alpha1.UnitedDeployment)) string {
		parent := fixtures.Parent("a", "b")
		parent.Spec.VersionLabel = v1alpha1.TemplateHashLabel
		change(parent)
		read, err := Read(parent, adapters.Registry{statefulset.New()})
		if err != nil {
			t.Fatal(err)
		}
		return read.Content().VersionLabel
	}
	image := func(from, to string) func(*v1alpha1.UnitedDeployment) {
		return func(u *v1alpha1.UnitedDeployment) {
			raw := u.Spec.Template.StatefulSetTemplate
			raw.Raw = []byte(strings.Replace(string(raw.Raw), from, to, 1))
		}
	}
	first := version(func(*v1alpha1.UnitedDeployment) {})
	if first == "" {
		t.Fatal("there is none")
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.UnitedDeployment)
		same   bool
	}{
		"another image":          {image("v1", "v2"), false},
		"the same, written anew": {image(`"image": "v1"`, `"image":"v1"`), true},
		"a field of the child":   {image(`{"spec": {`, `{"spec": {"serviceName": "web", `), true},
		"a label of the child":   {image(`{"spec"`, `{"metadata": {"labels": {"a": "b"}}, "spec"`), true},
		"a patch of one subset": {func(u *v1alpha1.UnitedDeployment) {
			u.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"spec": {"template": {"metadata": {"annotations": {"patch": "x"}}}}}`)}
		}, true},
		"tolerations of one subset": {func(u *v1alpha1.UnitedDeployment) {
			u.Spec.Topology.Subsets[0].Tolerations = []corev1.Toleration{{Key: "k"}}
		}, true},
		"no subsets": {func(u *v1alpha1.UnitedDeployment) { u.Spec.Topology.Subsets = nil }, true},
	} {
		if got := version(tc.change); (got == first) != tc.same {
			t.Errorf("%s: %s, was %s", name, got, first)
		}
	}
	for _, none := range []v1alpha1.VersionLabel{"", v1alpha1.NoVersionLabel} {
		if got := version(func(u *v1alpha1.UnitedDeployment) { u.Spec.VersionLabel = none }); got != "" {
			t.Errorf("%q: %s", none, got)
		}
	}
}
