// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package browser checks the page of kubectl united dashboard in Chromium, on a real control plane with the real manager. It is not
// part of make test: it needs Chromium (make test-browser).
package browser

import (
	"testing"

	"github.com/unitedworkloads/united/test/e2e/env"
)

func TestMain(m *testing.M) { env.Main(m) }
