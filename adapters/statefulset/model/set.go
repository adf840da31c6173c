// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statefulset models a StatefulSet, its pods and its controller in a few dozen bytes: small enough to copy
// and hash millions of them, and so to walk through every order of events (controllers/united/planner,
// exhaustive_test.go).
//
// It follows pkg/controller/statefulset/stateful_set_control.go of Kubernetes 1.37.1, with the feature gate
// MaxUnavailableStatefulSet on and off. A test compares it with recorded results of the real controllers, by
// replaying test/simulation/testdata.
//
// It knows nothing of United. It does not model volumes, spec.ordinals.start, strategies other than RollingUpdate,
// and pods that have ended (phase Failed or Succeeded).
package statefulset

// MaxPods bounds the ordinals, MaxVersions the templates.
const (
	MaxPods     = 6
	MaxVersions = 5
)

// Version is the template version of a pod, from 1; 0 is none.
type Version uint8

// Phase is the state of a pod. The zero value means that there is no pod.
type Phase uint8

// Phases.
const (
	Absent Phase = iota
	// Starting: it has never been ready.
	Starting
	Ready
	// Unready: its containers run, but it is not ready.
	Unready
	// Crashed: a container ended with an error and waits for its restart.
	Crashed
)

// Owner is the owner of a pod or revision.
type Owner uint8

// Owners.
const (
	// Mine: the set controls it.
	Mine Owner = iota + 1
	// Nobody: it was orphaned.
	Nobody
	// Former: a deleted set with the same name controls it.
	Former
)

// Pod is one pod.
type Pod struct {
	Phase   Phase
	Version Version
	Owner   Owner
	// Terminating: it is being deleted, in any phase.
	Terminating bool
	// Aged: a long time has passed since it was created, became ready, or became unready, whichever was last.
	Aged bool
	// WasReady: it has been ready.
	WasReady bool
	// Held: it stays when it is deleted.
	Held bool
	// Marks are for the caller; the set ignores them, and a new pod has none.
	Marks uint8
}

// Exists reports whether the pod exists.
func (p *Pod) Exists() bool { return p.Phase != Absent }

// Ready reports whether the pod serves.
func (p *Pod) Ready() bool { return p.Phase == Ready && !p.Terminating }

// Set is one StatefulSet and its pods by ordinal.
type Set struct {
	Exists bool
	// From the spec.
	Template            Version
	Replicas, Partition uint8
	// Observed: the controller has observed the current spec.
	Observed bool
	// Current and Update are the revisions in the status, 0 if it has none.
	Current, Update Version
	// Revisions has the owner of the set's own revision of each version, 0 if it does not exist.
	Revisions [MaxVersions + 1]Owner
	Pods      [MaxPods]Pod
}

// Kind is the kind of StatefulSet, and the version of Kubernetes.
type Kind struct {
	// Ordered: podManagementPolicy is OrderedReady.
	Ordered bool
	// CountsUnavailable: the controller has maxUnavailable, as in Kubernetes 1.37.
	CountsUnavailable bool
	// MaxUnavailable is that of the spec; 0 is the default, 1.
	MaxUnavailable uint8
	// MinReady: a pod is available only after it has been ready for a long time.
	MinReady bool
}

// Available reports whether a pod of this kind of set is available.
func (k Kind) Available(p *Pod) bool {
	return p.Ready() && (!k.MinReady || p.Aged)
}

// Delete starts to delete a pod.
func (s *Set) Delete(ordinal int) {
	if s.Pods[ordinal].Exists() {
		s.Pods[ordinal].Terminating = true
	}
}

// Apply writes the spec, and reports whether that changes anything.
func (s *Set) Apply(template Version, replicas, partition uint8) bool {
	if s.Exists && s.Template == template && s.Replicas == replicas && s.Partition == partition {
		return false
	}
	s.Exists, s.Observed = true, false
	s.Template, s.Replicas, s.Partition = template, replicas, partition
	return true
}

// Remove deletes the set, with its pods and revisions unless they are orphaned. The garbage collector deletes pods
// and revisions later.
func (s *Set) Remove(orphan bool) {
	owner := Former
	if orphan {
		owner = Nobody
	}
	for i := range s.Pods {
		if s.Pods[i].Owner == Mine {
			s.Pods[i].Owner = owner
		}
	}
	for v := range s.Revisions {
		if s.Revisions[v] == Mine {
			s.Revisions[v] = owner
		}
	}
	*s = Set{Revisions: s.Revisions, Pods: s.Pods}
}

// Collect simulates the garbage collector, which deletes what an earlier set has left.
func (s *Set) Collect(revisionsToo bool) {
	for i := range s.Pods {
		if s.Pods[i].Owner == Former {
			s.Delete(i)
		}
	}
	for v := range s.Revisions {
		if s.Revisions[v] == Former && revisionsToo {
			s.Revisions[v] = 0
		}
	}
}

// RunsAll reports whether the set has exactly its replicas, at least one, and all of them are ready on its template.
func (s *Set) RunsAll() bool {
	for i := range s.Pods {
		pod := &s.Pods[i]
		wanted := i < int(s.Replicas)
		if wanted && (pod.Owner != Mine || !pod.Ready() || pod.Version != s.Template) || !wanted && pod.Owner == Mine {
			return false
		}
	}
	return s.Exists && s.Replicas > 0
}

// KnowsOnly reports whether all pods of the set have the version, and new ones would have it too.
func (s *Set) KnowsOnly(v Version) bool {
	for i := range s.Pods {
		if pod := &s.Pods[i]; pod.Owner == Mine && pod.Version != v {
			return false
		}
	}
	return s.Exists && s.Template == v && s.Current == v && s.Update == v
}
