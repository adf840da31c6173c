// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package united

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/unitedworkloads/united/controllers/united/publish"
)

// collectors is a registry that only remembers its collectors.
type collectors []prometheus.Collector

func (c *collectors) Register(p prometheus.Collector) error { c.MustRegister(p); return nil }

func (c *collectors) MustRegister(p ...prometheus.Collector) { *c = append(*c, p...) }

func (c *collectors) Unregister(prometheus.Collector) bool { return false }

var (
	// A metric without samples is not gathered, and its description can be accessed only as text.
	described = regexp.MustCompile(`fqName: "(\w+)".*variableLabels: \{([\w,]*)\}`)
	metricRow = regexp.MustCompile("(?m)^\\| `(united_\\w+)` \\| ([\\w, ]*) \\|")
)

// TestMetricsAreDocumented: docs/metrics.md has a row with the labels for each metric, and no metric that does not
// exist.
func TestMetricsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	registered := &collectors{}
	publish.NewMetrics(registered)
	var metrics, names []string
	for _, c := range *registered {
		ch := make(chan *prometheus.Desc, 20)
		c.Describe(ch)
		close(ch)
		for desc := range ch {
			m := described.FindStringSubmatch(desc.String())
			g.Expect(m).NotTo(BeNil(), desc.String())
			metrics = append(metrics, m[1]+": "+strings.ReplaceAll(m[2], ",", ", "))
			names = append(names, m[1])
		}
	}
	g.Expect(metrics).NotTo(BeEmpty())
	text, err := os.ReadFile("../../docs/metrics.md")
	g.Expect(err).NotTo(HaveOccurred())
	var rows []string
	for _, m := range metricRow.FindAllStringSubmatch(string(text), -1) {
		rows = append(rows, m[1]+": "+m[2])
	}
	g.Expect(rows).To(ConsistOf(metrics), "rows of docs/metrics.md")
	for _, name := range regexp.MustCompile(`\bunited_\w+`).FindAllString(string(text), -1) {
		g.Expect(slices.Contains(names, name)).To(BeTrue(), "docs/metrics.md has %s", name)
	}
}

// TestEventsHaveKnownReasons: every event of the planner has a reason of the file that has all of them, which a test in
// hack/docs compares with the documents.
func TestEventsHaveKnownReasons(t *testing.T) {
	g := NewWithT(t)
	source, err := os.ReadFile("report/events.go")
	g.Expect(err).NotTo(HaveOccurred())
	reasons := regexp.MustCompile(`Event\{corev1\.EventType\w+, ([^,]+),`).FindAllSubmatch(source, -1)
	g.Expect(len(reasons)).To(BeNumerically(">", 10))
	for _, reason := range reasons {
		g.Expect(string(reason[1])).To(MatchRegexp(`^(v1alpha1\.(Event|Reason)\w+|c\.Reason|reason)$`))
	}
}

// TestAlertsAndDashboardUseMetricsThatExist checks the names of the metrics of United in the chart.
func TestAlertsAndDashboardUseMetricsThatExist(t *testing.T) {
	g := NewWithT(t)
	registered := &collectors{}
	publish.NewMetrics(registered)
	var names []string
	for _, c := range *registered {
		ch := make(chan *prometheus.Desc, 20)
		c.Describe(ch)
		close(ch)
		for desc := range ch {
			names = append(names, described.FindStringSubmatch(desc.String())[1])
		}
	}
	for _, file := range []string{"rules/alerts.yaml", "dashboards/united.json"} {
		text, err := os.ReadFile("../../charts/united/" + file)
		g.Expect(err).NotTo(HaveOccurred())
		used := regexp.MustCompile(`\bunited_\w+`).FindAllString(string(text), -1)
		g.Expect(len(used)).To(BeNumerically(">", 5), file)
		for _, name := range used {
			g.Expect(names).To(ContainElement(name), file)
		}
	}
}
