// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lint finds what is wrong in manifests of UnitedDeployments before a cluster sees them. It is pure.
package lint

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Finding is one thing that is wrong.
type Finding struct {
	File string `json:"file"`
	// Name is that of the UnitedDeployment; "" if its document cannot be read.
	Name string `json:"name,omitempty"`
	// Field is a path in it; "" if it is about all of it.
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
	// Advice: it is legal, but surely not meant.
	Advice bool `json:"advice,omitempty"`
}

// String is the finding on one line.
func (f Finding) String() string {
	text := f.File + ": "
	for _, part := range []string{f.Name, f.Field} {
		if part != "" {
			text += part + ": "
		}
	}
	return text + strings.Join(strings.Fields(f.Message), " ")
}

// File returns what is wrong in the documents of a file, YAML or JSON, and how many UnitedDeployments it has. It passes over other
// kinds.
func File(file string, content []byte) (findings []Finding, count int) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(content)))
	for number := 1; ; number++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return findings, count
		}
		if err != nil { // of a bytes.Reader there is no other
			return append(findings, Finding{File: file, Message: err.Error()}), count
		}
		of, n, err := objects(document)
		for _, f := range of {
			if f.File = file; f.Field == "" && strings.HasPrefix(f.Message, "line ") {
				f.Message = fmt.Sprintf("document %d, %s", number, f.Message)
			}
			findings = append(findings, f)
		}
		if count += n; err != nil {
			findings = append(findings, Finding{File: file, Message: fmt.Sprintf("document %d: %s", number, trimmed(err))})
		}
	}
}

// openKruise is the group of the UnitedDeployment of OpenKruise. A pipeline must not take one for checked.
const openKruise, untranslated = "apps.kruise.io", "is that of OpenKruise: write apps.united.dev/v1alpha1, and lint says what else to change"

// trimmed returns what an error says, without where in the code it comes from.
func trimmed(err error) string {
	text := err.Error()
	for _, prefix := range []string{"error converting YAML to JSON: ", "error unmarshaling JSON: ", "yaml: ", "unmarshal errors:", "json: "} {
		text = strings.TrimSpace(strings.TrimPrefix(text, prefix))
	}
	return text
}

// objects returns what is wrong in the UnitedDeployments of a document, which is one, or a list, as kubectl get prints it.
func objects(document []byte) (findings []Finding, count int, err error) {
	text, err := yaml.YAMLToJSON(document)
	if err != nil {
		return nil, 0, err
	}
	head := struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name string `json:"name"`
		} `json:"metadata"`
		Items []json.RawMessage `json:"items"`
	}{}
	if err := json.Unmarshal(text, &head); err != nil {
		return nil, 0, nil //nolint:nilerr // not an object of Kubernetes, such as the values of a chart
	}
	if strings.HasSuffix(head.Kind, "List") {
		for _, item := range head.Items {
			of, n, err := objects(item)
			if findings, count = append(findings, of...), count+n; err != nil {
				return findings, count, err
			}
		}
		return findings, count, nil
	}
	version, err := schema.ParseGroupVersion(head.APIVersion)
	if err == nil && version.Group == openKruise && head.Kind == v1alpha1.Kind {
		return []Finding{{Name: head.Metadata.Name, Field: "apiVersion", Message: untranslated}}, 0, nil
	}
	if err != nil || version.Group != v1alpha1.GroupVersion.Group {
		return nil, 0, nil //nolint:nilerr // another kind
	}
	if head.Kind != v1alpha1.Kind { // the group has no other one, so a pipeline must not pass over it
		message := "is missing"
		if head.Kind != "" {
			message = fmt.Sprintf("%s has no kind %s", version.Group, head.Kind)
		}
		return []Finding{{Name: head.Metadata.Name, Field: "kind", Message: message + ": write " + v1alpha1.Kind}}, 0, nil
	}
	problems := Object(text)
	if _, err := yaml.YAMLToJSONStrict(document); err != nil { // a key is there twice, and the last one would win
		problems = append([]Problem{{Message: trimmed(err)}}, problems...)
	}
	for _, p := range problems {
		findings = append(findings, Finding{Name: head.Metadata.Name, Field: p.Field, Message: p.Message, Advice: p.Advice})
	}
	return findings, 1, nil
}
