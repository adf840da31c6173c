// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

var updateReadme = flag.Bool("update-readme", false, "write what the commands of README.md say into it")

// TestReadmeTour runs the tour of README.md, and expects the output that is printed there. Ages, times,
// nodes of a zone and column widths may differ.
func TestReadmeTour(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	path := filepath.Join(root, "README.md")
	text, err := os.ReadFile(path)
	e.Expect(err).NotTo(HaveOccurred())
	before, tour, found := strings.Cut(string(text), "\n## A tour in five minutes\n")
	e.Expect(found).To(BeTrue())
	tour, after, found := strings.Cut(tour, "\n## ")
	e.Expect(found).To(BeTrue())

	shell := Shell(e, root)
	commands := 0
	tour = consoleFence.ReplaceAllStringFunc(tour, func(fence string) string {
		said := readSession(consoleFence.FindStringSubmatch(fence)[1])
		for i := range said {
			if strings.HasPrefix(said[i].command, "export ") {
				return fence // the shell already has the variable
			}
			commands++
			said[i].output = answers(e, shell, said[i])
		}
		return "```console\n" + writeSession(said) + "```"
	})
	e.Expect(commands).To(BeNumerically(">", 20))
	if *updateReadme {
		all := before + "\n## A tour in five minutes\n" + tour + "\n## " + after
		e.Expect(os.WriteFile(path, []byte(all), 0o600)).To(Succeed())
	}
}

var (
	inlineCommand = regexp.MustCompile("`(kubectl [^`]+)`")
	revisionName  = regexp.MustCompile(`web-[a-z0-9]{10}`)
)

// TestReadmeEquivalents runs the commands that README.md lists as replacements of kubectl rollout.
func TestReadmeEquivalents(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	root, section := readmeSection(e, "In place of `kubectl rollout`")
	commands := map[string]string{} // by the first cell of the table row
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			if command := inlineCommand.FindStringSubmatch(strings.Join(cells[2:], "|")); command != nil {
				commands[strings.Trim(cells[1], " `")] = command[1]
			}
		}
	}
	e.Expect(commands).To(And(HaveLen(5), HaveKey("status"), HaveKey("history"), HaveKey("restart"), HaveKey("pause"), HaveKey("resume")))

	shell := Shell(e, root)
	shell("sed 's/100%/0/' config/samples/web.yaml | kubectl apply -f -") // nothing is held
	w := e.Workload("web")
	w.Settle()
	e.Step("restart", func() {
		first := w.Parent().Status.CurrentRevision
		before := w.Pods()
		shell(commands["restart"])
		shell(commands["status"])
		w.Expect(w.Parent().Status.CurrentRevision).NotTo(Equal(first))
		after := w.Pods()
		w.Expect(after).To(HaveLen(len(before)))
		for i := range after {
			w.Expect(after[i].UID).NotTo(Equal(before[i].UID), "%s was made anew", after[i].Name)
		}
	})
	e.Step("pause and resume", func() {
		shell(commands["pause"])
		w.SetImage("v2")
		shell(commands["status"])
		w.Expect(w.Images()["zone-a"]).To(Equal("v1"))
		shell(commands["resume"])
		shell(commands["status"])
		w.Expect(w.Images()["zone-a"]).To(Equal("v2"))
	})
	e.Step("history and undo", func() {
		history := revisionName.FindAllString(shell(commands["history"]), -1)
		w.Expect(history).To(HaveLen(3))
		w.GoBackByHand(history[0])
		shell(commands["status"])
		w.Expect(w.Images()).To(Equal(Images{"zone-a": "v1", "zone-b": "v1 v1 v1", "zone-c": "v1 v1"}))
		w.Expect(w.Parent().Status.CurrentRevision).To(Equal(history[0]), "the same revision, and no new one")
	})
}

// TestReadmeCanary runs the canary in three commands of README.md, with the plugin and with plain kubectl.
func TestReadmeCanary(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	root, section := readmeSection(e, "A canary in three commands")
	forms := consoleFence.FindAllStringSubmatch(section, -1)
	e.Expect(forms).To(HaveLen(2))
	shell := Shell(e, root)
	shell("kubectl apply -f config/samples/web.yaml")
	w := e.Workload("web")
	for i, image := range []string{"v2", "v3"} {
		w.Settle()
		w.SetImage(image)
		w.Settle()
		w.Expect(w.Images()["zone-a"]).NotTo(Equal(image), "it is held")
		var commands []string
		for _, said := range readSession(forms[i][1]) {
			commands = append(commands, revisionName.ReplaceAllString(said.command, w.Parent().Status.UpdateRevision))
		}
		shell("set -e\n" + strings.Join(commands, "\n"))
		w.Settle()
		w.Expect(w.Images()).To(Equal(Images{"zone-a": image, "zone-b": strings.Join([]string{image, image, image}, " "), "zone-c": image + " " + image}))
	}
}

// readmeSection returns the root of the repository, and a section of README.md.
func readmeSection(e *Env, title string) (root, section string) {
	e.T.Helper()
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	e.Expect(err).NotTo(HaveOccurred())
	_, section, found := strings.Cut(string(text), "\n## "+title+"\n")
	e.Expect(found).To(BeTrue(), title)
	section, _, _ = strings.Cut(section, "\n## ")
	return root, section
}

// exchange is a command in a document, and the output that the document shows.
type exchange struct{ command, output string }

var consoleFence = regexp.MustCompile("(?s)```console\n(.*?)```")

// readSession reads the exchanges of a code fence.
func readSession(text string) (said []exchange) {
	for line := range strings.Lines(text) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			said = append(said, exchange{command: strings.TrimSpace(command)})
		} else if len(said) > 0 {
			said[len(said)-1].output += line
		}
	}
	for i := range said {
		said[i].output = strings.TrimSpace(said[i].output)
	}
	return said
}

func writeSession(said []exchange) string {
	var texts []string
	for _, s := range said {
		texts = append(texts, strings.TrimSpace("$ "+s.command+"\n"+s.output)+"\n")
	}
	return strings.Join(texts, "\n")
}

// answers runs a command, and returns its output. It retries a read-only command for a moment until the
// output matches.
func answers(e *Env, shell func(command string) string, said exchange) string {
	e.T.Helper()
	looks := strings.HasPrefix(said.command, "kubectl get ")
	switch {
	case *updateReadme && looks: // until the output no longer changes
		var last string
		e.Eventually(func() bool {
			before := last
			last = shell(said.command)
			return shape(last) == shape(before)
		}).WithPolling(4 * time.Second).Should(BeTrue())
		return last
	case *updateReadme:
		return shell(said.command)
	case looks:
		e.Eventually(func() string { return shape(shell(said.command)) }).Should(Equal(shape(said.output)), said.command)
	default:
		e.Expect(shape(shell(said.command))).To(Equal(shape(said.output)), said.command)
	}
	return said.output
}

var shapes = []struct {
	of *regexp.Regexp
	is string
}{
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`), "TIME"},
	{regexp.MustCompile(`\d+ \(\d+[sm]?\d*s? ago\)`), "RESTARTS"},
	{regexp.MustCompile(`\b(\d+m)?\d+s\b|\b\d+m\b`), "AGE"},
	{regexp.MustCompile(`(?m)(\s)(zone-[a-z])-\d\b`), "$1$2-N"},
	{regexp.MustCompile(`[ \t]+`), " "},
}

// shape removes from an output what differs from run to run.
func shape(output string) string {
	for _, s := range shapes {
		output = s.of.ReplaceAllString(output, s.is)
	}
	return output
}

// TestShape checks that shape keeps everything that matters.
func TestShape(t *testing.T) {
	t.Parallel()
	g := NewWithT(t)
	const pod = "web-zone-b-1   0/1     CrashLoopBackOff   1 (6s ago)     6s"
	g.Expect(shape("web-zone-b-1 0/1 CrashLoopBackOff 2 (1m5s ago)  1m10s")).To(Equal(shape(pod)))
	g.Expect(shape("web-zone-b-2   0/1     CrashLoopBackOff   1 (6s ago)     6s")).NotTo(Equal(shape(pod)))
	g.Expect(shape("web-zone-b-1   1/1     Running   0     6s")).NotTo(Equal(shape(pod)))
	g.Expect(shape("web-zone-b-1   zone-b-2   v1")).To(Equal(shape("web-zone-b-1   zone-b-1   v1")))
	g.Expect(shape("web-zone-b-1   zone-a-2   v1")).NotTo(Equal(shape("web-zone-b-1   zone-b-1   v1")))
	g.Expect(readSession("$ a\nx\ny\n\n$ b\n")).To(Equal([]exchange{{"a", "x\ny"}, {"b", ""}}))
	g.Expect(writeSession(readSession("$ a\nx\ny\n\n$ b\n"))).To(Equal("$ a\nx\ny\n\n$ b\n"))
}
