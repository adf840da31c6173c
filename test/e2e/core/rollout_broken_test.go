// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"fmt"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRolloutBlocked checks that a broken replica that cannot be released yet uses up the ledger, and
// that no healthy replica is taken down for it.
func TestRolloutBlocked(t *testing.T) {
	t.Parallel()
	for name, broken := range map[string]int{"the lowest": 0, "a middle one": 2} {
		t.Run(name, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				for _, way := range []string{"raise", "force", "repair"} {
					w := e.Create(NewDraft("web-"+way, Replicas(4), Policy(p), Plain("one", ""), Rolling(`{}`)))
					w.Settle()
					w.MarkUnready("one", broken)
					w.IsNotReady(v1alpha1.ReasonReplicasUnavailable)
					ledger, still := w.Ledger(4), e.History.Forbid(AnyNewPod)
					w.SetImage("v2")
					w.AwaitPhase(v1alpha1.RolloutBlocked, fmt.Sprintf("web-%s-one-%d", way, broken))
					w.IsNotReady(v1alpha1.ReasonBlocked)
					ComesToRest(w, "one")
					still.Holds()
					ledger.TookNothing()
					e.Expect(Condition(w.Parent(), v1alpha1.ConditionStalled).Status).To(Equal(metav1.ConditionFalse), "it may be ready again")

					switch way {
					case "raise":
						w.SetRolling(`{maxUnavailable: 2}`)
						if p == appsv1.OrderedReadyPodManagement { // where only force helps
							w.AwaitPhase(v1alpha1.RolloutBlocked, fmt.Sprintf("web-%s-one-%d", way, broken))
							ComesToRest(w, "one")
							still.Holds()
							continue
						}
					case "force":
						w.ForceInVain(w.Parent().Status.CurrentRevision) // not the revision that is rolled out
						ComesToRest(w, "one")
						still.Holds()
						w.Force(w.Parent().Status.UpdateRevision)
					case "repair":
						w.MarkReady("one", broken)
					}
					w.IsReady(v1alpha1.ReasonRolloutComplete)
					still.Fires()
					e.Expect(w.Images()).To(Equal(Images{"one": "v2 v2 v2 v2"}))
					if way == "force" {
						e.Eventually(func() string {
							return e.Kubectl("get", "events.events.k8s.io", "--field-selector=regarding.name="+w.Name)
						}).Should(ContainSubstring("RolloutForced"))
						continue
					}
					e.Expect(ledger.Taken()).To(BeNumerically("<=", 2), "%s", ledger)
				}
			})
		})
	}
}
