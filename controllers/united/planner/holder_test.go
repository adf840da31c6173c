// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// The command must name the kind of the child, and not a kind of Kubernetes with the same name.
func TestDescribeCommand(t *testing.T) {
	observed := &adapters.Observed{Meta: metav1.ObjectMeta{Namespace: "shop", Name: "web-zone-a"}}
	for _, tc := range []struct {
		gvk  schema.GroupVersionKind
		want string
	}{
		{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), "to see why, run: kubectl describe statefulset -n shop web-zone-a"},
		{
			schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1beta1", Kind: "StatefulSet"},
			"to see why, run: kubectl describe statefulset.apps.kruise.io -n shop web-zone-a",
		},
	} {
		if got := WhyMissing(nil, tc.gvk, observed, nil, "zone-a"); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}

func TestShortfall(t *testing.T) {
	p := &Plan{}
	for _, tc := range []struct {
		asks intstr.IntOrString
		want string
	}{
		{intstr.FromInt32(9), "asks for 9 replicas, gets 5"},
		{intstr.FromString("50%"), "asks for 50% of all replicas, gets 5"},
		{intstr.FromInt32(5), ""},
	} {
		s := &SubsetPlan{Subset: spec.Subset{Subset: &v1alpha1.Subset{Replicas: &tc.asks}}, Desired: 5}
		if got := p.shortfall(s); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
}
