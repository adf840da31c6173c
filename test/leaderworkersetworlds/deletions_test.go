// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package leaderworkersetworlds

import (
	statefulset "github.com/unitedworkloads/united/adapters/statefulset/model"
	"github.com/unitedworkloads/united/test/worlds"
)

// deletion: United deletes only groups that are broken and released, or that came up without having been released, or
// broken ones on a version that is neither new nor protected. It does not delete a group that is merely unready (I2), and
// deletes nothing while paused.
func (j *judged) deletion(d worlds.Deletion) {
	c, i := &j.s.Children[d.Child], d.Replica
	name, protects := leaderName(d.Child, i), j.w.protects(j.s, d.Child)
	if j.s.Paused {
		j.say("paused", "%s is deleted under paused", name)
	}
	if !c.live(i) || j.w.unreleased(j.s, d.Child, i) || c.Strays>>i&1 == 1 {
		return
	}
	below := i < int(c.Partition)
	asked := protects | worlds.Bit(c.Template)
	switch {
	case j.w.ready(c, i) && !below && j.w.Rolling(&j.s.Core) && c.version(i) != c.Template:
		// The ledger covers this: a released group goes, whoever deletes it ("the outcome is the same on every version").
	case j.w.ready(c, i) && j.w.Rolling(&j.s.Core) && j.w.GoingBack(&j.s.Core) && c.version(i) != c.Template && c.Template == j.s.Version:
		// The same on the way back, in a child that has the version to go back to: "available replicas still go through
		// the ledger".
	case j.w.ready(c, i):
		j.say("healthy", "%s is deleted and is ready: v%d of %b", name, c.version(i), protects)
	case !j.w.broken(j.s, d.Child, i) && !j.onTheWayBack(c, i):
		j.say("unready", "%s is deleted and is merely unready: v%d of %b", name, c.version(i), protects)
	case c.version(i) == c.Template && !below:
		j.say("same again", "%s is deleted and comes back as it is: v%d", name, c.version(i))
	case below && c.in(asked, i):
		j.say("not released", "%s is protected and deleted: v%d", name, c.version(i))
	}
}

// onTheWayBack: "unavailable replicas on anything else are released or deleted at once".
func (j *judged) onTheWayBack(c *child, i int) bool {
	return c.version(i) != j.s.Version && (j.w.GoingBack(&j.s.Core) || j.s.Forced != 0)
}

// unreleased reports whether a group came up on a version to which it was never released.
func (w *game) unreleased(s *state, k, i int) bool {
	c := &s.Children[k]
	return !c.in(w.protects(s, k), i) && i < worlds.All-int(c.Opened)
}

// broken: "it failed; or it has not been available for progressDeadlineSeconds; or it runs a revision that nobody asks
// for any more and was never ready".
func (w *game) broken(s *state, k, i int) bool {
	c := &s.Children[k]
	p, wk := &c.Leaders.Pods[i], &c.Workers[i]
	asked := w.protects(s, k) | worlds.Bit(s.Version)
	old := p.Aged && p.Phase != statefulset.Ready || w.workers && wk.Aged && wk.Phase != statefulset.Ready
	neverReady := !p.WasReady || w.workers && !wk.WasReady
	return c.crashed(i) || !w.ready(c, i) && old || !c.in(asked, i) && neverReady
}
