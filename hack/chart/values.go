// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// value is one row of the table.
type value struct {
	// path is the full name of the value, such as image.tag.
	path string
	// byDefault is the default as JSON.
	byDefault string
	text      string
}

const (
	tableBegin = "<!-- values: begin, generated from values.yaml by make generate -->\n"
	tableEnd   = "<!-- values: end -->"
)

// table writes the table of values into the README of a chart, between two marks.
func table(chart string) error {
	content, err := os.ReadFile(filepath.Join(chart, "values.yaml"))
	if err != nil {
		return err
	}
	values, err := parseValues(content)
	if err != nil {
		return fmt.Errorf("%s/values.yaml: %w", chart, err)
	}
	if err := checkSchema(filepath.Join(chart, "values.schema.json"), values); err != nil {
		return err
	}
	path := filepath.Join(chart, "README.md")
	readme, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, found := bytes.Cut(readme, []byte(tableBegin))
	_, after, ended := bytes.Cut(rest, []byte(tableEnd))
	if !found || !ended {
		return fmt.Errorf("%s has no marks for the table of values", path)
	}
	var rows bytes.Buffer
	rows.WriteString("| value | default | meaning |\n| --- | --- | --- |\n")
	for _, v := range values {
		cell := strings.ReplaceAll(v.byDefault, "|", `\|`)
		fmt.Fprintf(&rows, "| `%s` | `%s` | %s |\n", v.path, cell, strings.ReplaceAll(v.text, "|", `\|`))
	}
	return writeIfChanged(path, slices.Concat(before, []byte(tableBegin), rows.Bytes(), []byte(tableEnd), after))
}

// parseValues reads the values that have a comment "# -- ...", which may continue on the following
// comment lines. A key without such a comment must have documented keys below it.
func parseValues(content []byte) ([]value, error) {
	var defaults map[string]any
	if err := yaml.UnmarshalStrict(content, &defaults); err != nil {
		return nil, err
	}
	var values []value
	var parents []string // by depth
	var comment string
	opaque := -1 // depth of the documented key whose content is its default
	for line := range strings.Lines(string(content)) {
		text := strings.TrimSpace(line)
		depth := (len(line) - len(strings.TrimLeft(line, " "))) / 2
		key, _, isKey := strings.Cut(text, ":")
		switch {
		case strings.HasPrefix(text, "# -- "):
			comment = strings.TrimPrefix(text, "# -- ")
		case strings.HasPrefix(text, "#") && comment != "":
			comment += " " + strings.TrimSpace(strings.TrimPrefix(text, "#"))
		case text == "" || strings.HasPrefix(text, "#"), opaque >= 0 && (depth > opaque || strings.HasPrefix(text, "-")):
		case !isKey:
			return nil, fmt.Errorf("not understood: %q", text)
		default:
			opaque = -1
			parents = append(parents[:min(depth, len(parents))], key)
			found, err := lookUp(defaults, parents)
			if err != nil {
				return nil, err
			}
			if section, isMap := found.(map[string]any); comment == "" && (!isMap || len(section) == 0) {
				return nil, fmt.Errorf("%s: has no comment that begins with --", strings.Join(parents, "."))
			}
			if comment == "" {
				continue
			}
			byDefault, err := json.Marshal(found)
			if err != nil {
				return nil, err
			}
			values = append(values, value{path: strings.Join(parents, "."), byDefault: string(byDefault), text: comment})
			comment, opaque = "", depth
		}
	}
	return values, nil
}

func lookUp(values map[string]any, path []string) (any, error) {
	var found any = values
	for _, key := range path {
		section, isMap := found.(map[string]any)
		var exists bool
		if found, exists = section[key]; !isMap || !exists {
			return nil, fmt.Errorf("%s: read at the wrong depth; indent by two spaces", strings.Join(path, "."))
		}
	}
	return found, nil
}

// schema has the fields of a JSON schema that the checks need.
type schema struct {
	Properties           map[string]*schema `json:"properties"`
	AdditionalProperties any                `json:"additionalProperties"`
}

// checkSchema compares the schema with the values: each must have everything that the other has, and
// sections must not allow additional properties.
func checkSchema(path string, values []value) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	root := &schema{}
	if err := json.Unmarshal(content, root); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	var errs []error
	known := map[string]bool{}
	for _, v := range values {
		at := root
		for name := range strings.SplitSeq(v.path, ".") {
			if at.AdditionalProperties != false {
				errs = append(errs, fmt.Errorf("%s: the section of %s must have additionalProperties: false", path, v.path))
			}
			if at = at.Properties[name]; at == nil {
				return errors.Join(append(errs, fmt.Errorf("%s does not have %s", path, v.path))...)
			}
		}
		known[v.path] = true
	}
	return errors.Join(append(errs, unknown(path, root, "", known)...)...)
}

// unknown finds properties that are not in the values. Helm itself adds global to the values of every
// chart.
func unknown(file string, at *schema, path string, known map[string]bool) []error {
	var errs []error
	for name, property := range at.Properties {
		full := strings.TrimPrefix(path+"."+name, ".")
		switch {
		case known[full], full == "global":
		case len(property.Properties) > 0:
			errs = append(errs, unknown(file, property, full, known)...)
		default:
			errs = append(errs, fmt.Errorf("%s has %s, which values.yaml does not document", file, full))
		}
	}
	return errs
}
