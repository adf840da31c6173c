// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"testing"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// TestContractRollingOfInstalled checks the other kinds in a coordinated rollout.
func TestContractRollingOfInstalled(t *testing.T) { EachKind(t, Installed(), ContractRolling) }
