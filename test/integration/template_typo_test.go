// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
)

// TestTyposInTemplates runs the CI script of docs/ci.md, and checks that it finds a
// misspelled field in a template, which a dry run of the UnitedDeployment does not find.
func TestTyposInTemplates(t *testing.T) {
	g := NewWithT(t)
	root, err := cluster.Root()
	g.Expect(err).NotTo(HaveOccurred())
	bin, err := cluster.BinDir()
	g.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "docs", "ci.md"))
	g.Expect(err).NotTo(HaveOccurred())
	script := regexp.MustCompile("(?s)```sh\n(get\\(\\) .*?)```").FindSubmatch(text)
	g.Expect(script).NotTo(BeNil(), "the script in docs/ci.md")
	good, err := os.ReadFile(filepath.Join(root, "config", "samples", "web.yaml"))
	g.Expect(err).NotTo(HaveOccurred())

	run := func(manifest, script string) (string, error) {
		t.Helper()
		dir := t.TempDir()
		g.Expect(os.WriteFile(filepath.Join(dir, "web.yaml"), []byte(manifest), 0o600)).To(Succeed())
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", script)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"), "KUBECONFIG="+fixture.cluster.Kubeconfig(),
			"KUBECACHEDIR="+t.TempDir())
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	typo := strings.Replace(string(good), "image: registry.example/web:v1", "image: registry.example/web:v1\n              imagePulPolicy: Always", 1)
	g.Expect(typo).NotTo(Equal(string(good)))

	out, err := run(typo, "kubectl apply --dry-run=server --validate=strict -f web.yaml")
	g.Expect(err).NotTo(HaveOccurred(), "that this passes is why there is a script: %s", out)
	out, err = run(string(good), string(script[1]))
	g.Expect(err).NotTo(HaveOccurred(), out)
	g.Expect(out).To(ContainSubstring("statefulset.apps/template-check created (server dry run)"))
	out, err = run(typo, string(script[1]))
	g.Expect(err).To(HaveOccurred(), out)
	g.Expect(out).To(ContainSubstring(`unknown field "spec.template.spec.containers[0].imagePulPolicy"`))
}
