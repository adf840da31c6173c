// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 is the API of United: the kind UnitedDeployment of group
// apps.united.dev, and the labels and annotations that the controller puts on
// what it creates.
//
// +kubebuilder:object:generate=true
// +groupName=apps.united.dev
package v1alpha1
