// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// stopGrace is the time between SIGTERM and SIGKILL for a process of a test: longer than the graceful shutdown of a
	// controller.
	stopGrace = 40 * time.Second
	// componentGrace is the same for the control plane. Its data is discarded; only the logs matter.
	componentGrace = 3 * time.Second
	tailBytes      = 4096
)

// Process is a child process that writes its output to a log file.
type Process struct {
	name      string
	logPath   string
	cmd       *exec.Cmd
	component bool // part of the control plane: it is an error if it ends before Stop
	stopping  atomic.Bool
	done      chan struct{}
	err       error // of Wait; valid after done is closed
}

// StartProcess starts a program of the test, such as the manager. bin is a path, or the bare name of a program in
// UNITED_BIN_DIR. The output is appended to logs/<name>.log in the cluster's directory, so a process that is started
// again under the same name continues the same file. The process ends with the cluster at the latest.
func (c *Cluster) StartProcess(name, bin string, args ...string) (*Process, error) {
	return c.startProcess(&Process{name: name}, bin, nil, args)
}

// StartProcessWithEnv is StartProcess with more environment variables, each KEY=value.
func (c *Cluster) StartProcessWithEnv(env []string, name, bin string, args ...string) (*Process, error) {
	return c.startProcess(&Process{name: name}, bin, env, args)
}

func (c *Cluster) startProcess(p *Process, bin string, env, args []string) (*Process, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped {
		return nil, fmt.Errorf("starting %s: the cluster is stopped", p.name)
	}
	if !strings.ContainsRune(bin, filepath.Separator) {
		bin = filepath.Join(c.bin, bin)
	}
	if _, err := os.Stat(bin); err != nil {
		return nil, fmt.Errorf("starting %s: %w (build it with make)", p.name, err)
	}
	p.logPath = c.LogPath(p.name)
	logFile, err := os.OpenFile(p.logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	defer logFile.Close() //nolint:errcheck // the child has its own descriptor

	p.cmd = exec.Command(bin, args...)
	p.cmd.Dir = c.dir
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = logFile, logFile
	p.cmd.SysProcAttr = childAttributes()
	p.done = make(chan struct{})

	if err := c.spawner.start(p.cmd); err != nil {
		return nil, fmt.Errorf("starting %s: %w", p.name, err)
	}
	c.processes = append(c.processes, p)
	go c.reap(p)
	return p, nil
}

// reap waits for the end of p and reports it if it was not requested.
func (c *Cluster) reap(p *Process) {
	p.err = p.cmd.Wait()
	if p.component && !p.stopping.Load() {
		c.logf("%v", p.deathError())
	}
	close(p.done)
}

// Pid returns the process ID of the process that was started last under a name, including components.
func (c *Cluster) Pid(name string) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range slices.Backward(c.processes) {
		if p.name == name {
			return p.Pid(), nil
		}
	}
	return 0, fmt.Errorf("no process %q was started", name)
}

// Pids returns the IDs of all processes that run.
func (c *Cluster) Pids() []int {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pids []int
	for _, p := range c.processes {
		if !p.Exited() {
			pids = append(pids, p.Pid())
		}
	}
	return pids
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// LogPath returns the path of the file with the output of the process of this name, such as kube-controller-manager.
func (c *Cluster) LogPath(name string) string { return c.path("logs", name+".log") }

// LogPath returns the path of the file with the output of the process.
func (p *Process) LogPath() string { return p.logPath }

// Pid returns the process ID.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Signal sends sig to the process. It returns os.ErrProcessDone if the process has ended.
func (p *Process) Signal(sig os.Signal) error { return p.cmd.Process.Signal(sig) }

// Stop sends SIGTERM and waits for the end. It returns an error if the exit code is not 0, or if the process had to be
// killed because it still ran after 40 seconds. If the process has ended already, Stop returns how it ended.
func (p *Process) Stop() error {
	if err := p.terminate(stopGrace); err != nil {
		return err
	}
	if p.err != nil {
		return fmt.Errorf("%s: %w; %s", p.name, p.err, p.tail())
	}
	return nil
}

// Kill ends the process and its children at once with SIGKILL, as a crash would, and waits for the end.
func (p *Process) Kill() error {
	p.stopping.Store(true)
	if !p.Exited() {
		// The process leads a group, which also has its children.
		if err := syscall.Kill(-p.Pid(), syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("killing %s: %w", p.name, err)
		}
	}
	<-p.done
	return nil
}

// terminate ends the process with SIGTERM, or if that does not help in time, with SIGKILL and an error.
func (p *Process) terminate(grace time.Duration) error {
	p.stopping.Store(true)
	if err := p.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stopping %s: %w", p.name, err)
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		return errors.Join(fmt.Errorf("%s was still there %s after SIGTERM; %s", p.name, grace, p.tail()), p.Kill())
	}
}

// end ends a process for Stop of the cluster. The exit code does not matter here: a test that needs it stops its process
// itself.
func (p *Process) end() error {
	switch {
	case !p.component:
		return p.terminate(stopGrace)
	case p.Exited() && !p.stopping.Load():
		return p.deathError()
	}
	_ = p.terminate(componentGrace) // that it had to be killed does not matter
	return nil
}

// Exited reports whether the process has ended.
func (p *Process) Exited() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *Process) deathError() error {
	return fmt.Errorf("%s ended by itself: %s; %s", p.name, p.cmd.ProcessState, p.tail())
}

// tail returns the end of the log, for error messages.
func (p *Process) tail() string {
	text, err := readTail(p.logPath)
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("the end of %s:\n%s", p.logPath, text)
}

func readTail(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // read only
	if info, err := f.Stat(); err == nil && info.Size() > tailBytes {
		if _, err := f.Seek(-tailBytes, io.SeekEnd); err != nil {
			return nil, err
		}
	}
	text, err := io.ReadAll(f)
	return bytes.TrimSpace(text), err
}

// spawner starts processes from one operating system thread that lives as long as they do. Trap: Linux sends the parent
// death signal when the *thread* that forked ends, and a goroutine may run on any thread.
type spawner struct {
	requests chan func()
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan func())}
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		for run := range s.requests {
			run()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	result := make(chan error)
	s.requests <- func() { result <- cmd.Start() }
	return <-result
}

func (s *spawner) close() { close(s.requests) }
