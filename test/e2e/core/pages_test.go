// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package core

import (
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/test/cluster"
	. "github.com/unitedworkloads/united/test/e2e/env"
)

var updateTutorial = flag.Bool("update-tutorial", false, "write what the commands of docs/tutorial.md say into it")

// TestTutorial runs docs/tutorial.md, and expects the output that is printed there. Ages, times, nodes of a zone and column
// widths may differ.
func TestTutorial(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	root, text := page(e, "docs/tutorial.md")
	shell := Shell(e, root)
	commands := 0
	text = consoleFence.ReplaceAllStringFunc(text, func(fence string) string {
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
	if *updateTutorial {
		e.Expect(os.WriteFile(filepath.Join(root, "docs", "tutorial.md"), []byte(text), 0o600)).To(Succeed())
	}
}

var (
	inlineCommand = regexp.MustCompile("`(kubectl [^`]+)`")
	revisionName  = regexp.MustCompile(`web-([a-z0-9]{26}|[a-z0-9]{10})\b`)
)

// TestCommands runs the commands that docs/commands.md lists in place of kubectl rollout: those of the plugin, and plain kubectl.
func TestCommands(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	root, text := page(e, "docs/commands.md")
	forms := [2]map[string]string{{}, {}} // the commands of a column, by the first cell of the row
	for line := range strings.Lines(section(e, text, "In place of `kubectl rollout`")) {
		cells := strings.SplitN(line, "|", 4)
		if len(cells) < 4 {
			continue
		}
		for i, form := range forms {
			if command := inlineCommand.FindStringSubmatch(cells[2+i]); command != nil {
				form[strings.Trim(cells[1], " `")] = command[1]
			}
		}
	}
	e.Expect(slices.Sorted(maps.Keys(forms[0]))).To(Equal([]string{"history", "pause", "restart", "resume", "status", "undo"}))
	e.Expect(slices.Sorted(maps.Keys(forms[1]))).To(Equal([]string{"history", "pause", "restart", "resume", "status"}))

	shell := Shell(e, root)
	shell("sed 's/100%/0/' config/samples/web.yaml | kubectl apply -f -") // nothing is held
	w := e.Workload("web")
	w.Settle()
	everywhere := func(image string) Images {
		return Images{"zone-a": image, "zone-b": strings.Join([]string{image, image, image}, " "), "zone-c": image + " " + image}
	}
	was, staged := "v1", "v2"
	for _, commands := range forms {
		first := w.Parent().Status.CurrentRevision
		e.Step("restart", func() {
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
			w.SetImage(staged)
			shell(commands["status"])
			w.Expect(w.Images()).To(Equal(everywhere(was)))
			shell(commands["resume"])
			shell(commands["status"])
			w.Expect(w.Images()).To(Equal(everywhere(staged)))
		})
		e.Step("history and undo", func() {
			var shown []string
			for _, name := range revisionName.FindAllString(shell(commands["history"]), -1) {
				shown = append(shown, known.Short(name))
			}
			w.Expect(shown).To(ContainElements(known.Short(first), known.Short(w.Parent().Status.CurrentRevision)))
			if undo := commands["undo"]; undo != "" {
				shell(undo)
			} else {
				w.GoBackByHand(first)
			}
			shell(commands["status"])
			w.Expect(w.Images()).To(Equal(everywhere(was)))
		})
		staged = "v3"
	}
}

// TestReadmeCanary runs the canary in three commands of README.md, with the plugin and with plain kubectl.
func TestReadmeCanary(t *testing.T) {
	t.Parallel()
	e := NewEnv(t)
	root, text := page(e, "README.md")
	forms := consoleFence.FindAllStringSubmatch(section(e, text, "A canary in three commands"), -1)
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

// page returns the root of the repository, and the text of a document.
func page(e *Env, name string) (root, text string) {
	e.T.Helper()
	root, err := cluster.Root()
	e.Expect(err).NotTo(HaveOccurred())
	content, err := os.ReadFile(filepath.Join(root, name))
	e.Expect(err).NotTo(HaveOccurred())
	return root, string(content)
}

func section(e *Env, text, title string) string {
	e.T.Helper()
	_, section, found := strings.Cut(text, "\n## "+title+"\n")
	e.Expect(found).To(BeTrue(), title)
	section, _, _ = strings.Cut(section, "\n## ")
	return section
}

// exchange is a command in a document, and the output that the document shows.
type exchange struct{ command, output string }

var consoleFence = regexp.MustCompile("(?s)```console\n(.*?)```")

// printed is what the plugin prints below a command that changes something: the command of kubectl that does the same.
var printed = regexp.MustCompile(`^\$ kubectl (patch|annotate) `)

// readSession reads the exchanges of a code fence.
func readSession(text string) (said []exchange) {
	last := ""
	for line := range strings.Lines(text) {
		above := last
		last = line
		command, ok := strings.CutPrefix(line, "$ ")
		if ok && (!printed.MatchString(line) || !strings.HasPrefix(above, "$ kubectl united ")) {
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
func answers(e *Env, run func(command string) string, said exchange) string {
	e.T.Helper()
	shell := func(command string) string { return strings.ReplaceAll(run(command), e.Namespace, "default") }
	looks := strings.HasPrefix(said.command, "kubectl get ") || strings.HasPrefix(said.command, "kubectl united status ")
	switch {
	case *updateTutorial && looks: // until the output no longer changes
		var last string
		e.Eventually(func() bool {
			before := last
			last = shell(said.command)
			return shape(last) == shape(before)
		}).WithPolling(4 * time.Second).Should(BeTrue())
		return last
	case *updateTutorial:
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
	g.Expect(readSession("$ kubectl united x\n$ kubectl patch y\nz\n\n$ kubectl patch b\n")).To(Equal([]exchange{
		{"kubectl united x", "$ kubectl patch y\nz"}, {"kubectl patch b", ""},
	}))
	g.Expect(writeSession(readSession("$ a\nx\ny\n\n$ b\n"))).To(Equal("$ a\nx\ny\n\n$ b\n"))
}
