// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
)

// Said is what a run of the plugin printed, and its exit code.
type Said struct {
	Out, Err string
	Code     int
}

// Plugin runs bin/kubectl-united in the namespace, without a terminal.
func (e *Env) Plugin(args ...string) Said {
	e.T.Helper()
	bin, err := cluster.BinDir()
	e.Expect(err).NotTo(HaveOccurred())
	args = append([]string{"--kubeconfig=" + e.Cluster.Kubeconfig(), "-n", e.Namespace, "--cache-dir=" + filepath.Join(e.T.TempDir(), "cache")}, args...)
	cmd := exec.CommandContext(e.Ctx, filepath.Join(bin, "kubectl-united"), args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	exit := &exec.ExitError{}
	if err != nil && !errors.As(err, &exit) {
		e.Expect(err).NotTo(HaveOccurred())
	}
	return Said{out.String(), said.String(), cmd.ProcessState.ExitCode()}
}

// Does runs the plugin, and expects that it succeeds.
func (e *Env) Does(args ...string) string {
	e.T.Helper()
	said := e.Plugin(args...)
	e.Expect(said.Code).To(BeZero(), "%v: %s%s", args, said.Out, said.Err)
	return said.Out
}

// Refuses runs the plugin, and expects that it fails with these words.
func (e *Env) Refuses(words string, args ...string) {
	e.T.Helper()
	said := e.Plugin(args...)
	e.Expect(said.Code).NotTo(BeZero(), "%v: %s", args, said.Out)
	e.Expect(said.Err).To(And(HavePrefix("error: "), ContainSubstring(words)), "%v", args)
}
