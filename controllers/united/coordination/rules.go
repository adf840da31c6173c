// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/percent"
)

// rules are the strategy in numbers.
type rules struct {
	floor          percent.Amount
	maxUnavailable int64
	// perSubset is maxUnavailablePerSubset; nil means no bound.
	perSubset *intstr.IntOrString
	// maxSkew is a percentage; -1 means no bound.
	maxSkew int64
	// skewed are the subsets that maxSkew binds; if it is empty, all of them.
	skewed     []string
	sequential bool
	// steps are the steps of the rollout; none when going back. written is how many the user wrote.
	steps            []step
	written          int32
	forced, promoted bool
}

// step is one step in numbers.
type step struct {
	v1alpha1.RolloutStep
	partition percent.Amount
	pause     time.Duration
}

var everything = percent.Amount{Value: 100, IsPercent: true}

// readRules parses the strategy. A field that cannot be parsed holds everything; Check has rejected it before.
func readRules(in Input) rules {
	s := in.Strategy
	if s == nil {
		s = &v1alpha1.RollingUpdate{}
	}
	total := int64(0)
	for _, sub := range in.Subsets {
		total += int64(sub.Desired - sub.Reserved)
	}
	r := rules{
		floor:          amountOr(s.Partition, percent.Amount{}, everything),
		maxUnavailable: unavailableOf(s.MaxUnavailable, total),
		perSubset:      s.MaxUnavailablePerSubset,
		maxSkew:        -1,
		skewed:         s.MaxSkewSubsets,
		written:        int32(len(s.Steps)),
		sequential:     s.Order == v1alpha1.SequentialOrder,
		forced:         Counts(in.Spent, v1alpha1.AnnotationForceUpdate, in.Forced, in.Update),
		promoted:       Counts(in.Spent, v1alpha1.AnnotationPromote, in.Promoted, in.Update),
	}
	if amount, err := percent.Parse(intstr.FromString(s.MaxSkew)); s.MaxSkew != "" {
		r.maxSkew = 0 // if it cannot be parsed
		if err == nil {
			r.maxSkew = int64(amount.Value)
		}
	}
	if in.GoesBack {
		return r // steps guard only what is new
	}
	for i := range s.Steps {
		st := step{RolloutStep: s.Steps[i], partition: amountOr(s.Steps[i].Partition, everything, everything)}
		if st.Pause != nil && st.Pause.Duration != "" {
			if d, err := time.ParseDuration(st.Pause.Duration); err == nil && d > 0 {
				st.pause = d // otherwise it waits for approval
			}
		}
		r.steps = append(r.steps, st)
	}
	return r
}

func amountOr(value *intstr.IntOrString, absent, malformed percent.Amount) percent.Amount {
	if value == nil {
		return absent
	}
	amount, err := percent.Parse(*value)
	if err != nil {
		return malformed
	}
	return amount
}

// unavailableOf returns maxUnavailable as a number of replicas: a percentage is rounded down, and it is at least
// 1.
func unavailableOf(value *intstr.IntOrString, total int64) int64 {
	amount := amountOr(value, percent.Amount{Value: 1}, percent.Amount{Value: 1})
	if amount.IsPercent {
		return max(1, percent.FloorOf(amount.Value, total))
	}
	return max(1, int64(amount.Value))
}

// unavailablePerSubset returns how many replicas of a subset with the given number of replicas may be unavailable.
func (r *rules) unavailablePerSubset(replicas int32) int64 {
	if r.perSubset == nil {
		return math.MaxInt64
	}
	return unavailableOf(r.perSubset, int64(replicas))
}

// MaxUnavailable returns the maxUnavailable of a workload as a number of its replicas; nil is 1.
func MaxUnavailable(value *intstr.IntOrString, replicas int32) int {
	return int(unavailableOf(value, int64(replicas)))
}

// bindsSkew reports whether maxSkew binds a subset.
func (r *rules) bindsSkew(subset string) bool {
	return r.maxSkew >= 0 && (len(r.skewed) == 0 || slices.Contains(r.skewed, subset))
}

// mustAllowOne is also the message of the CRD. A "0%" that was stored before the CRD rejected it counts as 1, as
// it always has.
const mustAllowOne = `must be a whole number from 1 to 2147483647 or a percentage from "1%" to "100%": with 0 no replica could ever be updated`

// Check returns the errors of a strategy: fields that cannot be parsed, or that make no sense. at is its path;
// known reports whether a subset with the name exists.
func Check(s *v1alpha1.RollingUpdate, known func(name string) bool, at *field.Path) field.ErrorList {
	if s == nil {
		return field.ErrorList{field.Required(at, "with type RollingUpdate: {} rolls out without steps")}
	}
	var errs field.ErrorList
	amount := func(value *intstr.IntOrString, at *field.Path) {
		if value == nil {
			return
		}
		if _, err := percent.Parse(*value); err != nil {
			errs = append(errs, field.Invalid(at, value.String(), err.Error()))
		}
	}
	amount(s.Partition, at.Child("partition"))
	errs = append(errs, checkAllowsOne(s.MaxUnavailable, at.Child("maxUnavailable"))...)
	errs = append(errs, checkAllowsOne(s.MaxUnavailablePerSubset, at.Child("maxUnavailablePerSubset"))...)
	switch s.Order {
	case "", v1alpha1.ParallelOrder, v1alpha1.SequentialOrder:
	default:
		errs = append(errs, field.NotSupported(at.Child("order"), s.Order, []v1alpha1.RolloutOrder{v1alpha1.ParallelOrder, v1alpha1.SequentialOrder}))
	}
	if s.MaxSkew != "" {
		value := intstr.FromString(s.MaxSkew)
		amount(&value, at.Child("maxSkew"))
		if s.Order == v1alpha1.SequentialOrder {
			errs = append(errs, field.Forbidden(at.Child("maxSkew"), "cannot be used with order Sequential, which updates one subset after the other"))
		}
	}
	errs = append(errs, checkSkewSubsets(s, known, at.Child("maxSkewSubsets"))...)
	for i := range s.Steps {
		errs = append(errs, checkStep(&s.Steps[i], known, at.Child("steps").Index(i))...)
		amount(s.Steps[i].Partition, at.Child("steps").Index(i).Child("partition"))
	}
	return append(errs, checkChecks(s.Checks, at.Child("checks"))...)
}

// checkChecks rejects checks that could not be measured, or told apart.
func checkChecks(checks []v1alpha1.RolloutCheck, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range checks {
		c := &checks[i]
		if names[c.Name] {
			errs = append(errs, field.Duplicate(at.Index(i).Child("name"), c.Name))
		}
		names[c.Name] = true
		members := 0
		for _, has := range []bool{c.ObjectCondition != nil, c.Prometheus != nil, c.Job != nil, c.Analysis != nil} {
			if has {
				members++
			}
		}
		switch {
		case members != 1:
			errs = append(errs, field.Required(at.Index(i), "must have exactly one member besides name: objectCondition, prometheus, job or analysis"))
		case c.Prometheus != nil:
			errs = append(errs, checkQuery(c.Prometheus, at.Index(i).Child("prometheus"))...)
		case c.ObjectCondition != nil:
			if _, err := schema.ParseGroupVersion(c.ObjectCondition.APIVersion); err != nil {
				errs = append(errs, field.Invalid(at.Index(i).Child("objectCondition", "apiVersion"), c.ObjectCondition.APIVersion, err.Error()))
			}
		}
	}
	return errs
}

// checkAllowsOne rejects a bound that would not allow updating any replica.
func checkAllowsOne(value *intstr.IntOrString, at *field.Path) field.ErrorList {
	if value == nil {
		return nil
	}
	if n, err := percent.Parse(*value); err != nil || n == (percent.Amount{}) {
		return field.ErrorList{field.Invalid(at, value.String(), mustAllowOne)}
	}
	return nil
}

func checkSkewSubsets(s *v1alpha1.RollingUpdate, known func(name string) bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.MaxSkewSubsets) > 0 && s.MaxSkew == "" {
		errs = append(errs, field.Forbidden(at, "is only for maxSkew: set maxSkew, or remove it, because it limits nothing by itself"))
	}
	for _, name := range s.MaxSkewSubsets {
		if !known(name) {
			errs = append(errs, field.NotFound(at, name))
		}
	}
	return errs
}

func checkStep(s *v1alpha1.RolloutStep, known func(name string) bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.Subsets) == 0 {
		errs = append(errs, field.Required(at.Child("subsets"), `names the subsets that the step releases, or "*" alone for all`))
	}
	if s.Partition == nil {
		errs = append(errs, field.Required(at.Child("partition"), "is how far the step releases its subsets"))
	}
	if len(s.Subsets) > 1 && slices.Contains(s.Subsets, v1alpha1.AllSubsets) {
		errs = append(errs, field.Invalid(at.Child("subsets"), s.Subsets, `"*" means all subsets: it must be the only entry`))
	}
	for _, name := range s.Subsets {
		if name != v1alpha1.AllSubsets && !known(name) {
			errs = append(errs, field.NotFound(at.Child("subsets"), name))
		}
	}
	if s.Pause != nil && s.Pause.Duration != "" {
		if d, err := time.ParseDuration(s.Pause.Duration); err != nil || d <= 0 {
			errs = append(errs, field.Invalid(at.Child("pause", "duration"), s.Pause.Duration, `must be a positive duration such as "10m"`))
		}
	}
	return errs
}

// names reports whether the step moves a subset.
func (s *step) names(subset string) bool {
	return slices.Contains(s.Subsets, subset) || slices.Contains(s.Subsets, v1alpha1.AllSubsets)
}

// target returns the partition to which the step brings a subset with the given number of replicas, regardless of
// the user's floor. Anything but 100% releases at least one replica: a step that releases none would be passed, and approved,
// all the same.
func (s *step) target(replicas int32) int32 {
	partition := resolve(s.partition, replicas)
	if s.partition != everything && replicas > 0 {
		return min(partition, replicas-1)
	}
	return partition
}

// floorOf returns the partition that the user asks for in a subset.
func (r *rules) floorOf(replicas int32) DesiredPartition {
	partition := resolve(r.floor, replicas)
	return DesiredPartition{Partition: partition, Held: r.floor == everything, Reason: "partition " + effect(r.floor, partition, replicas)}
}

// Floor returns the partition of a subset once the rollout is complete.
func Floor(s *v1alpha1.RollingUpdate, replicas int32) DesiredPartition {
	r := readRules(Input{Strategy: s})
	return r.floorOf(max(replicas, 0))
}
