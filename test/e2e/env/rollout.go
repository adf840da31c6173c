// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/fixtures"
)

// Rolling sets the strategy RollingUpdate, with members written as YAML: rolling(`{maxUnavailable: 2,
// order: Sequential}`).
func Rolling(members string) Edit {
	return func(d *Draft) {
		r := &v1alpha1.RollingUpdate{}
		if err := yaml.UnmarshalStrict([]byte(members), r); err != nil {
			panic(fmt.Sprintf("draft: %v", err))
		}
		d.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{Type: v1alpha1.RollingUpdateStrategy, RollingUpdate: r}
	}
}

// SetRolling changes members of the strategy, written as YAML.
func (w *Workload) SetRolling(members string) {
	w.T.Helper()
	raw, err := yaml.YAMLToJSON([]byte(members))
	w.Expect(err).NotTo(HaveOccurred())
	w.Patch(`{"spec":{"updateStrategy":{"rollingUpdate":%s}}}`, raw)
}

// Approve sets the annotation that opens a step.
func (w *Workload) Approve(key string) {
	w.T.Helper()
	w.Expect(key).NotTo(BeEmpty())
	w.Disturbed() // an annotation does not change the generation, so the status may be older
	w.Patch(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationApproved, key)
}

// ApproveInVain sets the annotation to a key that opens nothing, and waits until the status reports
// that.
func (w *Workload) ApproveInVain(key string) {
	w.T.Helper()
	w.Approve(key)
	w.Eventually(func() string { return w.Rollout().Message }).Should(HaveSuffix("the annotation is %q, which is for another step or rollout", key))
}

// Force sets the annotation that forces the rollout to a revision.
func (w *Workload) Force(revision string) {
	w.T.Helper()
	w.Expect(revision).NotTo(BeEmpty())
	w.Disturbed() // as in Approve
	w.Patch(`{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationForceUpdate, revision)
}

// ForceInVain sets the annotation to a revision that is not being rolled out, and waits until the
// manager has seen it. No status shows that, so the patch also changes the generation, in a field that
// has no effect here.
func (w *Workload) ForceInVain(revision string) {
	w.T.Helper()
	parent := w.Parent()
	w.Expect(revision).NotTo(Or(BeEmpty(), Equal(parent.Status.UpdateRevision)))
	w.Disturbed() // as in Approve
	w.Patch(`{"metadata":{"annotations":{%q:%q}},"spec":{"revisionHistoryLimit":%d}}`,
		v1alpha1.AnnotationForceUpdate, revision, *parent.Spec.RevisionHistoryLimit+1)
	w.Eventually(func(g Gomega) {
		now := w.Parent()
		g.Expect(now.Generation).To(BeNumerically(">", parent.Generation))
		g.Expect(now.Status.ObservedGeneration).To(Equal(now.Generation))
	}).Should(Succeed())
}

// Rollout reads the state of the rollout for the current spec: status.rollout if the status is of this
// generation, otherwise nothing.
func (w *Workload) Rollout() v1alpha1.RolloutStatus {
	w.T.Helper()
	parent := w.Parent()
	if parent.Status.ObservedGeneration != parent.Generation {
		return v1alpha1.RolloutStatus{}
	}
	rollout := ptr.Deref(parent.Status.Rollout, v1alpha1.RolloutStatus{})
	if rollout.Revision != parent.Status.UpdateRevision {
		return v1alpha1.RolloutStatus{}
	}
	return rollout
}

// AwaitPhase waits until the rollout is in a phase, with all the words in its message, and returns the
// rollout.
func (w *Workload) AwaitPhase(phase v1alpha1.RolloutPhase, words ...string) v1alpha1.RolloutStatus {
	w.T.Helper()
	var rollout v1alpha1.RolloutStatus
	w.Eventually(func(g Gomega) {
		rollout = w.Rollout()
		g.Expect(rollout.Phase).To(Equal(phase), "%s", rollout.Message)
		for _, word := range words {
			g.Expect(rollout.Message).To(ContainSubstring(word))
		}
	}).Should(Succeed())
	return rollout
}

// AwaitApproval waits until a step waits for approval, and returns its key.
func (w *Workload) AwaitApproval(step int32) string {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		rollout := w.Rollout()
		g.Expect(rollout.Phase).To(Equal(v1alpha1.RolloutAwaitingApproval), "%s", rollout.Message)
		g.Expect(rollout.Step).To(Equal(step))
	}).Should(Succeed())
	w.IsReady(v1alpha1.ReasonAwaitingApproval)
	return w.Rollout().ApprovalKey
}

// IsReady waits until Ready is True for a reason, for this generation, and then checks that it is
// correct, as Settle does.
func (w *Workload) IsReady(reason string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		g.Expect(fixtures.WhyNotReady(parent)).To(BeEmpty())
		g.Expect(Condition(parent, v1alpha1.ConditionReady).Reason).To(Equal(reason))
	}).Should(Succeed())
	w.Settle()
	w.Expect(Condition(w.Parent(), v1alpha1.ConditionReady).Reason).To(Equal(reason))
}

// IsNotReady waits until Ready is False for a reason, for this generation.
func (w *Workload) IsNotReady(reason string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		parent := w.Parent()
		ready := Condition(parent, v1alpha1.ConditionReady)
		g.Expect(ready.ObservedGeneration).To(Equal(parent.Generation))
		g.Expect(ready.Status).To(Equal(metav1.ConditionFalse))
		g.Expect(ready.Reason).To(Equal(reason), ready.Message)
	}).Should(Succeed())
}

// Waiting returns the names of the unready pods that run a quiet image and wait until the test marks
// them ready, by subset and ordinal; or why it cannot: kwok has not started a pod yet, and would undo
// the mark, or the previous pod has not gone.
func (w *Workload) Waiting() (names []string, why string) {
	w.T.Helper()
	for _, p := range w.Pods() {
		switch {
		case p.Terminating || !p.Running:
			why = p.Name + " is terminating, or does not run yet"
		case !p.Ready && !strings.HasPrefix(p.Image, "quiet"):
			why = p.Name + " is not ready, on " + p.Image
		case !p.Ready:
			names = append(names, p.Name)
		}
	}
	return names, why
}

// AwaitWaiting waits until exactly these pods wait to be marked ready.
func (w *Workload) AwaitWaiting(names ...string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		waiting, why := w.Waiting()
		g.Expect(why).To(BeEmpty())
		g.Expect(waiting).To(Equal(names))
	}).Should(Succeed())
}

// Crash makes the container of a ready pod crash forever, and reports it as a kubelet does. The pod
// stays so unless its image is a slow one: kwok does not change other running pods.
func (w *Workload) Crash(subset string, ordinal int) {
	w.T.Helper()
	name := fmt.Sprintf("%s-%s-%d", w.Name, subset, ordinal)
	p := &corev1.Pod{}
	w.Expect(w.Get(w.Ctx, w.Key(name), p)).To(Succeed())
	w.Expect(p.Status.ContainerStatuses).To(HaveLen(1))
	before, now := p.DeepCopy(), metav1.Now()
	c := &p.Status.ContainerStatuses[0]
	started := ptr.Deref(c.State.Running, corev1.ContainerStateRunning{}).StartedAt
	c.Ready, c.Started, c.RestartCount = false, ptr.To(false), c.RestartCount+1
	c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff", Message: "back-off 10s restarting failed container"}}
	c.LastTerminationState = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
		ExitCode: 1, Reason: "Error", StartedAt: started, FinishedAt: now,
	}}
	for i := range p.Status.Conditions {
		if kind := p.Status.Conditions[i].Type; kind == corev1.PodReady || kind == corev1.ContainersReady {
			p.Status.Conditions[i].Status, p.Status.Conditions[i].Reason = corev1.ConditionFalse, "ContainersNotReady"
			p.Status.Conditions[i].LastTransitionTime = now
		}
	}
	w.Disturbed()
	// The resourceVersion protects against another pod with the same name.
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	w.Expect(w.Client.Status().Patch(w.Ctx, p, patch)).To(Succeed())
}

// RemindKubeletsOf marks running, unready pods in a subset, or in all subsets if it is "", as ready,
// except for crashing ones. With a quiet image such a mark is part of the normal course, and not a
// disturbance.
func (w *Workload) RemindKubeletsOf(subset string) {
	w.T.Helper()
	for _, p := range w.Members() {
		if p.Ready || p.Terminating || !p.Running || p.Crashing || subset != "" && p.Subset != subset {
			continue
		}
		// The uid protects against another pod with the same name.
		patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"conditions":[{"type":"Ready","status":"True","lastTransitionTime":%q}]}}`,
			p.UID, time.Now().UTC().Format(time.RFC3339))
		object := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
		err := w.Client.Status().Patch(w.Ctx, object, client.RawPatch(types.StrategicMergePatchType, patch))
		if err != nil && !PodIsAnother(err) {
			w.Expect(err).NotTo(HaveOccurred())
		}
	}
}

// RemindKubeletsUntil marks replicas of a subset ready until the wanted number of them run the quiet
// image and are ready.
func (w *Workload) RemindKubeletsUntil(subset string, want int) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		ready := 0
		for _, p := range w.Pods() {
			if p.Subset == subset && p.Ready && !p.Terminating && strings.HasPrefix(p.Image, "quiet") {
				ready++
			}
		}
		if ready < want {
			w.RemindKubeletsOf(subset)
		}
		g.Expect(ready).To(BeNumerically(">=", want))
	}).Should(Succeed())
}

// Waves marks released replicas ready, wave by wave, until all replicas run the quiet image. Each wave
// is as large as possible: maxUnavailable, or the remaining replicas. width is the number of replicas
// that can be updated at once: less than maxUnavailable if children work in order.
func (w *Workload) Waves(width int, seen func(wave []string)) {
	w.T.Helper()
	for {
		left := int(*w.Parent().Spec.Replicas) // includes deleted replicas that are not back yet
		for _, p := range w.Pods() {
			if strings.HasPrefix(p.Image, "quiet") && p.Ready && !p.Terminating {
				left--
			}
		}
		if left == 0 {
			return
		}
		var wave []string
		w.Eventually(func(g Gomega) {
			var why string
			wave, why = w.Waiting()
			g.Expect(why).To(BeEmpty())
			g.Expect(wave).To(HaveLen(min(width, left)), "%v", w.Images())
		}).Should(Succeed())
		if seen != nil {
			seen(wave)
		}
		w.RemindKubeletsOf("")
	}
}

// HasTold waits until the audit log has a status since a mark that says something, if only for a moment. What can already be
// read is not always logged yet.
func (w *Workload) HasTold(mark int64, what string, says func(told *v1alpha1.UnitedDeployment) bool) {
	w.T.Helper()
	w.Eventually(func() bool {
		return slices.ContainsFunc(w.Writes(mark, Statuses), func(write cluster.Event) bool {
			return write.Name == w.Name && says(&v1alpha1.UnitedDeployment{Status: StatusOf(w.Env, write)})
		})
	}).Should(BeTrue(), what)
}

// StatusOf returns the status that a write of it sets: the value of the last operation of its JSON
// patch.
func StatusOf(e *Env, write cluster.Event) v1alpha1.UnitedDeploymentStatus {
	operations := FromJSON[[]struct{ Value json.RawMessage }](e, string(write.Request))
	return FromJSON[v1alpha1.UnitedDeploymentStatus](e, string(operations[len(operations)-1].Value))
}
