// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

var target = regexp.MustCompile(`(?m)^([a-z][a-z0-9-]*):`)

// unknownTargets returns the commands of a workflow that are not `make` with targets of the Makefile.
func unknownTargets(workflow, makefile string) (bad []string, count int, err error) {
	w := struct {
		Jobs map[string]struct {
			Steps []struct {
				Run string `json:"run"`
			} `json:"steps"`
		} `json:"jobs"`
	}{}
	if err := yaml.Unmarshal([]byte(workflow), &w); err != nil {
		return nil, 0, err
	}
	known := map[string]bool{}
	for _, m := range target.FindAllStringSubmatch(makefile, -1) {
		known[m[1]] = true
	}
	for _, job := range w.Jobs {
		for _, step := range job.Steps {
			words := strings.Fields(step.Run)
			if len(words) == 0 {
				continue
			}
			count++
			fits := words[0] == "make" && len(words) > 1 && !strings.ContainsAny(step.Run, ";&|\n")
			for _, word := range words[1:] {
				fits = fits && (known[word] || strings.Contains(word, "="))
			}
			if !fits {
				bad = append(bad, step.Run)
			}
		}
	}
	return bad, count, nil
}

// TestWorkflowsOnlyMake checks that the workflows of the forge run targets of the Makefile and nothing
// else, so that everything can be done without the forge.
func TestWorkflowsOnlyMake(t *testing.T) {
	g := NewWithT(t)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	g.Expect(err).NotTo(HaveOccurred())
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		bad, count, err := unknownTargets(string(text), string(makefile))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(bad).To(BeEmpty(), file)
		g.Expect(count).To(BeNumerically(">", 0), file)
	}
}

func TestOtherCommandsInWorkflowsAreFound(t *testing.T) {
	bad, count, err := unknownTargets("jobs: {a: {steps: [{run: make b}, {run: make c}, {run: go test}, {run: make b && ls}, {uses: x}, {run: make b X=1}]}}", "b: ## B\n")
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(count).To(Equal(5))
	g.Expect(bad).To(Equal([]string{"make c", "go test", "make b && ls"}))
}
