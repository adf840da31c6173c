// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/percent"
)

// DesiredPartition is the partition of one subset, and why.
type DesiredPartition struct {
	// Partition: the ordinals [0, Partition) are protected. It may be greater than the number of replicas. If the
	// workload's ordinals do not start at 0, it counts positions.
	Partition int32
	// Held: everything is protected, now and after any scaling. Partition is then the current number for that.
	Held bool
	// Reason is one short phrase for status and events.
	Reason string
}

func resolve(amount percent.Amount, replicas int32) int32 {
	if amount.IsPercent {
		return percent.Ceil(amount.Value, replicas)
	}
	return amount.Value
}

// Manual returns the partition that the user asks for in one subset. A subset that partitions does not name gets the
// default partition. Without that, or without any manualUpdate, it is held. So naming one subset, or no longer naming it,
// changes no other.
//
// With an error, which names the field and the value, it returns a partition that holds the subset, so that
// callers that ignore the error release nothing.
func Manual(m *v1alpha1.ManualUpdate, subset string, replicas int32) (DesiredPartition, error) {
	replicas = max(replicas, 0)
	if m == nil {
		m = &v1alpha1.ManualUpdate{}
	}
	value, named := m.Partitions[subset]
	field, word := fmt.Sprintf("partitions[%s]", subset), "partition"
	if !named {
		value = defaultPartition(m)
		field, word = "defaultPartition", "default partition"
	}
	amount, err := percent.Parse(value)
	if err != nil {
		return DesiredPartition{Partition: replicas, Held: true, Reason: "malformed " + word + " holds all replicas"},
			fmt.Errorf("spec.updateStrategy.manualUpdate.%s: %w", field, err)
	}
	partition := resolve(amount, replicas)
	return DesiredPartition{Partition: partition, Held: amount == everything, Reason: word + " " + effect(amount, partition, replicas)}, nil
}

func defaultPartition(m *v1alpha1.ManualUpdate) intstr.IntOrString {
	if m.DefaultPartition == nil {
		return intstr.FromString("100%")
	}
	return *m.DefaultPartition
}

// effect returns a text such as `"80%" of 10 replicas protects 8`. "100%" is a hold: everything is protected now
// and after any scaling. An integer is not a hold, because scaling can exceed it.
func effect(amount percent.Amount, partition, replicas int32) string {
	switch {
	case amount == everything:
		return amount.String() + " holds all replicas"
	case replicas > 0 && partition >= replicas:
		return fmt.Sprintf("%s of %s protects all", amount, plural(int64(replicas), "replica"))
	default:
		return fmt.Sprintf("%s of %s protects %d", amount, plural(int64(replicas), "replica"), min(partition, replicas))
	}
}

// plural returns "1 replica" or "2 replicas".
func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
