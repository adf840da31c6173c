// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core checks the life cycle of the chart, and that its rights suffice.
package core

import (
	"testing"

	"github.com/unitedworkloads/united/test/chart/env"
)

func TestMain(m *testing.M) { env.Main(m) }
