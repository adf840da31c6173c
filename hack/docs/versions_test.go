// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var pinned = regexp.MustCompile(`\sk8s\.io/kubernetes v(([0-9]+\.[0-9]+)\.[0-9]+)\s`)

// kubernetes returns the version that a tool module pins, and the same without the patch version.
func kubernetes(t *testing.T, module string) (full, minor string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(root, "hack", "tools", module, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	found := pinned.FindSubmatch(raw)
	if found == nil {
		t.Fatalf("hack/tools/%s/go.mod names no version of Kubernetes", module)
	}
	return string(found[1]), string(found[2])
}

// The documents must name the versions of Kubernetes that the tests run on.
func TestVersionsOfKubernetes(t *testing.T) {
	newest, newestMinor := kubernetes(t, "controlplane")
	oldest, oldestMinor := kubernetes(t, "controlplane-oldest")
	if newest == oldest {
		t.Fatal("there is but one version")
	}
	for file, says := range map[string][]string{
		"README.md":                     {"Kubernetes " + oldestMinor + " or later", newest, oldest},
		"charts/united/README.md":       {"Kubernetes " + oldestMinor + " or later", newest, oldest},
		"charts/united/Chart.yaml":      {`kubeVersion: ">=` + oldestMinor + `.0-0"`},
		"charts/zone-canary/Chart.yaml": {`kubeVersion: ">=` + oldestMinor + `.0-0"`},
		"hack/docs/api/config.yaml":     {`kubernetesVersion: "` + newestMinor + `"`},
	} {
		raw, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, what := range says {
			if !strings.Contains(string(raw), what) {
				t.Errorf("%s does not say %s", file, what)
			}
		}
	}
}
