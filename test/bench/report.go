// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// report contains the measurements as Markdown tables. It prints a table as soon as the table is
// complete.
type report struct {
	out   io.Writer
	wrong []error
}

// machine prints the machine and the time.
func (r *report) machine() {
	load := "unknown"
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		load, _, _ = strings.Cut(string(raw), " ")
	}
	model := runtime.GOARCH
	if raw, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(raw)) {
			if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
				model = strings.TrimSpace(value)
				break
			}
		}
	}
	fmt.Fprintf(r.out, "%s, %d CPUs (%s), %s, load %s at the start\n",
		time.Now().Format(time.DateOnly), runtime.NumCPU(), model, runtime.Version(), load)
}

// verdict returns an error that names all wrong counts.
func (r *report) verdict() error {
	if len(r.wrong) == 0 {
		fmt.Fprintln(r.out, "\nAll counts are right.")
		return nil
	}
	return fmt.Errorf("%d figures are wrong:\n%w", len(r.wrong), errors.Join(r.wrong...))
}

// table is one table of a report.
type table struct {
	*report
	title string
	rows  [][]string
}

func (r *report) table(title string, columns ...string) *table {
	t := &table{report: r, title: title, rows: [][]string{columns, nil}}
	for range columns {
		t.rows[1] = append(t.rows[1], "---")
	}
	return t
}

func (t *table) row(cells ...any) {
	row := make([]string, len(cells))
	for i, cell := range cells {
		row[i] = fmt.Sprint(cell)
	}
	t.rows = append(t.rows, row)
}

// exactly adds a row with a count and its required value.
func (t *table) exactly(what string, got, want int) {
	t.row(what, got, want)
	t.must(got == want, "%s: %d, must be %d", what, got, want)
}

// must records a failed check.
func (t *table) must(ok bool, format string, args ...any) {
	if !ok {
		err := fmt.Errorf(t.title+": "+format, args...)
		fmt.Fprintln(t.out, "WRONG:", err)
		t.wrong = append(t.wrong, err)
	}
}

func (t *table) print() {
	fmt.Fprintf(t.out, "\n### %s\n\n", t.title)
	for _, row := range t.rows {
		fmt.Fprintln(t.out, "| "+strings.Join(row, " | ")+" |")
	}
}

// samples are durations of the same operation.
type samples []time.Duration

// percentile returns the smallest sample that at least p percent of all samples do not exceed; 0 if
// there are none.
func (s samples) percentile(p int) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	return sorted[max(0, (len(sorted)*p+99)/100-1)]
}

func ratio(a, b time.Duration) float64 { return float64(a) / float64(max(b, 1)) }

func millis(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

func times(r float64) string { return fmt.Sprintf("%.2f", r) }

func mebi(bytes float64) string { return fmt.Sprintf("%.0f MiB", bytes/(1<<20)) }

// nanos parses nanoseconds as go test prints them.
func nanos(text string) string {
	n, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return text
	}
	return time.Duration(n).Round(time.Microsecond).String()
}
