// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package subset

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// What a child runs is written on the child, and so is in the hands of everybody who may
// edit it. An annotation that is not there any more is not one that was never there:
// taken for that, a child in mid-canary looks like one of which nothing ever worked, and
// is rolled over. So all of them are always written, what another has taken or changed is
// told by managedFields, and a copy of them is in the parent's status.

// RecordKeys are the annotations that tell what a child runs, in a fixed order. A child
// that United has written has all of them.
func RecordKeys() []string {
	return []string{
		v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision, v1alpha1.AnnotationParentGeneration,
		v1alpha1.AnnotationPartition, v1alpha1.AnnotationProtectedHash, v1alpha1.AnnotationReleasedFrom, v1alpha1.AnnotationSeeding,
	}
}

// Record is the copy of what is written on the child, for the status of its parent. was
// is the one before, nil if none. The parent's generation is not in it: a copy in a stale
// parent tells nobody that it is stale.
func Record(o *adapters.Observed, was *v1alpha1.ChildRecord) *v1alpha1.ChildRecord {
	record := &v1alpha1.ChildRecord{UID: string(o.Meta.UID), Generation: o.Meta.Generation, Annotations: map[string]string{}}
	for _, key := range RecordKeys() {
		if v, ok := o.Meta.Annotations[key]; ok && key != v1alpha1.AnnotationParentGeneration {
			record.Annotations[key] = v
		}
	}
	switch {
	case o.CaughtUp:
		record.Hash = o.UpdateHash
	case was != nil && was.UID == record.UID && was.Annotations[v1alpha1.AnnotationRevision] == RevisionOf(o):
		record.Hash = was.Hash
	}
	return record
}

// Restore puts back into o what was taken, as far as the copy tells of this very child.
// What it does not know stays as it is: somebody may have put it right by hand.
//
// The copy may be of before the last write, when the pass that made that was killed, and
// somebody may have changed the spec along with the annotations. Then the copy counts if
// the template is what it was; and the spec for what was released.
func Restore(o *adapters.Observed, taken []string, kept *v1alpha1.ChildRecord) {
	if len(taken) == 0 || kept == nil || types.UID(kept.UID) != o.Meta.UID {
		return
	}
	exact := kept.Generation == o.Meta.Generation
	if !exact && (!o.CaughtUp || kept.Hash == "" || kept.Hash != o.UpdateHash) {
		return
	}
	annotations := maps.Clone(o.Meta.Annotations) // o shares them with the cache
	if annotations == nil {
		annotations = map[string]string{}
	}
	for _, key := range taken {
		if v, ok := kept.Annotations[key]; ok {
			annotations[key] = v
		} else if key == v1alpha1.AnnotationParentGeneration {
			delete(annotations, key) // what is there is forged
		}
	}
	o.Meta.Annotations = annotations
	if exact {
		return
	}
	for key, amend := range map[string]func(kept int32) int32{
		v1alpha1.AnnotationPartition:    func(kept int32) int32 { return max(kept, o.Partition) },
		v1alpha1.AnnotationReleasedFrom: func(kept int32) int32 { return min(kept, o.Partition) },
	} {
		if n, ok := number(o, key); ok && slices.Contains(taken, key) {
			annotations[key] = strconv.FormatInt(int64(amend(n)), 10)
		}
	}
}

// unknown gives the annotations without which nobody knows what the child's template or
// its protected replicas are, and that are gone for good.
func unknown(o *adapters.Observed) []string {
	return slices.DeleteFunc([]string{v1alpha1.AnnotationRevision, v1alpha1.AnnotationProtectedRevision}, func(key string) bool {
		v, ok := o.Meta.Annotations[key]
		return ok && (v != "" || key == v1alpha1.AnnotationProtectedRevision)
	})
}

// lost is the step of a child of which it is not known any more what it runs.
func (g *Goal) lost(o *adapters.Observed) Step {
	if !o.CaughtUp {
		return Step{Action: ActionWait, Reason: "waits: " + o.Meta.Name + " is to be observed by its controller, to tell what it runs"}
	}
	return Step{Action: ActionHalt, Reason: fmt.Sprintf(
		"what the protected replicas of %s run is not known any more: somebody removed %v, and the status of %s has no copy; "+
			"put it back (the name of a ControllerRevision of %s), or lower the partition to 0 to go to %s",
		o.Meta.Name, unknown(o), g.Child.Parent, g.Child.Parent, g.Update.Revision)}
}
