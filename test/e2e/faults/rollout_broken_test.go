// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"fmt"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestRolloutOfBroken checks that replicas which were broken before the rollout do not keep it from
// replacing them, as long as healthy replicas stay.
func TestRolloutOfBroken(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		broken []int
	}{{"all", []int{0, 1, 2, 3}}, {"the highest", []int{3}}, {"the two highest", []int{2, 3}}} {
		t.Run(c.name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				w := e.Create(NewDraft("web", Replicas(4), Policy(p), Plain("one", ""), Rolling(`{}`)))
				w.Settle()
				for _, ordinal := range c.broken {
					w.MarkUnready("one", ordinal)
				}
				w.IsNotReady(v1alpha1.ReasonReplicasUnavailable)
				ledger := w.Ledger(4)
				w.Patch(`{"spec":{"progressDeadlineSeconds":5}}`) // then they are broken, not merely unready
				w.SetImage("v2")
				w.IsReady(v1alpha1.ReasonRolloutComplete)
				e.Expect(w.Images()).To(Equal(Images{"one": "v2 v2 v2 v2"}))
				e.Expect(ledger.Most()).To(Equal(len(c.broken)), "%s", ledger)
				e.Expect(ledger.Taken()).To(BeNumerically("<=", 1), "%s", ledger)
				for ordinal := range 4 {
					e.Expect(e.History.CreatedOn(fmt.Sprintf("web-one-%d", ordinal))).To(Equal("v1 v2"), "replaced once")
				}
			})
		})
	}
}

// TestRolloutBlockedByCrash checks an old replica that crashes for good, before the rollout or in the
// middle of it, and cannot be released yet. Waiting does not help, so the parent is Stalled too.
// Healthy replicas stay, as with a replica that is merely unready.
func TestRolloutBlockedByCrash(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		for _, c := range []struct {
			name    string
			crashed int
			midway  bool
			raise   bool // otherwise force
		}{{"force", 0, false, false}, {"force-midway", 1, true, false}, {"raise", 0, false, true}, {"raise-midway", 1, true, true}} {
			ordered := p == appsv1.OrderedReadyPodManagement
			if c.raise && ordered {
				continue // only force helps
			}
			w := e.Create(NewDraft("web-"+c.name, Replicas(4), Policy(p), Plain("one", ""), Rolling(`{}`)))
			w.Settle()
			ledger := w.Ledger(4)
			var still *Ban
			if c.midway {
				w.SetImage("quiet-v2")
				w.AwaitWaiting(w.Name + "-one-3")
				w.Crash("one", c.crashed)
				still = e.History.Forbid(AnyNewPod)
				w.MarkReady("one", 3)
			} else {
				w.Crash("one", c.crashed)
				w.IsNotReady(v1alpha1.ReasonReplicasUnavailable)
				still = e.History.Forbid(AnyNewPod)
				w.SetImage("quiet-v2")
			}
			w.StallsWhole(v1alpha1.ReasonBlocked, fmt.Sprintf("%s-one-%d (CrashLoopBackOff since", w.Name, c.crashed))
			w.IsNotReady(v1alpha1.ReasonBlocked)
			ComesToRest(w, "one")
			isStalledBlocked(w, "repair it", "force the rollout: kubectl annotate --overwrite united -n "+w.Namespace+" "+w.Name+" "+v1alpha1.AnnotationForceUpdate+"="+w.Parent().Status.UpdateRevision)
			e.Expect(strings.Contains(w.Rollout().Message, "raise maxUnavailable")).To(Equal(!ordered), w.Rollout().Message)
			still.Holds()
			if c.midway {
				ledger.TakenWithin(1) // it was taken before the crash
			} else {
				ledger.TookNothing()
			}

			if c.raise {
				w.SetRolling(`{maxUnavailable: 2}`)
			} else {
				w.Force(w.Parent().Status.UpdateRevision)
			}
			w.Eventually(func() string {
				w.RemindKubeletsOf("")
				return fixtures.WhyNotReady(w.Parent())
			}).Should(BeEmpty())
			w.IsReady(v1alpha1.ReasonRolloutComplete)
			still.Fires()
			e.Expect(Condition(w.Parent(), v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse))
			e.Expect(w.Images()).To(Equal(Images{"one": "quiet-v2 quiet-v2 quiet-v2 quiet-v2"}))
			for ordinal := range 4 {
				e.Expect(e.History.CreatedOn(fmt.Sprintf("%s-one-%d", w.Name, ordinal))).To(Equal("v1 quiet-v2"), "replaced once")
			}
			e.Expect(ledger.Taken()).To(BeNumerically("<=", 2), "%s", ledger)
		}
	})
}

// isStalledBlocked waits until the rollout, Ready and Stalled agree that the rollout is Blocked, with
// all of the words.
func isStalledBlocked(w *Workload, words ...string) {
	w.T.Helper()
	parent := w.Parent()
	w.Expect(parent.Status.Rollout.Phase).To(Equal(v1alpha1.RolloutBlocked))
	for kind, status := range map[string]metav1.ConditionStatus{
		v1alpha1.ConditionStalled: metav1.ConditionTrue, v1alpha1.ConditionReady: metav1.ConditionFalse,
	} {
		said := Condition(parent, kind)
		w.Expect(said.Status).To(Equal(status), kind)
		w.Expect(said.Reason).To(Equal(v1alpha1.ReasonBlocked), kind)
		message := parent.Status.Rollout.Message
		w.Expect(said.Message).To(Equal(strings.ToUpper(message[:1])+message[1:]), kind)
	}
	for _, word := range words {
		w.Expect(parent.Status.Rollout.Message).To(ContainSubstring(word))
	}
}

// TestRolloutBadImage checks that an image which does not come up costs at most maxUnavailable
// replicas, none after the first has failed, and none elsewhere if zones go one after the other. A
// working template continues by itself, without help, and so does the old one.
func TestRolloutBadImage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		order, tag, trouble string
		most                int
	}{
		{"Sequential", "broken-v2", "CrashLoopBackOff", 1}, {"Sequential", "pull-v2", "ImagePullBackOff", 2},
		{"Parallel", "pull-v2", "ImagePullBackOff", 1}, {"Parallel", "broken-v2", "CrashLoopBackOff", 2},
	} {
		t.Run(fmt.Sprintf("%s-%d", c.order, c.most), func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				for _, to := range []string{"v3", "v1"} {
					w := e.Create(NewDraft("web-"+to, Replicas(9), Policy(p), Zones("", "", ""),
						Rolling(fmt.Sprintf(`{order: %s, maxUnavailable: %d}`, c.order, c.most))))
					w.Settle()
					before := w.Pods()
					ledger, others := w.Ledger(9), e.History.Forbid(Outside("zone-a"))
					w.SetImage(c.tag)
					w.StallsWhole(v1alpha1.ReasonReplicaFailed, c.trouble)
					e.Expect(w.Rollout().Phase).To(Equal(v1alpha1.RolloutFailed))
					ComesToRest(w, "zone-a", "zone-b", "zone-c")
					bad := failedReplicas(w, 9, c.tag, c.trouble)
					if c.order == "Sequential" {
						others.Holds()
						e.Expect(bad).To(ContainElement("web-" + to + "-zone-a-2"))
					}
					e.Expect(len(bad)).To(And(BeNumerically(">=", 1), BeNumerically("<=", c.most)))
					ledger.Within(len(bad))

					if to == "v1" {
						kept := e.History.Forbid(RestartOf(w.Pods(), "v1"))
						w.SetImage(to)
						w.IsReady(v1alpha1.ReasonRolloutComplete)
						kept.Holds()
						e.Expect(w.Pods()).To(HaveLen(len(before)))
					} else {
						w.SetImage(to)
						w.IsReady(v1alpha1.ReasonRolloutComplete)
						others.Fires()
					}
					e.Expect(w.Images()).To(Equal(ThreeZones(to + " " + to + " " + to)))
					e.Expect(ledger.Taken()).To(BeNumerically("<=", c.most), "%s", ledger)
					e.Expect(Condition(w.Parent(), v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse))
				}
			})
		})
	}
}

// failedReplicas waits until everything that is released runs a tag, and Stalled names each of these
// replicas with its problem. It returns their names.
func failedReplicas(w *Workload, replicas int, tag, trouble string) (names []string) {
	w.T.Helper()
	w.Eventually(func(g Gomega) {
		names = nil
		pods, released := w.Pods(), map[string]int32{}
		g.Expect(pods).To(HaveLen(replicas))
		for _, s := range w.Parent().Spec.Topology.Subsets {
			released[s.Name] = *w.Child(s.Name).Spec.UpdateStrategy.RollingUpdate.Partition
		}
		stalled := Condition(w.Parent(), v1alpha1.ConditionStalled)
		g.Expect(stalled.Reason).To(Equal(v1alpha1.ReasonReplicaFailed))
		for _, p := range pods {
			if p.Image != tag && p.Ordinal < int(released[p.Subset]) {
				continue
			}
			g.Expect(p.Image).To(Equal(tag), p.Name)
			g.Expect(stalled.Message).To(ContainSubstring(p.Name + " (" + trouble))
			names = append(names, p.Name)
		}
	}).Should(Succeed())
	return names
}
