// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package coordination

import (
	"fmt"
	"slices"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Freeze gives the partition while spec.paused: not below the one asked for, not below
// the one in force, and nothing is released, not by scaling either.
//
// live is the partition in force on the child, liveReplicas the replicas it has
// been asked for so far, desired those it is asked for now. Replicas from
// position updatedFrom up to liveReplicas run the update revision already;
// updatedFrom is liveReplicas when none does. Ordinals are counted from position 0.
//
// New ordinals come up protected: when the child grows, the partition is at
// least desired. Updated replicas stay as they are, and one that then fails is
// repaired on the protected revision: one partition cannot protect the ordinals
// above it. When the child does not grow, the partition is at least updatedFrom:
// a replica that was released but has not moved yet is not moved, and an updated
// one is repaired on the update revision.
func Freeze(asked DesiredPartition, live, liveReplicas, desired, updatedFrom int32) DesiredPartition {
	partition := max(asked.Partition, live)
	why := ""
	if updatedFrom > partition {
		partition, why = updatedFrom, "; replicas that are not updated yet stay as they are"
	}
	if desired > liveReplicas && desired > partition {
		partition, why = desired, fmt.Sprintf("; scaling from %d to %d releases nothing", max(liveReplicas, 0), desired)
	}
	if partition == asked.Partition {
		return DesiredPartition{Partition: partition, Held: asked.Held, Reason: "paused; " + asked.Reason}
	}
	return DesiredPartition{Partition: partition, Held: asked.Held, Reason: fmt.Sprintf("paused: the partition stays at %d instead of %d%s", partition, asked.Partition, why)}
}

// Pause is what freezes a rollout.
type Pause int

const (
	// Unkept is that what is new cannot be kept, which mostly passes at once. What has been
	// released is not taken back.
	Unkept Pause = iota
	// PausedNow is that spec.paused was set since the status was last written.
	PausedNow
	// PausedBefore is that it was set already.
	PausedBefore
)

// FreezeChild is Freeze of a child as it was observed, nil without one; recorded is the
// partition that it was last given.
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

// updateUnknown reports whether it is not known which replicas are updated. Until the child's
// controller has observed the spec, its update revision may be that of the template before: then none
// is that looks updated, and what was released would be moved under paused. frozen: nothing has been
// released for a while. Then it is known, unless the record of what the child protects says that this is
// another revision than the one of the template; or the replicas that are updated would be protected
// with every scale-down.
//
// A kind without a partition tells its update revision at once.
func updateUnknown(o *adapters.Observed, frozen bool) bool {
	if o.SpecObserved || o.Traits.Protection == adapters.Withheld {
		return false
	}
	record := o.Meta.Annotations
	protected := record[v1alpha1.AnnotationProtectedHash]
	proven := record[v1alpha1.AnnotationRevision] == record[v1alpha1.AnnotationProtectedRevision]
	return !frozen || protected != "" && proven != (protected == o.UpdateHash)
}

// updatedFrom is the lowest position from which on every replica that exists is
// on the update revision.
//
// A missing one counts as updated where one below it is: a StatefulSet moves from the top
// down, so it was, and has to come back so. Of others that is not known: it may be about to
// be moved. frozen: nothing has been moved for a while. Then what is missing was lost since,
// and comes back as the partition in force says; else a canary that is evicted would take
// the partition up with it, and come back on the old revision.
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
