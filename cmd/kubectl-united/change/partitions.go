// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package change says how a spec changes when somebody releases, holds, or goes back. It is pure.
package change

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/coordination"
	"github.com/unitedworkloads/united/controllers/united/percent"
	"github.com/unitedworkloads/united/controllers/united/world"
)

// Partition is the partition of a subset, and what that means.
type Partition struct {
	Subset string
	Value  intstr.IntOrString
	Text   string
	// Hint says what else the user should know; "" for nothing.
	Hint string
}

// everything holds a subset, also when it grows.
var everything = intstr.FromString("100%")

// Release returns the partition that releases a subset: all of it without a value, otherwise a percentage or a number of its
// replicas. canary releases one.
func Release(parent *v1alpha1.UnitedDeployment, subset, value string, canary bool) (Partition, error) {
	replicas := replicasOf(parent, subset)
	switch {
	case canary && value != "":
		return Partition{}, fmt.Errorf("%s=%s: --canary releases one replica of each subset, so it takes no value", subset, value)
	case canary:
		return Canary(subset, replicas)
	case value == "":
		return described(subset, intstr.FromInt32(0), replicas)
	}
	amount, err := amountOf(subset, value)
	if err != nil {
		return Partition{}, err
	}
	if amount.Type == intstr.String {
		share, _ := strconv.Atoi(strings.TrimSuffix(amount.StrVal, "%"))
		p, err := described(subset, intstr.FromString(fmt.Sprintf("%d%%", 100-share)), replicas)
		if least, _ := exactly(subset, 1, replicas); err == nil && share > 0 && share < 100 && strings.Contains(p.Text, " releases 0 of ") && least.Value.Type == intstr.String {
			highest, _ := strconv.Atoi(strings.TrimSuffix(least.Value.StrVal, "%"))
			p.Hint = fmt.Sprintf("the least that releases one is %s=%d%%", subset, 100-highest)
		}
		return p, err
	}
	if amount.IntVal > replicas {
		return Partition{}, fmt.Errorf("%s=%s: it must be at most %d, the replicas of the subset", subset, value, replicas)
	}
	return exactly(subset, amount.IntVal, replicas)
}

// Canary returns the partition that releases one replica.
func Canary(subset string, replicas int32) (Partition, error) {
	if replicas == 0 {
		return Partition{}, fmt.Errorf("%s has no replicas, so there is nothing to release", subset)
	}
	return exactly(subset, 1, replicas)
}

// exactly returns the highest percentage that releases so many replicas, because a number releases more when the subset grows; a
// number only where there is none.
func exactly(subset string, amount, replicas int32) (Partition, error) {
	if amount == 0 {
		return described(subset, everything, replicas)
	}
	for share := int32(99); share >= 0; share-- {
		value := intstr.FromString(fmt.Sprintf("%d%%", share))
		protected, err := protects(value, replicas)
		if err != nil {
			return Partition{}, err
		}
		switch released := replicas - protected; {
		case released == amount:
			return described(subset, value, replicas)
		case released > amount: // no percentage is fine enough
			p, err := described(subset, intstr.FromInt32(replicas-amount), replicas)
			p.Text += fmt.Sprintf(" (a number, because no percentage releases %d of so many: when the subset grows, it releases more)", amount)
			return p, err
		}
	}
	return described(subset, intstr.FromInt32(0), replicas)
}

// Set returns a partition as it was written.
func Set(parent *v1alpha1.UnitedDeployment, subset, value string) (Partition, error) {
	if value == "" {
		return Partition{}, fmt.Errorf("%s: write the partition, such as %s=0 or %s=50%%", subset, subset, subset)
	}
	amount, err := amountOf(subset, value)
	if err != nil {
		return Partition{}, err
	}
	return described(subset, amount, replicasOf(parent, subset))
}

// amountOf reads a number or a percentage.
func amountOf(subset, value string) (intstr.IntOrString, error) {
	amount := intstr.Parse(value)
	if _, err := percent.Parse(amount); err != nil {
		return amount, fmt.Errorf("%s=%s: it must be a whole number from 0, or a percentage from 0%% to 100%%", subset, value)
	}
	return amount, nil
}

func described(subset string, value intstr.IntOrString, replicas int32) (Partition, error) {
	protected, err := protects(value, replicas)
	if err != nil {
		return Partition{}, err
	}
	text := value.String()
	if value.Type == intstr.String {
		text = strconv.Quote(text)
	}
	return Partition{Subset: subset, Value: value, Text: fmt.Sprintf("partition %s releases %d of %d replicas of %s", text, replicas-protected, replicas, subset)}, nil
}

// protects returns how many of the replicas of a subset a partition protects.
func protects(value intstr.IntOrString, replicas int32) (int32, error) {
	p, err := coordination.Manual(&v1alpha1.ManualUpdate{DefaultPartition: &value}, "", replicas, "")
	return min(p.Partition, replicas), err
}

func replicasOf(parent *v1alpha1.UnitedDeployment, subset string) int32 {
	if status := world.SubsetStatus(&parent.Status, subset); status != nil {
		return status.DesiredReplicas
	}
	return 0
}

// With returns manualUpdate with other partitions.
func With(was *v1alpha1.ManualUpdate, partitions []Partition) *v1alpha1.ManualUpdate {
	after := &v1alpha1.ManualUpdate{}
	if was != nil {
		after = was.DeepCopy()
	}
	if after.Partitions == nil {
		after.Partitions = map[string]intstr.IntOrString{}
	}
	for _, p := range partitions {
		after.Partitions[p.Subset] = p.Value
	}
	return after
}

// Bound returns manualUpdate with partitions that are bound to the update revision. Partitions that are in effect for that revision
// stay; those for another one do not come along, because they would open the zones of the last rollout.
func Bound(parent *v1alpha1.UnitedDeployment, partitions []Partition) *v1alpha1.ManualUpdate {
	was, update := parent.Spec.UpdateStrategy.ManualUpdate, parent.Status.UpdateRevision
	if was != nil && was.Revision != "" && was.Revision != update {
		was = nil
	}
	after := With(was, partitions)
	after.Revision = update
	return after
}

// Hold returns manualUpdate with subsets held; all of them if none is named. It never binds.
func Hold(parent *v1alpha1.UnitedDeployment, subsets []string) *v1alpha1.ManualUpdate {
	var held []Partition
	for _, name := range subsets {
		held = append(held, Partition{Subset: name, Value: everything})
	}
	after := With(parent.Spec.UpdateStrategy.ManualUpdate, held)
	if len(subsets) == 0 {
		after.Partitions, after.DefaultPartition = nil, &everything
	}
	return after
}
