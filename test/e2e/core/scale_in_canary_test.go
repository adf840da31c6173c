// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestScaleInCanary scales three equal subsets in mid-canary: zone-a has a percentage as its partition,
// zone-b an integer, zone-c is held.
//
// One write sets both replicas and partition, so a new partition protects an ordinal from the moment it
// exists.
func TestScaleInCanary(t *testing.T) {
	EachPolicy(t, func(e *Env, p appsv1.PodManagementPolicyType) {
		w := e.Create(NewDraft("web", Replicas(12), Policy(p), Zones("", "", ""), Hold()))
		w.Settle()
		canary := e.History.Forbid(Protect("zone-a", Everything, "v1"), Protect("zone-b", Everything, "v1"))
		w.SetImage("v2")
		w.SetPartitions(Parts{"zone-a": "50%", "zone-b": 2})
		w.Settle()
		e.Expect(w.Images()).To(Equal(Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1 v1 v1"}))
		canary.Fires()

		held := e.History.Forbid(Protect("zone-b", 2, "v1"), Protect("zone-c", Everything, "v1"))
		for _, step := range []struct {
			name     string
			replicas int32
			// partition of zone-a after the scale.
			partition int
			want      Images
		}{
			{"up", 21, 4, Images{
				"zone-a": "v1 v1 v2 v2 v2 v2 v2", // the partition rose above two updated replicas
				"zone-b": "v1 v1 v2 v2 v2 v2 v2",
				"zone-c": "v1 v1 v1 v1 v1 v1 v1",
			}},
			{"down, which releases nothing", 6, 2, Images{
				"zone-a": "v1 v1", // "50%" of 2 is 1
				"zone-b": "v1 v1",
				"zone-c": "v1 v1",
			}},
			{"up again, which protects one by its percentage", 18, 3, Images{
				"zone-a": "v1 v1 v1 v2 v2 v2",
				"zone-b": "v1 v1 v2 v2 v2 v2",
				"zone-c": "v1 v1 v1 v1 v1 v1",
			}},
			{"below the integer partition", 3, 1, Images{"zone-a": "v1", "zone-b": "v1", "zone-c": "v1"}},
			{"and above it", 12, 2, Images{"zone-a": "v1 v1 v2 v2", "zone-b": "v1 v1 v2 v2", "zone-c": "v1 v1 v1 v1"}},
		} {
			e.Step(step.name, func() {
				line := e.History.Forbid(Protect("zone-a", step.partition, "v1"))
				w.Scale(step.replicas)
				w.Settle()
				line.Holds()
				held.Holds()
				e.Expect(w.Images()).To(Equal(step.want))
				e.Expect(w.Status("zone-a").Partition).To(BeEquivalentTo(step.partition))
				e.Expect(w.Status("zone-b").Partition).To(BeEquivalentTo(2))
			})
		}

		e.Step("in a burst", func() {
			line := e.History.Forbid(Protect("zone-a", 1, "v1")) // the lowest partition on the way
			for _, n := range []int32{21, 6, 18, 3, 15, 12} {
				w.Scale(n)
			}
			w.Settle()
			line.Holds()
			held.Holds()
			e.Expect(w.Images()).To(And(
				HaveKeyWithValue("zone-b", "v1 v1 v2 v2"), HaveKeyWithValue("zone-c", "v1 v1 v1 v1"),
				HaveKeyWithValue("zone-a", HavePrefix("v1 "))))
		})

		e.Step("together with a partition, in one patch", func() {
			line := e.History.Forbid(Protect("zone-a", 1, "v1"), Protect("zone-b", 3, "v1"), Protect("zone-c", 4, "v1"))
			w.Patch(`{"spec":{"replicas":15,"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":4,"zone-c":4}}}}}`)
			w.Settle()
			line.Holds()
			e.Expect(w.Images()).To(And(HaveKeyWithValue("zone-b", "v1 v1 v2 v2 v2"), HaveKeyWithValue("zone-c", "v1 v1 v1 v1 v2")))
		})

		e.Step("to the end", func() {
			w.SetPartitions(Parts{"zone-a": 0, "zone-b": 0, "zone-c": 0})
			w.Settle()
			held.Fires()
			all := strings.TrimSpace(strings.Repeat("v2 ", 5))
			e.Expect(w.Images()).To(Equal(Images{"zone-a": all, "zone-b": all, "zone-c": all}))
		})
	})
}
