// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	. "github.com/onsi/gomega"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	. "github.com/unitedworkloads/united/test/e2e/env"
	"github.com/unitedworkloads/united/test/fixtures"
)

// TestContractMoves edits a coordinated rollout of every kind in random order: other versions, slow and broken ones too, moves
// between zones, removed and added zones, pauses. Nothing is deleted by hand and the total stays the same, so no available
// replica is ever taken while another one is down. The end is what the spec asks for.
func TestContractMoves(t *testing.T) {
	EachKind(t, Kinds(), func(t *testing.T, k Kind) {
		const total = 6
		w := k.ContractOf(t, Replicas(total), Zones("", "", ""), Rolling(`{maxUnavailable: 1}`))
		w.ComesTo("2 v1", "2 v1", "2 v1")
		seed := SeedOfTest(w.Env)
		c := &mover{Contracted: w, images: 1, random: rand.New(rand.NewPCG(seed, 3)), zones: slices.Clone(w.Parent().Spec.Topology.Subsets)}
		for range 3 {
			c.did = nil
			ledger := w.Ledger(total)
			for range 6 {
				c.act()
			}
			c.ends()
			t.Logf("seed %d: %v", seed, c.did)
			ledger.TakenWithin(1) // each round ends with another version, so one is taken
		}
	})
}

// mover edits a workload.
type mover struct {
	*Contracted
	random *rand.Rand
	zones  []v1alpha1.Subset
	images int
	did    []string
}

func (c *mover) act() {
	c.T.Helper()
	switch c.random.IntN(9) {
	case 0, 1:
		c.image([]string{"v", "slow-v"}[c.random.IntN(2)])
	case 2:
		c.image("broken-v")
	case 3, 4:
		shares := [][]string{{"", "", ""}, {"4", "1", "1"}, {"1", "1", "4"}, {"0", "5", "1"}, {"2", "0", ""}}[c.random.IntN(5)]
		for i := range c.zones {
			c.zones[i].Replicas = fixtures.Zone(i, shares[i]).Replicas
		}
		c.subsets(c.zones)
	case 5:
		gone := c.random.IntN(len(c.zones))
		c.subsets(slices.Delete(slices.Clone(c.zones), gone, gone+1))
	case 6:
		c.subsets(c.zones)
	case 7:
		paused := c.random.IntN(2) == 0
		c.note("paused: %t", paused)
		c.Patch(`{"spec":{"paused":%t}}`, paused)
	case 8:
		c.note("wait")
		c.Eventually(func() bool {
			parent := c.Parent()
			return parent.Status.ObservedGeneration == parent.Generation && parent.Status.Rollout != nil && parent.Status.Rollout.Revision == parent.Status.UpdateRevision
		}).Should(BeTrue())
	}
}

func (c *mover) image(prefix string) {
	c.images++
	tag := fmt.Sprint(prefix, c.images)
	c.note("%s", tag)
	c.SetImages(tag)
}

func (c *mover) subsets(zones []v1alpha1.Subset) {
	c.T.Helper()
	raw, err := json.Marshal(zones)
	c.Expect(err).NotTo(HaveOccurred())
	var shown []string
	for i := range zones {
		share := "-"
		if zones[i].Replicas != nil {
			share = zones[i].Replicas.String()
		}
		shown = append(shown, zones[i].Name+" "+share)
	}
	c.note("%v", shown)
	c.JSONPatch(`[{"op":"replace","path":"/spec/topology/subsets","value":%s}]`, raw)
}

// ends brings everything to a version that works, in all zones.
func (c *mover) ends() {
	c.T.Helper()
	for i := range c.zones {
		c.zones[i].Replicas = nil
	}
	c.image("v")
	c.Patch(`{"spec":{"paused":false}}`)
	c.subsets(c.zones)
	last := fmt.Sprint("2 v", c.images)
	c.ComesTo(last, last, last)
}

func (c *mover) note(format string, args ...any) { c.did = append(c.did, fmt.Sprintf(format, args...)) }
