// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package integration

import (
	"strings"
	"testing"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/adapters/statefulset"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// bounded sets these members in the three subsets of the sample, in place of replicas.
func bounded(a, b, c string) edit {
	edits := []edit{}
	for i, members := range []string{a, b, c} {
		edits = append(edits, drop(inSubset(i, "replicas")...))
		for member := range strings.SplitSeq(members, ", ") {
			if name, value, found := strings.Cut(member, ": "); found {
				edits = append(edits, put(value, inSubset(i, name)...))
			}
		}
	}
	return all(edits...)
}

// TestBounds checks the minimums and maximums of subsets at admission, and in the controller, which
// repeats the checks.
func TestBounds(t *testing.T) {
	const (
		below   = "must not be above maxReplicas"
		oneOf   = "replicas cannot be combined with minReplicas and maxReplicas"
		atLeast = "at least one subset must have no maxReplicas, to take the replicas that the others do not"
		list    = "spec.topology.subsets: "
	)
	refusals := []struct {
		refusal
		// schema: only the schema refuses it.
		schema bool
	}{
		{refusal{"a minimum above the maximum", bounded(`minReplicas: 3, maxReplicas: 2`, ``, ``), []string{"spec.topology.subsets[0].minReplicas: ", below}}, false},
		{refusal{"percentages", bounded(``, `minReplicas: "100%", maxReplicas: "9%"`, ``), []string{"spec.topology.subsets[zone-b].minReplicas: ", below}}, false},
		{refusal{"a maximum everywhere", bounded(`maxReplicas: 2`, `maxReplicas: 2`, `maxReplicas: "50%"`), []string{list, atLeast}}, false},
		{refusal{"replicas beside", all(bounded(`minReplicas: 1`, ``, ``), put(`1`, inSubset(0, "replicas")...)), []string{list, oneOf}}, false},
		{refusal{"replicas of another", all(bounded(`maxReplicas: 1`, ``, ``), put(`"50%"`, inSubset(1, "replicas")...)), []string{list, oneOf}}, false},
		{refusal{"no percentage", bounded(`minReplicas: "1"`, ``, ``), []string{"spec.topology.subsets[0].minReplicas: ", intOrPercent}}, true},
		{refusal{"neither is one", bounded(`minReplicas: "x%", maxReplicas: "y%"`, ``, ``), []string{"spec.topology.subsets[0].minReplicas: ", intOrPercent}}, true},
		{refusal{"negative", bounded(``, `maxReplicas: -1`, ``), []string{"spec.topology.subsets[1].maxReplicas: ", intOrPercent}}, true},
	}
	for _, r := range refusals {
		t.Run(r.title, func(t *testing.T) {
			expectRefused(t, "", r.refusal)
			if r.schema {
				return // the controller treats it as absent, and reports that
			}
			g := NewWithT(t)
			_, err := spec.Read(decode(g, with(t, "refused", r.edit)), adapters.Registry{statefulset.New()})
			g.Expect(err).To(MatchError(ContainSubstring("spec.topology.subsets[")))
		})
	}
	for title, edit := range map[string]edit{
		"numbers":                bounded(`minReplicas: 1, maxReplicas: 2`, `minReplicas: 2, maxReplicas: 2`, `minReplicas: 1`),
		"percentages":            bounded(`minReplicas: "10%", maxReplicas: "10%"`, `maxReplicas: "100%"`, ``),
		"one of each":            bounded(`minReplicas: 5, maxReplicas: "10%"`, ``, ``), // the result depends on rounding and scaling
		"minimums above the sum": bounded(`minReplicas: 100`, `minReplicas: 100`, ``),
	} {
		t.Run(title, func(t *testing.T) {
			_, err := deployments().Create(t.Context(), with(t, "accepted", edit), metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
			NewWithT(t).Expect(err).NotTo(HaveOccurred())
		})
	}
}
