// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestRollout checks that a full rollout over 3 zones has up to maxUnavailable replicas down at once,
// and never one more.
func TestRollout(t *testing.T) {
	t.Parallel()
	for _, most := range []struct {
		value string
		// The number of replicas in an update at once, with Parallel, and with OrderedReady, where each
		// zone moves one.
		parallel, ordered int
	}{{"1", 1, 1}, {"2", 2, 2}, {"50%", 4, 3}} {
		t.Run(most.value, func(t *testing.T) {
			EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
				width := most.parallel
				if p == appsv1.OrderedReadyPodManagement {
					width = most.ordered
				}
				w := e.Create(NewDraft("web", Replicas(9), Policy(p), Zones("", "", ""), Rolling(`{maxUnavailable: `+most.value+`}`)))
				w.IsReady(v1alpha1.ReasonRolloutComplete)
				ledger := w.Ledger(9)
				w.SetImage("quiet-v2")
				w.Waves(width, nil)
				w.IsReady(v1alpha1.ReasonRolloutComplete)
				ledger.Within(width)
				e.Expect(w.Images()).To(Equal(ThreeZones("quiet-v2 quiet-v2 quiet-v2")))
				for _, p := range w.Pods() {
					e.Expect(e.History.CreatedOn(p.Name)).To(Equal("v1 quiet-v2"), "%s is replaced once", p.Name)
				}

				e.Step("and with pods that take their time", func() {
					ledger := w.Ledger(9)
					w.SetImage("slow-v3")
					w.IsReady(v1alpha1.ReasonRolloutComplete)
					ledger.Within(width)
				})
			})
		})
	}
}

// TestRolloutSequential checks that no zone begins before the previous one is done.
func TestRolloutSequential(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		width := 2
		if p == appsv1.OrderedReadyPodManagement {
			width = 1
		}
		w := e.Create(NewDraft("web", Replicas(6), Policy(p), Zones("", "", ""), Rolling(`{maxUnavailable: 2, order: Sequential}`)))
		w.Settle()
		ledger := w.Ledger(6)
		others := e.History.Forbid(Outside("zone-a"))
		w.SetImage("quiet-v2")
		var waves [][]string
		w.Waves(width, func(wave []string) {
			waves = append(waves, wave)
			if strings.HasPrefix(wave[0], "web-zone-a") {
				others.Holds()
			}
		})
		w.IsReady(v1alpha1.ReasonRolloutComplete)
		others.Fires()
		ledger.Within(width)
		if width == 2 {
			e.Expect(waves).To(Equal([][]string{
				{"web-zone-a-0", "web-zone-a-1"}, {"web-zone-b-0", "web-zone-b-1"}, {"web-zone-c-0", "web-zone-c-1"},
			}))
		} else {
			e.Expect(waves).To(Equal([][]string{
				{"web-zone-a-1"}, {"web-zone-a-0"}, {"web-zone-b-1"}, {"web-zone-b-0"}, {"web-zone-c-1"}, {"web-zone-c-0"},
			}))
		}
	})
}
