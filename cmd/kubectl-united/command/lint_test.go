// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"github.com/unitedworkloads/united/cmd/kubectl-united/lint"
)

const nameless = "apiVersion: apps.united.dev/v1alpha1\nkind: UnitedDeployment\nmetadata: {name: %}\nspec: {replicas: x}\n"

func TestLint(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		NewWithT(t).Expect(os.MkdirAll(filepath.Dir(path), 0o755)).To(Succeed())
		NewWithT(t).Expect(os.WriteFile(path, []byte(text), 0o600)).To(Succeed())
		return path
	}
	a, b := write("a.yaml", strings.ReplaceAll(nameless, "%", "a")), write("deeper/b.yml", strings.ReplaceAll(nameless, "%", "b"))
	c := write("deeper/still/c.yml.other", strings.NewReplacer("%", "a", "UnitedDeployment", "UnitedDeploymnt").Replace(nameless))
	write("notes.txt", "not: {{ yaml }}")
	clean, err := os.ReadFile("../../../config/samples/web.yaml")
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	const says = ": spec.replicas: is a string, and must be of type integer\n"
	for name, tc := range map[string]struct {
		args     []string
		out, err string
	}{
		"a file":           {[]string{"-f", a}, a + ": a" + says, "1 finding in 1 UnitedDeployment"},
		"several":          {[]string{"-f", a, "-f", b}, a + ": a" + says + b + ": b" + says, "2 findings in 2 UnitedDeployments"},
		"what * becomes":   {[]string{"-f", a, b}, a + ": a" + says + b + ": b" + says, "2 findings"},
		"a directory":      {[]string{"-f", dir}, a + ": a" + says, "1 finding"},
		"all below it":     {[]string{"-R", "-f", dir}, a + ": a" + says + b + ": b" + says, "2 findings"},
		"a clean one":      {[]string{"-f", "-"}, "", ""},
		"another kind":     {[]string{"-f", c}, c + ": a: kind: apps.united.dev has no kind UnitedDeploymnt: write UnitedDeployment\n", "1 finding, and no UnitedDeployment of apps.united.dev"},
		"none":             {nil, "", "say which files"},
		"one there is not": {[]string{"-f", dir + "/c"}, "", "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			streams, in, out, _ := genericiooptions.NewTestIOStreams()
			in.Write(clean)
			root := New(streams)
			root.SetArgs(append([]string{"lint"}, tc.args...))
			err := root.ExecuteContext(t.Context())
			g.Expect(out.String()).To(Equal(tc.out))
			if tc.err == "" {
				g.Expect(err).NotTo(HaveOccurred())
				return
			}
			g.Expect(err).To(MatchError(ContainSubstring(tc.err)))
		})
	}
}

func TestLintAsJSON(t *testing.T) {
	g := NewWithT(t)
	streams, in, out, _ := genericiooptions.NewTestIOStreams()
	in.WriteString(nameless)
	root := New(streams)
	root.SetArgs([]string{"lint", "-f", "-", "-o", "json"})
	g.Expect(root.ExecuteContext(t.Context())).NotTo(Succeed()) // "%" begins no YAML
	var findings []lint.Finding
	g.Expect(json.Unmarshal(out.Bytes(), &findings)).To(Succeed())
	g.Expect(findings).To(HaveLen(1))
	g.Expect(findings[0].Message).To(HavePrefix("document 1: line "))
}
