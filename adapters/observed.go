// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Observed is a child as it was read from the cluster.
type Observed struct {
	// Meta is the metadata of the object that was read. Shared with the cache:
	// read only.
	Meta metav1.ObjectMeta

	// Traits are those of its kind.
	Traits Traits
	// Replicas and Partition are what the child's spec says. Of a kind that is protected
	// whole the partition is the one that is on record.
	Replicas, Partition int32
	// Paused and Pace are as in Child; Pace is nil where the kind has none.
	Paused bool
	Pace   *Pace
	// NoPartition: its strategy knows no partition, whatever the spec says of one.
	NoPartition bool
	// MinReadySeconds is what the child's spec says.
	MinReadySeconds int32
	// Kept is a partition of the child's controller, which may be above what the spec says while it has not got to what
	// that releases: replicas below come back on CurrentHash. 0 where there is none.
	Kept int32
	// Ordered: the child makes and updates its replicas one after the other and
	// waits for each to be ready (OrderedReady).
	Ordered bool

	// SpecObserved: the child's controller has observed the spec as it is. The two
	// hashes speak of an older spec otherwise.
	SpecObserved bool
	// Unmade: it has not, and will not: it cannot make of the template what makes its replicas, which stays what it
	// was, until it gets another.
	Unmade bool
	// CurrentHash and UpdateHash name the child's own revisions: what it makes
	// its replicas of below and from its partition on. Empty until its
	// controller first looked at it.
	CurrentHash, UpdateHash string
	// StatusOutdated: the child's status does not tell yet of replicas that are known
	// here, so its controller is as a rule about to write it.
	StatusOutdated bool

	// Pods are the replicas that exist, by position.
	Pods []Replica
	// ReplicaOwner controls them; "" where the child itself does.
	ReplicaOwner types.UID

	// MissingName is the name that the replica at the position Missing would have; "" when
	// none is missing.
	MissingName string
	// Holder says why that replica has been missing for a while: what has its name and is no
	// replica of this child, or where to look. "" if nobody has looked. It is not read from
	// the child: what has the name need not have a label by which it would be found.
	Holder string
}

// Missing is the lowest position without a replica, -1 when all exist.
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

// ExpectsMissing reports whether the child's controller should make the replica at the position
// Missing now: it has seen the spec, and does not wait for a replica below.
func (o *Observed) ExpectsMissing() bool {
	missing := o.Missing()
	if missing < 0 || !o.SpecObserved {
		return false
	}
	return !o.Ordered || !slices.ContainsFunc(o.Pods, func(r Replica) bool {
		return r.Position < missing && (!r.Ready || r.Terminating)
	})
}

// AllUpdated reports whether the child has exactly its replicas, and all are ready, and made
// of its template.
func (o *Observed) AllUpdated() bool {
	return len(o.Pods) == int(o.Replicas) && !slices.ContainsFunc(o.Pods, func(r Replica) bool {
		return r.Terminating || !r.Ready || r.Hash != o.UpdateHash || r.Position >= o.Replicas
	})
}

// Settles reports whether the child's controller is about to settle on what its template is, or
// has: it forgets what its replicas ran before.
func (o *Observed) Settles() bool {
	if !o.Traits.Hasty {
		return o.AllUpdated()
	}
	return len(o.Pods) >= int(o.Replicas) && !slices.ContainsFunc(o.Pods, func(r Replica) bool {
		return !r.Terminating && r.Hash != o.UpdateHash
	})
}

// Untouched reports whether a child that is paused stopped before its controller had begun with
// its template: it makes no revision of that now, and so nothing runs it.
func (o *Observed) Untouched() bool { return o.Paused && o.SpecObserved && o.UpdateHash == "" }

// FirstUnready is the replica that a child that works in order waits for before it moves
// another: the lowest that is not ready. nil if all are ready, or if it waits for one that is
// missing or on its way out. A replica that is deleted above it is not made again.
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

// Replaceable reports whether a replica would come back on another revision than it has, and
// may: it is released, which those from the partition on are, or of a revision that nobody
// asks for. asked are those that somebody does, see Asked.
func (o *Observed) Replaceable(r *Replica, partition int32, asked []string) bool {
	switch {
	case asked == nil || r.Position < 0 || r.Position >= o.Replicas || r.Hash == o.UpdateHash:
		return false
	case r.Position >= max(partition, o.Kept):
		return true
	}
	return r.HashChanged == "" && !slices.Contains(asked, r.Hash)
}

// DescribeMissing is Replica.Describe of a replica that does not exist: by its name where that is
// known, and else by its position in the child, or its subset, of that name. Nil is a child that
// is not there.
func (o *Observed) DescribeMissing(name string, position int32) string {
	what, why := fmt.Sprintf("replica %d of %s", position, name), "missing"
	if o != nil && position == o.Missing() {
		what = cmp.Or(o.MissingName, what)
		if o.Holder != "" {
			why += "; " + o.Holder
		}
	}
	return what + " (" + why + ")"
}

// Replica is one replica of a child: a pod, for a StatefulSet.
type Replica struct {
	Name string
	UID  types.UID
	// Position counts from 0: the ordinal less the child's first ordinal. It is
	// negative or at least Replicas when the replica is surplus.
	Position int32
	// Hash names the child's own revision that the replica runs, by a label.
	Hash string
	// HashChanged is who changed or removed that label, so that Hash tells nothing of what the
	// replica runs; "" if nobody did.
	HashChanged string
	// Ready tells of now, ReadySince since when; zero when it is not ready.
	Ready      bool
	ReadySince time.Time
	// Created is when it was created, Since the same or, when later, when it ceased
	// to be ready, or its deletion began.
	Created, Since time.Time
	// Terminating: it is being deleted, whatever else it is.
	Terminating bool
	// Leaving: it would serve if its controller were not about to delete it, or to update it. It
	// is not Ready then; since when is not known, and Since is no more than when it began to serve.
	Leaving bool
	// Failure is why the replica failed, such as "CrashLoopBackOff"; "" when it
	// did not, or not yet.
	Failure string
	// Crashed: a container that is not ready now has ended with an error. Between
	// two tries a crash loop looks like a start; this tells them apart.
	Crashed bool
	// Lacks is what of it is missing where all that exists of it is ready, as in a group of pods; "" where nothing is.
	// Nothing tells since when.
	Lacks string
	// NeverReady: it was not ready at any time since it was created.
	NeverReady bool
	// Placed: it has a node, whether it is ready there or not. A group of pods has when each that
	// exists of it has one.
	Placed bool
	// Unschedulable is what the scheduler says of a replica that fits on no node, ""
	// unless it says so; UnschedulableSince is since when.
	Unschedulable      string
	UnschedulableSince time.Time
}

// Describe names a replica that is not available, and says why: "web-0 (not ready since ...)".
func (r Replica) Describe() string { return r.Name + " (" + r.WhyUnavailable() + ")" }

// WhyUnavailable says in a few words, for people, why a replica is not available, and
// since when: not for how long, which would be another text every second.
func (r Replica) WhyUnavailable() string {
	since := r.Since.UTC().Format(time.RFC3339)
	switch {
	case r.Terminating:
		return "terminating"
	case r.Leaving:
		return "about to be deleted or updated by its controller"
	case r.Failure != "":
		return r.Failure + " since " + since
	case r.Crashed:
		return "crashed; not ready since " + since
	case r.Lacks != "":
		return r.Lacks
	case r.Unschedulable != "":
		return "unschedulable since " + r.UnschedulableSince.UTC().Format(time.RFC3339) + ": " + r.Unschedulable
	case r.Ready:
		return "ready since " + r.ReadySince.UTC().Format(time.RFC3339) + ", not available yet"
	}
	return "not ready since " + since
}

// HasNoImage reports whether an image of the replica cannot be pulled, although that was tried again.
func (r *Replica) HasNoImage() bool {
	switch r.Failure {
	case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		return true
	}
	return false
}

// Available reports whether the replica has been ready for minReadySeconds at
// now; if only time is missing, when it will be.
func (r Replica) Available(minReadySeconds int32, now time.Time) (available bool, at time.Time) {
	if r.Terminating || !r.Ready {
		return false, time.Time{}
	}
	at = r.ReadySince.Add(time.Duration(minReadySeconds) * time.Second)
	if minReadySeconds == 0 || !at.After(now) {
		return true, time.Time{}
	}
	return false, at
}

// HasTwoRevisions reports whether the child's controller would make a replica below
// the partition of another revision than one from the partition on.
func (o *Observed) HasTwoRevisions() bool {
	return o.CurrentHash != "" && o.CurrentHash != o.UpdateHash
}

// Terms say when a replica that is not available is broken, and not merely unready.
type Terms struct {
	Now time.Time
	// Deadline is how long a replica may take to become available.
	Deadline time.Duration
	// Paused is spec.paused: no deadline passes. Resumed is when that last ended; the
	// time before does not count. Zero if it never was.
	Paused  bool
	Resumed time.Time
}

// Failed reports whether a replica failed, or took longer than the deadline to become
// available; if only time is missing, when it will have. One that is ready, or is
// being deleted, or would be ready if its controller let it, has not failed.
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

// UpdateFailed reports whether a replica shows that what the child's template is does not work:
// it runs that, and failed. What it runs counts, and not when it was made: two clocks would have
// to agree.
func (t Terms) UpdateFailed(o *Observed, r *Replica) bool {
	failed, _ := t.Failed(r)
	return failed && r.Hash == o.UpdateHash
}

// FailedForGood is Failed of what waiting alone will not help: a container that crashed once may
// come up yet.
func (t Terms) FailedForGood(r Replica) (failed bool, at time.Time) {
	r.Crashed = false
	return t.Failed(&r)
}

// Broken reports whether a replica is broken, so that nobody loses anything when it is
// replaced: it failed, or it was never ready and runs a revision that nobody asks for
// any more. Everything else that is not ready is merely unready. asked are the child's
// own revisions that somebody asks for; nil if that is not known. at is when time alone
// makes it broken; zero if it does not.
func (t Terms) Broken(r *Replica, asked []string) (broken bool, at time.Time) {
	if broken, at = t.Failed(r); broken {
		return true, time.Time{}
	}
	if !r.Ready && !r.Terminating && r.NeverReady && asked != nil && r.HashChanged == "" && !slices.Contains(asked, r.Hash) {
		return true, time.Time{}
	}
	return false, at
}

// WantedHashes are the child's own revisions that somebody asks for: the one that its
// template is, and the one that its protected replicas run, unless that is the same
// (proven). The child's controller may have forgotten the latter; recorded is what the
// child says itself, "" if nothing. nil while its controller has not observed its spec.
func (o *Observed) WantedHashes(proven bool, recorded string) []string {
	switch {
	case !o.SpecObserved || o.UpdateHash == "":
		return nil
	case proven:
		return []string{o.UpdateHash}
	}
	return []string{o.UpdateHash, o.CurrentHash, recorded}
}
