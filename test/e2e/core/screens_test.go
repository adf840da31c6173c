// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/creack/pty"
	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

var updateScreens = flag.Bool("update-screens", false, "write what the plugin shows into testdata/screens, from where docs/cli.md takes it")

// onNode is a node: which of a zone is up to the scheduler.
var onNode = regexp.MustCompile(`( zone-[abc])-\d\b`)

// TestScreens compares what the plugin shows on a terminal of 80 columns, in the middle of a canary, with testdata/screens.
func TestScreens(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	e.Kubectl("apply", "-f", filepath.Join(SamplesDir(t), "web.yaml"))
	w := e.Workload("web")
	w.Settle()
	w.SetImage("v2")
	w.Settle()
	e.Does("release", "web", "zone-a", "zone-b=34%")
	w.Settle()
	w.Runs(Images{"zone-a": "v2", "zone-b": "v1 v1 v2", "zone-c": "v1 v1"})
	for name, commands := range map[string][]string{
		"status": {"status web", "status web --pods"}, "history": {"history web"}, "diff": {"diff web"}, "why": {"why web"},
	} {
		var screen strings.Builder
		for _, command := range commands {
			shown := onTerminal(e, command)
			screen.WriteString("$ kubectl united " + command + "\n" + shown + "\n")
		}
		got := strings.TrimRight(onNode.ReplaceAllString(strings.NewReplacer(" --kubeconfig "+e.Cluster.Kubeconfig()+" -n "+e.Namespace, "", e.Namespace, "default").Replace(screen.String()), "$1-1"), "\n") + "\n"
		path := filepath.Join("testdata", "screens", name+".txt")
		if *updateScreens {
			e.Expect(os.WriteFile(path, []byte(got), 0o600)).To(Succeed())
			continue
		}
		want, err := os.ReadFile(path)
		e.Expect(err).NotTo(HaveOccurred())
		if name == "history" { // ages have several widths
			got, want = shape(got), []byte(shape(string(want)))
		}
		e.Expect(got).To(Equal(string(want)), name)
	}
	e.Step("in colors, and without them where nobody sees them", func() {
		e.Expect(e.Does("status", "web")).NotTo(ContainSubstring("\x1b["))
		e.Expect(terminal(e, "status web", "LC_ALL=C.UTF-8", "TERM=xterm")).To(ContainSubstring("\x1b[32m█"))
		e.Expect(terminal(e, "status web", "LC_ALL=C", "TERM=xterm", "NO_COLOR=")).To(And(ContainSubstring("#"), Not(MatchRegexp(`[^\x00-\x7f]`)), Not(ContainSubstring("\x1b["))))
	})
}

// onTerminal returns what the plugin shows, without colors.
func onTerminal(e *Env, command string) string {
	e.T.Helper()
	return terminal(e, command, "LC_ALL=C.UTF-8", "TERM=xterm", "NO_COLOR=1")
}

// terminal runs the plugin on a terminal of 80 columns.
func terminal(e *Env, command string, env ...string) string {
	e.T.Helper()
	bin, err := cluster.BinDir()
	e.Expect(err).NotTo(HaveOccurred())
	args := append([]string{"--kubeconfig=" + e.Cluster.Kubeconfig(), "-n", e.Namespace, "--cache-dir=" + filepath.Join(e.T.TempDir(), "cache")}, strings.Fields(command)...)
	cmd := exec.CommandContext(e.Ctx, filepath.Join(bin, "kubectl-united"), args...)
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.T.TempDir()}, env...)
	screen, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: 80})
	e.Expect(err).NotTo(HaveOccurred())
	out, _ := io.ReadAll(screen) // on Linux the end of a terminal is an error
	e.Expect(cmd.Wait()).To(Succeed(), string(out))
	return strings.ReplaceAll(string(out), "\r\n", "\n")
}
