// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "syscall"

// childAttributes puts a child into its own process group, so that Ctrl-C in a terminal reaches only this process, which
// then stops its children in order. The kernel kills the child if this process dies without doing so.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
