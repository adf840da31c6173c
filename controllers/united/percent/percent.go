// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package percent parses the "number or percentage" values of the API and rounds percentages of
// replicas. Nothing else does either, so allocation, coordination and the checks that repeat
// admission cannot disagree about the meaning of "80%".
//
// It does not use intstr.GetScaledValueFromIntOrPercent, which rounds in floating point and accepts
// "-1%", "+5%", "050%" and "900%".
package percent

import (
	"fmt"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"
)

// Amount is a well-formed value: a number of replicas, or a percentage of them.
type Amount struct {
	// Value is 0 to MaxInt32 for a number, 0 to 100 for a percentage.
	Value int32
	// IsPercent is true if Value is a percentage.
	IsPercent bool
}

// Parse parses a value as admission accepts it: a number of at least 0, or a percentage from "0%" to
// "100%" in decimal digits without sign, blank, fraction or leading zero. The error contains the
// value, truncated to a length that fits into a condition.
func Parse(value intstr.IntOrString) (Amount, error) {
	switch {
	case value.Type == intstr.Int && value.IntVal >= 0:
		return Amount{Value: value.IntVal}, nil
	case value.Type == intstr.String:
		if p, ok := parsePercent(value.StrVal); ok {
			return Amount{Value: p, IsPercent: true}, nil
		}
		return Amount{}, malformed(fmt.Sprintf("%.40q", value.StrVal))
	default:
		return Amount{}, malformed(strconv.Itoa(int(value.IntVal)))
	}
}

func malformed(value string) error {
	return fmt.Errorf(`%s is neither a number of at least 0 nor a percentage from "0%%" to "100%%"`, value)
}

func parsePercent(s string) (int32, bool) {
	digits, found := strings.CutSuffix(s, "%")
	if !found {
		return 0, false
	}
	p, err := strconv.ParseInt(digits, 10, 32)
	if err != nil || p < 0 || p > 100 {
		return 0, false
	}
	// Accept only the canonical spelling: ParseInt also accepts "+5", "-0" and "050".
	return int32(p), strconv.FormatInt(p, 10) == digits
}

// String is the value as the user wrote it: 3 or "80%", the latter quoted.
func (a Amount) String() string {
	if a.IsPercent {
		return fmt.Sprintf(`"%d%%"`, a.Value)
	}
	return strconv.Itoa(int(a.Value))
}

// Ceil returns ceil(percent * replicas / 100), exactly, for a percent of 0 to 100. Replicas below 0
// count as 0.
func Ceil(percent, replicas int32) int32 {
	return int32((int64(percent)*int64(max(replicas, 0)) + 99) / 100)
}

// FloorOf is Floor for a total that may be above MaxInt32.
func FloorOf(percent int32, total int64) int64 { return int64(percent) * max(total, 0) / 100 }

// Floor returns floor(percent * replicas / 100), exactly, for a percent of 0 to 100. Replicas below 0
// count as 0.
func Floor(percent, replicas int32) int32 {
	return max(replicas, 0) - Ceil(100-percent, replicas)
}
