// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unitedworkloads/united/adapters"
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
