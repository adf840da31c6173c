// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

const (
	// MaxValues is how many values a template or a patch may have: objects, lists, and what is in them. Each takes up to 400
	// bytes in memory, whatever its size as JSON, and a pass holds up to six copies. The rules at admission cannot count
	// what they do not know.
	MaxValues = 50_000
	// MaxAllValues is how many the template and all patches may have together.
	MaxAllValues = 200_000
)

// CheckSize rejects a template or a patch with too many values, before it is decoded, and returns how many it has.
func CheckSize(raw *runtime.RawExtension, at *field.Path) (int, error) {
	if raw == nil {
		return 0, nil
	}
	n := values(raw.Raw)
	if n > MaxValues {
		return n, field.Invalid(at, field.OmitValueType{}, fmt.Sprintf("has %d values (objects, lists, and what is in them), and must have at most %d", n, MaxValues))
	}
	return n, nil
}

// values counts the values in JSON: an object or a list is one, and so is each of its fields or items.
func values(raw []byte) int {
	n, quoted, opened := 1, false, false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		if quoted {
			if quoted = c != '"'; c == '\\' {
				i++
			}
			continue
		}
		switch c {
		case ' ', '\t', '\n', '\r':
			continue
		case ',':
			n++
		case '"':
			quoted = true
		}
		if opened && c != '}' && c != ']' {
			n++
		}
		opened = c == '{' || c == '['
	}
	return n
}
