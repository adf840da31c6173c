// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strings"

	"github.com/unitedworkloads/united/test/cluster"
)

var benchmarkLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+([\d.]+) ns/op\s+(\d+) B/op\s+(\d+) allocs/op`)

// runPlanner runs the Go benchmarks of the decisions that need no cluster.
func runPlanner(ctx context.Context, _ *options, r *report) error {
	root, err := cluster.Root()
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", ".", "-benchmem", "./adapters", "./controllers/subset/...", "./controllers/united/coordination", "./test/simulation")
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go test: %w\n%s%s", err, out, stderr.String())
	}
	t := r.table("Passes without a cluster", "benchmark", "time", "allocated", "allocations")
	found := 0
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if m := benchmarkLine.FindStringSubmatch(lines.Text()); m != nil {
			found++
			t.row(m[1], nanos(m[2]), m[3]+" B", m[4])
		}
	}
	if found == 0 {
		return fmt.Errorf("no benchmark in\n%s", strings.TrimSpace(string(out)))
	}
	t.print()
	return nil
}
