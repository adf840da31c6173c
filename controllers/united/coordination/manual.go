// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/percent"
)

// DesiredPartition is where the partition of one subset lies, and why.
type DesiredPartition struct {
	// Partition: the ordinals [0, Partition) are protected. It may be above the
	// replicas. Where the workload's ordinals do not start at 0, it counts
	// positions.
	Partition int32
	// Held: everything is protected, now and after any scaling. Partition is then what that
	// is at the moment.
	Held bool
	// Reason is one short phrase for status and events.
	Reason string
}

// Resolve is the partition that value puts on a subset with so many replicas:
// an integer as it is, also above them, a percentage of them rounded up. Replicas
// below 0 count as 0. A value that is negative, above "100%" or no percentage is
// an error that names it.
func Resolve(value intstr.IntOrString, replicas int32) (int32, error) {
	amount, err := percent.Parse(value)
	if err != nil {
		return 0, err
	}
	return resolve(amount, replicas), nil
}

func resolve(amount percent.Amount, replicas int32) int32 {
	if amount.IsPercent {
		return percent.Ceil(amount.Value, replicas)
	}
	return amount.Value
}

// Manual gives the partition that the user asks for in one subset. Without a strategy
// nothing is protected. A subset that partitions do not name takes the default
// partition; without that, in an object stored past the CRD's default, it is
// held. So naming or un-naming one subset changes no other.
//
// With an error, which names the field and the value, comes a partition that holds
// the subset: whoever goes on regardless releases nothing.
func Manual(m *v1alpha1.ManualUpdate, subset string, replicas int32) (DesiredPartition, error) {
	replicas = max(replicas, 0)
	if m == nil {
		return DesiredPartition{Partition: 0, Reason: "manualUpdate is not set, so nothing is protected"}, nil
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

// effect is such as `"80%" of 10 replicas protects 8`. "100%" is a hold: everything is
// protected now and after any scaling. An integer is none, for scaling can outgrow it.
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

// plural is "1 replica", "2 replicas".
func plural(n int64, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %ss", n, one)
}
