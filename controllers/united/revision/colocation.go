// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"crypto/sha256"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/unitedworkloads/united/adapters/render"
)

// Colocation returns how the pods of a subset are placed in groups; nil if they are not.
func (r *Revision) Colocation(subset string) *render.Colocation { return r.colocation.of(subset) }

// Colocation is how the pods of some subsets, its members, are placed in groups.
type Colocation struct {
	// ID is the value of the label united.dev/colocation, from ColocationID. It is kept for the same reason as
	// VersionLabel.
	ID          string `json:"id"`
	TopologyKey string `json:"topologyKey"`
	Exclusive   bool   `json:"exclusive,omitempty"`
	// Members by the name of the subset.
	Members map[string]Member `json:"members"`
}

// Member is one subset with groups.
type Member struct {
	// Ratio is how many of its replicas are in a group, Start its first ordinal.
	Ratio int32 `json:"ratio"`
	Start int32 `json:"start,omitempty"`
}

// of returns what reaches the pods of a subset; nil if it is no member.
func (c *Colocation) of(subset string) *render.Colocation {
	if c == nil {
		return nil
	}
	m, ok := c.Members[subset]
	if !ok {
		return nil
	}
	return &render.Colocation{ID: c.ID, TopologyKey: c.TopologyKey, Exclusive: c.Exclusive, Ratio: m.Ratio, Start: m.Start}
}

// ColocationID identifies what determines the groups of a parent: the topology key, exclusive, and the ratios. The first
// ordinals are not part of it, so that pods of a member stay with the others when its ordinals change.
//
// Trap: with another value for the same colocation every pod of a group would be replaced when United is upgraded.
func ColocationID(c *Colocation) string {
	ratios := make(map[string]int32, len(c.Members))
	for name, m := range c.Members {
		ratios[name] = m.Ratio
	}
	sum := sha256.Sum256(canonical(map[string]any{"topologyKey": c.TopologyKey, "exclusive": c.Exclusive, "ratios": ratios}))
	return rand.SafeEncodeString(fmt.Sprintf("%x", sum[:5]))
}

// sameColocation reports whether two colocations are the same for all subsets.
func sameColocation(a, b *Colocation) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ID == b.ID && a.TopologyKey == b.TopologyKey && a.Exclusive == b.Exclusive && maps.Equal(a.Members, b.Members)
}
