// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// The tests in this package create objects in many lines, so these are short names for the functions of
// test/fixtures.

type (
	// Draft builds a UnitedDeployment.
	Draft = fixtures.Draft
	edit  = fixtures.Edit
	parts = fixtures.Partitions
)

const (
	templatePath = fixtures.TemplatePath
	imagePath    = fixtures.ImagePath
)

func draft(name string, edits ...edit) *Draft      { return fixtures.New(name, edits...) }
func image(tag string) string                      { return fixtures.Image(tag) }
func tagOf(image string) string                    { return fixtures.TagOf(image) }
func replicas(n int32) edit                        { return fixtures.Replicas(n) }
func policy(p appsv1.PodManagementPolicyType) edit { return fixtures.Policy(p) }
func firstImage(tag string) edit                   { return fixtures.FirstImage(tag) }
func templateField(value any, path ...string) edit { return fixtures.TemplateField(value, path...) }
func zones(shares ...string) edit                  { return fixtures.Zones(shares...) }
func zone(i int, share string) v1alpha1.Subset     { return fixtures.Zone(i, share) }
func inZone(name string) *corev1.NodeSelector      { return fixtures.InZone(name) }
func subset(s v1alpha1.Subset) edit                { return fixtures.Subset(s) }
func plain(name, share string) edit                { return fixtures.OnAnyNode(name, share) }
func patched(name, patch string) edit              { return fixtures.Patched(name, patch) }
func hold() edit                                   { return fixtures.Held() }
func partitions(p parts) edit                      { return fixtures.Manual(p) }
