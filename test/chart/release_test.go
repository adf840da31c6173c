// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// TestRelease makes a release in a clone with a tag, and checks which version commits with and without a tag have.
func TestRelease(t *testing.T) {
	t.Parallel()
	e := newEnv(t)
	clone := e.checkout()
	version := func() string { return strings.TrimSpace(e.makeIn(clone, "-s", "version")) }
	commit := func() (development string) {
		e.t.Helper()
		e.gitIn(clone, "add", "--all")
		e.gitIn(clone, "-c", "user.name=test", "-c", "user.email=test@example", "commit", "--quiet", "--allow-empty", "--message=test")
		head := e.gitIn(clone, "rev-parse", "HEAD")
		return e.chartVersion(clone) + "-dev.g" + head[:12]
	}

	e.step("without a tag, a development version", func() {
		development := commit()
		e.Expect(version()).To(Equal(development))
		e.gitIn(clone, "tag", "next")
		e.Expect(version()).To(Equal(development), "with a tag that is no version")
	})
	e.step("with a tag, its version", func() {
		e.gitIn(clone, "tag", "v9.8.7")
		e.Expect(version()).To(Equal("9.8.7"))
		e.checkRelease(clone, t.TempDir())
	})
	e.step("a changed file, not an untracked one, makes it a development version", func() {
		e.Expect(os.WriteFile(filepath.Join(clone, "untracked"), nil, 0o600)).To(Succeed())
		e.Expect(version()).To(Equal("9.8.7"))
		e.Expect(os.WriteFile(filepath.Join(clone, "README.md"), nil, 0o600)).To(Succeed())
		e.Expect(version()).To(Equal(e.chartVersion(clone) + "-dev.g" + e.gitIn(clone, "rev-parse", "HEAD")[:12] + ".dirty"))
	})
	e.step("the commit after the tag does not have its version", func() {
		e.Expect(version()).NotTo(Equal("9.8.7"))
		development := commit()
		e.Expect(version()).To(Equal(development))
		e.gitIn(clone, "tag", "v10.0.0-rc.1")
		e.Expect(version()).To(Equal("10.0.0-rc.1"))
	})
}

// chartVersion returns the version of the chart in a clone.
func (e *env) chartVersion(dir string) string {
	e.t.Helper()
	chart, err := os.ReadFile(filepath.Join(dir, "charts", "united", "Chart.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(chart)) {
		if version, found := strings.CutPrefix(line, "version: "); found {
			return strings.TrimSpace(version)
		}
	}
	e.t.Fatal("Chart.yaml has no version")
	return ""
}

// checkRelease makes a release in a clone with the tag v9.8.7, and checks its checksums, that everything in it has that
// version, and that the API server accepts it.
func (e *env) checkRelease(clone, dist string) {
	e.t.Helper()
	// With the tools of the test: the clone has no others.
	e.makeIn(clone, "release", "BIN="+filepath.Join(e.repository(), "bin"), "IMAGE_TOOL="+filepath.Join(clone, "bin", "united-image"),
		"PLATFORMS=linux/"+runtime.GOARCH, "DIST="+dist)
	var files []string
	entries, err := os.ReadDir(dist)
	e.Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	e.Expect(files).To(Equal([]string{"checksums.txt", "crds.yaml", "image", "install.yaml", "united-9.8.7.tgz", "united-manager-9.8.7.tar"}))
	sums, err := os.ReadFile(filepath.Join(dist, "checksums.txt"))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(strings.Split(strings.TrimSpace(string(sums)), "\n")).To(HaveLen(4))
	for line := range strings.Lines(string(sums)) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := os.ReadFile(filepath.Join(dist, file))
		e.Expect(err).NotTo(HaveOccurred())
		e.Expect(sum).To(Equal(fmt.Sprintf("%x", sha256.Sum256(content))), file)
	}
	e.Expect(e.helm("show", "chart", filepath.Join(dist, "united-9.8.7.tgz"))).To(And(ContainSubstring("\nversion: 9.8.7\n"), ContainSubstring("appVersion: v9.8.7\n")))
	install := filepath.Join(dist, "install.yaml")
	text, err := os.ReadFile(install)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(string(text)).To(ContainSubstring("/united-manager:v9.8.7\n"))
	e.Expect(e.kubectl("create", "--dry-run=client", "-f", install)).To(And(ContainSubstring("namespace/united-system"), ContainSubstring("deployment.apps/united-manager")))
	e.Expect(e.kubectl("apply", "--dry-run=server", "-f", filepath.Join(dist, "crds.yaml"))).To(ContainSubstring("uniteddeployments.apps.united.dev"))
	e.kubectl("apply", "-f", filepath.Join(clone, "config", "rbac", "00_namespace.yaml")) // a dry run does not create it for the others
	e.Expect(e.kubectl("apply", "--dry-run=server", "-f", install)).To(And(
		MatchRegexp(`namespace/united-system \S+ \(server dry run\)`), ContainSubstring("deployment.apps/united-manager created (server dry run)")))
}
