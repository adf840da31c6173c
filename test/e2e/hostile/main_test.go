// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hostile checks what others do to the objects of United: clients, admission policies and tools that change, strip or forge them.
package hostile

import (
	"testing"

	"github.com/unitedworkloads/united/test/e2e/env"
)

func TestMain(m *testing.M) { env.Main(m) }
