// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/cmd/kubectl-united/view"
)

// Managers are found where the user may look: everywhere, or in united-system.
func TestManagers(t *testing.T) {
	manager := func(namespace, image string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "united-manager",
			Labels: map[string]string{"app.kubernetes.io/name": "united", "app.kubernetes.io/version": "v1.2.0"}}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "proxy", Image: "proxy:v9"}, {Name: "manager", Image: image}}
		return d
	}
	for name, tc := range map[string]struct {
		deployment *appsv1.Deployment
		// refused is in which namespaces the user may not list, and asked where to look.
		refused []string
		asked   string
		want    string
		unseen  string
	}{
		"anywhere":            {manager("elsewhere", "r/manager:v1.2.3"), nil, "", "v1.2.3", ""},
		"by digest":           {manager("elsewhere", "r/manager@sha256:0"), nil, "", "v1.2.0", ""},
		"only united-system":  {manager("united-system", "r/manager:v1.2.3"), []string{""}, "", "v1.2.3", ""},
		"not there":           {manager("elsewhere", "r/manager:v1.2.3"), []string{""}, "", "", "you have no right to list deployments of all namespaces"},
		"where it is asked":   {manager("elsewhere", "r/manager:v1.2.3"), []string{"", "united-system"}, "elsewhere", "v1.2.3", ""},
		"not where asked":     {manager("elsewhere", "r/manager:v1.2.3"), nil, "united-system", "", ""},
		"no rights":           {manager("united-system", "r/manager:v1.2.3"), []string{"", "united-system"}, "", "", "you have no right to list deployments of all namespaces"},
		"an unrelated United": {&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "united"}}, nil, "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kinds, err := scheme()
			g.Expect(err).NotTo(HaveOccurred())
			o := &options{api: interceptor.NewClient(fake.NewClientBuilder().WithScheme(kinds).WithObjects(tc.deployment).Build(), interceptor.Funcs{
				List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
					asked := &client.ListOptions{}
					asked.ApplyOptions(opts)
					for _, namespace := range tc.refused {
						if asked.Namespace == namespace {
							return apierrors.NewForbidden(schema.GroupResource{Resource: "deployments"}, "", errors.New("no"))
						}
					}
					return c.List(ctx, list, opts...)
				},
			})}
			managers, unseen := o.managers(t.Context(), tc.asked)
			g.Expect(unseen).To(HavePrefix(tc.unseen))
			if tc.want == "" {
				g.Expect(managers).To(BeEmpty())
				return
			}
			g.Expect(managers).To(ConsistOf(view.Manager{Namespace: tc.deployment.Namespace, Name: "united-manager",
				Image: tc.deployment.Spec.Template.Spec.Containers[1].Image, Version: tc.want}))
		})
	}
}

// A manager without the kind is not installed, whatever its version.
func TestAbsentKind(t *testing.T) {
	for name, tc := range map[string]struct {
		err  error
		want string
	}{
		"there":     {nil, ""},
		"not there": {&meta.NoKindMatchError{GroupKind: v1alpha1.GroupVersion.WithKind("UnitedDeployment").GroupKind()}, "United is not installed"},
		"not seen":  {apierrors.NewForbidden(schema.GroupResource{Resource: "uniteddeployments"}, "", errors.New("no")), ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kinds, err := scheme()
			g.Expect(err).NotTo(HaveOccurred())
			o := &options{config: genericclioptions.NewConfigFlags(false), api: interceptor.NewClient(fake.NewClientBuilder().WithScheme(kinds).Build(), interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return tc.err },
			})}
			absent := o.absent(t.Context())
			g.Expect(absent).To(HaveSuffix(tc.want))
			g.Expect(absent == "").To(Equal(tc.want == ""))
		})
	}
}
