// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package docs

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/allocation"
	"github.com/unitedworkloads/united/controllers/united/percent"
)

// table returns the cells of the table below a heading whose first column has the title, with the header, without backquotes.
func (d *document) table(title, column string) (rows [][]string) {
	below := false
	for _, line := range d.prose {
		if h := heading.FindStringSubmatch(line); h != nil {
			below = h[1] == title
		}
		cells := strings.Split(strings.Trim(strings.ReplaceAll(line, "`", ""), "| "), " | ")
		if below && (rows != nil || cells[0] == column) {
			if len(cells) < 2 {
				return rows
			}
			rows = append(rows, cells)
		}
	}
	return rows
}

// got is a split as the documents write it.
func got(r allocation.Result) string {
	text := strings.Trim(strings.ReplaceAll(fmt.Sprint(r.Replicas), " ", ", "), "[]")
	if !r.Honored {
		text += " (not honored)"
	}
	return text
}

// TestTablesAreTrue computes the tables of docs/concepts.md.
func TestTablesAreTrue(t *testing.T) {
	g := NewWithT(t)
	d := documents(t)["docs/concepts.md"]

	partitions := d.table("Partitions", "protects, of")
	g.Expect(len(partitions)).To(BeNumerically(">", 4))
	for _, row := range partitions[2:] {
		amount, err := percent.Parse(intstr.Parse(strings.Trim(row[0], `"`)))
		g.Expect(err).NotTo(HaveOccurred())
		for i, of := range partitions[0][1:] {
			replicas, err := strconv.ParseInt(of, 10, 32)
			g.Expect(err).NotTo(HaveOccurred())
			protects := min(amount.Value, int32(replicas))
			if amount.IsPercent {
				protects = percent.Ceil(amount.Value, int32(replicas))
			}
			g.Expect(row[1+i]).To(Equal(fmt.Sprint(protects)), "%s of %s", row[0], of)
		}
	}

	splits := d.table("Replicas", "subsets")
	g.Expect(len(splits)).To(BeNumerically(">", 4))
	for _, row := range splits[2:] {
		var subsets []v1alpha1.Subset
		for wish := range strings.SplitSeq(row[0], ", ") {
			subset := v1alpha1.Subset{}
			if wish != "absent" {
				subset.Replicas = new(intstr.Parse(wish))
			}
			subsets = append(subsets, subset)
		}
		totals, results := strings.Split(row[1], "; "), strings.Split(row[2], "; ")
		g.Expect(totals).To(HaveLen(len(results)))
		for i := range totals {
			total, err := strconv.ParseInt(totals[i], 10, 32)
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(results[i]).To(Equal(got(allocation.Split(int32(total), subsets))), "%s of %s", row[0], totals[i])
		}
	}
}
