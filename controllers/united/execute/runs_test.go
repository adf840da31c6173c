// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package execute

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/planner"
	"github.com/unitedworkloads/united/controllers/united/runs"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// The real API server is in test/e2e.

func checkedParent() *v1alpha1.UnitedDeployment {
	return &v1alpha1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "u-1"},
		Spec: v1alpha1.UnitedDeploymentSpec{RevisionHistoryLimit: ptr.To[int32](1), UpdateStrategy: v1alpha1.UpdateStrategy{RollingUpdate: &v1alpha1.RollingUpdate{
			Checks: []v1alpha1.RolloutCheck{{Name: "smoke", Job: &v1alpha1.JobCheck{}}, {Name: "rate", Analysis: &v1alpha1.AnalysisCheck{}}},
		}}},
	}
}

func newEntry() memory.Entry {
	return new(memory.Memory).Of(client.ObjectKeyFromObject(checkedParent()))
}

// runOf returns a run of the parent, which is so many minutes old.
func runOf(kind schema.GroupVersionKind, check, name string, age int, status map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": status}}
	u.SetGroupVersionKind(kind)
	u.SetNamespace("shop")
	u.SetName(name)
	u.SetCreationTimestamp(metav1.NewTime(time.Date(2026, 1, 1, 1, -age, 0, 0, time.UTC)))
	u.SetLabels(map[string]string{v1alpha1.LabelName: "web", v1alpha1.LabelCheck: check})
	u.SetOwnerReferences([]metav1.OwnerReference{world.OwnerOf(checkedParent())})
	return u
}

var (
	complete   = map[string]any{"conditions": []any{map[string]any{"type": "Complete", "status": "True"}}}
	failed     = map[string]any{"conditions": []any{map[string]any{"type": "Failed", "status": "True"}}}
	unfinished = map[string]any{}
)

// TestStartConfirmsThePause: a pass that has not seen a pause starts nothing, and comes again in a moment.
func TestStartConfirmsThePause(t *testing.T) {
	for name, paused := range map[string]bool{"paused": true, "not paused": false} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			seen := checkedParent()
			seen.Spec.UpdateStrategy.RollingUpdate.Checks[0].Job.Template = &runtime.RawExtension{Raw: []byte(`{"spec":{}}`)}
			live := seen.DeepCopy()
			live.Spec.Paused = paused
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(live).
				WithIndex(live, "metadata.name", func(o client.Object) []string { return []string{o.GetName()} }).Build()
			e := &Executor{Context: t.Context(), Client: c, Live: c, Memory: newEntry()}
			again := e.Start(&planner.Input{World: world.World{Parent: seen}}, []known.CheckAsk{
				{Check: &seen.Spec.UpdateStrategy.RollingUpdate.Checks[0], Run: "job/web-smoke-1"},
			})
			jobs := &unstructured.UnstructuredList{}
			jobs.SetGroupVersionKind(runs.JobKind)
			if err := c.List(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
			if created := len(jobs.Items) > 0; created == paused || (again > 0) != paused {
				t.Errorf("%d Jobs, and again after %s", len(jobs.Items), again)
			}
		})
	}
}

// TestATemplateThatMayNotBeUsed: a ClusterAnalysisTemplate needs its own line in the values of the chart, and the message has it.
func TestATemplateThatMayNotBeUsed(t *testing.T) {
	for name, c := range map[string]struct {
		check  v1alpha1.AnalysisCheck
		scope  string
		stalls string
	}{
		"of the cluster": {
			v1alpha1.AnalysisCheck{TemplateName: "success-rate", ClusterScope: ptr.To(true)}, "at the cluster scope",
			"United is not permitted to use ClusterAnalysisTemplate success-rate: add success-rate to checks.clusterAnalysisTemplates in the values of its Helm chart",
		},
		"of the namespace": {
			v1alpha1.AnalysisCheck{TemplateName: "success-rate"}, `in the namespace "shop"`,
			"United is not permitted to use AnalysisTemplates: set checks.analysis: true in the values of its Helm chart",
		},
	} {
		t.Run(name, func(t *testing.T) {
			api := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithInterceptorFuncs(interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
					resource := schema.GroupResource{Group: "argoproj.io", Resource: strings.ToLower(o.GetObjectKind().GroupVersionKind().Kind) + "s"}
					return apierrors.NewForbidden(resource, key.Name, fmt.Errorf(`User "united" cannot get resource %q in API group "argoproj.io" %s`, resource.Resource, c.scope))
				},
			}).Build()
			e := &Executor{Context: t.Context(), Client: api, Live: api, Memory: newEntry()}
			parent := checkedParent()
			ask := known.CheckAsk{Check: &v1alpha1.RolloutCheck{Name: "rate", Analysis: &c.check}, Run: "analysisrun/web-rate-1", Round: "1"}
			e.Start(&planner.Input{World: world.World{Parent: parent}}, []known.CheckAsk{ask})
			seen := map[string]known.CheckResult{"rate": {Absent: true, Round: "1"}}
			ExplainAbsent(e.failures(), parent, seen)
			if got := seen["rate"]; !got.Refused || got.Message != c.stalls {
				t.Errorf("refused: %t, %q", got.Refused, got.Message)
			}
		})
	}
}

// TestTidyRuns: what was left is ended, what has ended is kept up to revisionHistoryLimit of each check, and what is not ours is
// left alone.
func TestTidyRuns(t *testing.T) {
	foreign := runOf(runs.JobKind, "smoke", "foreign", 1, unfinished)
	foreign.SetOwnerReferences(nil)
	ofAnother := runOf(runs.JobKind, "smoke", "of-another", 1, complete)
	ofAnother.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: v1alpha1.GroupVersion.String(), Kind: v1alpha1.Kind, Name: "web", UID: "u-0", Controller: ptr.To(true)}})
	objects := []runtime.Object{
		foreign, ofAnother,
		runOf(runs.JobKind, "smoke", "wanted", 9, complete),
		runOf(runs.JobKind, "smoke", "wanted-running", 1, unfinished),
		runOf(runs.JobKind, "smoke", "left", 1, unfinished),
		runOf(runs.JobKind, "smoke", "last", 2, failed),
		runOf(runs.JobKind, "smoke", "old", 3, complete),
		runOf(runs.JobKind, "smoke", "oldest", 4, complete),
		runOf(runs.JobKind, "other", "only", 5, complete),
		runOf(runs.AnalysisKind, "rate", "analysis-left", 1, map[string]any{"phase": "Running"}),
		runOf(runs.AnalysisKind, "rate", "analysis-last", 2, map[string]any{"phase": "Inconclusive"}),
		runOf(runs.AnalysisKind, "rate", "analysis-old", 3, map[string]any{"phase": "Successful"}),
	}
	writes := 0
	c := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithRuntimeObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			writes++
			return c.Delete(ctx, o, opts...)
		},
	}).Build()
	e := &Executor{Context: t.Context(), Client: c, Live: c, Memory: newEntry()}
	in := &planner.Input{World: world.World{Parent: checkedParent()}}
	p := &planner.Plan{Rollout: &coordination.Plan{
		State: &v1alpha1.RolloutStatus{Checks: []v1alpha1.CheckStatus{{Name: "smoke", Run: "job/wanted"}}}, Asks: []known.CheckAsk{{Run: "job/wanted-running"}},
	}}
	in.Parent.Spec.Paused = true
	if err := e.TidyRuns(in, p); err != nil || writes != 0 {
		t.Fatal("while it is paused, everything stays as it is:", err, writes)
	}
	in.Parent.Spec.Paused = false
	for range 2 { // the second time nothing has changed
		if err := e.TidyRuns(in, p); err != nil {
			t.Fatal(err)
		}
	}
	names := func(kind schema.GroupVersionKind) (found []string) {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(kind)
		if err := c.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			name := list.Items[i].GetName()
			if terminate, _, _ := unstructured.NestedBool(list.Items[i].Object, "spec", "terminate"); terminate {
				name += " (terminated)"
			}
			found = append(found, name)
		}
		slices.Sort(found)
		return found
	}
	if got := names(runs.JobKind); !slices.Equal(got, []string{"foreign", "last", "of-another", "only", "wanted", "wanted-running"}) {
		t.Error(got)
	}
	if got := names(runs.AnalysisKind); !slices.Equal(got, []string{"analysis-last", "analysis-left (terminated)"}) {
		t.Error(got)
	}
	if writes != 4 {
		t.Errorf("%d objects are deleted, and not once each", writes)
	}
}
