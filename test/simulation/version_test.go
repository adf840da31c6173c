// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/version"
)

func TestVersionOf(t *testing.T) {
	for _, tc := range []struct {
		major, minor string
		want         Version
		says         string // of the error, "" for none
	}{
		{"1", "36", Kubernetes136, ""},
		{"1", "37", Kubernetes137, ""},
		{"1", "37+", Kubernetes137, ""},
		{"1", "35", 0, "not simulated, but [1.36 1.37] are"},
		{"1", "38", 0, "not simulated"},
		{"2", "37", 0, "not simulated"},
		{"", "", 0, "invalid syntax"},
	} {
		got, err := VersionOf(&version.Info{Major: tc.major, Minor: tc.minor})
		switch {
		case tc.says == "" && err != nil, tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)):
			t.Errorf("%s.%s: error %v, want %q", tc.major, tc.minor, err, tc.says)
		case got != tc.want:
			t.Errorf("%s.%s: got %s, want %s", tc.major, tc.minor, got, tc.want)
		}
	}
}
