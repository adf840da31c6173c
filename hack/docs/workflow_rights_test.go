// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

type workflow struct {
	Permissions map[string]any `json:"permissions"`
	Jobs        map[string]job `json:"jobs"`
}

type job struct {
	Needs       []string       `json:"needs"`
	Permissions map[string]any `json:"permissions"`
	Steps       []struct {
		Uses string            `json:"uses"`
		Run  string            `json:"run"`
		With map[string]any    `json:"with"`
		Env  map[string]string `json:"env"`
	} `json:"steps"`
}

// pinnedAction is an action of the forge itself, by its commit, with the version as a comment for those who read and update it.
var pinnedAction = regexp.MustCompile(`^- uses: actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$`)

// publishes is all that a job with a right to write may run.
var publishes = regexp.MustCompile(`^make publish IMAGE=\S+$`)

// wrongs returns what a workflow does that may give its rights, or what it publishes, to others.
func wrongs(text string) (bad []string, err error) {
	var w workflow
	if err := yaml.Unmarshal([]byte(text), &w); err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.Contains(line, "uses:") && !pinnedAction.MatchString(line) {
			bad = append(bad, "not pinned by its commit: "+line)
		}
	}
	if len(w.Permissions) == 0 || len(writes(w.Permissions)) > 0 {
		bad = append(bad, "the permissions of a workflow must be read only, and those of a job are its own")
	}
	if strings.Contains(text, "pull_request_target") {
		bad = append(bad, "pull_request_target runs the code of others with our rights")
	}
	for name, j := range w.Jobs {
		for _, why := range wrongsOf(j) {
			bad = append(bad, name+": "+why)
		}
	}
	slices.Sort(bad)
	return bad, nil
}

func writes(permissions map[string]any) (names []string) {
	for name, level := range permissions {
		if level != "read" && level != "none" {
			names = append(names, name)
		}
	}
	return names
}

func wrongsOf(j job) (bad []string) {
	trusted := len(writes(j.Permissions)) > 0
	if trusted && len(j.Needs) == 0 {
		bad = append(bad, "publishes what no other job has tested and built")
	}
	for _, step := range j.Steps {
		action, _, _ := strings.Cut(step.Uses, "@")
		if action == "actions/checkout" && step.With["persist-credentials"] != false {
			bad = append(bad, "checkout leaves its token on the disk: persist-credentials: false")
		}
		if strings.Contains(fmt.Sprint(step.With, step.Env, step.Run), "secrets.") && !trusted {
			bad = append(bad, "has a secret")
		}
		if !trusted {
			continue
		}
		if action == "actions/setup-go" && step.With["cache"] != false {
			bad = append(bad, "takes what other runs have put into the cache: cache: false")
		}
		if step.Run != "" && !publishes.MatchString(step.Run) {
			bad = append(bad, "may write, and runs more than what publishes: "+step.Run)
		}
	}
	return bad
}

// TestWorkflowsKeepTheirRights checks that no workflow runs tests, or what others have written, with a right to write.
func TestWorkflowsKeepTheirRights(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).NotTo(BeEmpty())
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		bad, err := wrongs(string(text))
		g.Expect(err).NotTo(HaveOccurred(), file)
		g.Expect(bad).To(BeEmpty(), file)
	}
	security, err := os.ReadFile(filepath.Join(root, "SECURITY.md"))
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(string(security)).To(ContainSubstring("/.github/workflows/release.yaml@refs/tags/"), "the identity that signs")
	g.Expect(filepath.Join(root, ".github", "workflows", "release.yaml")).To(BeAnExistingFile())
}

func TestWorkflowsThatGiveRightsAwayAreFound(t *testing.T) {
	const sha = "fbc6f3992d24b796d5a048ff273f7fcc4a7b6c09"
	of := func(permissions, job string) string {
		return "on: [push]\npermissions: {" + permissions + "}\njobs:\n  a:\n    " + strings.ReplaceAll(job, "\n", "\n    ")
	}
	checkout := "steps:\n- uses: actions/checkout@" + sha + " # v5.1.0\n  with: {persist-credentials: false}\n"
	mayWrite := "needs: [b]\npermissions: {packages: write}\n"
	for name, c := range map[string]struct{ text, want string }{
		"reads":              {of("contents: read", checkout+"- run: make test"), ""},
		"publishes":          {of("contents: read", mayWrite+checkout+"- run: make publish IMAGE=a/b:c"), ""},
		"by tag":             {of("contents: read", strings.Replace(checkout, sha, "v5", 1)), "not pinned"},
		"by a short commit":  {of("contents: read", strings.Replace(checkout, sha, sha[:7], 1)), "not pinned"},
		"without version":    {of("contents: read", strings.Replace(checkout, " # v5.1.0", "", 1)), "not pinned"},
		"of somebody":        {of("contents: read", strings.Replace(checkout, "actions/checkout", "some/one", 1)), "not pinned"},
		"no permissions":     {of("", checkout), "must be read only"},
		"all may write":      {of("packages: write", checkout), "must be read only"},
		"token on the disk":  {of("contents: read", strings.Replace(checkout, "persist-credentials", "fetch-tags", 1)), "persist-credentials"},
		"tests with rights":  {of("contents: read", mayWrite+checkout+"- run: make test publish IMAGE=a"), "runs more than what publishes: make test publish"},
		"identity":           {of("contents: read", "needs: [b]\npermissions: {id-token: write}\n"+checkout+"- run: make verify"), "runs more than what publishes"},
		"builds by itself":   {of("contents: read", "permissions: {packages: write}\n"+checkout), "no other job has tested"},
		"secret in a test":   {of("contents: read", checkout+"- run: make test\n  env: {T: '${{ secrets.T }}'}"), "has a secret"},
		"a cache":            {of("contents: read", mayWrite+checkout+"- uses: actions/setup-go@"+sha+" # v6.0.0\n"), "cache: false"},
		"code of a stranger": {strings.Replace(of("contents: read", checkout), "[push]", "[pull_request_target]", 1), "pull_request_target"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			bad, err := wrongs(c.text)
			g.Expect(err).NotTo(HaveOccurred())
			if c.want == "" {
				g.Expect(bad).To(BeEmpty())
			} else {
				g.Expect(bad).To(ConsistOf(ContainSubstring(c.want)))
			}
		})
	}
}

// TestBaseImages: what a tag names changes, and with it what we build.
func TestBaseImages(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	g.Expect(err).NotTo(HaveOccurred())
	bases := regexp.MustCompile(`(?mi)^FROM\s+(.*)$`).FindAllStringSubmatch(string(text), -1)
	g.Expect(bases).NotTo(BeEmpty())
	for _, base := range bases {
		g.Expect(base[1]).To(Or(Equal("scratch"), MatchRegexp(`@sha256:[0-9a-f]{64}\b`)))
	}
}

// TestVulnerabilitiesThatCannotBeLookedUp: a release fails, and the machine of somebody without a network does not.
func TestVulnerabilitiesThatCannotBeLookedUp(t *testing.T) {
	check := func(answer string, args ...string) (string, error) {
		bin := t.TempDir()
		tool := filepath.Join(bin, "govulncheck")
		script := "#!/bin/sh\ncase \"$*\" in *-version*) echo '" + answer + "';; *) echo looked up;; esac\n"
		if err := os.WriteFile(tool, []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "make", append([]string{"--no-print-directory", "-o", tool, "vulnerabilities", "BIN=" + bin}, args...)...)
		cmd.Dir = root
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const reached, lost = "DB updated: today", "dial tcp: no route to host"
	for name, c := range map[string]struct {
		answer, required, says string
		fails                  bool
	}{
		"reached":               {reached, "", "looked up", false},
		"reached, in a release": {reached, "1", "looked up", false},
		"lost":                  {lost, "", "cannot be reached, skipped", false},
		"lost, in a release":    {lost, "1", "cannot be reached: https://vuln.go.dev", true},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			out, err := check(c.answer, "GOVULNDB_REQUIRED="+c.required)
			g.Expect(err != nil).To(Equal(c.fails), out)
			g.Expect(out).To(ContainSubstring(c.says))
		})
	}
	release, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "release.yaml"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	NewWithT(t).Expect(string(release)).To(MatchRegexp(`run: make .*\blint\b.* GOVULNDB_REQUIRED=1\n`))
}
