// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"
	"maps"
	"regexp"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxQuantityLength bounds the text of a quantity. The API server writes at most 30 characters.
const maxQuantityLength = 64

// hugeExponent matches an exponent of four digits or more. A quantity has at most 18 decimal places on either side.
var hugeExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3,}$`)

// checkQuantities rejects quantities that take seconds to parse: with an exponent of millions, which the schema of a
// pod allows, each parsing works with a number of that many digits, in the API server and here. Quantities are
// recognized by their path: below requests, limits, overhead or capacity, or a sizeLimit or divisor; quantity is true
// if v is at such a path. The time is linear in the size of v.
func checkQuantities(v any, at *field.Path, quantity bool) *field.Error {
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			child, text := at.Child(key), isQuantity(key)
			if _, ok := v[key].(string); ok && quantity {
				child, text = at.Key(key), true
			}
			if err := checkQuantities(v[key], child, text); err != nil {
				return err
			}
		}
	case []any:
		for i := range v {
			if err := checkQuantities(v[i], at.Index(i), false); err != nil {
				return err
			}
		}
	case string:
		if quantity && (len(v) > maxQuantityLength || hugeExponent.MatchString(v)) {
			return field.Invalid(at, shortened(v), fmt.Sprintf("must be a quantity of at most %d characters, with an exponent below 1000", maxQuantityLength))
		}
	}
	return nil
}

// isQuantity reports whether the value of a key is a quantity, or an object of quantities.
func isQuantity(key string) bool {
	return slices.Contains([]string{"requests", "limits", "overhead", "capacity", "sizeLimit", "divisor"}, key)
}

func shortened(text string) string {
	if len(text) <= maxQuantityLength {
		return text
	}
	return text[:maxQuantityLength] + "..."
}
