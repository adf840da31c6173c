// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	. "github.com/unitedworkloads/united/test/chart/env"
)

// TestRelease makes a release in a clone with a tag, and checks which version commits with and without a tag have.
func TestRelease(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	clone := checkout(e)
	version := func() string { return strings.TrimSpace(makeIn(e, clone, "-s", "version")) }
	commit := func() (development string) {
		e.T.Helper()
		gitIn(e, clone, "add", "--all")
		gitIn(e, clone, "-c", "user.name=test", "-c", "user.email=test@example", "commit", "--quiet", "--allow-empty", "--message=test")
		head := gitIn(e, clone, "rev-parse", "HEAD")
		return chartVersion(e, clone) + "-dev.g" + head[:12]
	}

	e.Step("without a tag, a development version", func() {
		development := commit()
		e.Expect(version()).To(Equal(development))
		gitIn(e, clone, "tag", "next")
		e.Expect(version()).To(Equal(development), "with a tag that is no version")
	})
	e.Step("with a tag, its version", func() {
		gitIn(e, clone, "tag", "v9.8.7")
		e.Expect(version()).To(Equal("9.8.7"))
		dist := t.TempDir()
		checkRelease(e, clone, dist)
		checkPublish(e, clone, dist)
	})
	e.Step("a changed file, not an untracked one, makes it a development version", func() {
		e.Expect(os.WriteFile(filepath.Join(clone, "untracked"), nil, 0o600)).To(Succeed())
		e.Expect(version()).To(Equal("9.8.7"))
		e.Expect(os.WriteFile(filepath.Join(clone, "README.md"), nil, 0o600)).To(Succeed())
		e.Expect(version()).To(Equal(chartVersion(e, clone) + "-dev.g" + gitIn(e, clone, "rev-parse", "HEAD")[:12] + ".dirty"))
	})
	e.Step("the commit after the tag does not have its version", func() {
		e.Expect(version()).NotTo(Equal("9.8.7"))
		development := commit()
		e.Expect(version()).To(Equal(development))
		gitIn(e, clone, "tag", "v10.0.0-rc.1")
		e.Expect(version()).To(Equal("10.0.0-rc.1"))
	})
}

// chartVersion returns the version of the chart in a clone.
func chartVersion(e *Env, dir string) string {
	e.T.Helper()
	chart, err := os.ReadFile(filepath.Join(dir, "charts", "united", "Chart.yaml"))
	e.Expect(err).NotTo(HaveOccurred())
	for line := range strings.Lines(string(chart)) {
		if version, found := strings.CutPrefix(line, "version: "); found {
			return strings.TrimSpace(version)
		}
	}
	e.T.Fatal("Chart.yaml has no version")
	return ""
}

// checkRelease makes a release in a clone with the tag v9.8.7, and checks its checksums, that everything in it has that
// version, and that the API server accepts it.
func checkRelease(e *Env, clone, dist string) {
	e.T.Helper()
	// With the tools of the test: the clone has no others.
	makeIn(e, clone, "release", "BIN="+filepath.Join(repository(e), "bin"), "IMAGE_TOOL="+filepath.Join(clone, "bin", "united-image"),
		"PLATFORMS=linux/"+runtime.GOARCH, "PLUGIN_PLATFORMS=linux/"+runtime.GOARCH, "DIST="+dist)
	var files []string
	entries, err := os.ReadDir(dist)
	e.Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		files = append(files, entry.Name())
	}
	platform := "-9.8.7-linux-" + runtime.GOARCH
	plugin := "kubectl-united" + platform + ".tar.gz"
	sboms := []string{"kubectl-united" + platform + ".cdx.json", "united-manager" + platform + ".cdx.json"}
	e.Expect(files).To(Equal([]string{"checksums.txt", "crds.yaml", "image", "install.yaml", "krew", sboms[0], plugin, "united-9.8.7.tgz", sboms[1], "united-manager-9.8.7.tar"}))
	sums, err := os.ReadFile(filepath.Join(dist, "checksums.txt"))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(strings.Split(strings.TrimSpace(string(sums)), "\n")).To(HaveLen(len(files)-3), "all but itself and the directories")
	for line := range strings.Lines(string(sums)) {
		sum, file, _ := strings.Cut(strings.TrimSpace(line), "  ")
		content, err := os.ReadFile(filepath.Join(dist, file))
		e.Expect(err).NotTo(HaveOccurred())
		e.Expect(sum).To(Equal(fmt.Sprintf("%x", sha256.Sum256(content))), file)
	}
	checkPlugin(e, dist, plugin)
	for _, sbom := range sboms {
		checkSBOM(e, filepath.Join(dist, sbom))
	}
	e.Expect(e.Helm("show", "chart", filepath.Join(dist, "united-9.8.7.tgz"))).To(And(ContainSubstring("\nversion: 9.8.7\n"), ContainSubstring("appVersion: v9.8.7\n")))
	install := filepath.Join(dist, "install.yaml")
	text, err := os.ReadFile(install)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(string(text)).To(ContainSubstring("/united-manager:v9.8.7\n"))
	e.Expect(kubectl(e, "create", "--dry-run=client", "-f", install)).To(And(ContainSubstring("namespace/united-system"), ContainSubstring("deployment.apps/united-manager")))
	e.Expect(kubectl(e, "apply", "--dry-run=server", "-f", filepath.Join(dist, "crds.yaml"))).To(ContainSubstring("uniteddeployments.apps.united.dev"))
	kubectl(e, "apply", "-f", filepath.Join(clone, "config", "rbac", "00_namespace.yaml")) // a dry run does not create it for the others
	e.Expect(kubectl(e, "apply", "--dry-run=server", "-f", install)).To(And(
		MatchRegexp(`namespace/united-system \S+ \(server dry run\)`), ContainSubstring("deployment.apps/united-manager created (server dry run)")))
}

// checkSBOM checks that an SBOM has the version and the platform, what the program is made of, and nothing that another build would not have.
func checkSBOM(e *Env, file string) {
	e.T.Helper()
	type component struct{ Name, Version, PURL string }
	sbom := readJSON[struct {
		SerialNumber string
		Metadata     struct {
			Timestamp string
			Component component
		}
		Components []component
	}](e, file)
	e.Expect(sbom.Metadata.Component.PURL).To(HavePrefix("pkg:golang/github.com/unitedworkloads/united@v9.8.7?goarch=" + runtime.GOARCH + "&goos=linux&"))
	list := exec.CommandContext(e.Ctx, "go", "list", "-m", "-f", "{{.Version}}", "k8s.io/client-go")
	list.Dir = repository(e)
	version := strings.TrimSpace(output(e, list))
	e.Expect(sbom.Components).To(ContainElements(
		component{"k8s.io/client-go", version, "pkg:golang/k8s.io/client-go@" + version + "?goarch=" + runtime.GOARCH + "&goos=linux&type=module"},
		HaveField("Name", "std"),
	))
	e.Expect(sbom.SerialNumber+sbom.Metadata.Timestamp).To(BeEmpty(), "two builds have one SBOM")
}

// checkPublish publishes what make release has left, with a program that notes what cosign is asked for.
func checkPublish(e *Env, clone, dist string) {
	e.T.Helper()
	dir, to := e.T.TempDir(), registry(e)+"/team/united-manager"
	asked, cosign := filepath.Join(dir, "asked"), filepath.Join(dir, "cosign")
	e.Expect(os.WriteFile(cosign, []byte("#!/bin/sh\necho \"$@\" >> "+asked+"\n"), 0o700)).To(Succeed())
	args := []string{"publish", "IMAGE_TOOL=" + filepath.Join(clone, "bin", "united-image"), "DIST=" + dist, "IMAGE=" + to + ":v9.8.7", "COSIGN=" + cosign}
	pushed := lastWord(makeIn(e, clone, args...))
	e.Expect(lastWord(image(e, "pull", "-layout", filepath.Join(dir, "pulled"), to+":v9.8.7"))).To(Equal(strings.TrimPrefix(pushed, to+"@")))
	attested, err := os.ReadFile(filepath.Join(dist, "image.txt"))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(string(attested)).To(Equal(strings.TrimPrefix(pushed, to+"@sha256:") + "  " + to + "\n"))
	calls, err := os.ReadFile(asked)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(strings.Split(strings.TrimSpace(string(calls)), "\n")).To(Equal([]string{
		"sign-blob --yes --bundle checksums.sigstore.json checksums.txt",
		"sign --yes --k8s-keychain --recursive " + pushed,
		"attest --yes --k8s-keychain --type cyclonedx --predicate united-manager-9.8.7-linux-" + runtime.GOARCH + ".cdx.json " + pushed,
	}))
	e.Expect(os.Remove(asked)).To(Succeed())
	e.Expect(os.WriteFile(filepath.Join(dist, "crds.yaml"), []byte("other"), 0o600)).To(Succeed())
	cmd := exec.CommandContext(e.Ctx, "make", args...)
	cmd.Dir = clone
	out, err := cmd.CombinedOutput()
	e.Expect(err).To(HaveOccurred())
	e.Expect(string(out)).To(ContainSubstring("crds.yaml: FAILED"))
	e.Expect(asked).NotTo(BeAnExistingFile(), "what somebody has changed since is not signed")
}

// checkPlugin checks that Krew accepts the manifest, and that the program in the archive has the version.
func checkPlugin(e *Env, dist, archive string) {
	e.T.Helper()
	manifest := filepath.Join(dist, "krew", "united.yaml")
	out, err := exec.CommandContext(e.Ctx, filepath.Join(repository(e), "bin", "validate-krew-manifest"), "-skip-install", "-manifest", manifest).CombinedOutput()
	e.Expect(err).NotTo(HaveOccurred(), string(out))
	text, err := os.ReadFile(manifest)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(string(text)).To(And(ContainSubstring("version: v9.8.7\n"), ContainSubstring("/v9.8.7/"+archive)))
	dir := e.T.TempDir()
	out, err = exec.CommandContext(e.Ctx, "tar", "-xzf", filepath.Join(dist, archive), "-C", dir).CombinedOutput()
	e.Expect(err).NotTo(HaveOccurred(), string(out))
	out, err = exec.CommandContext(e.Ctx, filepath.Join(dir, "kubectl-united"), "version", "--client").CombinedOutput()
	e.Expect(err).NotTo(HaveOccurred(), string(out))
	e.Expect(string(out)).To(ContainSubstring("9.8.7"))
}
