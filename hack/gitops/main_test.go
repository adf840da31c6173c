// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

// TestRun checks that the scripts come out of the patch as they went in, quotes and empty lines included.
func TestRun(t *testing.T) {
	g := NewWithT(t)
	dir := t.TempDir()
	const health, discovery, action = "-- \"one\": {two}\n\n  return obj\n", "return {}\n", "local a = 'b' -- # c\n\n\nreturn a\n"
	g.Expect(os.MkdirAll(filepath.Join(dir, "actions", "go"), 0o755)).To(Succeed())
	for name, text := range map[string]string{"health.lua": health, "actions/discovery.lua": discovery, "actions/go/action.lua": action} {
		g.Expect(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600)).To(Succeed())
	}
	g.Expect(run(dir)).To(Succeed())
	text, err := os.ReadFile(filepath.Join(dir, "argocd-cm.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	patch := struct {
		Data map[string]string `json:"data"`
	}{}
	g.Expect(yaml.UnmarshalStrict(text, &patch)).To(Succeed())
	g.Expect(patch.Data).To(HaveLen(2))
	g.Expect(patch.Data["resource.customizations.health."+key]).To(Equal(health))
	g.Expect(patch.Data["resource.customizations.actions."+key]).To(MatchYAML(
		`{discovery.lua: "return {}\n", definitions: [{name: go, action.lua: "local a = 'b' -- # c\n\n\nreturn a\n"}]}`))

	g.Expect(run(t.TempDir())).NotTo(Succeed(), "without the files")
}
