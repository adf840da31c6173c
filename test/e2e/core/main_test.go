// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package core checks the main job of United: a release zone by zone, by hand and coordinated, repair, going back, failure and refusal.
package core

import (
	"testing"

	"github.com/unitedworkloads/united/test/e2e/env"
)

func TestMain(m *testing.M) { env.Main(m) }
