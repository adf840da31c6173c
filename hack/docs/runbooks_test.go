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
