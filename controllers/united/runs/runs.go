// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package runs has what checks of type job and analysis start: what the Job or the AnalysisRun of a step looks like, what is
// refused, and what became of it. It has no client.
package runs

import (
	"fmt"
	"maps"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// The kinds of runs, and of the templates of analyses.
var (
	JobKind             = schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}
	AnalysisKind        = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "AnalysisRun"}
	TemplateKind        = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "AnalysisTemplate"}
	ClusterTemplateKind = schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "ClusterAnalysisTemplate"}
)

// Identity is what a run gets whatever its template says.
type Identity struct {
	Namespace, Name string
	// Parent is the name of the UnitedDeployment, and Owner refers to it.
	Parent string
	Owner  metav1.OwnerReference
	// Check is the name of the check.
	Check string
}

// object returns an object of a kind with this identity. Its other labels and annotations are those given.
func (id *Identity) object(kind schema.GroupVersionKind, metadata map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"metadata": maps.Clone(metadata)}}
	if metadata == nil {
		u.Object["metadata"] = map[string]any{}
	}
	unstructured.RemoveNestedField(u.Object, "metadata", "generateName")
	u.SetGroupVersionKind(kind)
	u.SetNamespace(id.Namespace)
	u.SetName(id.Name)
	u.SetOwnerReferences([]metav1.OwnerReference{id.Owner})
	labels := maps.Clone(u.GetLabels())
	if labels == nil {
		labels = map[string]string{}
	}
	labels[v1alpha1.LabelName], labels[v1alpha1.LabelCheck] = id.Parent, id.Check
	u.SetLabels(labels)
	return u
}

// State is what became of a run.
type State int

// The states of a run.
const (
	// Running: it has not finished.
	Running State = iota
	// Succeeded: it has done what the check asks for.
	Succeeded
	// Failed: it will not.
	Failed
	// Undecided: it has ended without a result.
	Undecided
)

// Outcome is the state of a run, and why it is not Succeeded.
type Outcome struct {
	State   State
	Message string
}

// maxMessage bounds what a run says in the status, in characters. It may quote what a server answered.
const maxMessage = 300

// Cut returns a text as one line that is not too long for a status.
func Cut(text string) string {
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text, "")), " ")
	if runes := []rune(text); len(runes) > maxMessage {
		return string(runes[:maxMessage]) + "..."
	}
	return text
}

// Read returns what became of a run.
func Read(u *unstructured.Unstructured) Outcome {
	if u.GetKind() == JobKind.Kind {
		return readJob(u)
	}
	return readAnalysis(u)
}

// text returns the string at a path; "" if there is none.
func text(fields map[string]any, path ...string) string {
	value, _, err := unstructured.NestedString(fields, path...)
	if err != nil {
		return ""
	}
	return value
}

// list returns the objects of the list at a path.
func list(fields map[string]any, path ...string) []map[string]any {
	value, _, err := unstructured.NestedFieldNoCopy(fields, path...)
	items, ok := value.([]any)
	if err != nil || !ok {
		return nil
	}
	var objects []map[string]any
	for _, item := range items {
		if object, ok := item.(map[string]any); ok {
			objects = append(objects, object)
		}
	}
	return objects
}

func outcome(state State, format string, args ...any) Outcome {
	return Outcome{state, Cut(fmt.Sprintf(format, args...))}
}

// Named returns the kind and the name of a run as a plan names it (known.CheckAsk.Run), "job/name" or "analysisrun/name".
func Named(run string) (schema.GroupVersionKind, string) {
	resource, name, _ := strings.Cut(run, "/")
	if resource == "job" {
		return JobKind, name
	}
	return AnalysisKind, name
}

// Finished reports whether a run will do nothing more.
func Finished(u *unstructured.Unstructured) bool { return Read(u).State != Running }

// NotPermitted says what to do about a missing right on runs of a kind.
func NotPermitted(kind schema.GroupVersionKind) string {
	value := "checks.jobs"
	if kind.Group == AnalysisKind.Group {
		value = "checks.analysis"
	}
	return fmt.Sprintf("United is not permitted to use %ss: set %s: true in the values of its Helm chart", kind.Kind, value)
}

// TemplateNotPermitted says the same about a template. A ClusterAnalysisTemplate needs more than the right of its kind: whoever may
// create a UnitedDeployment gets a copy, with arguments of their own.
func TemplateNotPermitted(template *unstructured.Unstructured) string {
	kind, name := template.GroupVersionKind(), template.GetName()
	if kind != ClusterTemplateKind {
		return NotPermitted(kind)
	}
	return fmt.Sprintf("United is not permitted to use %s %s: add %s to checks.clusterAnalysisTemplates in the values of its Helm chart", kind.Kind, name, name)
}
