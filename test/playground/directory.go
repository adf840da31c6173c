// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

// ground is the directory of a playground. Only one process at a time can claim it.
type ground struct {
	dir  string
	lock *os.File
}

// claim claims the directory and removes what an earlier playground left there. The claim is a lock on
// a file, which ends with the process, however the process ends: an existing kubeconfig or process id
// proves nothing after a kill -9.
func claim(dir string) (*ground, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	g := &ground{dir: dir}
	var err error
	if g.lock, err = os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return nil, err
	}
	if err := g.take(); err != nil {
		return nil, errors.Join(err, g.lock.Close())
	}
	return g, nil
}

func (g *ground) take() error {
	err := syscall.Flock(int(g.lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return g.taken()
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", g.lock.Name(), err)
	}
	if server := answering(g.kubeconfig()); server != "" {
		return fmt.Errorf("no playground runs, but the API server of an earlier one still answers at %s: it was killed, and its "+
			"processes are still running; stop the processes that have %s in their arguments, then start again", server, g.clusterDir())
	}
	// Remove the kubeconfig first: it must not point to a cluster that is half removed.
	for _, path := range []string{g.kubeconfig(), g.kubeconfig() + ".new", g.clusterDir()} {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	if err := g.lock.Truncate(0); err != nil {
		return err
	}
	_, err = fmt.Fprintln(g.lock, os.Getpid())
	return err
}

// taken returns an error that names the process that has the directory.
func (g *ground) taken() error {
	who := "another process"
	if pid, err := os.ReadFile(g.lock.Name()); err == nil && len(pid) > 0 {
		who = "process " + strings.TrimSpace(string(pid))
	}
	if _, err := os.Stat(g.kubeconfig()); err != nil {
		return fmt.Errorf("a playground is being started or stopped here by %s; wait for it, or stop it with Ctrl-C", who)
	}
	return fmt.Errorf("a playground is already running here (%s); use it with KUBECONFIG=%s, or stop it with Ctrl-C",
		who, g.kubeconfig())
}

// release releases the directory. The lock file stays: its removal could affect a process that has just
// opened it.
func (g *ground) release() {
	_ = g.lock.Truncate(0)
	_ = g.lock.Close()
}

func (g *ground) clusterDir() string { return filepath.Join(g.dir, "cluster") }
func (g *ground) kubeconfig() string { return filepath.Join(g.dir, "kubeconfig") }

// publish copies a kubeconfig atomically to the place where users find it.
func (g *ground) publish(from string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	draft := g.kubeconfig() + ".new"
	if err := os.WriteFile(draft, content, 0o600); err != nil {
		return err
	}
	return os.Rename(draft, g.kubeconfig())
}

func (g *ground) unpublish() { _ = os.Remove(g.kubeconfig()) }

// answering returns the address in a kubeconfig if anything listens there; "" if not, or if there is no
// such file. If the kernel does not end the parts of a control plane together with the process that
// started them, they survive a kill -9.
func answering(kubeconfig string) string {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return ""
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return ""
	}
	connection, err := net.DialTimeout("tcp", server.Host, 2*time.Second)
	if err != nil {
		return ""
	}
	_ = connection.Close()
	return config.Host
}
