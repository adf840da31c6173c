// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/perparent"
)

// Comparisons remembers which children were found to have all that was
// applied to them. Finding that out means reading their managedFields, which can be
// larger than they are, and every pod that changes starts a pass. One that has not been
// written since need not be looked at again. A nil *Comparisons remembers nothing.
type Comparisons struct {
	perparent.Memory[*comparison]
}

// comparison is what was compared, and what was found.
type comparison struct {
	comparedVersion
	desired desiredChild
	// generation is that of the child: what is found in its spec holds for all of it.
	generation int64
	// pods are the maps that desired tells apart by where they are: they stay there while they
	// are kept here.
	pods [2]map[string]any
	// altered is a field of the pods' template that admission has changed as it was
	// written; "" if none.
	altered string
	// fixed is a field outside of it that admission has changed, and that cannot be corrected; "" if there is none. why is what
	// the API server says of that.
	fixed, why string
}

// comparedVersion is what was compared: the child as it was read, and what it was to be. Replicas
// and partition are not in the fingerprint; whoever asks has compared them.
type comparedVersion struct {
	uid                          types.UID
	resourceVersion, fingerprint string
}

// desiredChild is what a child was to be. Its template follows from the parent's generation and
// from what the revision says, which is the same while it is kept in the same place.
type desiredChild struct {
	parent           types.UID
	generation       int64 // of the parent
	revision         string
	revisionTemplate uintptr
	revisionPatch    uintptr
	replicas         int32
	partition        int32
	paused, seeding  bool
	surplus          int32
	pace             adapters.Pace
	paced            bool
}

func desiredChildOf(c *adapters.Child) desiredChild {
	w := desiredChild{
		parent: c.Owner.UID, generation: c.ParentGeneration, revision: c.Revision,
		revisionTemplate: reflect.ValueOf(c.RevisionTemplate).Pointer(), revisionPatch: reflect.ValueOf(c.RevisionPatch).Pointer(),
		replicas: c.Replicas, partition: c.Partition, paused: c.Paused, seeding: c.Seeding, surplus: c.Surplus,
	}
	if c.Pace != nil {
		w.pace, w.paced = *c.Pace, true
	}
	return w
}

func podsOf(c *adapters.Child) [2]map[string]any {
	return [2]map[string]any{c.RevisionTemplate, c.RevisionPatch}
}

func comparedVersionOf(current, u *unstructured.Unstructured) comparedVersion {
	return comparedVersion{current.GetUID(), current.GetResourceVersion(), u.GetAnnotations()[v1alpha1.AnnotationFingerprint]}
}

// of is what was found of a child, nil if nothing was.
func (l *Comparisons) of(parent types.NamespacedName, current *unstructured.Unstructured) *comparison {
	if l == nil {
		return nil
	}
	if seen := l.Get(parent, current.GetName()); seen != nil && seen.uid == current.GetUID() {
		return seen
	}
	return nil
}

// nothingLost reports whether the same look has found nothing lost.
func (l *Comparisons) nothingLost(c *adapters.Child, current, u *unstructured.Unstructured) bool {
	seen := l.of(parentOf(c), current)
	if seen == nil || seen.comparedVersion != comparedVersionOf(current, u) {
		return false
	}
	seen.desired, seen.pods = desiredChildOf(c), podsOf(c) // what changed in the parent has not changed this child
	return true
}

// upToDate reports whether a look at the child, as it is now, has found that it is all that it is
// to be.
func (l *Comparisons) upToDate(c *adapters.Child, current *unstructured.Unstructured) bool {
	return l.Intact(parentOf(c), current) && l.of(parentOf(c), current).desired == desiredChildOf(c)
}

// Intact reports whether a look at the child, as it is now, has found nothing lost.
func (l *Comparisons) Intact(parent types.NamespacedName, current *unstructured.Unstructured) bool {
	seen := l.of(parent, current)
	return seen != nil && seen.resourceVersion == current.GetResourceVersion()
}

// altered is the field of the pods' template that the last look found changed by
// admission; "" when it found none, or the child's spec has changed since.
func (l *Comparisons) altered(parent types.NamespacedName, current *unstructured.Unstructured) string {
	if seen := l.of(parent, current); seen != nil && seen.generation == current.GetGeneration() {
		return seen.altered
	}
	return ""
}

// fixed is the field that the last write was to correct, if the API server has refused that, with its reason; "" if not, or if
// the child's spec has changed since.
func (l *Comparisons) fixed(parent types.NamespacedName, current *unstructured.Unstructured) (field, why string) {
	if seen := l.of(parent, current); seen != nil && seen.generation == current.GetGeneration() {
		return seen.fixed, seen.why
	}
	return "", ""
}

func (l *Comparisons) recordComparison(c *adapters.Child, current, u *unstructured.Unstructured, altered, fixed string) {
	if l == nil {
		return
	}
	_, why := l.fixed(parentOf(c), current)
	l.Set(parentOf(c), current.GetName(), &comparison{comparedVersionOf(current, u), desiredChildOf(c), current.GetGeneration(), podsOf(c), altered, fixed, why})
}

// recordFixed notes that the API server refuses to correct a field.
func (l *Comparisons) recordFixed(c *adapters.Child, current *unstructured.Unstructured, field string, refused error) {
	if l != nil {
		l.Set(parentOf(c), current.GetName(), &comparison{comparedVersion: comparedVersion{uid: current.GetUID()}, generation: current.GetGeneration(), fixed: field, why: messageOf(refused)})
	}
}

// recordWrite notes what the answer to a write has of it. The child is looked at all the same.
func (l *Comparisons) recordWrite(c *adapters.Child, answer *unstructured.Unstructured, altered string) {
	if l != nil {
		l.Set(parentOf(c), answer.GetName(), &comparison{comparedVersion: comparedVersion{uid: answer.GetUID()}, generation: answer.GetGeneration(), altered: altered})
	}
}

func (l *Comparisons) forgetChild(current *unstructured.Unstructured) {
	if l != nil {
		l.Delete(parentOfObject(current), current.GetName())
	}
}

func parentOf(c *adapters.Child) types.NamespacedName {
	return types.NamespacedName{Namespace: c.Namespace, Name: c.Parent}
}
