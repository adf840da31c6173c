// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// TestImage builds the image with make, pushes it to a registry, pulls it, and runs its binary as a
// container runtime would: in the files of the image and nothing else, without root.
func TestImage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the binary in the image is for Linux")
	}
	t.Parallel()
	e := newEnv(t)
	platform := "linux/" + runtime.GOARCH
	layout, second, pulled, files := filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "second"), filepath.Join(t.TempDir(), "pulled"), t.TempDir()
	registry := e.registry()
	var digest string

	e.step("two builds have one digest", func() {
		digest = lastWord(e.make("image", "PLATFORMS="+platform, "IMAGE_DIR="+layout))
		e.Expect(digest).To(HavePrefix("sha256:"))
		to := registry + "/team/united-manager"
		e.Expect(lastWord(e.make("image-push", "PLATFORMS="+platform, "IMAGE_DIR="+second, "IMAGE="+to+":test"))).To(Equal(to + "@" + digest))
		e.Expect(lastWord(e.image("pull", "-layout", pulled, to+":test"))).To(Equal(digest))
	})
	e.step("a static, stripped binary, and no shell", func() {
		e.image("unpack", "-layout", pulled, "-platform", platform, files)
		var names []string
		entries, err := os.ReadDir(files)
		e.Expect(err).NotTo(HaveOccurred())
		for _, entry := range entries {
			names = append(names, entry.Name())
		}
		e.Expect(names).To(Equal([]string{"LICENSE", "united-manager"}))
		binary, err := elf.Open(filepath.Join(files, "united-manager"))
		e.Expect(err).NotTo(HaveOccurred())
		defer binary.Close() //nolint:errcheck // only read
		e.Expect(binary.Section(".symtab")).To(BeNil(), "stripped")
		e.Expect(slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })).To(BeFalse(), "static")
	})
	e.step("a release", func() { e.checkRelease(t.TempDir(), platform) })
	if os.Geteuid() != 0 {
		t.Log("the binary of the image did not run: only root may chroot")
		return
	}
	e.step("it runs without root, with nothing but the image", func() { e.runImage(files) })
}

// checkRelease makes a release, and checks its checksums and that everything in it has its version.
func (e *env) checkRelease(dist, platform string) {
	e.t.Helper()
	e.make("release", "VERSION=9.8.7", "PLATFORMS="+platform, "DIST="+dist)
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
}

// runImage runs the manager of the image with the permissions of the chart, and has it create a
// workload.
func (e *env) runImage(files string) {
	e.t.Helper()
	const namespace = "image"
	e.needCRD()
	e.namespace(namespace, nil)
	for _, object := range e.render(namespace) {
		e.Expect(e.Create(e.ctx, object)).To(Succeed())
	}
	deployed, err := install.FromChart(e.ctx, shared.cluster, namespace, "united-manager")
	e.Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(files, "kubeconfig")
	e.Expect(shared.cluster.WriteServiceAccountKubeconfig(e.ctx, namespace, deployed.ServiceAccount, kubeconfig)).To(Succeed())
	e.Expect(os.Chmod(kubeconfig, 0o644)).To(Succeed())
	for dir := files; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		e.Expect(os.Chmod(dir, 0o755)).To(Succeed()) // else the user could not enter the directories of the test
	}
	chroot, err := exec.LookPath("chroot")
	e.Expect(err).NotTo(HaveOccurred())
	process, err := shared.cluster.StartProcess("image-manager", chroot, append([]string{
		"--userspec=65532:65532", "--groups=", files, "/united-manager", "--kubeconfig=/kubeconfig",
	}, deployed.Args...)...)
	e.Expect(err).NotTo(HaveOccurred())
	e.cleanUp(&install.Manager{Process: process})

	e.Expect(e.Create(e.ctx, parent(namespace, "web", "v1", 4))).To(Succeed())
	e.settle(namespace, "web", 4)
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", process.Pid()))
	e.Expect(err).NotTo(HaveOccurred())
	for _, line := range []string{"Name:\tunited-manager", "Uid:\t65532\t65532\t65532\t65532", "Gid:\t65532\t65532\t65532\t65532", "Groups:\t \n"} {
		e.Expect(string(status)).To(ContainSubstring(line))
	}
	inside, err := os.Readlink(fmt.Sprintf("/proc/%d/root", process.Pid()))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(inside).To(Equal(files))
	e.Expect(process.Stop()).To(Succeed())
}

// make runs a target of the Makefile in the root of the repository, with the tools of the test.
func (e *env) make(args ...string) string {
	e.t.Helper()
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	command := exec.CommandContext(e.ctx, "make", append([]string{"--no-print-directory"}, args...)...)
	command.Dir = root
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "MAKE") || strings.HasPrefix(variable, "MFLAGS=")
	})
	return e.output(command)
}

// image runs hack/image.
func (e *env) image(args ...string) string {
	e.t.Helper()
	return e.output(exec.CommandContext(e.ctx, e.imageTool(), args...))
}

func (e *env) imageTool() string {
	e.t.Helper()
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	return filepath.Join(root, "bin", "united-image")
}

func (e *env) output(command *exec.Cmd) string {
	e.t.Helper()
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	e.Expect(err).NotTo(HaveOccurred(), "%s: %s", command, &problems)
	return string(out)
}

// registry starts a registry, and returns its address.
func (e *env) registry() string {
	e.t.Helper()
	e.make(e.imageTool())
	port, err := shared.cluster.FreePort()
	e.Expect(err).NotTo(HaveOccurred())
	address := fmt.Sprintf("127.0.0.1:%d", port)
	process, err := shared.cluster.StartProcess("registry", e.imageTool(), "serve", address)
	e.Expect(err).NotTo(HaveOccurred())
	e.root.Cleanup(func() { _ = process.Kill() })
	e.Eventually(func() ([]byte, error) { return os.ReadFile(process.LogPath()) }).Should(ContainSubstring(address))
	return address
}

// lastWord returns the last word of an output.
func lastWord(text string) string {
	words := strings.Fields(text)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}
