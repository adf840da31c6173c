// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix && !linux

package cluster

import "syscall"

// childAttributes puts a child into its own process group, so that Ctrl-C in a terminal reaches only this process, which
// then stops its children in order. There is no parent death signal here: a killed test leaves its cluster.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
