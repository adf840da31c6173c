// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
)

// Version is what kubectl united version shows.
type Version struct {
	Plugin   Build     `json:"plugin"`
	Managers []Manager `json:"managers"`
	// Fit is yes if plugin and managers have the same minor version, no if they do not or the cluster lacks the kind, and unknown. Why
	// says why it is not yes.
	Fit string `json:"fit"`
	Why string `json:"why,omitempty"`
}

// Build is how the plugin was built.
type Build struct {
	Version  string `json:"version"`
	Revision string `json:"revision,omitempty"`
	Go       string `json:"go"`
}

// Manager is a Deployment of the manager.
type Manager struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Image     string `json:"image"`
	// Version is the tag of the image or, if it has none, what the chart says; "" if neither does.
	Version string `json:"version,omitempty"`
}

// Values of Fit.
const (
	Fits       = "yes"
	FitsNot    = "no"
	FitUnknown = "unknown"
)

// VersionOf compares the version of the plugin with those of the managers. unseen says why they could not be read, and absent that the
// cluster lacks what both work with; "" if neither is so.
func VersionOf(plugin Build, managers []Manager, unseen, absent string) *Version {
	v := &Version{Plugin: plugin, Managers: managers, Fit: FitUnknown, Why: unseen}
	own, known := minor(plugin.Version)
	switch {
	case absent != "":
		v.Fit, v.Why = FitsNot, absent
		return v
	case unseen != "":
		return v
	case len(managers) == 0:
		v.Why = "no Deployment in this cluster has the label app.kubernetes.io/name=united"
		return v
	case !known:
		v.Why = "the plugin is not from a release, but a build of version " + plugin.Version
		return v
	}
	v.Fit = Fits
	for _, m := range managers {
		at := m.Namespace + "/" + m.Name
		switch its, known := minor(m.Version); {
		case !known && v.Fit == Fits:
			v.Fit, v.Why = FitUnknown, "the version of "+at+" cannot be told from its image "+m.Image
		case known && its != own:
			v.Fit, v.Why = FitsNot, "the plugin is of version "+own+", and "+at+" of version "+its+": install the plugin of that version"
			return v
		}
	}
	return v
}

// minor returns the major and minor version of a release, such as "1.2". A build without a tag has version 0.0.
func minor(text string) (string, bool) {
	v, err := version.ParseSemantic(text)
	if err != nil || v.Major() == 0 && v.Minor() == 0 {
		return "", false
	}
	return strings.Join(strings.SplitN(v.String(), ".", 3)[:2], "."), true
}

// Tag returns the tag of an image; "" if it has none.
func Tag(image string) string {
	name, _, _ := strings.Cut(image, "@")
	_, tag, _ := strings.Cut(name[strings.LastIndex(name, "/")+1:], ":")
	return tag
}
