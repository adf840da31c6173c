// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

const jobFailed = "Job web-smoke-1 failed (BackoffLimitExceeded)"

var (
	jobResource = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	podResource = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
)

// smoke returns a Job of the parent web with a condition; "" is one that runs.
func smoke(condition, reason string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{}}}
	u.SetAPIVersion("batch/v1")
	u.SetKind("Job")
	u.SetNamespace("shop")
	u.SetName("web-smoke-1")
	u.SetUID("j-1")
	u.SetOwnerReferences([]metav1.OwnerReference{{Kind: "UnitedDeployment", Name: "web", UID: "u-1", Controller: ptr.To(true)}})
	if condition != "" {
		u.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": condition, "status": "True", "reason": reason}}}
	}
	return u
}

// pod returns one of the Job, which ended so many seconds after another.
func pod(name, message string, code, after int64) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"containerStatuses": []any{map[string]any{
		"name": "smoke", "state": map[string]any{"terminated": map[string]any{
			"exitCode": code, "message": message, "finishedAt": time.Unix(1767225600+after, 0).UTC().Format(time.RFC3339),
		}},
	}}}}}
	u.SetAPIVersion("v1")
	u.SetKind("Pod")
	u.SetNamespace("shop")
	u.SetName(name)
	u.SetLabels(map[string]string{"batch.kubernetes.io/controller-uid": "j-1"})
	return u
}

func asksSmoke() []known.CheckAsk {
	return []known.CheckAsk{{
		Check: &v1alpha1.RolloutCheck{Name: "smoke", Job: &v1alpha1.JobCheck{}}, Round: "r", Run: "job/web-smoke-1", Owner: types.UID("u-1"),
	}}
}

// ofSmoke returns what is seen of the Job without its round.
func (s *scene) ofSmoke() known.CheckResult {
	got := s.Results(parentOf("web"))["smoke"]
	got.Round, got.Reached = "", false
	return got
}

func jobScene(t *testing.T, objects ...k8sruntime.Object) *scene {
	s := newScene(t, objects...)
	s.mapper.served["Job"] = true
	return s
}

func TestARunIsObserved(t *testing.T) {
	s := jobScene(t)
	s.Ask(parentOf("web"), asksSmoke())
	is := func(want known.CheckResult) {
		t.Helper()
		want.Seen = true
		s.Eventually(s.ofSmoke).Should(Equal(want))
	}
	is(known.CheckResult{Absent: true, Message: "Job web-smoke-1 does not exist yet"})
	jobs := s.client.Resource(jobResource).Namespace("shop")
	change := func(to *unstructured.Unstructured) {
		t.Helper()
		_, err := jobs.Update(t.Context(), to, metav1.UpdateOptions{})
		s.Expect(err).NotTo(HaveOccurred())
	}
	_, err := jobs.Create(t.Context(), smoke("", ""), metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	is(known.CheckResult{Running: true, Message: "Job web-smoke-1 has not finished"})
	deleted := smoke("", "")
	deleted.SetDeletionTimestamp(ptr.To(metav1.NewTime(s.clock.Now())))
	change(deleted)
	is(known.CheckResult{Running: true, Message: "Job web-smoke-1 is being deleted"})
	change(smoke("Complete", ""))
	is(known.CheckResult{Met: true})
	foreign := smoke("Complete", "")
	foreign.SetOwnerReferences(nil)
	change(foreign)
	is(known.CheckResult{Refused: true, Message: "Job web-smoke-1 is in the way: it is not controlled by this UnitedDeployment; delete it, or rename the check"})
	s.Expect(jobs.Delete(t.Context(), "web-smoke-1", metav1.DeleteOptions{})).To(Succeed())
	is(known.CheckResult{Absent: true, Message: "Job web-smoke-1 does not exist yet"})
	_, err = jobs.Create(t.Context(), smoke("Complete", ""), metav1.CreateOptions{})
	s.Expect(err).NotTo(HaveOccurred())
	s.Expect(jobs.Delete(t.Context(), "web-smoke-1", metav1.DeleteOptions{})).To(Succeed()) // as ttlSecondsAfterFinished does
	s.Eventually(func() bool {
		s.Runner.mu.Lock()
		defer s.Runner.mu.Unlock()
		for _, w := range s.watches {
			if o := w.objects["web-smoke-1"]; o != nil {
				return o.run.gone
			}
		}
		return false
	}).Should(BeTrue())
	is(known.CheckResult{Met: true})
}

// TestAFailedJobSaysWhy: its last pod is asked once, before the failure is told.
func TestAFailedJobSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		pods []k8sruntime.Object
		want string
	}{
		"the last words":   {[]k8sruntime.Object{pod("b", "2 of 5\nfailed", 1, 0), pod("a", "3 of 5\nfailed\n", 2, 5)}, ", container smoke of a ended with exit code 2: 3 of 5 failed"},
		"no words":         {[]k8sruntime.Object{pod("a", "", 1, 0)}, ", container smoke of a ended with exit code 1"},
		"it went well":     {[]k8sruntime.Object{pod("a", "fine", 0, 0)}, ""},
		"no pods any more": {nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := jobScene(t, append(test.pods, smoke("Failed", "BackoffLimitExceeded"))...)
			asked := 0
			s.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
				asked++
				s.Expect(s.ofSmoke()).To(Equal(known.CheckResult{}), "not before it is known why")
				return false, nil, nil
			})
			s.Ask(parentOf("web"), asksSmoke())
			want := known.CheckResult{Seen: true, Failed: true, Message: jobFailed + test.want}
			s.Eventually(s.ofSmoke).Should(Equal(want))
			again := smoke("Failed", "BackoffLimitExceeded")
			again.SetLabels(map[string]string{"changed": "later"})
			_, err := s.client.Resource(jobResource).Namespace("shop").Update(t.Context(), again, metav1.UpdateOptions{})
			s.Expect(err).NotTo(HaveOccurred())
			s.Consistently(s.ofSmoke, 100*time.Millisecond).Should(Equal(want))
			s.Expect(asked).To(Equal(1))
		})
	}
}

// TestAFailedJobWhosePodsCannotBeRead is failed all the same.
func TestAFailedJobWhosePodsCannotBeRead(t *testing.T) {
	s := jobScene(t, smoke("Failed", "BackoffLimitExceeded"))
	s.client.PrependReactor("list", "pods", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
		return true, nil, context.DeadlineExceeded
	})
	s.Ask(parentOf("web"), asksSmoke())
	s.Eventually(s.ofSmoke).Should(Equal(known.CheckResult{Seen: true, Failed: true, Message: jobFailed}))
}

// TestARunThatIsNotPermitted says which value to set, and not that of conditions.
func TestARunThatIsNotPermitted(t *testing.T) {
	s := jobScene(t)
	for _, verb := range []string{"list", "watch"} {
		s.client.PrependReactor(verb, "jobs", func(clienttesting.Action) (bool, k8sruntime.Object, error) {
			return true, nil, apierrors.NewForbidden(jobResource.GroupResource(), "", nil)
		})
	}
	s.client.PrependWatchReactor("jobs", clienttesting.DefaultWatchReactor(nil, apierrors.NewForbidden(jobResource.GroupResource(), "", nil)))
	s.Ask(parentOf("web"), asksSmoke())
	s.Eventually(s.ofSmoke).Should(Equal(known.CheckResult{Seen: true, Refused: true, Message: "United is not permitted to use Jobs: set checks.jobs: true in the values of its Helm chart"}))
}

// TestARunThatIsNotServed does not fail: the version is not to blame.
func TestARunThatIsNotServed(t *testing.T) {
	s := newScene(t)
	asks := asksSmoke()
	asks[0].Run = "analysisrun/web-smoke-1"
	s.Ask(parentOf("web"), asks)
	s.Eventually(s.ofSmoke).Should(Equal(known.CheckResult{
		Seen: true, Refused: true, Message: "the API server does not serve AnalysisRun of argoproj.io/v1alpha1: install its CustomResourceDefinition",
	}))
}
