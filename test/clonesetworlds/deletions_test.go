// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package clonesetworlds

import "github.com/unitedworkloads/united/test/worlds"

// deletion: United deletes only pods that are broken and released, or that came up without having been released, or pods
// of an earlier version that the CloneSet has kept instead of a protected one. It does not delete a pod that is merely
// unready (I2), and deletes nothing while paused.
func (j *judged) deletion(d worlds.Deletion) {
	c := &j.s.Children[d.Child]
	p := &c.Pods[d.Replica]
	name := worlds.SubsetName(d.Child)
	if j.s.Paused {
		j.say("paused", "%s: a pod is deleted under paused: v%d%s", name, p.Version, p.Phase.letter())
	}
	if !p.live() || j.w.unreleased(j.s, d.Child, p) {
		return
	}
	protects := j.w.protects(j.s, d.Child)
	switch {
	case p.Phase == ready && (!j.w.GoingBack(&j.s.Core) || p.Version == j.s.Version): // see ledger
		j.say("healthy", "%s: a pod is deleted that is ready: v%d of %b", name, p.Version, protects)
	case !j.w.broken(j.s, d.Child, p) && !j.onTheWayBack(p):
		j.say("unready", "%s: a pod is deleted that is merely unready: v%d%s of %b", name, p.Version, p.Phase.letter(), protects)
	case p.Version == c.Template:
		j.say("same again", "%s: a pod is deleted that comes back as it is: v%d", name, p.Version)
	case worlds.Bit(p.Version)&protects != 0 && c.count(not(of(c.Template))) <= c.partitionReplicas():
		j.say("not released", "%s: a protected pod is deleted: v%d%s", name, p.Version, p.Phase.letter())
	}
}

// onTheWayBack: "unavailable replicas on anything else are released or deleted at once".
func (j *judged) onTheWayBack(p *pod) bool {
	return p.Version != j.s.Version && (j.w.GoingBack(&j.s.Core) || j.s.Forced != 0)
}

// unreleased reports whether there are too many pods of versions that the subset does not protect, and this is one of
// them: more than the spec releases, or than the rollout has released so far. They must run the protected version until
// they are released (workloads.md).
func (w *game) unreleased(s *state, k int, p *pod) bool {
	c, protects := &s.Children[k], w.protects(s, k)
	others := c.count(not(in(protects)))
	return worlds.Bit(p.Version)&protects == 0 && others > int(c.Replicas)-max(min(w.Partition(&s.Core, k), int(c.Replicas)), c.partitionReplicas())
}

// broken: "it failed; or it has not been available for progressDeadlineSeconds; or it runs a revision that nobody asks
// for any more and was never ready".
func (w *game) broken(s *state, k int, p *pod) bool {
	asked := w.protects(s, k) | worlds.Bit(s.Version)
	return p.Phase == crashed || p.Phase != ready && p.Aged || worlds.Bit(p.Version)&asked == 0 && !p.WasReady
}
