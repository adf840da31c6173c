// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
)

// TestPrepare runs hack/prepare.sh with a make that builds nothing: it records its targets, and creates empty programs.
func TestPrepare(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	root, err := cluster.Root()
	g.Expect(err).NotTo(HaveOccurred())
	pin, err := exec.CommandContext(t.Context(), "awk", `$1 == "k8s.io/kubernetes" {print $2}`, filepath.Join(root, "hack", "tools", "controlplane", "go.mod")).Output()
	g.Expect(err).NotTo(HaveOccurred())
	pinned := strings.TrimSpace(string(pin))
	g.Expect(pinned).To(MatchRegexp(`^v1\.\d+\.\d+$`))

	p := &preparation{WithT: g, t: t, root: root, dir: t.TempDir()}
	p.script("make", `echo "$@" >>"$0.log"
case $1 in -q) test -e "$2"; exit ;; esac
for target; do :; done
echo "go: downloading something"
case $target in *kwok) exit 1 ;; build-*) touch "$BIN/${target#build-}" ;; stamp-*) ;; *) touch "$target" ;; esac`)
	p.script("assets/kube-apiserver", "echo Kubernetes "+pinned)
	p.script("assets/kubectl", "echo Client Version: "+pinned+"-other")
	p.script("other/kubectl", "echo Client Version: "+pinned)
	p.script("other/etcd", "echo etcd Version: 3.0.0")
	g.Expect(os.Mkdir(filepath.Join(p.dir, "bin"), 0o755)).To(Succeed())

	out, err := p.run("kube-apiserver", "kubectl", "etcd", "demo")
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(MatchRegexp(fmt.Sprintf(`^kube-apiserver: %[1]s/assets/kube-apiserver
kubectl: %[1]s/other/kubectl
Building into bin/ from pinned Go modules, once: etcd demo\. About 40 s on 2 cores, and the downloads\.
\[1/2\] etcd, about 25 s \.\.\. \d+ s
\[2/2\] demo, about 15 s \.\.\. \d+ s
$`, p.dir)))
	g.Expect(p.targets()).To(ContainElements("stamp-kube-apiserver", "stamp-kubectl", p.dir+"/bin/etcd", "build-demo"))
	g.Expect(p.targets()).NotTo(ContainElement(p.dir + "/bin/kubectl"))

	out, err = p.run("kube-apiserver", "kubectl", "etcd", "demo")
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(BeEmpty(), "everything is there")

	out, err = p.run("kwok")
	g.Expect(err).To(HaveOccurred())
	g.Expect(out).To(And(ContainSubstring("kwok failed:"), ContainSubstring("go: downloading something")))
}

type preparation struct {
	*WithT
	t         *testing.T
	root, dir string
}

func (p *preparation) script(path, content string) {
	path = filepath.Join(p.dir, path)
	p.Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
	p.Expect(os.WriteFile(path, []byte("#!/usr/bin/env bash\n"+content+"\n"), 0o755)).To(Succeed())
}

func (p *preparation) run(programs ...string) (string, error) {
	command := exec.CommandContext(p.t.Context(), filepath.Join(p.root, "hack", "prepare.sh"), programs...)
	command.Env = append(os.Environ(), "BIN="+p.dir+"/bin", "MAKE="+p.dir+"/make", "UNITED_BIN_DIR="+p.dir+"/other", "KUBEBUILDER_ASSETS="+p.dir+"/assets")
	out, err := command.CombinedOutput()
	return string(out), err
}

// targets returns what make was called for.
func (p *preparation) targets() []string {
	log, err := os.ReadFile(filepath.Join(p.dir, "make.log"))
	p.Expect(err).NotTo(HaveOccurred())
	var targets []string
	for line := range strings.Lines(string(log)) {
		words := strings.Fields(line)
		if words[0] != "-q" {
			targets = append(targets, words[len(words)-1])
		}
	}
	return targets
}
