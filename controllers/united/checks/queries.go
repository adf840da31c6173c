// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package checks

import (
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/checks/promql"
	"github.com/unitedworkloads/united/controllers/united/checks/queries"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// What the CRD has as defaults, for an object that was stored without them.
const defaultInterval = 30 * time.Second

// askQueries measures the queries among what is asked of a parent, and no others of it.
func (r *Runner) askQueries(parent types.NamespacedName, asks []known.CheckAsk) {
	var list []queries.Ask
	for i := range asks {
		if asks[i].Check.Prometheus != nil {
			list = append(list, queryOf(parent, &asks[i]))
		}
	}
	r.queries.Ask(parent, list)
}

// queryOf returns what is to be measured for a check.
func queryOf(parent types.NamespacedName, ask *known.CheckAsk) queries.Ask {
	c := ask.Check.Prometheus
	limits := promql.Limits{Min: numberOf(c.Min), Max: numberOf(c.Max), MaxRatio: numberOf(c.MaxRatio)}
	interval, err := time.ParseDuration(c.Interval)
	if err != nil || interval <= 0 {
		interval = defaultInterval
	}
	q := queries.Ask{
		Check: ask.Check.Name, Round: ask.Round, Reached: ask.Reached, Server: c.Server, Query: c.Query, Interval: interval, Limits: limits,
		Candidate: valuesOf(parent, ask.Updated), NoDataPasses: c.NoData == v1alpha1.PassWithoutData,
	}
	if limits.MaxRatio != nil && len(ask.Others) > 0 {
		baseline := valuesOf(parent, ask.Others)
		q.Baseline = &baseline
	}
	return q
}

func valuesOf(parent types.NamespacedName, pods []known.CheckedPod) promql.Values {
	v := promql.Values{Namespace: parent.Namespace, Name: parent.Name}
	for _, pod := range pods {
		v.Pods, v.Subsets, v.Versions = append(v.Pods, pod.Name), append(v.Subsets, pod.Subset), append(v.Versions, pod.Version)
	}
	return v
}

// numberOf returns a number; nil if it is not given. Admission has refused what is none.
func numberOf(n v1alpha1.Number) *float64 {
	value, err := strconv.ParseFloat(string(n), 64)
	if err != nil {
		return nil
	}
	return &value
}

// queryResults adds the results of queries to those of a parent.
func (r *Runner) queryResults(parent types.NamespacedName, results map[string]known.CheckResult) {
	for name, q := range r.queries.Results(parent) {
		results[name] = known.CheckResult{
			Round: q.Round, Reached: q.Reached, Seen: true, Met: q.Verdict == promql.Met, Unjudged: q.Verdict == promql.NoData,
			Message: q.Message, Refused: q.Refused, Misses: q.Misses,
		}
	}
}
