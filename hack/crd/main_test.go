// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The pattern accepts what Go parses, in the form that the controller writes, and nothing else.
func TestPattern(t *testing.T) {
	compiled := regexp.MustCompile(strings.TrimPrefix(pattern, "pattern: "))
	check := func(value string) {
		_, err := time.Parse(time.RFC3339, value)
		if compiled.MatchString(value) != (err == nil) {
			t.Error(value, err)
		}
	}
	for year := range 10_000 {
		for _, day := range []string{"02-28", "02-29", "02-30"} {
			check(fmt.Sprintf("%04d-%sT00:00:00Z", year, day))
		}
	}
	for month := range 14 {
		for day := range 33 {
			check(fmt.Sprintf("2026-%02d-%02dT00:00:00Z", month, day))
		}
	}
	for n := range 100 {
		check(fmt.Sprintf("2026-01-01T%02d:00:00Z", n))
		check(fmt.Sprintf("2026-01-01T00:%02d:00Z", n))
		check(fmt.Sprintf("2026-01-01T00:00:%02dZ", n))
	}
	for _, value := range []string{"", "2026-01-01t00:00:00z", "2026-01-01T00:00:00+25:00", "2026-01-01T00:00:00Z\n", "x2026-01-01T00:00:00Z", "2026-01-01"} {
		check(value)
	}
}

func TestWithPatterns(t *testing.T) {
	got := string(withPatterns([]byte("a:\n  description: a format: date-time\n  format: date-time\n  type: string\n")))
	if want := "a:\n  description: a format: date-time\n  " + pattern + "\n  type: string\n"; got != want {
		t.Error(got)
	}
}
