// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
)

// translated are phrases that read as translated, and what to write instead. Messages and documents
// are in plain, active, modern English: see CONTRIBUTING.md.
var translated = []struct {
	phrase  *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\bwaits: `), "waiting for web-0 (not ready since ...)"},
	{regexp.MustCompile(`\bwaits until .* (observed|gone)\b`), "waiting for"},
	{regexp.MustCompile(`(?i)\bfrom then on\b`), "now; from now on"},
	{regexp.MustCompile(`\bgoes on (when|where|at|after|by itself)\b`), "continues; to continue, run: ..."},
	{regexp.MustCompile(`\bgo on by itself\b`), "continue by itself"},
	{regexp.MustCompile(`\b(that|which) is well\b|\bwas well\b|\ball is well\b`), "healthy"},
	{regexp.MustCompile(`\btaken down\b`), "disrupted"},
	{regexp.MustCompile(`\b(take|takes|taken) note\b`), "record, observe"},
	{regexp.MustCompile(`\bliving (subset|child|pod|object)`), "existing"},
	{regexp.MustCompile(`(?i)\bdoes a controller work\b|\bworks at all\b`), "is a controller running?"},
	{regexp.MustCompile(`\b(is|are|was|were) to (be|take|have|get|come|go|tell|make|give|remember|run|replace|record)\b`), "must, will, has yet to"},
	{regexp.MustCompile(`\b(put|puts|putting) (it |them |that )?right\b`), "restore, correct, fix"},
	{regexp.MustCompile(`\b(not|is|are) looked at\b`), "checked, known"},
	{regexp.MustCompile(`\bany more\b`), "anymore, no longer"},
	{regexp.MustCompile(`\bas far as is known\b`), "when last seen"},
	{regexp.MustCompile(`\b(it|this|that) is (said|told)\b`), "the status says"},
	{regexp.MustCompile(`\bwhatever the health\b`), "even if replicas are unhealthy"},
	{regexp.MustCompile(`\bnobody else's hold\b|\bhold up all others\b`), "delay"},
	{regexp.MustCompile(`(^|[.:;] )Beside\b|\bbeside (them|it|those|what)\b`), "in addition to, next to"},
	{regexp.MustCompile(`\bshall\b`), "must, will, should"},
	{regexp.MustCompile(`\bof another name\b`), "with another name"},
	{regexp.MustCompile(`\bagain and again\b`), "repeatedly, keeps"},
	{regexp.MustCompile(`\bmade anew\b|\bbegins anew\b`), "created again"},
	{regexp.MustCompile(`\bone's own\b`), "your own"},
	{regexp.MustCompile(`\bhas to be there\b|\bmust be there\b|\bis there any more\b`), "must exist"},
	{regexp.MustCompile(`\bmisspelt\b|\bhonour|\b[Bb]ehaviour`), "American spelling: misspelled, honor, behavior"},
	{regexp.MustCompile(`(^|[.:;] |\*\*)Who(ever)? (has|may|can|knows|edits|parses|forges|removes|changes)\b`), "a user who may ...; if somebody changes ..."},
	{regexp.MustCompile(`\b([Ii]ts|[Tt]he|no|missing|same) rights\b|\bmissing right\b|\brights? (on|to (create|change|run)|of its)\b`), "permission"},
	{regexp.MustCompile(`\bmid-(canary|rollout|release|pass)\b`), "during a canary"},
	{regexp.MustCompile(`\b(is|are|was|were) (not )?made again\b`), "created again"},
	{regexp.MustCompile(`\b(tell|tells|told) of (it|them|an?|the)\b`), "reports it; the event says"},
	{regexp.MustCompile(`\bthe (words of the (API server|scheduler)|(server|scheduler)'s (own )?words)\b`), "the message quotes the API server"},
	{regexp.MustCompile(`\bby turns\b`), "alternately"},
	{regexp.MustCompile(`\b(the|from the) ones? before\b([ ,.;:]|$)|\bof before\b`), "the previous one"},
	{regexp.MustCompile(`\b(move|moves|moved) nothing\b|\bnothing (moves|moved)\b`), "updates nothing; no replica is updated"},
	{regexp.MustCompile(`\bnobody asks for\b`), "neither the new version nor the protected one"},
	{regexp.MustCompile(`\bwins? over\b`), "overrides"},
	{regexp.MustCompile(`\bwhen (empty|not given)\b`), "if empty; if not given"},
	{regexp.MustCompile(`(^|[.:;] )What (is|was) [a-z]+ (is|was|are|comes|goes|has|holds|stays)\b`), "name the subject: released replicas are"},
	{regexp.MustCompile(`\b(forgotten|wait|waits|waited|stopped|hung) for good\b|\bin vain\b`), "forever, permanently; has no effect"},
	{regexp.MustCompile(`\bhow to go on\b|\bTo go on\b|\bgoes on[.,]`), "continue"},
	{regexp.MustCompile(`\bThat is so\b|\bis so of\b`), "this is true for"},
	{regexp.MustCompile(`\bbe(en)? (put|taken) back\b`), "restored, reverted"},
}

// translatedPhrases returns the phrases that it finds in a text, with what to write instead.
func translatedPhrases(text string) (found []string) {
	for _, t := range translated {
		if phrase := t.phrase.FindString(text); phrase != "" {
			found = append(found, strconv.Quote(strings.TrimSpace(phrase))+": rather "+strconv.Quote(t.instead))
		}
	}
	return found
}

// TestTranslatedPhrasesAreFound is the positive control, with phrases that messages and documents
// once had.
func TestTranslatedPhrasesAreFound(t *testing.T) {
	g := NewWithT(t)
	for _, text := range []string{
		"waits: web-0 CrashLoopBackOff since 2026-11-20T13:47:56Z", "waits: 2 of 1 replicas exist",
		"a replica was ready: from then on partitions protect", "goes on when the annotation united.dev/approved is k",
		"so nothing that is well is taken down", "waits: web-zone-a is to take note of web-1", "is immutable in a living subset: remove it",
		"# does a controller work at all?", "Does a controller work at all?", "waits until web-0 has been observed", "what is put right",
		"nobody asks for any more", "Beside them are those of the libraries", "the replicas are not looked at",
		"Who parses messages has to look again", "**Whoever has the controller's token can run any pod", "the controller and its rights",
		"The right on uniteddeployments/scale", "Scaling in mid-canary", "a pod deleted above an unready one is not made again", "only the event tells of it",
		"The message has the words of the API server", "by turns: a merge patch", "helm rollback stages the one before", "Raising a partition moves nothing",
		"a version that nobody asks for", "They win over labels in the template", "all when not given", "What is released goes back", "it has forgotten for good",
		"the status says how to go on", "That is so of every controller", "Behaviour: test/e2e",
	} {
		g.Expect(translatedPhrases(text)).NotTo(BeEmpty(), text)
	}
	for _, text := range []string{
		"waiting for web-0 (CrashLoopBackOff since 2026-11-20T13:47:56Z)", "scaling down: 2 replicas, 1 wanted",
		"first replica became ready; partitions now take effect", "to continue, run: kubectl annotate ...", "no healthy replica will be disrupted",
		"waiting for web-zone-a to record revision web-1", "is immutable for an existing subset", "Is a controller running?",
		"What is a replica?", "A user who may create UnitedDeployments", "the permissions of the controller", "during a canary", "the zones before it",
		"the previous one", "the right version", "tells how many replicas", "What happens to a replica",
	} {
		g.Expect(translatedPhrases(text)).To(BeEmpty(), text)
	}
}

// TestWordsOfDocuments checks every document that a user reads, with its examples.
func TestWordsOfDocuments(t *testing.T) {
	g := NewWithT(t)
	read := 0
	for path, d := range documents(t) {
		if slices.Contains([]string{"CHANGELOG.md"}, path) {
			continue // it quotes earlier messages
		}
		read++
		for i, line := range d.prose {
			g.Expect(translatedPhrases(line)).To(BeEmpty(), "%s:%d: %s", path, i+1, line)
		}
		for _, f := range d.fences {
			for i, line := range strings.Split(f.text, "\n") {
				g.Expect(translatedPhrases(line)).To(BeEmpty(), "%s:%d: %s", path, f.line+i+1, line)
			}
		}
	}
	g.Expect(read).To(BeNumerically(">", 15))
}

// TestWordsOfMessages checks the string literals of all packages that run, the messages of the API's
// rules, the admission policy, the samples, and what make and the charts print.
func TestWordsOfMessages(t *testing.T) {
	g := NewWithT(t)
	literals := 0
	for _, dir := range []string{"apis", "adapters", "controllers", "cmd", "test/demo", "test/playground"} {
		g.Expect(filepath.WalkDir(filepath.Join(root, dir), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(node ast.Node) bool {
				if literal, ok := node.(*ast.BasicLit); ok && literal.Kind == token.STRING {
					literals++
					g.Expect(translatedPhrases(literal.Value)).To(BeEmpty(), "%s: %s", path, literal.Value)
				}
				return true
			})
			for _, group := range file.Comments {
				for _, comment := range group.List {
					if strings.Contains(comment.Text, "XValidation") || strings.HasSuffix(path, "reasons.go") {
						g.Expect(translatedPhrases(comment.Text)).To(BeEmpty(), "%s: %s", path, comment.Text)
					}
				}
			}
			return nil
		})).To(Succeed())
	}
	g.Expect(literals).To(BeNumerically(">", 1000))
	for _, path := range textFiles(g) {
		text, err := os.ReadFile(path)
		g.Expect(err).NotTo(HaveOccurred())
		for i, line := range strings.Split(string(text), "\n") {
			g.Expect(translatedPhrases(line)).To(BeEmpty(), "%s:%d: %s", path, i+1, line)
		}
	}
}

// textFiles returns the files that users read and that are neither documents nor code.
func textFiles(g Gomega) []string {
	files := []string{root + "/config/admission/policy.yaml", root + "/config/admission/colocation.yaml", root + "/Makefile"}
	for pattern, least := range map[string]int{
		"charts/*/templates/NOTES.txt": 2, "charts/*/values.yaml": 2,
		"config/samples/*.yaml": 10, "config/samples/*/*.yaml": 1, "config/samples/*/*/*.yaml": 1, "config/samples/*/*/*/*.yaml": 1,
	} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(len(found)).To(BeNumerically(">=", least), pattern)
		files = append(files, found...)
	}
	slices.Sort(files)
	return files
}
