// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package writer

import (
	"fmt"
	"reflect"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/united/memory"
	"github.com/unitedworkloads/united/controllers/united/undone"
)

// comparisons remembers which children were found to have everything that was applied to them. Finding that out
// requires their managedFields, which can be larger than the children, and every pod that changes causes a pass. A
// child that has not been written since need not be compared again.
type comparisons struct{ memory.Named[*comparison] }

func comparisonsOf(parent memory.Entry) comparisons {
	return comparisons{memory.Named[*comparison]{Entry: parent}}
}

// comparison is one comparison and its result.
type comparison struct {
	comparedVersion
	// resourceVersion is the last one of the child that is known to have this content.
	resourceVersion string
	desired         desiredChild
	// generation is that of the child: the results for its spec are valid for the whole generation.
	generation int64
	// pods are the maps that desired identifies by their addresses: those stay the same while the maps are kept here.
	pods [2]map[string]any
	// altered is a field of the pod template that admission changed when it was written; "" if there is none.
	altered string
	// fixed is a field outside of the template that admission changed, and that cannot be corrected; "" if there is
	// none. why is the API server's message about that.
	fixed, why string
}

// comparedVersion identifies the content of the child as it was read, and its desired state. The fingerprint does not
// cover replicas and partition; callers have compared these.
type comparedVersion struct {
	uid                  types.UID
	content, fingerprint string
}

// contentKeyOf identifies everything of a child but its status, which its controller writes with each replica that comes or
// goes: its spec by the generation, its labels and annotations, and who has written last. The API server sets the time of
// an entry of managedFields whenever the manager changes something.
func contentKeyOf(child *unstructured.Unstructured) string {
	metadata, _, _ := unstructured.NestedFieldNoCopy(child.Object, "metadata")
	fields, _ := metadata.(map[string]any)
	var b strings.Builder
	for _, field := range []string{"generation", "labels", "annotations", "ownerReferences", "finalizers", "deletionTimestamp"} {
		fmt.Fprint(&b, fields[field], "\n") // maps are sorted
	}
	entries, _ := fields["managedFields"].([]any)
	for _, entry := range entries {
		if e, ok := entry.(map[string]any); ok && e["subresource"] != "status" {
			fmt.Fprintln(&b, e["manager"], e["operation"], e["subresource"], e["time"])
		}
	}
	return b.String()
}

// desiredChild is the desired state of a child. Its template depends on the parent's generation and on the revision's
// content, which is the same as long as its identity is, or else its address.
type desiredChild struct {
	parent           types.UID
	generation       int64 // of the parent
	revision         string
	identity         string
	revisionTemplate uintptr
	revisionPatch    uintptr
	replicas         int32
	partition        int32
	asked            string
	paused, seeding  bool
	surplus          int32
	pace             adapters.Pace
	paced            bool
}

func desiredChildOf(c *adapters.Child) desiredChild {
	w := desiredChild{
		parent: c.Owner.UID, generation: c.ParentGeneration, revision: c.Revision, identity: c.Identity,
		replicas: c.Replicas, partition: c.Partition, asked: c.Asked, paused: c.Paused, seeding: c.Seeding, surplus: c.Surplus,
	}
	if c.Identity == "" {
		w.revisionTemplate, w.revisionPatch = reflect.ValueOf(c.RevisionTemplate).Pointer(), reflect.ValueOf(c.RevisionPatch).Pointer()
	}
	if c.Pace != nil {
		w.pace, w.paced = *c.Pace, true
	}
	return w
}

func podsOf(c *adapters.Child) (pods [2]map[string]any) {
	if c.Identity != "" {
		return pods // they may be large, and are not needed
	}
	return [2]map[string]any{c.RevisionTemplate, c.RevisionPatch}
}

func comparedVersionOf(current, u *unstructured.Unstructured) comparedVersion {
	return comparedVersion{current.GetUID(), contentKeyOf(current), u.GetAnnotations()[v1alpha1.AnnotationFingerprint]}
}

// of returns the last comparison of a child, nil if there is none.
func (l comparisons) of(current *unstructured.Unstructured) *comparison {
	if seen := l.Get(current.GetName()); seen != nil && seen.uid == current.GetUID() {
		return seen
	}
	return nil
}

// nothingLost reports whether the same comparison found nothing lost.
func (l comparisons) nothingLost(c *adapters.Child, current, u *unstructured.Unstructured) bool {
	seen := l.of(current)
	if seen == nil || seen.comparedVersion != comparedVersionOf(current, u) {
		return false
	}
	seen.desired, seen.pods = desiredChildOf(c), podsOf(c) // what changed in the parent did not change this child
	return true
}

// upToDate reports whether a comparison of the child in its current version found that it is in its desired state.
func (l comparisons) upToDate(c *adapters.Child, current *unstructured.Unstructured) bool {
	return l.Intact(current) && l.of(current).desired == desiredChildOf(c)
}

// Intact reports whether a comparison of the child in its current version found nothing lost.
func (l comparisons) Intact(current *unstructured.Unstructured) bool {
	seen, version := l.of(current), current.GetResourceVersion()
	switch {
	case seen == nil || seen.content == "":
		return false
	case version != "" && version == seen.resourceVersion:
		return true
	case seen.content != contentKeyOf(current):
		return false
	}
	seen.resourceVersion = version
	return true
}

// altered returns the field of the pod template that admission had changed according to the last comparison; "" if it
// found none, or the child's spec has changed since.
func (l comparisons) altered(current *unstructured.Unstructured) string {
	if seen := l.of(current); seen != nil && seen.generation == current.GetGeneration() {
		return seen.altered
	}
	return ""
}

// fixed returns the field that the last write should have corrected, if the API server rejected that, and the reason;
// "" if it did not, or if the child's spec has changed since.
func (l comparisons) fixed(current *unstructured.Unstructured) (field, why string) {
	if seen := l.of(current); seen != nil && seen.generation == current.GetGeneration() {
		return seen.fixed, seen.why
	}
	return "", ""
}

func (l comparisons) recordComparison(c *adapters.Child, current, u *unstructured.Unstructured, altered, fixed string) {
	_, why := l.fixed(current)
	l.Set(current.GetName(), &comparison{
		comparedVersionOf(current, u), current.GetResourceVersion(), desiredChildOf(c), current.GetGeneration(), podsOf(c), altered, fixed, why,
	})
}

// recordFixed records that the API server refuses to correct a field.
func (l comparisons) recordFixed(current *unstructured.Unstructured, field string, refused error) {
	l.Set(current.GetName(), &comparison{comparedVersion: comparedVersion{uid: current.GetUID()}, generation: current.GetGeneration(), fixed: field, why: undone.MessageOf(refused)})
}

// recordWrite records what the response to a write shows. The child is compared nevertheless.
func (l comparisons) recordWrite(answer *unstructured.Unstructured, altered string) {
	l.Set(answer.GetName(), &comparison{comparedVersion: comparedVersion{uid: answer.GetUID()}, generation: answer.GetGeneration(), altered: altered})
}
