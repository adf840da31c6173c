// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	appsv1 "k8s.io/api/apps/v1"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/test/fixtures"
)

// The subsets of the roles.
const (
	Prefill = "prefill"
	Decode  = "decode"
)

func ThreeZones(tags string) Images {
	return Images{"zone-a": tags, "zone-b": tags, "zone-c": tags}
}

func MinReadySeconds(seconds int32) Edit {
	return func(d *Draft) { d.Spec.MinReadySeconds = seconds }
}

// Everything is a partition above all ordinals.
const Everything = 1000

// The tests in this package create objects in many lines, so these are short names for the functions of
// test/fixtures.

type (
	// Draft builds a UnitedDeployment.
	Draft = fixtures.Draft
	Edit  = fixtures.Edit
	Parts = fixtures.Partitions
)

const (
	TemplatePath = fixtures.TemplatePath
	ImagePath    = fixtures.ImagePath
)

func NewDraft(name string, edits ...Edit) *Draft { return fixtures.New(name, edits...) }

func Image(tag string) string { return fixtures.Image(tag) }

func TagOf(image string) string { return fixtures.TagOf(image) }

func Replicas(n int32) Edit { return fixtures.Replicas(n) }

func Policy(p appsv1.PodManagementPolicyType) Edit { return fixtures.Policy(p) }

func FirstImage(tag string) Edit { return fixtures.FirstImage(tag) }

func TemplateField(value any, path ...string) Edit { return fixtures.TemplateField(value, path...) }

func Zones(shares ...string) Edit { return fixtures.Zones(shares...) }

func Zone(i int, share string) v1alpha1.Subset { return fixtures.Zone(i, share) }

func Subset(s v1alpha1.Subset) Edit { return fixtures.Subset(s) }

func Plain(name, share string) Edit { return fixtures.OnAnyNode(name, share) }

func Patched(name, patch string) Edit { return fixtures.Patched(name, patch) }

func Hold() Edit { return fixtures.Held() }

func Partitions(p Parts) Edit { return fixtures.Manual(p) }
