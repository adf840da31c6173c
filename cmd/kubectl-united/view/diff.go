// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	"github.com/unitedworkloads/united/adapters/render"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
)

// Diff is how the pods of one revision differ from those of another.
type Diff struct {
	From string `json:"from"`
	To   string `json:"to"`
	// Parts are those that differ: the template, and what subsets change in it.
	Parts []DiffPart `json:"parts"`
}

// DiffPart is what differs in one part.
type DiffPart struct {
	// Subset is "" for the template.
	Subset string `json:"subset,omitempty"`
	// Unified is a unified diff of YAML.
	Unified string `json:"unified"`
}

// subsetPart is what a subset changes in the template.
type subsetPart struct {
	Patch       map[string]any      `json:"patch,omitempty"`
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	Colocation  *render.Colocation  `json:"colocation,omitempty"`
}

// templatePart is the template. It is alone in most revisions, and then it is written without a name.
type templatePart struct {
	Template     map[string]any `json:"template"`
	VersionLabel string         `json:"versionLabel,omitempty"`
}

// DiffOf returns how two revisions differ, for these subsets in order. A subset that a revision does not know is in it as today.
func DiffOf(from, to *revision.Revision, subsets []string, today map[string]revision.Overlay) (*Diff, error) {
	d := &Diff{From: from.Name, To: to.Name, Parts: []DiffPart{}}
	was, is := any(from.Template()), any(to.Template())
	if (from.VersionLabel() == "") != (to.VersionLabel() == "") {
		was, is = templatePart{from.Template(), from.VersionLabel()}, templatePart{to.Template(), to.VersionLabel()}
	}
	if err := d.add("", was, is); err != nil {
		return nil, err
	}
	for _, name := range subsets {
		of := func(r *revision.Revision) subsetPart {
			overlay := r.OverlayOr(name, today[name])
			return subsetPart{overlay.Patch, overlay.Tolerations, r.Colocation(name)}
		}
		if err := d.add(name, of(from), of(to)); err != nil {
			return nil, err
		}
	}
	return d, nil
}

func (d *Diff) add(subset string, from, to any) error {
	was, err := yaml.Marshal(from)
	if err != nil {
		return err
	}
	is, err := yaml.Marshal(to)
	if err != nil || bytes.Equal(was, is) {
		return err
	}
	what := "template"
	if subset != "" {
		what = "subset " + subset
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: lines(was), B: lines(is), FromFile: known.Short(d.From) + " " + what, ToFile: known.Short(d.To) + " " + what, Context: 3,
	})
	d.Parts = append(d.Parts, DiffPart{subset, text})
	return err
}

// lines returns the lines of YAML; none for an empty object.
func lines(text []byte) []string {
	if string(text) == "{}\n" {
		return nil
	}
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n")+"\n", "\n")[:bytes.Count(text, []byte("\n"))]
}

// PrintDiff writes a diff.
func (s Style) PrintDiff(w io.Writer, d *Diff) {
	for _, p := range d.Parts {
		for line := range strings.Lines(p.Unified) {
			color := ""
			switch line = strings.TrimSuffix(line, "\n"); {
			case strings.HasPrefix(line, "+++ "), strings.HasPrefix(line, "--- "):
				color = bold
			case strings.HasPrefix(line, "+"):
				color = green
			case strings.HasPrefix(line, "-"):
				color = red
			case strings.HasPrefix(line, "@@"):
				color = blue
			}
			_, _ = fmt.Fprintln(w, s.paint(color, line))
		}
	}
}
