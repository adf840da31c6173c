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

// maxQuantityLength is how long the text of a quantity may be. The API server writes none that is longer than 30.
const maxQuantityLength = 64

// hugeExponent is an exponent of four digits or more. A quantity has 18 decimal places at most on either side.
var hugeExponent = regexp.MustCompile(`[eE][+-]?0*[1-9][0-9]{3,}$`)

// checkQuantities refuses quantities that take seconds to read: with an exponent of millions, which the schema of a
// pod allows, each reading of one works with a number of as many digits, in the API server and here. They are
// told by where they are: beneath requests, limits, overhead or capacity, or a sizeLimit or divisor; quantity says that v is
// there. Linear in the size of v.
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

// isQuantity reports whether what is at a key is a quantity, or an object of quantities.
func isQuantity(key string) bool {
	return slices.Contains([]string{"requests", "limits", "overhead", "capacity", "sizeLimit", "divisor"}, key)
}

func shortened(text string) string {
	if len(text) <= maxQuantityLength {
		return text
	}
	return text[:maxQuantityLength] + "..."
}
