// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package spec

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/deployment"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// The controller repeats what admission rejects, and finds nodes that members can never share.
func TestReadRefusesGroups(t *testing.T) {
	in := func(key string, op corev1.NodeSelectorOperator, values ...string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: op, Values: values}}}}}
	}
	or := func(a, b *corev1.NodeSelector) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: append(a.NodeSelectorTerms, b.NodeSelectorTerms...)}
	}
	nodes := func(key string, a, b *corev1.NodeSelector) func(*v1alpha1.UnitedDeployment) {
		return func(u *v1alpha1.UnitedDeployment) {
			u.Spec.Topology.Colocation.TopologyKey = key
			u.Spec.Topology.Subsets[0].NodeSelector, u.Spec.Topology.Subsets[1].NodeSelector = a, b
		}
	}
	const host, zone, disjoint = corev1.LabelHostname, corev1.LabelTopologyZone, "spec.topology.subsets[decode].nodeSelector: "
	ratio := func(name string, n v1alpha1.ColocationRatio) func(*v1alpha1.UnitedDeployment) {
		return func(u *v1alpha1.UnitedDeployment) { u.Spec.Topology.Colocation.Ratios[name] = n }
	}
	for name, tc := range map[string]struct {
		edit func(*v1alpha1.UnitedDeployment)
		says string
	}{
		"nothing wrong":     {func(*v1alpha1.UnitedDeployment) {}, ""},
		"an unknown subset": {ratio("router", 1), "spec.topology.colocation.ratios[router]: "},
		"a ratio of 0":      {ratio("decode", 0), "spec.topology.colocation.ratios[decode]: "},
		"disjoint pools":    {nodes(host, in("pool", "In", "a"), in("pool", "In", "b")), disjoint},
		"no pool":           {nodes(host, in("pool", "Exists"), in("pool", "DoesNotExist")), disjoint},
		"not that pool":     {nodes(host, in("pool", "NotIn", "a", "b"), in("pool", "In", "b")), disjoint},
		"disjoint zones":    {nodes(zone, in(zone, "In", "a"), in(zone, "In", "b")), disjoint},
		"in all terms":      {nodes(host, or(in("pool", "In", "a"), in("pool", "In", "c")), in("pool", "In", "b")), disjoint},
		"in one term":       {nodes(host, or(in("pool", "In", "a"), in("pool", "In", "b")), in("pool", "In", "b")), ""},
		"one pool":          {nodes(host, in("pool", "In", "a", "b"), in("pool", "In", "b", "c")), ""},
		"pools in a zone":   {nodes(zone, in("pool", "In", "a"), in("pool", "In", "b")), ""},
		"other labels":      {nodes(host, in("pool", "In", "a"), in("disk", "In", "b")), ""},
		"a comparison":      {nodes(host, in("size", "In", "1"), in("size", "Gt", "2")), ""},
		"any node for one":  {nodes(host, nil, in("pool", "In", "b")), ""},
		"a maximum": {func(u *v1alpha1.UnitedDeployment) {
			u.Spec.Topology.Subsets[0].MaxReplicas = ptr.To(intstr.FromInt32(1))
		}, "spec.topology.subsets[prefill].maxReplicas: "},
		"one takes the rest":  {func(u *v1alpha1.UnitedDeployment) { delete(u.Spec.Topology.Colocation.Ratios, "decode") }, "spec.topology.subsets[decode].replicas: "},
		"an order of another": {func(u *v1alpha1.UnitedDeployment) { u.Spec.Topology.Colocation.Order = "Random" }, "spec.topology.colocation.order: "},
	} {
		t.Run(name, func(t *testing.T) {
			parent := fixtures.GroupedParent()
			tc.edit(parent)
			_, err := Read(parent, adapters.Registry{statefulset.New()})
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("want %q, have %v", tc.says, err)
			}
		})
	}
	parent := fixtures.GroupedParent()
	parent.Spec.Template = v1alpha1.WorkloadTemplate{DeploymentTemplate: parent.Spec.Template.StatefulSetTemplate}
	if _, err := Read(parent, adapters.Registry{deployment.New()}); err == nil || !strings.Contains(err.Error(), "spec.topology.colocation: ") || !strings.Contains(err.Error(), "Deployment") {
		t.Error(err)
	}
}
