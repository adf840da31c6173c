// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package faults checks what goes wrong: killed managers and API servers, stale caches, lost answers, broken images, nodes that go, quotas,
// and edits in the middle of a rollout.
package faults

import (
	"testing"

	"github.com/unitedworkloads/united/test/e2e/env"
)

func TestMain(m *testing.M) { env.Main(m) }
