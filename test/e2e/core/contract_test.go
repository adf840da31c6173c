// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"testing"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestContract checks the contract of the built-in kinds.
func TestContract(t *testing.T) { EachKind(t, BuiltIn(), Contract) }
