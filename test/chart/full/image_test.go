// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package full

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

	. "github.com/unitedworkloads/united/test/chart/env"
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
	e := NewEnv(t)
	layout, second, pulled := filepath.Join(t.TempDir(), "layout"), filepath.Join(t.TempDir(), "second"), filepath.Join(t.TempDir(), "pulled")
	files := map[string]string{"linux/amd64": t.TempDir(), "linux/arm64": t.TempDir()}
	host := files["linux/"+runtime.GOARCH]
	root, registry := repository(e), registry(e)

	e.Step("two builds, in two directories, have one digest", func() {
		digest := lastWord(makeIn(e, root, "image", "IMAGE_DIR="+layout))
		e.Expect(digest).To(HavePrefix("sha256:"))
		elsewhere, to := checkout(e), registry+"/team/united-manager"
		e.Expect(lastWord(makeIn(e, elsewhere, "image-push", "IMAGE_DIR="+second, "IMAGE="+to+":test"))).To(Equal(to + "@" + digest))
		e.Expect(lastWord(image(e, "pull", "-layout", pulled, to+":test"))).To(Equal(digest))
	})
	e.Step("what the image says of itself is in the history of the repository", func() { checkOrigin(e, pulled) })
	e.Step("static, stripped binaries for both platforms, and no shell", func() {
		for platform, machine := range map[string]elf.Machine{"linux/amd64": elf.EM_X86_64, "linux/arm64": elf.EM_AARCH64} {
			image(e, "unpack", "-layout", pulled, "-platform", platform, files[platform])
			checkFiles(e, files[platform], machine)
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
	e.Step("it runs without root, with nothing but the image", func() { runImage(e, host) })
}

// checkFiles checks what is in the image of a platform.
func checkFiles(e *Env, dir string, machine elf.Machine) {
	e.T.Helper()
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
func checkOrigin(e *Env, layout string) {
	e.T.Helper()
	seconds, err := strconv.ParseInt(git(e, "log", "-1", "--format=%ct"), 10, 64)
	e.Expect(err).NotTo(HaveOccurred())
	created, revision := time.Unix(seconds, 0).UTC().Format(time.RFC3339), git(e, "rev-parse", "HEAD")
	if git(e, "status", "--porcelain", "--untracked-files=no") != "" {
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

func readJSON[T any](e *Env, file string) (content T) {
	e.T.Helper()
	raw, err := os.ReadFile(file)
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(json.Unmarshal(raw, &content)).To(Succeed())
	return content
}

// runImage runs the manager of the image with the permissions of the chart, and has it create a
// workload.
func runImage(e *Env, files string) {
	e.T.Helper()
	const namespace = "image"
	e.NeedCRD()
	e.Namespace(namespace, nil)
	for _, object := range e.Render(namespace) {
		e.Expect(e.Create(e.Ctx, object)).To(Succeed())
	}
	deployed, err := install.FromChart(e.Ctx, Shared.Cluster, namespace, "united-manager")
	e.Expect(err).NotTo(HaveOccurred())
	kubeconfig := filepath.Join(files, "kubeconfig")
	e.Expect(Shared.Cluster.WriteServiceAccountKubeconfig(e.Ctx, namespace, deployed.ServiceAccount, kubeconfig)).To(Succeed())
	e.Expect(os.Chmod(kubeconfig, 0o644)).To(Succeed())
	for dir := files; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		e.Expect(os.Chmod(dir, 0o755)).To(Succeed()) // else the user could not enter the directories of the test
	}
	chroot, err := exec.LookPath("chroot")
	e.Expect(err).NotTo(HaveOccurred())
	process, err := Shared.Cluster.StartProcess("image-manager", chroot, append([]string{
		"--userspec=65532:65532", "--groups=", files, "/united-manager", "--kubeconfig=/kubeconfig",
	}, deployed.Args...)...)
	e.Expect(err).NotTo(HaveOccurred())
	e.CleanUp(&install.Manager{Process: process})

	e.Expect(e.Create(e.Ctx, NewParent(namespace, "web", "v1", 4))).To(Succeed())
	e.Settle(namespace, "web", 4)
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

// runMake runs a target of the Makefile in the root of the repository, with the tools of the test.
func runMake(e *Env, args ...string) string {
	e.T.Helper()
	return makeIn(e, repository(e), args...)
}

// makeIn runs a target of the Makefile in a directory.
func makeIn(e *Env, dir string, args ...string) string {
	e.T.Helper()
	command := exec.CommandContext(e.Ctx, "make", append([]string{"--no-print-directory"}, args...)...)
	command.Dir = dir
	command.Env = slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "MAKE") || slices.Contains([]string{"MFLAGS", "VERSION", "SOURCE_DATE_EPOCH", "PLATFORMS", "DIST", "IMAGE_DIR"}, name)
	})
	return output(e, command)
}

// repository returns the root of the repository.
func repository(e *Env) string {
	e.T.Helper()
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	return root
}

// git runs git in the repository.
func git(e *Env, args ...string) string {
	e.T.Helper()
	return gitIn(e, repository(e), args...)
}

func gitIn(e *Env, dir string, args ...string) string {
	e.T.Helper()
	return strings.TrimSpace(output(e, exec.CommandContext(e.Ctx, "git", append([]string{"-C", dir}, args...)...)))
}

// checkout returns another directory with the files of the repository, changed ones too, and its history.
func checkout(e *Env) string {
	e.T.Helper()
	root, dir := repository(e), filepath.Join(e.Root.TempDir(), "elsewhere")
	git(e, "clone", "--quiet", "--shared", "--no-checkout", root, dir)
	index, err := os.ReadFile(git(e, "rev-parse", "--path-format=absolute", "--git-path", "index"))
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(os.WriteFile(filepath.Join(dir, ".git", "index"), index, 0o600)).To(Succeed())
	for name := range strings.SplitSeq(git(e, "ls-files", "-z", "--cached", "--others", "--exclude-standard"), "\x00") {
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
func image(e *Env, args ...string) string {
	e.T.Helper()
	return output(e, exec.CommandContext(e.Ctx, imageTool(e), args...))
}

func imageTool(e *Env) string {
	e.T.Helper()
	return filepath.Join(repository(e), "bin", "united-image")
}

func output(e *Env, command *exec.Cmd) string {
	e.T.Helper()
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	e.Expect(err).NotTo(HaveOccurred(), "%s: %s", command, &problems)
	return string(out)
}

// registry starts a registry, and returns its address.
func registry(e *Env) string {
	e.T.Helper()
	runMake(e, imageTool(e))
	port, err := Shared.Cluster.FreePort()
	e.Expect(err).NotTo(HaveOccurred())
	address := fmt.Sprintf("127.0.0.1:%d", port)
	process, err := Shared.Cluster.StartProcess("registry", imageTool(e), "serve", address)
	e.Expect(err).NotTo(HaveOccurred())
	e.Root.Cleanup(func() { _ = process.Kill() })
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
