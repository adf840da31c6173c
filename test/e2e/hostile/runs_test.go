// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package hostile

import (
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

const canaryFirst = `steps: [{subsets: [zone-a], partition: "50%"}]`

// checkedBy creates a workload whose first rollout is complete, and whose next one has a canary that a check judges.
func checkedBy(e *Env, check string, edits ...Edit) *Workload {
	e.T.Helper()
	w := e.Create(NewDraft("web", append([]Edit{Replicas(4), Zones("", ""), Rolling(`{` + canaryFirst + `, checks: [` + check + `]}`)}, edits...)...))
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	e.Expect(w.Jobs()).To(BeEmpty(), "the first rollout is not checked")
	return w
}

func nameOf(check v1alpha1.CheckStatus) string { return strings.TrimPrefix(check.Run, "job/") }

// TestJobThatNeverEnds fails after progressDeadlineSeconds, and is deleted when it is left.
func TestJobThatNeverEnds(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := checkedBy(e, Smoke("quiet"))
	w.Patch(`{"spec":{"progressDeadlineSeconds":5}}`)
	w.SetImage("v2")
	name := nameOf(w.AwaitCheck("smoke", v1alpha1.CheckRuns, "has not finished"))
	w.AwaitPhase(v1alpha1.RolloutCheckFailed, "check smoke failed: Job "+name+" has not finished", "within progressDeadlineSeconds")
	e.Expect(w.Jobs()).To(HaveLen(1), "it can be looked at")
	w.SetImage("v1")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.Eventually(w.Jobs).Should(BeEmpty())
}

// TestJobThatIsDeleted: there is another one of that name, at once; its result counts also when it is gone.
func TestJobThatIsDeleted(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := checkedBy(e, Smoke("quiet"))
	w.SetImage("v2")
	name := nameOf(w.AwaitCheck("smoke", v1alpha1.CheckRuns, "has not finished"))
	first := w.Jobs()[0]
	e.Expect(e.Client.Delete(e.Ctx, &first)).To(Succeed())
	w.Eventually(func(g Gomega) {
		jobs := w.Jobs()
		g.Expect(jobs).To(HaveLen(1))
		g.Expect(jobs[0].Name).To(Equal(name))
		g.Expect(jobs[0].UID).NotTo(Equal(first.UID))
	}).Should(Succeed())
	e.Step("a failure stays", func() {
		w.SetRolling(`{` + canaryFirst + `, checks: [` + Smoke("fail") + `]}`)
		w.AwaitPhase(v1alpha1.RolloutCheckFailed, "BackoffLimitExceeded", "ended with exit code 1: 3 of 5 requests failed")
		failed := w.AwaitCheck("smoke", v1alpha1.CheckHasFailed)
		e.Kubectl("delete", "job", nameOf(failed))
		w.Patch(`{"spec":{"revisionHistoryLimit":3}}`)
		w.StallsWhole(v1alpha1.ReasonCheckFailed, "3 of 5 requests failed")
		e.Expect(w.AwaitCheck("smoke", v1alpha1.CheckHasFailed)).To(Equal(failed))
		e.Expect(w.Jobs()).To(BeEmpty())
	})
	e.Step("retried, it is another one", func() {
		w.Patch(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRetry, w.Parent().Status.UpdateRevision+"/again")
		w.Eventually(w.Jobs).Should(HaveLen(1))
		w.AwaitPhase(v1alpha1.RolloutCheckFailed, "3 of 5 requests failed")
		e.Expect(w.Jobs()).To(HaveLen(1))
	})
	e.Step("a success, too", func() {
		w.SetRolling(`{steps: [{subsets: [zone-a], partition: "50%", pause: {}}], checks: [` + Smoke("v1") + `]}`)
		key := w.AwaitApproval(0)
		met := w.AwaitCheck("smoke", v1alpha1.CheckIsMet)
		e.Kubectl("delete", "job", nameOf(met))
		w.Patch(`{"spec":{"revisionHistoryLimit":4}}`)
		w.AwaitApproval(0)
		e.Expect(w.AwaitCheck("smoke", v1alpha1.CheckIsMet)).To(Equal(met))
		w.Approve(key)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
	})
}

// TestJobRefused: what the API server refuses is said at the check, with its words, and holds nothing but the end of the step.
func TestJobRefused(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := checkedBy(e, `{name: smoke, job: {template: {spec: {backofLimit: 1, template: {spec: {restartPolicy: Never, containers: [{name: smoke, image: smoke}]}}}}}}`)
	w.SetImage("v2")
	w.StallsWhole(v1alpha1.ReasonBlocked, `check smoke`, `unknown field "spec.backofLimit"`)
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v2", "zone-b": "v1 v1"}))
	e.Step("its pods must not be taken for replicas", func() {
		labels, err := metav1.LabelSelectorAsMap(w.Parent().Spec.Selector)
		e.Expect(err).NotTo(HaveOccurred())
		var own []string
		for name, value := range labels {
			own = append(own, name+": "+value)
		}
		w.SetRolling(`{` + canaryFirst + `, checks: [{name: smoke, job: {template: {spec: {template: {metadata: {labels: {` + strings.Join(own, ", ") + `}}, spec: {}}}}}}]}`)
		w.StallsWhole(v1alpha1.ReasonInvalidSpec, "must not match spec.selector")
		e.Expect(w.Jobs()).To(BeEmpty())
	})
	e.Step("repaired, it goes on", func() {
		w.SetRolling(`{` + canaryFirst + `, checks: [` + Smoke("v1") + `]}`)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		e.Expect(w.Jobs()).To(HaveLen(2))
	})
}

// TestJobInTheWay: an object of that name that is not ours is left alone.
func TestJobInTheWay(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := checkedBy(e, Smoke("quiet"))
	w.SetImage("v2")
	name := nameOf(w.AwaitCheck("smoke", v1alpha1.CheckRuns, "has not finished"))
	w.Patch(`{"spec":{"paused":true}}`)
	w.AwaitPhase(v1alpha1.RolloutPaused)
	e.Kubectl("delete", "job", name)
	e.Kubectl("create", "job", name, "--image=registry.example/other:v1")
	w.Patch(`{"spec":{"paused":false}}`)
	w.StallsWhole(v1alpha1.ReasonBlocked, "Job "+name+" is in the way")
	foreign := &batchv1.Job{}
	e.Expect(e.Get(e.Ctx, e.Key(name), foreign)).To(Succeed())
	e.Expect(foreign.OwnerReferences).To(BeEmpty())
	e.Expect(foreign.Spec.Template.Spec.Containers[0].Image).To(Equal("registry.example/other:v1"))
	e.Expect(w.Rollout().Step).To(BeZero(), "its success is not ours")
	e.Kubectl("delete", "job", name)
	w.Eventually(w.Jobs).Should(HaveLen(1))
}

// TestJobOverQuota: a quota may be lifted in a moment, so it is Stalled only after a while.
func TestJobOverQuota(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := checkedBy(e, Smoke("v1"))
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: e.Namespace, Name: "none"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/jobs.batch": resource.MustParse("0")}},
	}
	e.Expect(e.Client.Create(e.Ctx, quota)).To(Succeed())
	w.Eventually(func(g Gomega) {
		g.Expect(e.Get(e.Ctx, e.Key("none"), quota)).To(Succeed())
		g.Expect(quota.Status.Hard).NotTo(BeEmpty())
	}).Should(Succeed())
	mark := e.AuditMark()
	w.SetImage("v2")
	w.StallsWhole(v1alpha1.ReasonBlocked, "exceeded quota: none")
	w.HasTold(mark, "at first it only says so", func(told *v1alpha1.UnitedDeployment) bool {
		says := func(c v1alpha1.CheckStatus) bool {
			return c.Name == "smoke" && c.State == v1alpha1.CheckRuns && strings.Contains(c.Message, "exceeded quota: none")
		}
		return told.Status.Rollout != nil && slices.ContainsFunc(told.Status.Rollout.Checks, says) &&
			Condition(told, v1alpha1.ConditionStalled).Status == metav1.ConditionFalse
	})
	e.Expect(e.Client.Delete(e.Ctx, quota)).To(Succeed())
	w.IsReady(v1alpha1.ReasonRolloutComplete)
}

// TestJobsAreTidied: of the finished ones of a check, the last revisionHistoryLimit stay, and that of the last step.
func TestJobsAreTidied(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := checkedBy(e, Smoke("v1"))
	w.Patch(`{"spec":{"revisionHistoryLimit":1}}`)
	for _, tag := range []string{"v2", "v3"} {
		w.SetImage(tag)
		w.IsReady(v1alpha1.ReasonRolloutComplete)
	}
	w.Eventually(w.Jobs).Should(HaveLen(2))
	last := w.AwaitCheck("smoke", v1alpha1.CheckIsMet)
	e.Expect(w.Jobs()[1].Name).To(Equal(nameOf(last)))
	for _, job := range w.Jobs() {
		w.IsOwned(&job)
		e.Expect(job.Status.Succeeded).To(BeEquivalentTo(1))
	}
	e.Step("at rest nothing is written", func() {
		mark := e.AuditMark()
		w.Patch(`{"metadata":{"annotations":{"somebody":"looked"}}}`)
		w.Settle()
		e.Expect(e.Writes(mark)).To(BeEmpty())
		e.Expect(w.Jobs()).To(HaveLen(2))
	})
}

// TestJobRollsBack: with onFailure Rollback, a Job that fails takes the rollout back, also in its last wave.
func TestJobRollsBack(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	w := checkedBy(e, Smoke("v1"))
	w.SetRolling(`{onFailure: Rollback, checks: [` + Smoke("fail") + `]}`)
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	w.SetImage("v2")
	w.StallsWhole(v1alpha1.ReasonRevisionRejected, "3 of 5 requests failed")
	w.Eventually(w.Images).Should(Equal(Images{"zone-a": "v1 v1", "zone-b": "v1 v1"}))
	e.Expect(w.Jobs()).To(HaveLen(1), "the way back has none")
	w.SetRolling(`{onFailure: Rollback, checks: [` + Smoke("v1") + `]}`)
	w.SetImage("v3")
	w.IsReady(v1alpha1.ReasonRolloutComplete)
	e.Expect(w.Images()).To(Equal(Images{"zone-a": "v3 v3", "zone-b": "v3 v3"}))
}
