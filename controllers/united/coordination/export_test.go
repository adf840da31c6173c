// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/unitedworkloads/united/controllers/united/percent"
)

// Gate is a gate that a test adds to the table.
type Gate struct {
	// Holds and PassedBy are names of scopes and exemptions.
	Holds    []string
	PassedBy []string
	Open     bool
	Reason   string
	Again    time.Time
	Stall    bool
}

var scopes = map[string]scope{
	"allReleases": allReleases, "oneSubset": oneSubset, "nextReplica": nextReplica, "endOfStep": endOfStep,
}

var exemptions = map[string]exemption{
	"byForce": byForce, "goingBack": goingBack, "downGoingBack": downGoingBack, "neverUp": neverUp,
	"updatedAlready": updatedAlready, "isBroken": isBroken, "unlocking": unlocking,
}

// Exemptions returns the names of all exemptions.
func Exemptions() []string { return slices.Sorted(maps.Keys(exemptions)) }

// Gates returns the lines of the table: name, scopes, exemptions.
func Gates() [][]string {
	var lines [][]string
	for _, g := range gates() {
		var holds, passedBy []string
		for _, name := range slices.Sorted(maps.Keys(scopes)) {
			if g.holds&scopes[name] != 0 {
				holds = append(holds, name)
			}
		}
		for _, name := range Exemptions() {
			if g.passedBy&exemptions[name] != 0 {
				passedBy = append(passedBy, name)
			}
		}
		lines = append(lines, []string{g.name, strings.Join(holds, " "), strings.Join(passedBy, " ")})
	}
	return lines
}

// CoordinateWith is Coordinate with additional gates, and without those with the given names.
func CoordinateWith(in Input, without []string, more ...Gate) Plan {
	all := slices.DeleteFunc(gates(), func(g gate) bool { return slices.Contains(without, g.name) })
	for _, m := range more {
		g := gate{name: "of a test", check: func(*coordinator, *release) verdict {
			return verdict{closed: !m.Open, reason: m.Reason, again: m.Again, stall: m.Stall}
		}}
		for _, name := range m.Holds {
			g.holds |= scopes[name]
		}
		for _, name := range m.PassedBy {
			g.passedBy |= exemptions[name]
		}
		all = append(all, g)
	}
	return coordinate(in, all)
}

// Resolve returns the partition for a value and a number of replicas: an integer is returned as it is, also if it
// is greater than the number, and a percentage of the number is rounded up. Negative replicas count as 0. If the
// value is negative, above "100%" or not a percentage, the error names it.
func Resolve(value intstr.IntOrString, replicas int32) (int32, error) {
	amount, err := percent.Parse(value)
	if err != nil {
		return 0, err
	}
	return resolve(amount, replicas), nil
}
