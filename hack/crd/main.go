// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Crd writes into the generated CRDs what no marker can say: instead of the format
// date-time, every time has the pattern that Go reads. For a date-time the API server also
// takes 2026-01-01t00:00:00z, an offset of +25:00, and even a list, which metav1.Time does
// not: what has a format is not looked at for its type. And an imported type, such as a
// condition, takes no markers on its fields.
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

// pattern is how the controller writes a time: of a day that exists, with the leap years.
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

// format is a line of a schema: nothing else is written so in a description, which would
// not be alone on its line.
var format = regexp.MustCompile(`(?m)^( +)format: date-time$`)

func withPatterns(text []byte) []byte {
	return format.ReplaceAll(text, []byte("${1}"+strings.ReplaceAll(pattern, "$", "$$")))
}
