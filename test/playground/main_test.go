// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWelcomeBinds checks that the playground releases as the README does: partitions without a revision would open the zones for
// every later template, too.
func TestWelcomeBinds(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	releases := regexp.MustCompile(`kubectl patch united web .*manualUpdate.*`)
	var shown []string
	for _, line := range releases.FindAllString(string(readme), -1) {
		shown = append(shown, regexp.MustCompile(`web-[0-9a-z]{26}`).ReplaceAllString(line, `'$$REVISION'`))
	}
	printed := releases.FindAllString(welcome, -1)
	if len(printed) != 2 || !slices.Contains(shown, printed[0]) {
		t.Errorf("printed: %s\nin the README: %s", printed, shown)
	}
	for _, line := range printed {
		if !strings.Contains(line, `"value":{"revision":"'$REVISION'",`) {
			t.Errorf("not bound to a revision: %s", line)
		}
	}
}
