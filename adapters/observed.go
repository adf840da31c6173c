// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Observed is a child as it was read from the cluster.
type Observed struct {
	// Meta is the metadata of the object that was read. Shared with the cache:
	// read only.
	Meta metav1.ObjectMeta

	// Replicas and Partition are what the child's spec says.
	Replicas, Partition int32
	// MinReadySeconds is what the child's spec says.
	MinReadySeconds int32
	// Ordered: the child makes and updates its replicas one after the other and
	// waits for each to be ready (OrderedReady).
	Ordered bool

	// CaughtUp: the child's controller has observed the spec as it is. The two
	// hashes speak of an older spec otherwise.
	CaughtUp bool
	// CurrentHash and UpdateHash name the child's own revisions: what it makes
	// its replicas of below and from its partition on. Empty until its
	// controller first looked at it.
	CurrentHash, UpdateHash string
	// Trailing: the child's status does not tell yet of replicas that are known
	// here, so its controller is as a rule about to write it.
	Trailing bool

	// Members are the replicas that exist, by position.
	Members []Replica
}

// Replica is one replica of a child: a pod, for a StatefulSet.
type Replica struct {
	Name string
	UID  types.UID
	// Position counts from 0: the ordinal less the child's first ordinal. It is
	// negative or at least Replicas when the replica is surplus.
	Position int32
	// Hash names the child's own revision that the replica runs.
	Hash string
	// Ready tells of now, ReadySince since when; zero when it is not ready.
	Ready      bool
	ReadySince time.Time
	// Created is when it was created, Since the same or, when later, when it ceased
	// to be ready.
	Created, Since time.Time
	// Terminating: it is being deleted, whatever else it is.
	Terminating bool
	// Failure is why the replica failed, such as "CrashLoopBackOff"; "" when it
	// did not, or not yet.
	Failure string
	// Crashed: a container that is not ready now has ended with an error. Between
	// two tries a crash loop looks like a start; this tells them apart.
	Crashed bool
}

// Trouble says in a few words, for people, why a replica is not available, and
// since when: not for how long, which would be another text every second.
func (r Replica) Trouble() string {
	since := r.Since.UTC().Format(time.RFC3339)
	switch {
	case r.Terminating:
		return "is terminating"
	case r.Failure != "":
		return r.Failure + " since " + since
	case r.Crashed:
		return "crashed, not ready since " + since
	case r.Ready:
		return "not available yet, ready since " + r.ReadySince.UTC().Format(time.RFC3339)
	}
	return "not ready since " + since
}

// Available tells whether the replica has been ready for minReadySeconds at
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

// Remembers tells whether the child's controller would make a replica below
// the partition of another revision than one from the partition on.
func (o *Observed) Remembers() bool {
	return o.CurrentHash != "" && o.CurrentHash != o.UpdateHash
}
