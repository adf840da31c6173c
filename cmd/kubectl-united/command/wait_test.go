// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"context"
	"errors"
	"testing"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
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

// waitFor runs wait against an API of these objects, and returns what it prints and its exit code.
func waitFor(t *testing.T, funcs interceptor.Funcs, objects []client.Object, args ...string) (out, errOut string, code int) {
	t.Helper()
	g := NewWithT(t)
	kinds, err := scheme()
	g.Expect(err).NotTo(HaveOccurred())
	streams, _, stdout, stderr := genericiooptions.NewTestIOStreams()
	namespace := "default"
	config := genericclioptions.NewConfigFlags(true)
	config.Namespace = &namespace
	o := &options{IOStreams: streams, config: config}
	o.api = interceptor.NewClient(fake.NewClientBuilder().WithScheme(kinds).WithObjects(objects...).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build(), funcs)
	cmd := o.wait()
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	if err = cmd.ExecuteContext(t.Context()); err != nil {
		code = codeOther
		if coded := (exit{}); errors.As(err, &coded) {
			code = coded.code
		}
		stderr.WriteString(err.Error())
	}
	return stdout.String(), stderr.String(), code
}

func settled() *v1alpha1.UnitedDeployment {
	parent := &v1alpha1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Generation: 1}}
	parent.Status.ObservedGeneration = 1
	parent.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: "True", Reason: "RolloutHeld", Message: "1 of 6", ObservedGeneration: 1},
		{Type: v1alpha1.ConditionComplete, Status: "False", Reason: "RolloutHeld", ObservedGeneration: 1},
	}
	return parent
}

func TestWait(t *testing.T) {
	stalled := settled()
	stalled.Status.Conditions = []metav1.Condition{
		{Type: v1alpha1.ConditionReady, Status: "False", Reason: "ReplicaFailed", ObservedGeneration: 1},
		{Type: v1alpha1.ConditionStalled, Status: "True", Reason: "ReplicaFailed", Message: "web-zone-a-0 failed", ObservedGeneration: 1},
	}
	stale := settled()
	stale.Generation = 2
	for name, tc := range map[string]struct {
		parent   *v1alpha1.UnitedDeployment
		args     []string
		code     int
		out, err string
	}{
		"settled":        {settled(), []string{"web"}, 0, "web is settled: RolloutHeld: 1 of 6\n", "RolloutHeld: 1 of 6"},
		"held":           {settled(), []string{"web", "--for", "held"}, 0, "web is held: RolloutHeld: 1 of 6\n", ""},
		"not complete":   {settled(), []string{"web", "--for", "complete", "--timeout", "0"}, 2, "", "web is not complete after 0s: RolloutHeld: 1 of 6"},
		"stalled":        {stalled, []string{"web"}, 1, "", "web: ReplicaFailed: web-zone-a-0 failed"},
		"stale":          {stale, []string{"web", "--timeout", "0"}, 2, "", "web is not settled after 0s: no manager has observed generation 2 yet"},
		"a wrong name":   {settled(), []string{"wep"}, 4, "", "did you mean web?"},
		"a wrong word":   {settled(), []string{"web", "--for", "done"}, 4, "", "it can be settled, complete or held"},
		"a wrong flag":   {settled(), []string{"web", "--fro", "held"}, 4, "", "unknown flag"},
		"without a name": {settled(), nil, 4, "", "write: kubectl united wait NAME"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, errOut, code := waitFor(t, interceptor.Funcs{}, []client.Object{tc.parent}, tc.args...)
			g.Expect(code).To(Equal(tc.code), errOut)
			g.Expect(out).To(Equal(tc.out))
			g.Expect(errOut).To(ContainSubstring(tc.err))
		})
	}
}

// An API server that is away for a moment ends no wait, and an object that is gone does.
func TestWaitSurvives(t *testing.T) {
	for name, tc := range map[string]struct {
		then error
		code int
		says string
	}{
		"away":    {errors.New("connection refused"), 0, "the API server does not answer: connection refused"},
		"busy":    {apierrors.NewTooManyRequests("later", 1), 0, "does not answer: later"},
		"gone":    {apierrors.NewNotFound(schema.GroupResource{}, "web"), codeOther, "web was deleted"},
		"no more": {apierrors.NewForbidden(schema.GroupResource{}, "web", errors.New("no")), codeUnasked, "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			gets := 0
			funcs := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
				if _, is := into.(*v1alpha1.UnitedDeployment); is {
					if gets++; gets == 2 {
						return tc.then
					}
				}
				return c.Get(ctx, key, into, opts...)
			}}
			_, errOut, code := waitFor(t, funcs, []client.Object{settled()}, "web", "--timeout", "20s")
			g := NewWithT(t)
			g.Expect(code).To(Equal(tc.code), errOut)
			g.Expect(errOut).To(ContainSubstring(tc.says))
		})
	}
}

// Who may not read Leases waits all the same, and does not ask again and again.
func TestWaitWithoutLeases(t *testing.T) {
	g := NewWithT(t)
	refusal := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "", errors.New("no"))
	asked := 0
	refuse := interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, is := list.(*coordinationv1.LeaseList); is {
				asked++
				return refusal
			}
			return c.List(ctx, list, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if _, is := into.(*coordinationv1.Lease); is {
				return refusal
			}
			return c.Get(ctx, key, into, opts...)
		},
	}
	_, errOut, code := waitFor(t, refuse, []client.Object{settled()}, "web", "--for", "complete", "--timeout", "1500ms")
	g.Expect(code).To(Equal(codeTimeout), errOut)
	g.Expect(asked).To(Equal(1))
	g.Expect(bytes.Count([]byte(errOut), []byte("Z RolloutHeld"))).To(Equal(1), "the same line is printed once")
}

// A Lease that nobody renews makes a status no verdict.
func TestWaitReadsTheLease(t *testing.T) {
	g := NewWithT(t)
	old := metav1.NewMicroTime(metav1.Now().AddDate(0, 0, -1))
	holder, seconds := "a", int32(15)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "elsewhere", Name: "united-manager"},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, RenewTime: &old}}
	_, errOut, code := waitFor(t, interceptor.Funcs{}, []client.Object{settled(), lease}, "web", "--timeout", "0")
	g.Expect(code).To(Equal(codeTimeout), errOut)
	g.Expect(errOut).To(ContainSubstring("Z no manager has renewed the Lease elsewhere/united-manager yet; until then: RolloutHeld"))
	g.Expect(errOut).To(HaveSuffix("web is not settled after 0s: no manager has renewed the Lease elsewhere/united-manager yet"))
}
