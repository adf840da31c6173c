// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package crd has the CustomResourceDefinition of UnitedDeployments.
package crd

import _ "embed"

// UnitedDeployments is the CustomResourceDefinition, in YAML. It is generated from package apis/apps/v1alpha1.
//
//go:embed apps.united.dev_uniteddeployments.yaml
var UnitedDeployments []byte
