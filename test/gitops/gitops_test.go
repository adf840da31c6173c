// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package gitops

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	. "github.com/onsi/gomega"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

var root = filepath.Join("..", "..")

// stored reads an object of testdata. Its numbers are int64, as in an object from the API server.
func stored(t *testing.T, name string) map[string]any {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".yaml"))
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	raw, err := yaml.YAMLToJSON(text)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	object, err := decode(raw)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return object
}

func load(t *testing.T) *Tools {
	t.Helper()
	tools, err := Load(root)
	NewWithT(t).Expect(err).NotTo(HaveOccurred())
	return tools
}

func TestStates(t *testing.T) {
	tools := load(t)
	for _, state := range States() {
		t.Run(state.Name, func(t *testing.T) {
			g := NewWithT(t)
			object := stored(t, state.Name)
			g.Expect(tools.Verdicts(state.Name, object)).To(Equal(state), "%v", Ready(object))
			health, err := tools.Argo.Health(object)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(health.Message).NotTo(BeEmpty())
			if health.Status != "Degraded" && state.Name != "new" && state.Name != "not-observed" && state.Name != "being-deleted" {
				g.Expect(health.Message).To(Equal(Ready(object)["message"]))
			}
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	g := NewWithT(t)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(files).To(HaveLen(len(States())), "a file without a state")
}

// TestToolsAgree checks that the tools never contradict each other: what kstatus calls failed is degraded,
// and what it calls current is healthy or waits for people.
func TestToolsAgree(t *testing.T) {
	g := NewWithT(t)
	for _, s := range States() {
		g.Expect(s.Argo == "Degraded").To(Equal(s.KStatus == "Failed"), s.Name)
		g.Expect(s.Argo == "Healthy" || s.Argo == "Suspended").To(Equal(s.KStatus == "Current"), s.Name)
		g.Expect(s.Flux == "Current").To(Equal(s.Argo == "Healthy"), s.Name)
		g.Expect(s.Flux == "Failed").To(Equal(s.KStatus == "Failed"), s.Name)
	}
}

var healthRow = regexp.MustCompile("(?m)^\\| (`[A-Z][A-Za-z`, ]*`) \\| (\\w+) \\| (\\w+) \\| (\\w+) \\|$")

// TestEveryStateIsThere checks that testdata has an object for every reason and verdict in the table of docs/gitops.md.
func TestEveryStateIsThere(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root, "docs", "gitops.md"))
	g.Expect(err).NotTo(HaveOccurred())
	_, table, found := strings.Cut(string(text), "\n## Health\n")
	g.Expect(found).To(BeTrue())
	have := map[State]bool{}
	for _, s := range States() {
		s.Name = ""
		have[s] = true
	}
	documented := 0
	for _, row := range healthRow.FindAllStringSubmatch(table, -1) {
		for reason := range strings.SplitSeq(strings.ReplaceAll(row[1], "`", ""), ", ") {
			documented++
			says := State{Reason: reason, Argo: row[2], KStatus: row[3], Flux: row[4]}
			g.Expect(have).To(HaveKey(says), "no state is like that")
		}
	}
	g.Expect(documented).To(BeNumerically(">=", 15))
}

// TestActions checks which actions are offered, and what they send.
func TestActions(t *testing.T) {
	argo := load(t).Argo
	for _, c := range []struct {
		state, action, label string
		patch                string // "" if the action is disabled
	}{
		{"held-by-hand", "release", "Release zone-b", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"zone-b":0},"revision":"web-5w692c674c"}}}}`},
		{"held-by-hand", "hold", "Hold all subsets", `{"spec":{"updateStrategy":{"manualUpdate":{"partitions":null}}}}`},
		{"held-by-hand", "approve", "Approve the step", ""},
		{"held-by-hand", "pause", "Pause", `{"spec":{"paused":true}}`},
		{"held-by-hand", "resume", "Resume", ""},
		{"complete", "release", "Release", ""},
		{"complete", "hold", "Hold all subsets", `{"spec":{"updateStrategy":{"manualUpdate":{"defaultPartition":"100%"}}}}`},
		{"rollout-held", "release", "Release", ""},
		{"rollout-held", "hold", "Hold all subsets", ""},
		{"awaiting-approval", "approve", "Approve the step", `{"metadata":{"annotations":{"united.dev/approved":"KEY"}}}`},
		{"paused", "pause", "Pause", ""},
		{"paused", "resume", "Resume", `{"spec":{"paused":false}}`},
	} {
		t.Run(c.state+" "+c.action, func(t *testing.T) {
			g := NewWithT(t)
			object := stored(t, c.state)
			actions, err := argo.Actions(object)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(actions).To(HaveLen(6))
			g.Expect(actions).To(HaveKey(c.action))
			g.Expect(actions[c.action].DisplayName).To(Equal(c.label))
			g.Expect(actions[c.action].Disabled).To(Equal(c.patch == ""))
			g.Expect(actions[c.action].IconClass).To(HavePrefix("fa fa-fw fa-"))
			patch, err := argo.Patch(c.action, object)
			g.Expect(err).NotTo(HaveOccurred())
			if c.patch == "" {
				g.Expect(patch).To(MatchJSON(`{}`), "a disabled action changes nothing")
				return
			}
			g.Expect(patch).To(MatchJSON(strings.ReplaceAll(c.patch, "KEY", approvalKey(object))))
		})
	}
}

func approvalKey(object map[string]any) string {
	parent := struct {
		Status struct {
			Rollout struct{ ApprovalKey string }
		}
	}{}
	_ = convert(object, &parent)
	return parent.Status.Rollout.ApprovalKey
}

// TestRestart checks the paths of the annotation in every kind of template, and that nothing else is
// changed: objects and lists that are empty stay what they are.
func TestRestart(t *testing.T) {
	argo := load(t).Argo
	const pod = `{"metadata":{"labels":{"app":"web"}},"spec":{"volumes":[{"name":"v","emptyDir":{}}],"securityContext":{},"tolerations":[],"containers":[{"name":"web"}]}}`
	const note = `{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"TIME"}}}`
	for template, want := range map[string]string{
		`{"statefulSetTemplate":{"metadata":{},"spec":{"template":` + pod + `}}}`:                                 `{"statefulSetTemplate":{"spec":{"template":` + note + `}}}`,
		`{"deploymentTemplate":{"spec":{"template":` + pod + `}}}`:                                                `{"deploymentTemplate":{"spec":{"template":` + note + `}}}`,
		`{"cloneSetTemplate":{"spec":{"template":` + pod + `}}}`:                                                  `{"cloneSetTemplate":{"spec":{"template":` + note + `}}}`,
		`{"leaderWorkerSetTemplate":{"spec":{"leaderWorkerTemplate":{"size":2,"workerTemplate":` + pod + `}}}}`:   `{"leaderWorkerSetTemplate":{"spec":{"leaderWorkerTemplate":{"workerTemplate":` + note + `}}}}`,
		`{"leaderWorkerSetTemplate":{"spec":{"leaderWorkerTemplate":{"leaderTemplate":{},"workerTemplate":{}}}}}`: `{"leaderWorkerSetTemplate":{"spec":{"leaderWorkerTemplate":{"leaderTemplate":` + note + `,"workerTemplate":` + note + `}}}}`,
		`{"advancedStatefulSetTemplate":{"spec":{"template":{"metadata":{"annotations":{"a":"b"}},"spec":{}}}}}`:  `{"advancedStatefulSetTemplate":{"spec":{"template":` + note + `}}}`,
	} {
		g := NewWithT(t)
		object, err := decode([]byte(`{"metadata":{"name":"web"},"spec":{"template":` + template + `,"topology":{"subsets":[{"name":"a","nodeSelector":{}}]}}}`))
		g.Expect(err).NotTo(HaveOccurred())
		patch, err := argo.Patch("restart", object)
		g.Expect(err).NotTo(HaveOccurred())
		at := regexp.MustCompile(`"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)
		g.Expect(string(patch)).To(MatchRegexp(at.String()))
		g.Expect(at.ReplaceAll(patch, []byte(`"TIME"`))).To(MatchJSON(`{"spec":{"template":` + want + `}}`))
	}
}

// TestReleaseOrder checks that repeated releases go through the subsets in the order of the spec, from
// every way to write a hold.
func TestReleaseOrder(t *testing.T) {
	argo := load(t).Argo
	g := NewWithT(t)
	object, err := decode([]byte(`{"metadata":{},"spec":{"topology":{"subsets":[{"name":"a"},{"name":"b"},{"name":"c"},{"name":"d"}]},
		"updateStrategy":{"type":"Manual","manualUpdate":{"partitions":{"b":"0%","c":"50%","d":3}}}}}`))
	g.Expect(err).NotTo(HaveOccurred())
	for _, next := range []string{"a", "c", "d"} {
		actions, err := argo.Actions(object)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(actions["release"].DisplayName).To(Equal("Release " + next))
		patch, err := argo.Patch("release", object)
		g.Expect(err).NotTo(HaveOccurred())
		g.Expect(patch).To(MatchJSON(`{"spec":{"updateStrategy":{"manualUpdate":{"partitions":{"` + next + `":0}}}}}`))
		object, err = patched(object, patch)
		g.Expect(err).NotTo(HaveOccurred())
	}
	actions, err := argo.Actions(object)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(actions["release"].Disabled).To(BeTrue())
	g.Expect(argo.Patch("release", object)).To(MatchJSON(`{}`))
}

// TestOnlyLibrariesOfArgoCD is the control: other libraries are missing, as in Argo CD.
func TestOnlyLibrariesOfArgoCD(t *testing.T) {
	g := NewWithT(t)
	for _, script := range []string{"return string.format('x')", "return math.floor(1)", "return io.open('/etc/passwd')", "return os.exit(1)", "return ('x'):rep(2)",
		"local os = require('os'); return os.getenv('HOME')"} {
		_, err := runLua(script, nil)
		g.Expect(err).To(HaveOccurred(), script)
	}
	g.Expect(runLua("local os = require('os'); return {t = os.date('!%Y', 0), l = table.concat({'a', 'b'})}", nil)).
		To(Equal(map[string]any{"t": "1970", "l": "ab"}))
	_, err := runLua("while true do end", nil)
	g.Expect(err).To(HaveOccurred(), "it ends after a second")
}

// TestMistakesAreFound is the control of Health and Actions.
func TestMistakesAreFound(t *testing.T) {
	g := NewWithT(t)
	_, err := (&ArgoCD{health: `return {status = "Fine"}`}).Health(nil)
	g.Expect(err).To(MatchError(ContainSubstring("Fine")))
	_, err = (&ArgoCD{discovery: `return {a = {disabled = false}, b = {disabled = true}}`, actions: map[string]string{"a": "return obj"}}).Actions(nil)
	g.Expect(err).To(MatchError(ContainSubstring(`"b" has no definition`)))
	_, err = runLua("return {1, a = 2}", nil)
	g.Expect(err).To(MatchError(ContainSubstring("both a list and an object")))
}

// decode decodes JSON with int64 for whole numbers, as the clients of the API server do.
func decode(raw []byte) (map[string]any, error) {
	object := map[string]any{}
	err := utiljson.Unmarshal(raw, &object)
	return object, err
}

// patched applies a merge patch.
func patched(object map[string]any, patch []byte) (map[string]any, error) {
	before, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	after, err := jsonpatch.MergePatch(before, patch)
	if err != nil {
		return nil, err
	}
	return decode(after)
}
