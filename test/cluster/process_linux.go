// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import "syscall"

// childAttributes puts a child into a process group of its own, so that Ctrl-C in a terminal reaches only this process,
// which then stops its children in order; and has the kernel kill the child when this process dies without doing so.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
