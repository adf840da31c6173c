// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
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
	// Value is the value that is in effect.
	Value percent.Amount
}

func resolve(amount percent.Amount, replicas int32) int32 {
	if amount.IsPercent {
		return percent.Ceil(amount.Value, replicas)
	}
	return amount.Value
}

// Manual returns the partition that the user asks for in one subset. A subset that partitions does not name gets the
// default partition. Without that, or without any manualUpdate, it is held. So naming one subset, or no longer naming it,
// changes no other. If the partitions are bound to a revision, they hold everything from another one; update is the name of
// the update revision, and "" as long as nothing needs protection.
//
// With an error, which names the field and the value, it returns a partition that holds the subset, so that
// callers that ignore the error release nothing.
func Manual(m *v1alpha1.ManualUpdate, subset string, replicas int32, update string) (DesiredPartition, error) {
	replicas = max(replicas, 0)
	written, word := manualApplies(m, subset, update), "partition"
	if !written.Named {
		word = "default partition"
	}
	amount, err := percent.Parse(written.Value)
	if err != nil {
		return DesiredPartition{Partition: replicas, Held: true, Reason: "malformed " + word + " holds all replicas", Value: everything},
			fmt.Errorf("spec.updateStrategy.manualUpdate.%s: %w", written.Field, err)
	}
	if written.Bound != "" {
		return DesiredPartition{Partition: replicas, Held: true, Reason: written.Bound, Value: everything}, nil
	}
	partition := resolve(amount, replicas)
	return DesiredPartition{Partition: partition, Held: amount == everything, Reason: word + " " + effect(amount, partition, replicas), Value: amount}, nil
}

// Scaled returns the partition with what scaling protects: scaling releases nothing. was is what was last asked for; nil if
// nothing was. samePods: the update revision makes the same pods as then. runsUpdate reports whether a replica exists at a
// position, and runs the update revision.
//
// A percentage is the share of the present replicas when the pods of the update revision change, or the value does, unless
// it rose from a lower percentage. In all other cases, replicas that were protected, and still exist, stay protected; new
// ones are protected according to the share. A replica that is missing at the moment counts as one that exists. "0%" means the
// same at every scale, as a number does.
func (l DesiredPartition) Scaled(was *known.Asked, samePods bool, replicas int32, runsUpdate func(position int32) bool) DesiredPartition {
	if was == nil || !samePods || !l.Value.IsPercent || l.Value.Value == 0 || was.Value != l.ValueText() && !roseFrom(was.Value, l.Value) {
		return l
	}
	kept := was.Partition
	if was.Replicas != replicas || was.Value != l.ValueText() {
		kept = min(was.Partition, was.Replicas, replicas)
		for kept > 0 && runsUpdate(kept-1) {
			kept--
		}
	}
	if kept > l.Partition {
		l.Reason += fmt.Sprintf(", but scaling releases nothing, so %d stay protected: to release, write %d", kept, l.Partition)
		l.Partition = kept
	}
	return l
}

// ValueText returns the value that is in effect as the user writes it: "50%", or "2".
func (l DesiredPartition) ValueText() string {
	if l.Value.IsPercent {
		return fmt.Sprintf("%d%%", l.Value.Value)
	}
	return fmt.Sprint(l.Value.Value)
}

// roseFrom reports whether a percentage was lower before.
func roseFrom(before string, now percent.Amount) bool {
	was, err := percent.Parse(intstr.FromString(before))
	return err == nil && was.IsPercent && was.Value < now.Value
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

// GoingBack is the partition of a subset that goes back to what it protects, or to what all replicas ran last.
func GoingBack(update string) DesiredPartition {
	return DesiredPartition{Reason: "going back to " + update + ": partitions protect nothing from it"}
}
