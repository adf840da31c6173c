// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"io"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// TestActOnWhatIsInView checks that nothing is done when somebody has changed the spec between the look and the change, and that
// what the API server refuses for another reason is said as it is.
func TestActOnWhatIsInView(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile bool
		answer    error
		want      string
	}{
		"changed":  {true, nil, "somebody has changed web since: nothing was done"},
		"refused":  {false, apierrors.NewInvalid(schema.GroupKind{Kind: "UnitedDeployment"}, "web", nil), "is invalid"},
		"accepted": {false, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			kinds, err := scheme()
			g.Expect(err).NotTo(HaveOccurred())
			parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "u", Generation: 2}}
			parent.Spec.Replicas = new(int32)
			parent.Status.ObservedGeneration, parent.Status.UpdateRevision = 2, "web-1"
			real := fake.NewClientBuilder().WithScheme(kinds).WithObjects(parent).Build()
			api := interceptor.NewClient(real, interceptor.Funcs{Patch: func(ctx context.Context, w client.WithWatch, object client.Object, patch client.Patch, opts ...client.PatchOption) error {
				if c.answer != nil {
					return c.answer
				}
				if c.meanwhile {
					now := &v1alpha1.UnitedDeployment{}
					g.Expect(w.Get(ctx, client.ObjectKeyFromObject(object), now)).To(Succeed())
					now.Generation = 3
					g.Expect(w.Update(ctx, now)).To(Succeed())
					if err := w.Patch(ctx, object, patch, opts...); err != nil { // the real server answers with 422, and does not say why
						return apierrors.NewInvalid(schema.GroupKind{}, "", nil)
					}
					return nil
				}
				return w.Patch(ctx, object, patch, opts...)
			}})
			out := &bytes.Buffer{}
			config := genericclioptions.NewConfigFlags(true)
			namespace := "default"
			config.Namespace = &namespace
			o := &options{IOStreams: genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: out, ErrOut: io.Discard}, config: config, api: api}
			cmd := o.pause()
			cmd.SetArgs([]string{"web"})
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			err = cmd.ExecuteContext(t.Context())
			now := &v1alpha1.UnitedDeployment{}
			g.Expect(real.Get(t.Context(), client.ObjectKeyFromObject(parent), now)).To(Succeed())
			if c.want != "" {
				g.Expect(err).To(MatchError(ContainSubstring(c.want)))
				g.Expect(now.Spec.Paused).To(BeFalse())
				return
			}
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(now.Spec.Paused).To(BeTrue())
			g.Expect(out.String()).To(Equal("$ kubectl patch united web -n default --type=json -p '[{\"op\":\"add\",\"path\":\"/spec/paused\",\"value\":true}]'\nweb: paused\n"))
		})
	}
}
