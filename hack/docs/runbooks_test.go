// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"sigs.k8s.io/yaml"
)

type alert struct {
	Alert, Expr, For    string
	Labels, Annotations map[string]string
}

// alerts reads the alerts of the chart.
func alerts(g *WithT) []alert {
	text, err := os.ReadFile(filepath.Join(root, "charts", "united", "rules", "alerts.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	file := struct {
		Groups []struct{ Rules []alert }
	}{}
	g.Expect(yaml.Unmarshal(text, &file)).To(Succeed())
	g.Expect(file.Groups).To(HaveLen(1), "the template of the chart takes the first group")
	g.Expect(file.Groups[0].Rules).NotTo(BeEmpty())
	return file.Groups[0].Rules
}

// TestRunbooks checks that each alert has a page, which its annotation names and the list of the pages
// has, and each page an alert.
func TestRunbooks(t *testing.T) {
	g := NewWithT(t)
	var pages []string
	all := documents(t)
	for name, d := range all {
		if page, found := strings.CutPrefix(name, "docs/runbooks/"); found && page != "README.md" {
			pages = append(pages, strings.TrimSuffix(page, ".md"))
			for _, part := range []string{"find-out", "what-to-do"} {
				g.Expect(d.anchors).To(ContainElement(part), name)
			}
		}
	}
	list, err := os.ReadFile(filepath.Join(root, "docs", "runbooks", "README.md"))
	g.Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, a := range alerts(g) {
		names = append(names, a.Alert)
		g.Expect(a.Annotations["runbook_url"]).To(HaveSuffix("/docs/runbooks/"+a.Alert+".md"), a.Alert)
		g.Expect(a.Annotations["summary"]).NotTo(BeEmpty(), a.Alert)
		g.Expect(a.Labels["severity"]).To(BeElementOf("critical", "warning", "info"), a.Alert)
		after := a.For
		if after == "" {
			after = "at once"
		}
		g.Expect(string(list)).To(ContainSubstring("| ["+a.Alert+"]("+a.Alert+".md) | "+a.Labels["severity"]+" | "+after+" |"), a.Alert)
	}
	g.Expect(pages).To(ConsistOf(names))
}

// TestAlertsCanBeDisabled checks that the schema of the values has the name of each alert, and no other: a misspelt name would
// leave the alert in.
func TestAlertsCanBeDisabled(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root, "charts", "united", "values.schema.json"))
	g.Expect(err).NotTo(HaveOccurred())
	var schema any
	g.Expect(json.Unmarshal(text, &schema)).To(Succeed())
	for _, key := range []string{"properties", "metrics", "properties", "prometheusRule", "properties", "disabled", "items", "enum"} {
		object, _ := schema.(map[string]any)
		g.Expect(object).To(HaveKey(key))
		schema = object[key]
	}
	var names []any
	for _, a := range alerts(g) {
		names = append(names, a.Alert)
	}
	g.Expect(schema).To(Equal(names))
}

// TestAlertsAreTested checks that each alert has a test in which it fires, and one in which it does not.
func TestAlertsAreTested(t *testing.T) {
	g := NewWithT(t)
	text, err := os.ReadFile(filepath.Join(root, "charts", "united", "rules", "alerts_test.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	file := struct {
		Tests []struct {
			Cases []struct {
				Alert    string            `json:"alertname"`
				Expected []json.RawMessage `json:"exp_alerts"`
			} `json:"alert_rule_test"`
		}
	}{}
	g.Expect(yaml.Unmarshal(text, &file)).To(Succeed())
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, test := range file.Tests {
		for _, c := range test.Cases {
			if len(c.Expected) > 0 {
				fires[c.Alert] = true
			} else {
				silent[c.Alert] = true
			}
		}
	}
	for _, a := range alerts(g) {
		g.Expect(fires).To(HaveKey(a.Alert))
		g.Expect(silent).To(HaveKey(a.Alert))
	}
}

// TestDashboardIsTested checks that promtool evaluates every query of the dashboard, and that its panels
// have an identifier of their own and a place of their own.
func TestDashboardIsTested(t *testing.T) {
	g := NewWithT(t)
	dir := filepath.Join(root, "charts", "united", "dashboards")
	text, err := os.ReadFile(filepath.Join(dir, "united.json"))
	g.Expect(err).NotTo(HaveOccurred())
	dashboard := struct {
		Panels []struct {
			ID      int
			Title   string
			GridPos struct{ X, Y int }
			Targets []struct{ Expr string }
		}
	}{}
	g.Expect(json.Unmarshal(text, &dashboard)).To(Succeed())
	text, err = os.ReadFile(filepath.Join(dir, "united_test.yaml"))
	g.Expect(err).NotTo(HaveOccurred())
	file := struct {
		Tests []struct {
			Cases []struct {
				Expr    string
				Samples []json.RawMessage `json:"exp_samples"`
			} `json:"promql_expr_test"`
		}
	}{}
	g.Expect(yaml.Unmarshal(text, &file)).To(Succeed())
	g.Expect(file.Tests).To(HaveLen(1))
	tested := map[string]int{}
	for _, c := range file.Tests[0].Cases {
		tested[c.Expr] = len(c.Samples)
	}
	ids, places := map[int]bool{}, map[[2]int]bool{}
	all := strings.NewReplacer("$namespace", ".*", "$name", ".*")
	for _, p := range dashboard.Panels {
		ids[p.ID], places[[2]int{p.GridPos.X, p.GridPos.Y}] = true, true
		g.Expect(p.Targets).NotTo(BeEmpty(), p.Title)
		for _, target := range p.Targets {
			g.Expect(tested[all.Replace(target.Expr)]).To(BeNumerically(">", 0), "%s: %s", p.Title, target.Expr)
		}
	}
	g.Expect(len(dashboard.Panels)).To(BeNumerically(">", 10))
	g.Expect(ids).To(HaveLen(len(dashboard.Panels)))
	g.Expect(places).To(HaveLen(len(dashboard.Panels)))
}
