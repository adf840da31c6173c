// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"strconv"
	"time"

	"github.com/unitedworkloads/united/controllers/united/known"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// epoch is the current time in these tests.
func epoch() time.Time { return time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC) }

// childBuilder builds an observed child: web-zone-a with 4 replicas and partition 0 on revision r1, which it protects,
// settled.
type childBuilder struct{ adapters.Observed }

func aChild() *childBuilder {
	b := &childBuilder{adapters.Observed{
		Meta:     metav1.ObjectMeta{Namespace: "shop", Name: "web-zone-a", UID: "s-1", Annotations: map[string]string{}},
		Replicas: 4, SpecObserved: true, CurrentHash: "h1", UpdateHash: "h1",
	}}
	return b.on("r1").protecting("r1").writtenFrom(1)
}

func (b *childBuilder) on(revision string) *childBuilder {
	b.Meta.Annotations[v1alpha1.AnnotationRevision] = revision
	return b
}

// protecting records a protected revision on the child, "" for none.
func (b *childBuilder) protecting(revision string) *childBuilder {
	b.Meta.Annotations[v1alpha1.AnnotationProtectedRevision] = revision
	return b
}

// without removes annotations from the child, as somebody else might.
func (b *childBuilder) without(annotations ...string) *childBuilder {
	for _, a := range annotations {
		delete(b.Meta.Annotations, a)
	}
	return b
}

func (b *childBuilder) writtenFrom(generation int64) *childBuilder {
	b.Meta.Annotations[v1alpha1.AnnotationParentGeneration] = strconv.FormatInt(generation, 10)
	return b
}

// recorded records what United wrote: the partition, the child's own protected revision, and the position from which
// its template was released.
func (b *childBuilder) recorded(partition int32, hash string, from int32) *childBuilder {
	b.Meta.Annotations[v1alpha1.AnnotationPartition] = strconv.Itoa(int(partition))
	b.Meta.Annotations[v1alpha1.AnnotationProtectedHash] = hash
	b.Meta.Annotations[v1alpha1.AnnotationReleasedFrom] = strconv.Itoa(int(from))
	b.Partition = partition
	return b
}

// releasedBefore also records the position from which earlier templates were released.
func (b *childBuilder) releasedBefore(from, before int32) *childBuilder {
	b.Meta.Annotations[v1alpha1.AnnotationReleasedFrom] = adapters.ReleasedText(from, before)
	return b
}

// seeding marks the child as one that is being seeded.
func (b *childBuilder) seeding() *childBuilder {
	b.Meta.Annotations[v1alpha1.AnnotationSeeding] = "true"
	return b
}

func (b *childBuilder) replicas(n int32) *childBuilder  { b.Replicas = n; return b }
func (b *childBuilder) partition(p int32) *childBuilder { b.Partition = p; return b }
func (b *childBuilder) ordered() *childBuilder          { b.Ordered = true; return b }

// hashes sets the child's own revisions, below its partition and from it on.
func (b *childBuilder) hashes(current, update string) *childBuilder {
	b.CurrentHash, b.UpdateHash = current, update
	return b
}

// desires sets how many replicas a child's controller asks for, with its template and with others.
func (b *childBuilder) desires(updated, others int32) *childBuilder {
	b.DesiredUpdated, b.DesiredOthers = updated, others
	return b
}

// unseen: the child's controller has not observed the current spec.
func (b *childBuilder) unseen() *childBuilder { b.SpecObserved = false; return b }

// unmade: the child's controller cannot apply its template.
func (b *childBuilder) unmade() *childBuilder { b.Unmade = true; return b }

// outdated: the child's status does not match the observed replicas.
func (b *childBuilder) outdated() *childBuilder { b.StatusOutdated = true; return b }

func (b *childBuilder) deleted(heldBy ...string) *childBuilder {
	b.Meta.DeletionTimestamp, b.Meta.Finalizers = &metav1.Time{Time: epoch()}, heldBy
	return b
}

// deadline is the progress deadline of the replicas.
const deadline = 10 * time.Minute

// members adds replicas, each "<position> <hash>" and its state: unready (but ready before), new (never ready), failed,
// crashed, overdue, terminating, relabelled.
func (b *childBuilder) members(list ...string) *childBuilder {
	for _, text := range list {
		r := adapters.Replica{Ready: true, ReadySince: epoch()}
		var words [2]string
		// Missing words remain empty.
		_, _ = fmt.Sscan(text, &r.Position, &r.Hash, &words[0], &words[1])
		for _, word := range words {
			switch word {
			case "unready", "new", "failed", "crashed", "overdue":
				r.Ready, r.ReadySince, r.Since = false, time.Time{}, epoch()
				r.NeverReady, r.Crashed = word == "new", word == "crashed"
				if word == "failed" {
					r.Failure = "ImagePullBackOff"
				}
				if word == "overdue" {
					r.Since = epoch().Add(-deadline)
				}
			case "terminating":
				r.Terminating = true
			case "relabelled":
				r.HashChanged = "kubectl-label"
			case "":
			default:
				panic(word)
			}
		}
		r.Name = fmt.Sprintf("web-zone-a-%d", r.Position)
		r.UID = types.UID("uid-" + r.Name)
		b.Pods = append(b.Pods, r)
	}
	return b
}

// observed returns the child.
func (b *childBuilder) observed() *adapters.Observed { return &b.Observed }

// goalBuilder builds a goal: 4 replicas and partition 3 of web-zone-a, on r2, with r1 protected, from generation 5 of a
// parent that is initialized.
type goalBuilder struct{ Goal }

func versionOf(revision string) Version {
	return Version{
		Revision:         revision,
		RevisionTemplate: map[string]any{"part": revision},
		RevisionPatch:    map[string]any{"patch": revision},
	}
}

func aGoal() *goalBuilder {
	protected := versionOf("r1")
	return &goalBuilder{Goal{
		Child: adapters.Child{
			Namespace: "shop", Name: "web-zone-a", Parent: "web", Subset: "zone-a",
			Replicas: 4, Partition: 3, ParentGeneration: 5,
		},
		Update: versionOf("r2"), Facts: known.Facts{ProtectedRevision: "r1"}, Protected: &protected, Initialized: true,
	}}
}

func (b *goalBuilder) replicas(n int32) *goalBuilder  { b.Child.Replicas = n; return b }
func (b *goalBuilder) partition(p int32) *goalBuilder { b.Child.Partition = p; return b }
func (b *goalBuilder) uninitialized() *goalBuilder    { b.Initialized = false; return b }
func (b *goalBuilder) samePods() *goalBuilder         { b.SamePods = true; return b }
func (b *goalBuilder) update(revision string) *goalBuilder {
	b.Update = versionOf(revision)
	return b
}

// sameTemplate: the child's template has the pods of the update revision.
func (b *goalBuilder) sameTemplate() *goalBuilder { b.SameTemplate = true; return b }

// after: the previous child protected that revision, and was released from that position on.
func (b *goalBuilder) after(protected, releasedFrom string) *goalBuilder {
	b.Before = &v1alpha1.ChildRecord{Annotations: map[string]string{
		v1alpha1.AnnotationProtectedRevision: protected, v1alpha1.AnnotationReleasedFrom: releasedFrom,
	}}
	return b
}

// lost: the protected revision no longer exists.
func (b *goalBuilder) lost() *goalBuilder { b.Protected = nil; return b }

// has: the child's template has that revision, which still exists.
func (b *goalBuilder) has(revision string) *goalBuilder {
	version := versionOf(revision)
	b.Has = &version
	return b
}

// hasLost: the revision of the child's template no longer exists.
func (b *goalBuilder) hasLost() *goalBuilder { b.Has = nil; return b }

// nextStep is Next for a goal with the facts of a child, which is nil if it does not exist.
func nextStep(g Goal, child *adapters.Observed) Step {
	facts := FactsOf(child)
	facts.ProtectedRevision, facts.MissedProtectedRevision, facts.Contested = g.ProtectedRevision, g.MissedProtectedRevision, g.Contested
	g.Facts = facts
	return Next(g)
}
