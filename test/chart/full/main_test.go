// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package full checks everything else about the chart: each of its rights, helm --wait, upgrades, alerts, the image and the release.
package full

import (
	"testing"

	"github.com/unitedworkloads/united/test/chart/env"
)

func TestMain(m *testing.M) { env.Main(m) }
