// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package promql

import (
	"math"
	"testing"
)

func TestJudge(t *testing.T) {
	const others = " replicas that are not updated"
	inf, nan := math.Inf(1), math.NaN()
	most, least, ratio := Limits{Max: new(0.01)}, Limits{Min: new(10.0)}, Limits{MaxRatio: new(1.2)}
	both, all := Limits{Max: new(0.01), MaxRatio: new(1.2)}, Limits{Min: new(-1.0), Max: new(5.0), MaxRatio: new(2.0)}
	for name, test := range map[string]struct {
		value, baseline *float64
		last            bool // no replica is left that is not updated
		limits          Limits
		want            Verdict
		text            string
	}{
		"at the maximum":       {new(0.01), nil, true, most, Met, "0.01"},
		"above it":             {new(0.034), nil, true, most, NotMet, "0.034, at most 0.01"},
		"negative":             {new(-3.0), nil, true, most, Met, "-3"},
		"infinite":             {&inf, nil, true, most, NotMet, "+Inf, at most 0.01"},
		"at the minimum":       {new(10.0), nil, true, least, Met, "10"},
		"below it":             {new(9.99), nil, true, least, NotMet, "9.99, at least 10"},
		"negative, a minimum":  {new(-0.123456), nil, true, least, NotMet, "-0.1235, at least 10"},
		"infinite, a minimum":  {&inf, nil, true, least, Met, "+Inf"},
		"nothing":              {nil, new(1.0), false, both, NoData, "no data for the updated replicas"},
		"not a number":         {&nan, new(1.0), false, both, NoData, "no data for the updated replicas"},
		"at the ratio":         {new(12.0), new(10.0), false, ratio, Met, "12, and 10 for the" + others},
		"above it, compared":   {new(12.1), new(10.0), false, ratio, NotMet, "12.1, at most 1.2 times 10 of the" + others},
		"infinite, compared":   {&inf, new(10.0), false, ratio, NotMet, "+Inf, at most 1.2 times 10 of the" + others},
		"no baseline":          {new(12.1), nil, true, ratio, Met, "12.1"},
		"no baseline, but max": {new(12.1), nil, true, both, NotMet, "12.1, at most 0.01"},
		"baseline 0":           {new(0.001), new(0.0), false, ratio, NotMet, "0.001, and 0 for the" + others},
		"both 0":               {new(0.0), new(0.0), false, ratio, Met, "0, and 0 for the" + others},
		"below 0, baseline 0":  {new(-1.0), new(0.0), false, ratio, NotMet, "-1, and 0 for the" + others},
		"baseline 0, max":      {new(0.001), new(0.0), false, both, Met, "0.001, and 0 for the" + others},
		"baseline 0, above":    {new(0.02), new(0.0), false, both, NotMet, "0.02, at most 0.01"},
		"baseline without":     {new(0.001), nil, false, ratio, NoData, "no data for the" + others},
		"baseline NaN":         {new(0.001), &nan, false, ratio, NoData, "no data for the" + others},
		"above max, no other":  {new(0.02), nil, false, both, NotMet, "0.02, at most 0.01"},
		"all limits":           {new(4.0), new(2.0), false, all, Met, "4, and 2 for the" + others},
		"all limits, ratio":    {new(4.1), new(2.0), false, all, NotMet, "4.1, at most 2 times 2 of the" + others},
	} {
		if got, text, err := Judge(test.value, test.baseline, !test.last, test.limits); got != test.want || text != test.text || err != nil {
			t.Errorf("%s: %d %q %v", name, got, text, err)
		}
	}
	for _, baseline := range []float64{-5, inf, -inf} {
		if got, _, err := Judge(new(-5.0), &baseline, true, ratio); got != NoData || err == nil {
			t.Errorf("baseline %v: %d %v", baseline, got, err)
		}
	}
}
