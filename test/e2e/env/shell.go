// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
)

// alsoMatches is a warning that kubectl prints for sts if another test of this cluster has installed
// OpenKruise, which has StatefulSets too.
var alsoMatches = regexp.MustCompile(`(?m)^Warning: short name "sts" could also match .*\n`)

// Shell runs commands with the tools of bin/, in the namespace. A command that waits has the timeout of a
// rollout, since some of them wait for several replicas, one after the other.
func Shell(e *Env, dir string) func(command string) string {
	e.T.Helper()
	bin, err := cluster.BinDir()
	e.Expect(err).NotTo(HaveOccurred())
	home := e.T.TempDir()
	config, err := os.ReadFile(e.Cluster.Kubeconfig())
	e.Expect(err).NotTo(HaveOccurred())
	e.Expect(os.WriteFile(filepath.Join(home, "config"), config, 0o600)).To(Succeed())
	run := func(command string) string {
		e.T.Helper()
		if !strings.Contains(command, "--timeout") {
			command = strings.ReplaceAll(command, "kubectl wait ", "kubectl wait --timeout="+RolloutTimeout.String()+" ")
		}
		cmd := exec.CommandContext(e.Ctx, "bash", "-c", command)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"),
			"KUBECONFIG="+filepath.Join(home, "config"), "KUBECACHEDIR="+filepath.Join(home, "cache"))
		out, err := cmd.CombinedOutput()
		e.Expect(err).NotTo(HaveOccurred(), "%s: %s", command, out)
		return strings.TrimSpace(alsoMatches.ReplaceAllString(string(out), ""))
	}
	run("kubectl config set-context --current --namespace=" + e.Namespace)
	return run
}

var (
	bashFence = regexp.MustCompile("(?s)```bash\n(.*?)```")
	undone    = regexp.MustCompile(`(?m)^name=.*$`)
)

// GoBackByHand goes back to a revision with plain kubectl, as docs/going-back.md says.
func (w *Workload) GoBackByHand(revision string) {
	w.T.Helper()
	root, err := cluster.Root()
	w.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "docs", "going-back.md"))
	w.Expect(err).NotTo(HaveOccurred())
	script := bashFence.FindStringSubmatch(string(text))
	w.Expect(script).NotTo(BeNil())
	w.Expect(undone.FindAllString(script[1], -1)).To(HaveLen(1))
	Shell(w.Env, root)("set -e\n" + undone.ReplaceAllString(script[1], "name="+w.Name+" revision="+revision))
}
