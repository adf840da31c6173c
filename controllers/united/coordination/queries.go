// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/checks/promql"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// queryCanBeJudged reports whether the revision has an available replica, or may have one. Once there is a result, replicas that
// became unavailable do not put an end to it.
func queryCanBeJudged(c *coordinator, record *v1alpha1.CheckStatus) bool {
	return len(c.updatedPods(true)) > 0 || record != nil && len(c.updatedPods(false)) > 0 || c.mayBeUpdated()
}

// mayBeUpdated reports whether it is not known for the moment which available replicas run the update revision, because the
// controller of their child has not observed its spec.
func (c *coordinator) mayBeUpdated() bool {
	return slices.ContainsFunc(c.states, func(v *subsetState) bool {
		if v.Removed || v.Observed == nil || v.Observed.SpecObserved || v.revision != c.Update {
			return false
		}
		return slices.ContainsFunc(v.replicaStates, func(m replicaState) bool { return m.available && m.Position >= v.partition })
	})
}

// updatedPods returns the replicas that run the update revision, or those of them that are available.
func (c *coordinator) updatedPods(available bool) []known.CheckedPod {
	return c.pods(func(v *subsetState, m *replicaState) bool {
		return m.updated && !m.Terminating && !v.Removed && (m.available || !available)
	})
}

// pods returns replicas, sorted by name.
func (c *coordinator) pods(which func(*subsetState, *replicaState) bool) (pods []known.CheckedPod) {
	for _, v := range c.states {
		for i := range v.replicaStates {
			if m := &v.replicaStates[i]; which(v, m) {
				pods = append(pods, known.CheckedPod{Name: m.Name, Subset: v.Name, Version: m.Version})
			}
		}
	}
	slices.SortFunc(pods, func(a, b known.CheckedPod) int { return strings.Compare(a.Name, b.Name) })
	return pods
}

// askQuery asks about the available replicas that run the update revision, and about all that do not run it. Without any, the
// question remains as it was.
func askQuery(c *coordinator, _ *v1alpha1.RolloutCheck, _ *v1alpha1.CheckStatus) known.CheckAsk {
	if c.mayBeUpdated() {
		return known.CheckAsk{Reached: c.reached()}
	}
	ask := known.CheckAsk{Reached: c.reached(), Updated: c.updatedPods(true)}
	if len(ask.Updated) == 0 {
		ask.Updated = c.updatedPods(false)
	}
	ask.Others = c.pods(func(_ *subsetState, m *replicaState) bool { return !m.updated && !m.Terminating })
	return ask
}

func queryHasFailed(_ *coordinator, m *measured, _ *v1alpha1.CheckStatus) (bool, time.Time) {
	return m.seen.Misses >= max(m.ask.Check.Prometheus.FailureLimit, 1), time.Time{}
}

// checkQuery rejects a query whose placeholders could not be filled in, and limits that are no numbers.
func checkQuery(c *v1alpha1.PrometheusCheck, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	template, err := promql.Parse(c.Query)
	switch {
	case err != nil:
		errs = append(errs, field.Invalid(at.Child("query"), field.OmitValueType{}, err.Error()))
	case c.MaxRatio != "" && !template.Compares():
		errs = append(errs, field.Invalid(at.Child("maxRatio"), string(c.MaxRatio), "compares the updated replicas with the others, so the query must contain ${pods}, ${subset} or ${version}"))
	}
	if c.Min == "" && c.Max == "" && c.MaxRatio == "" {
		errs = append(errs, field.Required(at, "must have min, max or maxRatio"))
	}
	for name, value := range map[string]v1alpha1.Number{"min": c.Min, "max": c.Max, "maxRatio": c.MaxRatio} {
		if value != "" && numberOf(value) == nil {
			errs = append(errs, field.Invalid(at.Child(name), string(value), `must be a decimal number, such as "0.01"`))
		}
	}
	if least, most := numberOf(c.Min), numberOf(c.Max); least != nil && most != nil && *least > *most {
		errs = append(errs, field.Invalid(at.Child("min"), string(c.Min), "must not be greater than max: nothing would be met"))
	}
	if d, err := time.ParseDuration(c.Interval); c.Interval != "" && (err != nil || d < 5*time.Second) {
		errs = append(errs, field.Invalid(at.Child("interval"), c.Interval, `must be a duration of at least 5s, such as "30s"`))
	}
	return errs
}

// numberOf returns a finite number; nil for anything else.
func numberOf(text v1alpha1.Number) *float64 {
	number, err := strconv.ParseFloat(string(text), 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) {
		return nil
	}
	return &number
}

// NeedsVersion returns the first check that uses the label united.dev/version of the pods; "" if none does.
func NeedsVersion(s *v1alpha1.RollingUpdate) string {
	if s == nil {
		return ""
	}
	for i := range s.Checks {
		if c := s.Checks[i].Prometheus; c != nil {
			if template, err := promql.Parse(c.Query); err == nil && template.Uses(promql.Version) {
				return s.Checks[i].Name
			}
		}
	}
	return ""
}
