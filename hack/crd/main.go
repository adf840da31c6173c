// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Crd writes into the generated CRDs what markers cannot express: every time gets the pattern that Go
// parses instead of the format date-time. As a date-time, the API server also accepts
// 2026-01-01t00:00:00z, an offset of +25:00, and even a list, because it does not check the type of a
// field with a format; metav1.Time accepts none of these. And fields of an imported type, such as a
// condition, cannot have markers.
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if err := run(filepath.Join("config", "crd")); err != nil {
		fmt.Fprintln(os.Stderr, "crd:", err)
		os.Exit(1)
	}
}

// pattern is the form in which the controller writes a time. The day must exist, with leap years.
const pattern = `pattern: ^(` +
	`[0-9]{4}-((0[13578]|1[02])-(0[1-9]|[12][0-9]|3[01])|(0[469]|11)-(0[1-9]|[12][0-9]|30)|02-(0[1-9]|1[0-9]|2[0-8]))|` +
	`([0-9]{2}(0[48]|[2468][048]|[13579][26])|([02468][048]|[13579][26])00)-02-29` +
	`)T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]Z$`

// run writes the patterns into every CRD of a directory.
func run(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) == 0 {
		return errors.Join(err, fmt.Errorf("%s has no YAML files", dir))
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := os.WriteFile(file, withPatterns(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// format matches a line of a schema. In a description, these words would not be alone on their line.
var format = regexp.MustCompile(`(?m)^( +)format: date-time$`)

func withPatterns(text []byte) []byte {
	return format.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(pattern, "$", "$$")))
}
