// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"strings"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// nameList has the first names that a message is about, and how many more there are.
type nameList struct {
	names []string
	more  int
}

// maxNamed is how many names a message has.
const maxNamed = 3

func (f *nameList) add(name func() string) {
	if len(f.names) == maxNamed {
		f.more++
		return
	}
	f.names = append(f.names, name())
}

// list joins the names; of describes the remaining ones.
func (f *nameList) list(of string) string {
	names := f.names
	if f.more > 0 {
		names = append(names, fmt.Sprintf("and %d more%s", f.more, of))
	}
	return strings.Join(names, ", ")
}

func (c *coordinator) failedMessage() string {
	if c.goingBack {
		return c.failedReplicas() + " failed; all other replicas go back"
	}
	return c.failedReplicas() + " failed; no more replicas are released: fix the template, or go back"
}

// failedReplicas describes the failed replicas.
func (c *coordinator) failedReplicas() string {
	var failed nameList
	for _, r := range c.failed {
		failed.add(r.Describe)
	}
	return failed.list("")
}

// raisingHelps reports whether a subset that is not waiting for its turn could continue if maxUnavailable, or the
// bound of its subset, were greater. An ordered child cannot while one of its own replicas is down. But its
// surplus replicas could be removed, and force does not do that.
func (c *coordinator) raisingHelps() bool {
	for _, v := range c.states {
		if v.keepsSurplus() {
			return true
		}
	}
	for _, v := range c.states {
		switch {
		case len(v.Unreleased) > 0 && !v.cannotTakeBack:
			return true
		case v.Removed || v.stepDone():
		case !v.Observed.Ordered || v.unavailableBelow(v.currentReplicas) < 0:
			return true
		case c.rules.sequential:
			return false
		}
	}
	return false
}

// keepsSurplus reports whether a subset keeps surplus replicas, because too many others are down.
func (v *subsetState) keepsSurplus() bool { return v.nextReplicas > v.Desired }

// usedUp returns which bounds have no room for another replica, and which fields set them: the bound over all
// subsets, and those of the subsets that have something to release or to remove.
func (c *coordinator) usedUp() (used, fields string) {
	const total, single = "maxUnavailable", "maxUnavailablePerSubset"
	used, fields = fmt.Sprintf("%d of %s %d", c.unavailable, total, c.most), total
	var full nameList
	all := c.ledger.noRoomForAnother()
	for _, v := range c.states {
		all = all || v.keepsSurplus() && !c.mayRemoveSurplus()
		releases := !v.Removed && (!v.stepDone() || len(v.Unreleased) > 0)
		if releases && v.own.noRoomForAnother() || v.keepsSurplus() && !v.own.mayRemoveSurplus() {
			full.add(func() string { return fmt.Sprintf("%d of %s %d of %s", v.own.unavailable, single, v.own.most, v.Name) })
		}
	}
	switch {
	case len(full.names) == 0:
		return used, fields
	case !all:
		return full.list(" subsets"), single
	}
	return used + " and " + full.list(" subsets"), total + " and " + single
}

// blocked names the replicas that keep a rollout from continuing by itself. It is a stall if one of them is
// broken, because it will not come back by itself.
func (c *coordinator) blocked() verdict {
	var culprits nameList
	broken := false
	kept := true // all are protected replicas of ordered children: not even force helps
	back := true // all are on their way back
	for _, v := range c.states {
		if v.Removed {
			continue
		}
		if !v.stepDone() && !v.staged || v.currentReplicas < v.Desired {
			return verdict{} // something else continues
		}
		p := v.unavailableBelow(min(v.partition, v.currentReplicas))
		if c.inFlightOf(v, true) > 0 && (!v.barred || p < 0) {
			return verdict{} // replicas are on their way
		}
		if p < 0 {
			continue
		}
		if p = v.downBelow(min(v.partition, v.currentReplicas)); p < 0 {
			return verdict{} // time alone makes its replicas available
		}
		if m := v.at(p); m != nil && m.Failure != "" {
			broken = true
		}
		kept = kept && v.Observed.Ordered && p < v.target
		back = back && v.comesBack(p)
		culprits.add(func() string { return v.name(p) })
	}
	switch {
	case len(culprits.names) == 0:
		return verdict{}
	case kept:
		return blockedBy(culprits.list(" subsets")+": OrderedReady updates nothing while a replica is unavailable, and this one is protected; "+
			remedy(back)+", or release it with a lower partition or another step", broken)
	}
	return c.barredBy(culprits.list(" subsets"), remedy(back), broken)
}

// UntilBack is in a message that names replicas only that are on their way back.
const UntilBack = "wait until it is back"

// remedy is what to do first about replicas that hold a rollout. back: all of them are on their way back.
func remedy(back bool) string {
	if back {
		return UntilBack
	}
	return "repair it"
}

// comesBack reports whether the replica at a position is on its way back: it is missing, terminating or new, as one that United has
// deleted, and nothing says that it does not come up. If it does not in time, the rollout makes no progress, which is a stall.
func (v *subsetState) comesBack(position int32) bool {
	m := v.at(position)
	switch {
	case m == nil:
		return v.Observed.Holder == "" && v.Observed.Refused == ""
	case m.Terminating || m.Serves():
		return true
	}
	return m.NeverReady && !m.broken && !m.Crashed && m.Failure == "" && m.Unschedulable == "" && m.Lacks == "" && !m.Gated
}

// barredByFailed names the failed replicas of a revision that all replicas go back to, if they use what the others would need.
func (c *coordinator) barredByFailed() verdict {
	for _, v := range c.states {
		if !v.Removed && v.Observed != nil && v.nextPartition > v.target && v.Desired > v.target && c.noRoomForAnother(v) {
			broken, _ := c.failedForGood()
			return c.barredBy(c.failedReplicas(), remedy(false), broken)
		}
	}
	return verdict{}
}

// barredBy says why culprits keep a rollout from continuing, and what helps: ways, and others.
func (c *coordinator) barredBy(culprits, ways string, broken bool) verdict {
	why := "OrderedReady updates nothing while a replica is unavailable"
	if c.raisingHelps() {
		used, fields := c.usedUp()
		why = used + " in use, so no healthy replica will be disrupted"
		ways += ", raise " + fields
	}
	return blockedBy(fmt.Sprintf("%s: %s; %s, or force the rollout: %s", culprits, why, ways, c.annotateAnew(v1alpha1.AnnotationForceUpdate)), broken)
}

func blockedBy(what string, stall bool) verdict {
	return verdict{closed: true, stall: stall, phase: v1alpha1.RolloutBlocked, message: "blocked by " + what}
}

// stuck names the replica that keeps a subset on a first template on which it does not come up. It is a stall if
// that replica will not come up by itself.
func (c *coordinator) stuck() verdict {
	for _, v := range c.states {
		p := int32(-1)
		if v.stuck {
			p = v.unavailableBelow(v.currentReplicas)
		}
		if p < 0 {
			continue
		}
		m, ways := v.at(p), "repair it"
		if v.target > 0 {
			ways += ", or protect none of its replicas (partition 0, no steps)"
		} else {
			ways += ", or force the rollout: " + c.annotateAnew(v1alpha1.AnnotationForceUpdate)
		}
		return blockedBy(fmt.Sprintf("%s: %s is %s; %s", v.name(p), v.Name, v.waitReason, ways), m != nil && m.Failure != "")
	}
	return verdict{}
}
