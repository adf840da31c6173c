// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
)

// Said is what a run of the plugin printed, and its exit code.
type Said struct {
	Out, Err string
	Code     int
}

// Plugin runs bin/kubectl-united in a namespace, without a terminal. What it learns of the API server it keeps in the directory cache.
func (c *Cluster) Plugin(ctx context.Context, namespace, cache string, args ...string) (Said, error) {
	bin, err := BinDir()
	if err != nil {
		return Said{}, err
	}
	args = append([]string{"--kubeconfig=" + c.Kubeconfig(), "-n", namespace, "--cache-dir=" + cache}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(bin, "kubectl-united"), args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return Said{}, err
	}
	return Said{out.String(), said.String(), cmd.ProcessState.ExitCode()}, nil
}
