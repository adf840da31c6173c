// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Observed is the observed state of a child.
type Observed struct {
	// Meta is the metadata of the object. It is shared with the cache and must not be modified.
	Meta metav1.ObjectMeta

	// Traits are those of the kind.
	Traits Traits
	// Replicas and Partition are from the child's spec. If the kind is protected as a whole, Partition is the
	// recorded one.
	Replicas, Partition int32
	// Paused and Pace are as in Child; Pace is nil if the kind has none.
	Paused bool
	Pace   *Pace
	// Surplus is as in Child: what a paused child keeps, or would keep if it were paused now.
	Surplus int32
	// The next six are of kinds that are released as a whole, such as a Deployment; for all others they are zero.

	// DesiredUpdated is how many replicas with its template the child's controller asks for now, and DesiredOthers how many
	// with other templates.
	DesiredUpdated, DesiredOthers int32
	// Unscaled is how many replicas the child's controller is yet to remove because of the last scale-down. If the child has
	// several versions, the controller chooses which.
	Unscaled int32
	// Overcounts: the child's controller counts replicas as available that are about to go. If it updated the child now, it would
	// take others in their place.
	Overcounts bool
	// Crossing: the child's controller is about to replace its first replicas. If the number of replicas changed before it has, it
	// would take that for scaling, and never update.
	Crossing bool
	// Missed: that has happened. The child's controller updates nothing until the number of replicas changes again.
	Missed bool
	// NoPartition: its strategy ignores partitions, whatever the spec has.
	NoPartition bool
	// MinReadySeconds is from the child's spec.
	MinReadySeconds int32
	// Kept is a partition that the child's controller keeps, and that may be above the one in the spec until the
	// controller has replaced what that releases: replicas below it come back on CurrentHash. It is 0 if there is
	// none.
	Kept int32
	// Ordered: the child creates and updates its replicas one after the other and waits until each is ready
	// (OrderedReady).
	Ordered bool

	// SpecObserved: the child's controller has observed the current spec. Otherwise, the two hashes belong to an
	// older spec.
	SpecObserved bool
	// Unmade: the controller has not, and will not, apply the spec until the template changes, because it cannot
	// create from it the object that makes the replicas. That object stays as it was.
	Unmade bool
	// CurrentHash and UpdateHash are the child's own revisions for replicas below and from its partition on. They are
	// empty until its controller has first synced it.
	CurrentHash, UpdateHash string
	// StatusOutdated: the child's status does not account for all replicas in Pods, so normally its controller is
	// about to write it.
	StatusOutdated bool

	// Pods are the existing replicas, by position.
	Pods []Replica
	// ReplicaOwner is the UID of the controller of the replicas; "" if that is the child itself.
	ReplicaOwner types.UID

	// Refused is why the child's controllers could not create replicas, or what makes them, as the conditions of these objects
	// say it; "" if they do not say it.
	Refused string
	// MissingName is the name of the replica at the position Missing; "" if none is missing, or if it is not known.
	MissingName string
	// Holder says why that replica has been missing for a while: which object has its name and is not a replica of
	// this child, or where to look. It is "" if nobody has looked. Observe does not set it, because the object with
	// that name may not have the labels by which it would be found.
	Holder string
}

// Missing returns the lowest position without a replica, or -1 if all exist.
func (o *Observed) Missing() int32 {
	expected := int32(0)
	for _, r := range o.Pods {
		if r.Position == expected {
			expected++
		}
	}
	if expected >= o.Replicas {
		return -1
	}
	return expected
}

// ExpectsMissing reports whether the child's controller should create the replica at the position Missing now: it has
// observed the spec, and does not wait for a lower replica.
func (o *Observed) ExpectsMissing() bool {
	missing := o.Missing()
	if missing < 0 || !o.SpecObserved {
		return false
	}
	return !o.Ordered || !slices.ContainsFunc(o.Pods, func(r Replica) bool {
		return r.Position < missing && (!r.Ready || r.Terminating)
	})
}

// AllUpdated reports whether the child has exactly its replicas, and all are ready and have its template.
func (o *Observed) AllUpdated() bool {
	return len(o.Pods) == int(o.Replicas) && !slices.ContainsFunc(o.Pods, func(r Replica) bool {
		return r.Terminating || !r.Ready || r.Hash != o.UpdateHash || r.Position >= o.Replicas
	})
}

// Settles reports whether the child's controller has forgotten the previous revision of its replicas, or is about to,
// because all of them run the template.
func (o *Observed) Settles() bool {
	if !o.Traits.Hasty {
		return o.AllUpdated()
	}
	return len(o.Pods) >= int(o.Replicas) && !slices.ContainsFunc(o.Pods, func(r Replica) bool {
		return !r.Terminating && r.Hash != o.UpdateHash
	})
}

// Untouched reports whether a paused child stopped before its controller had applied its template. The controller
// does not create a revision now, so no replica runs the template.
func (o *Observed) Untouched() bool { return o.Paused && o.SpecObserved && o.UpdateHash == "" }

// FirstUnready returns the replica that an ordered child waits for before it updates another: the lowest one that is
// not ready. It is nil if all are ready, or if the child waits for one that is missing or terminating. If a higher
// replica is deleted meanwhile, it is not created again.
func (o *Observed) FirstUnready() *Replica {
	expected := int32(0)
	for i := range o.Pods {
		r := &o.Pods[i]
		switch {
		case r.Position < 0:
		case r.Position != expected || r.Position >= o.Replicas || r.Terminating:
			return nil
		case !r.Ready:
			return r
		default:
			expected++
		}
	}
	return nil
}

// Replaceable reports whether a replica may be replaced, and would come back on another revision: it is released,
// that is, at or above the partition, or has a revision that is not wanted. For wanted, see WantedHashes.
func (o *Observed) Replaceable(r *Replica, partition int32, wanted []string) bool {
	switch {
	case wanted == nil || r.Position < 0 || r.Position >= o.Replicas || r.Hash == o.UpdateHash:
		return false
	case r.Position >= max(partition, o.Kept):
		return true
	}
	return r.HashChanged == "" && !slices.Contains(wanted, r.Hash)
}

// DescribeMissing is Replica.Describe for a replica that does not exist. It uses the name of the replica if that is
// known, otherwise its position in the child or subset with the given name. The receiver is nil if the child does not
// exist.
func (o *Observed) DescribeMissing(name string, position int32) string {
	what, why := fmt.Sprintf("replica %d of %s", position, name), "missing"
	if o != nil && position == o.Missing() {
		what = cmp.Or(o.MissingName, what)
		switch {
		case o.Refused != "":
			why += "; " + o.RefusedInShort()
		case o.Holder != "":
			why += "; " + o.Holder
		}
	}
	return what + " (" + why + ")"
}

// RefusedInShort is Refused for a message that says more than that: a webhook can say very much.
func (o *Observed) RefusedInShort() string {
	const most = 240
	if text := []rune(o.Refused); len(text) > most {
		return string(text[:most]) + "..."
	}
	return o.Refused
}

// Lacks reports whether the child's controller should have created a replica, or what makes replicas, and has not.
func (o *Observed) Lacks() bool {
	return o.ExpectsMissing() || o.Unmade || o.Refused != "" || !o.SpecObserved && o.Missing() >= 0
}

// Replica is one replica of a child: a pod, for a StatefulSet.
type Replica struct {
	Name string
	UID  types.UID
	// Position counts from 0: the ordinal less the child's first ordinal. A surplus replica has a negative position,
	// or one of at least Replicas.
	Position int32
	// Hash is the child's own revision of the replica, from a label.
	Hash string
	// HashChanged is who changed or removed that label, so that Hash does not show what the replica runs; "" if
	// nobody did.
	HashChanged string
	// Ready is the current state. ReadySince is zero if the replica is not ready.
	Ready      bool
	ReadySince time.Time
	// Finalizers are those of a replica that is Terminating.
	Finalizers []string
	// Since is Created, or later the time when the replica became unready or its deletion began.
	Created, Since time.Time
	// Terminating: it is being deleted, in any state.
	Terminating bool
	// Leaving: it would serve if its controller were not about to delete or update it. It is then not Ready. When
	// that began is unknown; Since is only when it began to serve.
	Leaving bool
	// Failure is why the replica failed, such as "CrashLoopBackOff"; "" if it has not failed.
	Failure string
	// Crashed: a container that is not ready now has ended with an error. Between two attempts, a crash loop looks
	// like a start; this distinguishes the two.
	Crashed bool
	// Lacks describes what is missing of the replica, such as pods of a group, if everything that exists is ready;
	// otherwise it is "". Since when is unknown.
	Lacks string
	// NeverReady: it has never been ready since it was created.
	NeverReady bool
	// Placed: it has a node, whether it is ready there or not. A group of pods has one if each existing pod of it has one.
	Placed bool
	// Node is the name of the node; of a group of pods, that of the leader. Zone is the label topology.kubernetes.io/zone
	// of the pod, which the API server sets together with the node from Kubernetes 1.35 on. Both are "" without a node.
	Node, Zone string
	// Colocation is the label united.dev/colocation; "" if it is not in a group. Only replicas with the same value are in
	// groups together.
	Colocation string
	// Version is the label united.dev/version; "" without one.
	Version string
	// Gated: it has the scheduling gate of colocation, so the scheduler does not try it.
	Gated bool
	// Unschedulable is the message of the scheduler if it finds no node for the replica, otherwise "";
	// UnschedulableSince is since when.
	Unschedulable      string
	UnschedulableSince time.Time
}

// Describe names a replica that is not available, and says why: "web-0 (not ready since ...)".
func (r Replica) Describe() string { return r.Name + " (" + r.WhyUnavailable() + ")" }

// WhyUnavailable describes briefly why a replica is not available, and since when. It does not say for how long,
// because that text would change every second.
func (r Replica) WhyUnavailable() string {
	since := r.Since.UTC().Format(time.RFC3339)
	switch {
	case r.Terminating:
		if len(r.Finalizers) > 0 {
			return "terminating since " + since + "; its finalizers are " + strings.Join(r.Finalizers, ", ")
		}
		return "terminating since " + since
	case r.Leaving:
		return "about to be deleted or updated by its controller"
	case r.Failure != "":
		return r.Failure + " since " + since
	case r.Crashed:
		return "crashed; not ready since " + since
	case r.Lacks != "":
		return r.Lacks
	case r.Gated:
		return "has the scheduling gate " + v1alpha1.GateColocation
	case r.Unschedulable != "":
		return "unschedulable since " + r.UnschedulableSince.UTC().Format(time.RFC3339) + ": " + r.Unschedulable
	case r.Ready:
		return "ready since " + r.ReadySince.UTC().Format(time.RFC3339) + ", not available yet"
	}
	return "not ready since " + since
}

// HasNoImage reports whether an image of the replica cannot be pulled, even after a retry.
func (r *Replica) HasNoImage() bool {
	switch r.Failure {
	case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return true
	}
	return false
}

// Serves reports whether a replica is ready and stays. It need not be available: a higher minReadySeconds makes replicas unavailable
// that have been ready for long.
func (r Replica) Serves() bool { return r.Ready && !r.Terminating }

// Available reports whether the replica has been ready for minReadySeconds at now; if only time is missing, at is
// when it will be.
func (r Replica) Available(minReadySeconds int32, now time.Time) (available bool, at time.Time) {
	if !r.Serves() {
		return false, time.Time{}
	}
	at = r.ReadySince.Add(time.Duration(minReadySeconds) * time.Second)
	if minReadySeconds == 0 || !at.After(now) {
		return true, time.Time{}
	}
	return false, at
}

// HasTwoRevisions reports whether the child's controller would create replicas below the partition on another
// revision than those above.
func (o *Observed) HasTwoRevisions() bool {
	return o.CurrentHash != "" && o.CurrentHash != o.UpdateHash
}

// Terms define when an unavailable replica is broken, and not merely unready.
type Terms struct {
	Now time.Time
	// Deadline is how long a replica may take to become available.
	Deadline time.Duration
	// Paused is spec.paused: no deadline passes. Resumed is when the last pause ended, and the time before does not
	// count. It is zero if there was none.
	Paused  bool
	Resumed time.Time
}

// Failed reports whether a replica failed, or took longer than the deadline to become available; if only time is
// missing, at is when it will have. A replica that is ready, or is terminating, or would be ready without its
// controller, has not failed.
func (t Terms) Failed(r *Replica) (failed bool, at time.Time) {
	switch {
	case r.Ready || r.Terminating || r.Leaving:
		return false, time.Time{}
	case r.Failure != "" || r.Crashed:
		return true, time.Time{}
	case t.Paused || r.Lacks != "":
		return false, time.Time{}
	}
	since := r.Since
	if t.Resumed.After(since) {
		since = t.Resumed
	}
	if at = since.Add(t.Deadline); at.After(t.Now) {
		return false, at
	}
	return true, time.Time{}
}

// UpdateFailed reports whether a replica shows that the child's template does not work: it runs the template and
// failed. This depends on what it runs and not on when it was created, which would depend on two clocks.
func (t Terms) UpdateFailed(o *Observed, r *Replica) bool {
	failed, _ := t.Failed(r)
	return failed && r.Hash == o.UpdateHash
}

// FailedForGood is Failed without failures that may pass by themselves: a container that has crashed once may come up
// yet.
func (t Terms) FailedForGood(r Replica) (failed bool, at time.Time) {
	r.Crashed = false
	return t.Failed(&r)
}

// Broken reports whether a replica is broken, so that replacing it costs nothing: it failed, or it has never been
// ready and runs a revision that is not wanted. All other replicas that are not ready are merely unready. wanted is nil
// if the wanted revisions are not known. at is when time alone makes the replica broken; zero if it does not.
func (t Terms) Broken(r *Replica, wanted []string) (broken bool, at time.Time) {
	if broken, at = t.Failed(r); broken {
		return true, time.Time{}
	}
	if !r.Ready && !r.Terminating && r.NeverReady && wanted != nil && r.HashChanged == "" && !slices.Contains(wanted, r.Hash) {
		return true, time.Time{}
	}
	return false, at
}

// WantedHashes returns the child's own revisions that are wanted: the one of its template, and the one of its
// protected replicas, unless that is the same (proven). The child's controller may have forgotten the latter;
// recorded is what the annotations of the child say, or "". The result is nil until the controller has observed the
// spec.
func (o *Observed) WantedHashes(proven bool, recorded string) []string {
	switch {
	case !o.SpecObserved || o.UpdateHash == "":
		return nil
	case proven:
		return []string{o.UpdateHash}
	}
	return []string{o.UpdateHash, o.CurrentHash, recorded}
}
