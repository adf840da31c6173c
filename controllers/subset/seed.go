// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"slices"
	"time"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/known"
)

// Seeding reports whether the child is being seeded: it has its protected revision only until its protected replicas
// exist.
func Seeding(o *adapters.Observed) bool {
	return o.Meta.Annotations[v1alpha1.AnnotationSeeding] == "true"
}

// seed gives a child the protected revision, and the given number of replicas on it. why has verbs for the child and
// the revision.
func (g *Goal) seed(replicas int32, why string) Step {
	if g.Protected == nil {
		return g.revisionLost()
	}
	child := g.child(*g.Protected)
	child.Replicas, child.Seeding = replicas, true
	return Step{Action: ActionSeed, Child: child, Reason: fmt.Sprintf(why, child.Name, known.Short(g.ProtectedRevision))}
}

// revisionLost returns the step for a child whose protected revision no longer exists.
func (g *Goal) revisionLost() Step {
	return Step{Action: ActionHalt, Reason: fmt.Sprintf(
		"revision %s, which the protected replicas of %s run, is lost; to move to %s, lower the partition to 0 with updateStrategy.type Manual",
		g.ProtectedRevision, g.Child.Name, known.Short(g.Update.Revision))}
}

// KeepOutlived returns a step with room for the pods that outlived an earlier child (deleted with --cascade=orphan). A
// new child adopts them, and would delete those that exceed its replicas. needed is the number of replicas that keeps
// all of them, on the revisions that they run. Only a seed keeps them: if there is nothing to protect, they may be
// replaced.
func KeepOutlived(s Step, needed int32) Step {
	if s.Action == ActionSeed && needed > 0 {
		s.Child.Replicas = max(s.Child.Replicas, needed)
		s.Child.Partition = max(s.Child.Partition, s.Child.Replicas)
	}
	return s
}

// restart returns the next step for a child that has no replicas and should get some. The child has settled on whatever
// its template was, so it must learn the protected revision even if the update revision has the same pods.
//
// Trap: until it has, it would create protected replicas from the revision on which it settled, whatever its template
// is. So it gets no replicas before.
func (g *Goal) restart(o *adapters.Observed) Step {
	switch {
	case g.Revision != g.ProtectedRevision:
		return g.seed(0, "returning %s to %s first, because its protected replicas run that")
	case !statusSettled(o):
		return Step{Action: ActionWait, Reason: fmt.Sprintf("waiting for %s to record revision %s", o.Meta.Name, known.Short(g.ProtectedRevision))}
	case g.protectedReplicas() > 0 && g.Protected != nil && !g.SamePods:
		return g.seed(g.protectedReplicas(), "creating the protected replicas of %s on %s first")
	}
	return g.apply(o)
}

// raise returns the next step for a child that is being seeded and has replicas. All protected replicas must exist
// before the child gets another revision. After that, what it remembers matters only if one of them is lost later.
//
// Under health gates, an ordered child does not wait for replicas behind one that failed: they may never come, and the
// rollout replaces the failed one only once the child has the update revision.
func (g *Goal) raise(o *adapters.Observed) Step {
	wanted := g.protectedReplicas()
	if g.Update.Revision == g.Revision {
		wanted = g.Child.Replicas // there is no other revision to run
	}
	missing, blocked := lowestMissing(o, g.protectedReplicas())
	failed, failsAt := g.firstFailed(o)
	switch {
	case statusSettled(o) && (missing < 0 || blocked || failed):
		return g.apply(o)
	case RemembersOther(o):
		return Step{Action: ActionRemind, Hash: o.UpdateHash, Reason: fmt.Sprintf("%s remembers another revision than %s; restoring that", o.Meta.Name, known.Short(g.ProtectedRevision))}
	case wanted > o.Replicas && g.Protected != nil:
		return g.seed(wanted, "creating the protected replicas of %s on %s first")
	case !statusSettled(o):
		return Step{Action: ActionWait, Reason: fmt.Sprintf("waiting for %s to record revision %s", o.Meta.Name, known.Short(g.ProtectedRevision))}
	}
	return Step{
		Action: ActionWait, Wake: failsAt,
		Reason: fmt.Sprintf("waiting for replica %d of %s to be created on %s%s",
			missing, o.Meta.Name, known.Short(g.ProtectedRevision), blockingReplica(o, missing)),
	}
}

// RemembersOther reports whether a child that is being seeded would create protected replicas from another revision, and
// will not forget that by itself, because its partition protects replicas of that. What kept the replicas of an earlier
// child outlived that, and had finished another revision.
func RemembersOther(o *adapters.Observed) bool {
	return Seeding(o) && o.SpecObserved && o.HasTwoRevisions() && o.Replicas > 0 && o.Partition >= o.Replicas &&
		(o.Missing() >= 0 || slices.ContainsFunc(o.Pods, func(m adapters.Replica) bool { return m.Hash != o.UpdateHash }))
}

// firstFailed reports whether the replica for which an ordered child waits failed, if a rollout replaces failed ones. If
// only time is missing, at is when it will have.
func (g *Goal) firstFailed(o *adapters.Observed) (failed bool, at time.Time) {
	if g.Terms == nil || !o.Ordered {
		return false, time.Time{}
	}
	first := o.FirstUnready()
	if first == nil {
		return false, time.Time{}
	}
	return g.Terms.FailedForGood(*first)
}

// lowestMissing returns the lowest position below held that has no replica, or -1 if there is none. blocked means that
// waiting does not help: an ordered child waits for a lower replica of another revision, which its controller does not
// create again. A pod that outlived an earlier child can be such a replica.
func lowestMissing(o *adapters.Observed, held int32) (position int32, blocked bool) {
	expected := int32(0)
	for _, m := range o.Pods {
		if m.Position != expected || m.Terminating {
			continue
		}
		expected++
		blocked = blocked || o.Ordered && !m.Ready && m.Hash != o.UpdateHash
	}
	if expected >= held {
		return -1, false
	}
	return expected, blocked
}

// blockingReplica names the replica that prevents the creation of the one at a position, if there is one.
func blockingReplica(o *adapters.Observed, position int32) string {
	for _, m := range o.Pods {
		if m.Position == position || o.Ordered && m.Position >= 0 && m.Position < position && (!m.Ready || m.Terminating) {
			return "; it waits for " + m.Describe()
		}
	}
	return ""
}
