// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"testing"

	. "github.com/onsi/gomega"
)

func TestVersionsFit(t *testing.T) {
	of := func(versions ...string) (managers []Manager) {
		for _, v := range versions {
			managers = append(managers, Manager{Namespace: "united-system", Name: "united-manager", Image: "manager@sha256:0", Version: v})
		}
		return managers
	}
	for name, tc := range map[string]struct {
		plugin   string
		managers []Manager
		unseen   string
		fit, why string
	}{
		"the same":             {"v1.2.3", of("v1.2.3"), "", Fits, ""},
		"another patch":        {"v1.2.3", of("1.2.0"), "", Fits, ""},
		"a build of the next":  {"v1.2.3", of("v1.2.4-dev.gabc+dirty"), "", Fits, ""},
		"another minor":        {"v1.2.3", of("v1.3.0"), "", FitsNot, "the plugin is of version 1.2, and united-system/united-manager of version 1.3"},
		"another major":        {"v1.2.3", of("v2.2.3"), "", FitsNot, "2.2"},
		"the first minor":      {"v0.1.0", of("v0.1.9"), "", Fits, ""},
		"one of two":           {"v1.2.3", of("v1.2.3", "v1.1.0"), "", FitsNot, "1.1"},
		"an own build":         {"(devel)", of("v1.2.3"), "", FitUnknown, "(devel)"},
		"a build without tags": {"v0.0.0-20261127151400-1b1e13b1e13b+dirty", of("v1.2.3"), "", FitUnknown, "not from a release"},
		"a digest":             {"v1.2.3", of(""), "", FitUnknown, "from its image manager@sha256:0"},
		"a digest and another": {"v1.2.3", of("", "v1.1.0"), "", FitsNot, "1.1"},
		"latest":               {"v1.2.3", of("latest"), "", FitUnknown, ""},
		"no manager":           {"v1.2.3", nil, "", FitUnknown, "no Deployment"},
		"no rights":            {"v1.2.3", nil, "you have no right to list deployments", FitUnknown, "you have no right to list deployments"},
	} {
		t.Run(name, func(t *testing.T) {
			v := VersionOf(Build{Version: tc.plugin}, tc.managers, tc.unseen, "")
			g := NewWithT(t)
			g.Expect(v.Fit).To(Equal(tc.fit))
			g.Expect(v.Why).To(ContainSubstring(tc.why))
			g.Expect(v.Why == "").To(Equal(v.Fit == Fits))
		})
	}
}

func TestWithoutKindNothingFits(t *testing.T) {
	for _, unseen := range []string{"", "you have no right to list deployments"} {
		v := VersionOf(Build{Version: "v1.2.3"}, []Manager{{Version: "v1.2.3"}}, unseen, "it is not installed")
		g := NewWithT(t)
		g.Expect(v.Fit).To(Equal(FitsNot))
		g.Expect(v.Why).To(Equal("it is not installed"))
	}
}

func TestTag(t *testing.T) {
	for image, tag := range map[string]string{
		"ghcr.io/u/manager:v1": "v1", "localhost:5000/manager:v1": "v1", "localhost:5000/manager": "", "manager": "",
		"r/manager:v1@sha256:abc": "v1", "r/manager@sha256:abc": "",
	} {
		NewWithT(t).Expect(Tag(image)).To(Equal(tag), image)
	}
}
