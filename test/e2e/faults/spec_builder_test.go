// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/test/fixtures"
)

func inZone(name string) *corev1.NodeSelector { return fixtures.InZone(name) }
