// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	. "github.com/onsi/gomega"
)

const orphanage = "UNITED_TEST_ORPHANAGE"

// TestDeathOfTheParent: a child outlives the threads of its parent, but not the parent, even if that is killed. The
// parent is this test binary, started once more.
func TestDeathOfTheParent(t *testing.T) {
	g := NewWithT(t)
	if os.Getenv(orphanage) != "" {
		beParent(t)
		return
	}
	parent := exec.Command(os.Args[0], "-test.run=^TestDeathOfTheParent$")
	parent.Env = append(os.Environ(), orphanage+"=yes")
	stdout, err := parent.StdoutPipe()
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(parent.Start()).To(Succeed())
	var child, survived string
	_, err = fmt.Fscan(stdout, &child, &survived)
	g.Expect(err).NotTo(HaveOccurred())
	pid, err := strconv.Atoi(child)
	g.Expect(err).NotTo(HaveOccurred())

	g.Expect(survived).To(Equal("true"), "the child outlived the threads")
	g.Expect(running(pid)).To(BeTrue())
	g.Expect(parent.Process.Kill()).To(Succeed())
	_ = parent.Wait() // killed
	g.Eventually(func() bool { return running(pid) }, waitTimeout).Should(BeFalse())
}

// beParent starts a child, ends many threads, prints the child's pid and whether it still exists, and blocks.
func beParent(t *testing.T) {
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.SysProcAttr = childAttributes()
	if err := newSpawner().start(cmd); err != nil {
		t.Fatal(err)
	}
	var threads sync.WaitGroup
	for range 100 {
		threads.Go(func() { runtime.LockOSThread() }) // a thread ends with the goroutine that is locked to it
	}
	threads.Wait()
	fmt.Println(cmd.Process.Pid, running(cmd.Process.Pid))
	select {}
}

// running reports whether a process exists that is not a zombie: in a container, nothing may reap an orphan.
func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, state, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(state, "Z")
}
