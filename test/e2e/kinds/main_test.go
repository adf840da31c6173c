// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package kinds checks every kind of child workload with its real manager.
package kinds

import (
	"testing"

	"github.com/unitedworkloads/united/test/e2e/env"
)

func TestMain(m *testing.M) { env.Main(m) }
