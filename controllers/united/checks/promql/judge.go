// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package promql

import (
	"errors"
	"fmt"
	"math"
	"strconv"
)

// Limits are what a check asks of a value; nil is not asked for.
type Limits struct{ Min, Max, MaxRatio *float64 }

// Verdict is the result of a comparison.
type Verdict int

// Verdicts.
const (
	NoData Verdict = iota
	NotMet
	Met
)

// Judge compares the value of the replicas that are updated with the limits, and with the value of the others. nil and NaN are
// no data. hasBaseline: there are others. The text has the values. It is an error if they cannot be compared.
func Judge(candidate, baseline *float64, hasBaseline bool, l Limits) (Verdict, string, error) {
	if isNoData(candidate) {
		return NoData, "no data for the updated replicas", nil
	}
	value := *candidate
	switch {
	case l.Max != nil && value > *l.Max:
		return NotMet, number(value) + ", at most " + number(*l.Max), nil
	case l.Min != nil && value < *l.Min:
		return NotMet, number(value) + ", at least " + number(*l.Min), nil
	case l.MaxRatio == nil || !hasBaseline:
		return Met, number(value), nil
	case isNoData(baseline):
		return NoData, "no data for the replicas that are not updated", nil
	}
	other := *baseline
	switch most := *l.MaxRatio * other; {
	case other < 0 || math.IsInf(other, 0):
		return NoData, "", errors.New("maxRatio cannot compare with what the replicas that are not updated have, " + number(other))
	case other == 0 && l.Max != nil:
		// max was judged above
	case other == 0 && value != 0:
		return NotMet, number(value) + ", and 0 for the replicas that are not updated", nil
	case other != 0 && value > most:
		return NotMet, fmt.Sprintf("%s, at most %s times %s of the replicas that are not updated", number(value), number(*l.MaxRatio), number(other)), nil
	}
	return Met, fmt.Sprintf("%s, and %s for the replicas that are not updated", number(value), number(other)), nil
}

func isNoData(value *float64) bool { return value == nil || math.IsNaN(*value) }

// number writes a value for people, with four digits that count.
func number(value float64) string { return strconv.FormatFloat(value, 'g', 4, 64) }
