// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
	"github.com/unitedworkloads/united/test/install"
)

// TestImage builds the image with make for both platforms, twice, in two directories; pushes it to a registry, pulls it, and
// runs its binary as a container runtime would: in the files of the image and nothing else, without root.
func TestImage(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the binary in the image is for Linux")
	}
	t.Parallel()
	e := newEnv(t)
	layout, second, pulled := filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "second"), filepath.Join(t.TempDir(), "pulled")
	files := map[string]string{"linux/amd64": t.TempDir(), "linux/arm64": t.TempDir()}
	host := files["linux/"+runtime.GOARCH]
	root, registry := e.repository(), e.registry()

	e.step("two builds, in two directories, have one digest", func() {
		digest := lastWord(e.makeIn(root, "image", "IMAGE_DIR="+layout))
		e.Expect(digest).To(HavePrefix("sha256:"))
		elsewhere, to := e.checkout(), registry+"/team/united-manager"
		e.Expect(lastWord(e.makeIn(elsewhere, "image-push", "IMAGE_DIR="+second, "IMAGE="+to+":test"))).To(Equal(to + "@" + digest))
		e.Expect(lastWord(e.image("pull", "-layout", pulled, to+":test"))).To(Equal(digest))
	})
	e.step("what the image says of itself is in the history of the repository", func() { e.checkOrigin(pulled) })
	e.step("static, stripped binaries for both platforms, and no shell", func() {
		for platform, machine := range map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64} {
			e.image("unpack", "-layout", pulled, "-platform", platform, files[platform])
			e.checkFiles(files[platform], machine)
		}
	})
	if host == "" {
		t.Logf("the binary of the image did not run: there is none for %s", runtime.GOARCH)
		return
	}
	if os.Geteuid() != 0 {
		t.Log("the binary of the image did not run: only root may chroot")
		return
	}
	e.step("it runs without root, with nothing but the image", func() { e.runImage(host) })
}

// checkFiles checks what is in the image of a platform.
func (e *env) checkFiles(dir string, machine elf.Machine) {
	e.t.Helper()
	var names []string
	entries, err := os.ReadDir(dir)
	e.Expect(err).NotTo(HaveOccurred())
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	e.Expect(names).To(Equal([]string{"LICENSE", "united-manager"}))
	binary, err := elf.Open(filepath.Join(dir, "united-manager"))
	e.Expect(err).NotTo(HaveOccurred())
	defer binary.Close() //nolint:errcheck // only read
	e.Expect(binary.Machine).To(Equal(machine))
	e.Expect(binary.Section(".symtab")).To(BeNil(), "stripped")
	e.Expect(slices.ContainsFunc(binary.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })).To(BeFalse(), "static")
}

// checkOrigin compares the commit and the times in a layout, of both platforms, with what git says.
func (e *env) checkOrigin(layout string) {
	e.t.Helper()
	seconds, err := strconv.ParseInt(e.git("log", "-1", "--format=%ct"), 10, 64)
	e.Expect(err).NotTo(HaveOccurred())
	created, revision := time.Unix(seconds, 0).UTC().Format(time.RFC3339), e.git("rev-parse", "HEAD")
	if e.git("status", "--porcelain", "--untracked-files=no") != "" {
		revision += ".dirty"
	}
	type descriptor struct {
		Digest   string
		Platform struct{ OS, Architecture string }
	}
	top := readJSON[struct{ Manifests []descriptor }](e, filepath.Join(layout, "index.json"))
	e.Expect(top.Manifests).To(HaveLen(1))
	blob := func(digest string) string {
		return filepath.Join(layout, "blobs", strings.ReplaceAll(digest, ":", "/"))
	}
	var platforms []string
	for _, image := range readJSON[struct{ Manifests []descriptor }](e, blob(top.Manifests[0].Digest)).Manifests {
		platforms = append(platforms, image.Platform.OS+"/"+image.Platform.Architecture)
		manifest := readJSON[struct{ Config descriptor }](e, blob(image.Digest))
		config := readJSON[struct {
			Created, Architecture string
			Config                struct{ Labels map[string]string }
			History               []struct{ Created string }
		}](e, blob(manifest.Config.Digest))
		e.Expect(config.Architecture).To(Equal(image.Platform.Architecture))
		e.Expect(config.Created).To(Equal(created))
		e.Expect(config.History).To(HaveEach(HaveField("Created", created)))
		e.Expect(config.Config.Labels).To(HaveKeyWithValue("org.opencontainers.image.created", created))
		e.Expect(config.Config.Labels).To(HaveKeyWithValue("org.opencontainers.image.revision", revision))
	}
	e.Expect(platforms).To(Equal([]string{"linux/amd64", "linux/arm64"}))
}

func readJSON[T any](e *env, file string) (content T) {
	e.t.Helper()
	raw, err := os.ReadFile(file)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(json.Unmarshal(raw, &content)).To(Succeed())
	return content
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
	return e.makeIn(e.repository(), args...)
}

// makeIn runs a target of the Makefile in a directory.
func (e *env) makeIn(dir string, args ...string) string {
	e.t.Helper()
	command := exec.CommandContext(e.ctx, "make", append([]string{"--no-print-directory"}, args...)...)
	command.Dir = dir
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "MAKE") || slices.Contains([]string{"MFLAGS", "VERSION", "SOURCE_DATE_EPOCH", "PLATFORMS", "DIST", "IMAGE_DIR"}, name)
	})
	return e.output(command)
}

// repository returns the root of the repository.
func (e *env) repository() string {
	e.t.Helper()
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	return root
}

// git runs git in the repository.
func (e *env) git(args ...string) string {
	e.t.Helper()
	return e.gitIn(e.repository(), args...)
}

func (e *env) gitIn(dir string, args ...string) string {
	e.t.Helper()
	return strings.TrimSpace(e.output(exec.CommandContext(e.ctx, "git", append([]string{"-C", dir}, args...)...)))
}

// checkout returns another directory with the files of the repository, changed ones too, and its history.
func (e *env) checkout() string {
	e.t.Helper()
	root, dir := e.repository(), filepath.Join(e.root.TempDir(), "elsewhere")
	e.git("clone", "--quiet", "--shared", "--no-checkout", root, dir)
	index, err := os.ReadFile(e.git("rev-parse", "--path-format=absolute", "--git-path", "index"))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(os.WriteFile(filepath.Join(dir, ".git", "index"), index, 0o600)).To(Succeed())
	for name := range strings.SplitSeq(e.git("ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
		info, err := os.Lstat(filepath.Join(root, name))
		if name == "" || errors.Is(err, os.ErrNotExist) {
			continue // deleted
		}
		e.Expect(err).NotTo(HaveOccurred())
		content, err := os.ReadFile(filepath.Join(root, name))
		e.Expect(err).NotTo(HaveOccurred())
		e.Expect(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755)).To(Succeed())
		e.Expect(os.WriteFile(filepath.Join(dir, name), content, info.Mode())).To(Succeed())
	}
	return dir
}

// image runs hack/image.
func (e *env) image(args ...string) string {
	e.t.Helper()
	return e.output(exec.CommandContext(e.ctx, e.imageTool(), args...))
}

func (e *env) imageTool() string {
	e.t.Helper()
	return filepath.Join(e.repository(), "bin", "united-image")
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
