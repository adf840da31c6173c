// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/percent"
)

func TestResolve(t *testing.T) {
	tests := []struct {
		value    intstr.IntOrString
		replicas int32
		want     int32
	}{
		{intstr.FromString("80%"), 10, 8},
		{intstr.FromString("80%"), 7, 6},
		{intstr.FromString("80%"), 3, 3},
		{intstr.FromString("80%"), 1, 1},
		{intstr.FromString("80%"), 0, 0},
		{intstr.FromString("99%"), 3, 3},
		{intstr.FromString("0%"), 3, 0},
		{intstr.FromString("1%"), 1000, 10},
		{intstr.FromString("1%"), 1001, 11},
		{intstr.FromString("100%"), math.MaxInt32, math.MaxInt32},
		{intstr.FromString("99%"), math.MaxInt32, 2126008811},
		{intstr.FromString("50%"), -4, 0},
		{intstr.FromInt32(0), 5, 0},
		{intstr.FromInt32(3), 5, 3},
		{intstr.FromInt32(12), 5, 12},
		{intstr.FromInt32(3), 0, 3},
		{intstr.FromInt32(math.MaxInt32), 5, math.MaxInt32},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s of %d", tt.value.String(), tt.replicas), func(t *testing.T) {
			got, err := coordination.Resolve(tt.value, tt.replicas)
			if err != nil || got != tt.want {
				t.Errorf("got %d, %v, want %d", got, err, tt.want)
			}
		})
	}
}

func TestResolveRefuses(t *testing.T) {
	const rule = ` is neither a number of at least 0 nor a percentage from "0%" to "100%"`
	for _, s := range []string{"", "5", "050%", "-1%", " 5%", "1.5%", "%", "101%", "half"} {
		if got, err := coordination.Resolve(intstr.FromString(s), 10); err == nil || err.Error() != fmt.Sprintf("%q", s)+rule {
			t.Errorf("Resolve(%q) = %d, %v", s, got, err)
		}
	}
	if got, err := coordination.Resolve(intstr.FromInt32(-1), 10); err == nil || err.Error() != "-1"+rule {
		t.Errorf("Resolve(-1) = %d, %v", got, err)
	}
}

func partitions(fallback string, named ...string) *v1alpha1.ManualUpdate {
	m := &v1alpha1.ManualUpdate{Partitions: map[string]intstr.IntOrString{}}
	if fallback != "" {
		value := intstr.Parse(fallback)
		m.DefaultPartition = &value
	}
	for i := 0; i < len(named); i += 2 {
		m.Partitions[named[i]] = intstr.Parse(named[i+1])
	}
	return m
}

func TestManual(t *testing.T) {
	type desired = coordination.DesiredPartition
	tests := []struct {
		name     string
		manual   *v1alpha1.ManualUpdate
		replicas int32
		want     desired
	}{
		{"no strategy", nil, 4, desired{Partition: 4, Held: true, Reason: `default partition "100%" holds all replicas`}},
		{"percent", partitions("", "zone-a", "80%"), 10, desired{Partition: 8, Held: false, Reason: `partition "80%" of 10 replicas protects 8`}},
		{"percent that protects all", partitions("", "zone-a", "99%"), 3, desired{Partition: 3, Held: false, Reason: `partition "99%" of 3 replicas protects all`}},
		{"percent of one", partitions("", "zone-a", "80%"), 1, desired{Partition: 1, Held: false, Reason: `partition "80%" of 1 replica protects all`}},
		{"percent of nothing", partitions("", "zone-a", "80%"), 0, desired{Partition: 0, Held: false, Reason: `partition "80%" of 0 replicas protects 0`}},
		{"nothing protected", partitions("", "zone-a", "0%"), 5, desired{Partition: 0, Held: false, Reason: `partition "0%" of 5 replicas protects 0`}},
		{"integer", partitions("", "zone-a", "3"), 5, desired{Partition: 3, Held: false, Reason: "partition 3 of 5 replicas protects 3"}},
		{"integer above", partitions("", "zone-a", "12"), 5, desired{Partition: 12, Held: false, Reason: "partition 12 of 5 replicas protects all"}},
		{"integer above nothing", partitions("", "zone-a", "12"), 0, desired{Partition: 12, Held: false, Reason: "partition 12 of 0 replicas protects 0"}},
		{"integer is no hold", partitions("", "zone-a", "5"), 5, desired{Partition: 5, Held: false, Reason: "partition 5 of 5 replicas protects all"}},
		{"hold", partitions("0", "zone-a", "100%"), 5, desired{Partition: 5, Held: true, Reason: `partition "100%" holds all replicas`}},
		{"hold of nothing", partitions("0", "zone-a", "100%"), 0, desired{Partition: 0, Held: true, Reason: `partition "100%" holds all replicas`}},
		{"default", partitions("2", "zone-b", "0"), 5, desired{Partition: 2, Held: false, Reason: "default partition 2 of 5 replicas protects 2"}},
		{"default of the CRD", partitions("100%", "zone-b", "0"), 5, desired{Partition: 5, Held: true, Reason: `default partition "100%" holds all replicas`}},
		{"no default", &v1alpha1.ManualUpdate{}, 5, desired{Partition: 5, Held: true, Reason: `default partition "100%" holds all replicas`}},
		{"malformed elsewhere", partitions("x", "zone-a", "0", "zone-b", "-1"), 5, desired{Partition: 0, Held: false, Reason: "partition 0 of 5 replicas protects 0"}},
		{"negative replicas", partitions("", "zone-a", "50%"), -5, desired{Partition: 0, Held: false, Reason: `partition "50%" of 0 replicas protects 0`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := coordination.Manual(tt.manual, "zone-a", tt.replicas, "")
			if err != nil {
				t.Fatal(err)
			}
			got.Value = tt.want.Value // TestResolve has it
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestManualHoldsWhatItCannotRead(t *testing.T) {
	tests := []struct {
		manual *v1alpha1.ManualUpdate
		word   string
		err    string
	}{
		{partitions("0", "zone-a", "101%"), "partition",
			`spec.updateStrategy.manualUpdate.partitions[zone-a]: "101%" is neither a number of at least 0 nor a percentage from "0%" to "100%"`},
		{partitions("-3", "zone-b", "0"), "default partition",
			`spec.updateStrategy.manualUpdate.defaultPartition: -3 is neither a number of at least 0 nor a percentage from "0%" to "100%"`},
	}
	for _, tt := range tests {
		t.Run(tt.word, func(t *testing.T) {
			got, err := coordination.Manual(tt.manual, "zone-a", 4, "")
			if err == nil || err.Error() != tt.err {
				t.Errorf("got  %v\nwant %s", err, tt.err)
			}
			got.Value = percent.Amount{}
			want := coordination.DesiredPartition{Partition: 4, Held: true, Reason: "malformed " + tt.word + " holds all replicas"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFreeze(t *testing.T) {
	type desired = coordination.DesiredPartition
	asked := func(partition int32) desired { return desired{Partition: partition, Reason: "asked"} }
	tests := []struct {
		name                                     string
		asked                                    desired
		live, liveReplicas, desired, updatedFrom int32
		want                                     desired
	}{
		{"at rest on the line", asked(3), 3, 5, 5, 3, desired{Partition: 3, Held: false, Reason: "paused; asked"}},
		{"finished", asked(0), 0, 5, 5, 0, desired{Partition: 0, Held: false, Reason: "paused; asked"}},
		{"lowered while paused", asked(0), 3, 5, 5, 3, desired{Partition: 3, Held: false, Reason: "paused: the partition stays at 3 instead of 0"}},
		{"raised while paused", asked(4), 3, 5, 5, 3, desired{Partition: 4, Held: false, Reason: "paused; asked"}},
		{"paused half way", asked(0), 0, 5, 5, 3, desired{Partition: 3, Held: false, Reason: "paused: the partition stays at 3 instead of 0; replicas that are not updated yet stay as they are"}},
		{"paused before the first has moved", asked(0), 0, 5, 5, 5, desired{Partition: 5, Held: false, Reason: "paused: the partition stays at 5 instead of 0; replicas that are not updated yet stay as they are"}},
		{"scaled up", asked(0), 3, 5, 8, 3, desired{Partition: 8, Held: false, Reason: "paused: the partition stays at 8 instead of 0; scaling from 5 to 8 releases nothing"}},
		{"after scaling up", asked(0), 8, 8, 8, 8, desired{Partition: 8, Held: false, Reason: "paused: the partition stays at 8 instead of 0"}},
		{"scaled up below an integer", asked(9), 3, 5, 8, 3, desired{Partition: 9, Held: false, Reason: "paused; asked"}},
		{"scaled up from an integer in force", asked(0), 9, 5, 8, 5, desired{Partition: 9, Held: false, Reason: "paused: the partition stays at 9 instead of 0"}},
		{"held by a rollout", asked(2), coordination.Held, 5, 5, 5, desired{Partition: coordination.Held, Reason: "paused: all replicas stay protected"}},
		{"scaled down with a share", asked(4), 8, 10, 5, 8, desired{Partition: 8, Held: false, Reason: "paused: the partition stays at 8 instead of 4"}},
		{"scaled down, updated ones stay", asked(1), 2, 10, 5, 2, desired{Partition: 2, Held: false, Reason: "paused: the partition stays at 2 instead of 1"}},
		{"all protected", asked(5), 5, 5, 5, 5, desired{Partition: 5, Held: false, Reason: "paused; asked"}},
		{"all protected and scaled down", asked(2), 5, 5, 2, 5, desired{Partition: 5, Held: false, Reason: "paused: the partition stays at 5 instead of 2"}},
		{"new child", asked(0), 0, 0, 3, 0, desired{Partition: 3, Held: false, Reason: "paused: the partition stays at 3 instead of 0; scaling from 0 to 3 releases nothing"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := coordination.Freeze(tt.asked, tt.live, tt.liveReplicas, tt.desired, tt.updatedFrom)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestBoundToTheBeginningOfAName: what people see of a name releases nothing, and the message has the whole one.
func TestBoundToTheBeginningOfAName(t *testing.T) {
	update := "web-" + known.Digest([]byte("v2"))
	m := &v1alpha1.ManualUpdate{Revision: known.Short(update), Partitions: map[string]intstr.IntOrString{"a": intstr.FromInt32(0)}}
	if bound := coordination.Bound(m, update); !strings.Contains(bound, "set manualUpdate.revision to "+update) {
		t.Error(bound)
	}
	m.Revision = update
	if bound := coordination.Bound(m, update); bound != "" {
		t.Error(bound)
	}
}
