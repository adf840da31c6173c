// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"slices"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Freeze returns the partition while spec.paused is set: not below the one asked for, and not below the one in
// force. Nothing is released, not even by scaling.
//
// live is the partition in force on the child, liveReplicas the replicas that it has been asked for so far, and
// desired those that it is asked for now. Replicas from position updatedFrom up to liveReplicas already run the
// update revision; updatedFrom is liveReplicas if none does. Ordinals are counted from position 0.
//
// New ordinals come up protected: when the child grows, the partition is at least desired. Updated replicas stay
// as they are, and one that then fails is repaired on the protected revision, because one partition cannot protect
// only the ordinals above it. When the child does not grow, the partition is at least updatedFrom: a replica that
// was released but has not moved yet is not moved, and an updated one is repaired on the update revision.
func Freeze(asked DesiredPartition, live, liveReplicas, desired, updatedFrom int32) DesiredPartition {
	partition := max(asked.Partition, live)
	why := ""
	if updatedFrom > partition {
		partition, why = updatedFrom, "; replicas that are not updated yet stay as they are"
	}
	if desired > liveReplicas && desired > partition {
		partition, why = desired, fmt.Sprintf("; scaling from %d to %d releases nothing", max(liveReplicas, 0), desired)
	}
	reason := fmt.Sprintf("paused: the partition stays at %d instead of %d%s", partition, asked.Partition, why)
	switch partition {
	case asked.Partition:
		reason = "paused; " + asked.Reason
	case Held:
		reason = "paused: all replicas stay protected"
	}
	return DesiredPartition{Partition: partition, Held: asked.Held, Reason: reason}
}

// Pause is what freezes a rollout.
type Pause int

const (
	// Unkept means that the new revision cannot be stored, which mostly passes at once. Released replicas are not
	// taken back.
	Unkept Pause = iota
	// PausedNow means that spec.paused was set after the status was last written.
	PausedNow
	// PausedBefore means that it was already set.
	PausedBefore
)

// FreezeChild is Freeze for an observed child, nil without one; recorded is the partition that it was last given.
func FreezeChild(asked DesiredPartition, o *adapters.Observed, recorded, desired int32, pause Pause) DesiredPartition {
	if o == nil {
		return Freeze(asked, 0, 0, desired, 0)
	}
	from := int32(0)
	switch {
	case pause == Unkept:
	case updateUnknown(o, pause == PausedBefore):
		from = o.Replicas
	default:
		from = updatedFrom(o, pause == PausedBefore)
	}
	return Freeze(asked, recorded, o.Replicas, desired, from)
}

// updateUnknown reports whether it is not known which replicas are updated. Until the child's controller has
// observed the spec, its update revision may be that of the previous template. Then no replica is updated that
// seems to be, and released replicas would be moved although the rollout is paused. frozen: nothing has been
// released for a while. Then it counts as known, because otherwise every scale-down would protect the updated
// replicas. The exception is a record of what the child protects that shows that its update revision is not that
// of the template.
//
// If a kind has no partition, its update revision is known at once.
func updateUnknown(o *adapters.Observed, frozen bool) bool {
	if o.SpecObserved || o.Traits.Protection == adapters.Withheld {
		return false
	}
	record := o.Meta.Annotations
	protected := record[v1alpha1.AnnotationProtectedHash]
	proven := record[v1alpha1.AnnotationRevision] == record[v1alpha1.AnnotationProtectedRevision]
	return !frozen || protected != "" && proven != (protected == o.UpdateHash)
}

// updatedFrom returns the lowest position from which on every existing replica runs the update revision.
//
// A missing replica counts as updated if one below it is: a StatefulSet moves from the top down, so it was
// updated, and has to come back updated. This is not known of other missing replicas, which may be about to be
// moved. frozen: nothing has been moved for a while. Then a missing replica was lost since, and comes back as the
// partition in force says. Otherwise, a canary that is evicted would raise the partition over itself, and come
// back on the old revision.
func updatedFrom(o *adapters.Observed, frozen bool) int32 {
	from := o.Replicas
	for _, r := range slices.Backward(o.Pods) {
		if r.Position >= o.Replicas {
			continue
		}
		if r.Hash != o.UpdateHash || r.Position < 0 {
			if frozen {
				return max(r.Position, -1) + 1
			}
			return from
		}
		from = r.Position
	}
	if frozen {
		return 0
	}
	return from
}
