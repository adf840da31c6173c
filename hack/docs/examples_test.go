// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// workload is a template or a patch. The API of United has no schema for these, so the test checks
// them against the type StatefulSet.
type workload struct {
	Metadata metav1.ObjectMeta      `json:"metadata"`
	Spec     appsv1.StatefulSetSpec `json:"spec"`
}

// strict decodes YAML and fails on unknown fields, as the API server does: yaml.UnmarshalStrict would
// accept servicename for serviceName.
func strict(text string, into any) error {
	raw, err := yaml.YAMLToJSONStrict([]byte(text))
	if err != nil {
		return err
	}
	unfit, err := json.UnmarshalStrict(raw, into)
	return errors.Join(append(unfit, err)...)
}

// example decodes a manifest, and the templates and patches in it, strictly.
func example(text string) error {
	u := &v1alpha1.UnitedDeployment{}
	if err := strict(text, u); err != nil {
		return err
	}
	parts := []*runtime.RawExtension{u.Spec.Template.StatefulSetTemplate}
	for i := range u.Spec.Topology.Subsets {
		parts = append(parts, u.Spec.Topology.Subsets[i].Patch)
	}
	for _, part := range parts {
		if part == nil {
			continue
		}
		if err := strict(string(part.Raw), &workload{}); err != nil {
			return fmt.Errorf("%s: %w", part.Raw, err)
		}
	}
	return nil
}

func TestExamples(t *testing.T) {
	g := NewWithT(t)
	count := 0
	for _, d := range documents(t) {
		for _, f := range d.fences {
			for text := range strings.SplitSeq(f.text, "\n---\n") {
				if f.language != "yaml" || !strings.Contains(text, "\nkind: UnitedDeployment\n") {
					continue
				}
				count++
				g.Expect(example(text)).To(Succeed(), "%s:%d", d.path, f.line)
			}
		}
	}
	g.Expect(count).To(BeNumerically(">", 0), "examples")
}

func TestMistakesInExamplesAreFound(t *testing.T) {
	g := NewWithT(t)
	const head = "apiVersion: apps.united.dev/v1alpha1\nkind: UnitedDeployment\nspec:\n"
	g.Expect(example(head + "  replicas: 1\n")).To(Succeed())
	g.Expect(example(head + "  replica: 1\n")).To(MatchError(ContainSubstring("replica")))
	g.Expect(example(head + "  template: {statefulSetTemplate: {spec: {servicename: x}}}\n")).To(MatchError(ContainSubstring("servicename")))
	g.Expect(example(head + "  topology: {subsets: [{name: a, patch: {specs: {}}}]}\n")).To(MatchError(ContainSubstring("specs")))
}

var patchCommand = regexp.MustCompile(`kubectl (?:-n \S+ )?patch united\S* .*--type=(\w+) -p '([^']*)'`)

var flagBeforePlugin = regexp.MustCompile(`kubectl -[^|\n]* united (approve|diff|force|history|hold|lint|partition|pause|plan|promote|release|restart|resume|retry|set|status|undo|wait|why)\b`)

// TestFlagsFollowThePlugin finds commands that kubectl refuses: a plugin takes the flags after its name.
func TestFlagsFollowThePlugin(t *testing.T) {
	g := NewWithT(t)
	g.Expect(flagBeforePlugin.MatchString("kubectl -n NAMESPACE united why NAME")).To(BeTrue())
	g.Expect(flagBeforePlugin.MatchString("kubectl united why NAME -n NAMESPACE")).To(BeFalse())
	g.Expect(flagBeforePlugin.MatchString("kubectl -n NAMESPACE scale united web --replicas=6")).To(BeFalse())
	for _, d := range documents(t) {
		for _, line := range d.prose {
			g.Expect(line).NotTo(MatchRegexp(flagBeforePlugin.String()), d.path)
		}
		for _, f := range d.fences {
			g.Expect(f.text).NotTo(MatchRegexp(flagBeforePlugin.String()), "%s:%d", d.path, f.line)
		}
	}
}

// TestSamplesHaveNamesOfTheirOwn lets a user apply all samples to one namespace.
func TestSamplesHaveNamesOfTheirOwn(t *testing.T) {
	g := NewWithT(t)
	files, err := filepath.Glob(root + "/config/samples/*.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(len(files)).To(BeNumerically(">", 10))
	first := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		g.Expect(err).NotTo(HaveOccurred())
		for manifest := range strings.SplitSeq(string(text), "\n---\n") {
			object := metav1.PartialObjectMetadata{}
			g.Expect(yaml.Unmarshal([]byte(manifest), &object)).To(Succeed(), file)
			key := object.Kind + " " + object.Name
			g.Expect(first).NotTo(HaveKey(key), "%s has it too", filepath.Base(file))
			first[key] = filepath.Base(file)
		}
	}
}

// TestPatches decodes the arguments of kubectl patch in the documents.
func TestPatches(t *testing.T) {
	g := NewWithT(t)
	count := map[string]int{}
	for _, d := range documents(t) {
		for _, f := range d.fences {
			for _, m := range patchCommand.FindAllStringSubmatch(f.text, -1) {
				count[m[1]]++
				var err error
				if m[1] == "merge" {
					err = strict(m[2], &v1alpha1.UnitedDeployment{})
				} else {
					err = strict(m[2], &[]struct {
						Op    string `json:"op"`
						Path  string `json:"path"`
						Value any    `json:"value"`
					}{})
				}
				g.Expect(err).NotTo(HaveOccurred(), "%s:%d %s", d.path, f.line, m[0])
			}
		}
	}
	g.Expect(count).To(And(HaveLen(2), HaveKey("merge"), HaveKey("json")), "kinds of patches")
}
