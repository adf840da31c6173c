// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package statefulset is a StatefulSet, its pods and its controller in a few dozen
// bytes: small enough to copy and to hash by the million, and so to walk through
// every order in which things can happen (controllers/united/planner, exhaustive_test.go).
//
// It follows pkg/controller/statefulset/stateful_set_control.go of Kubernetes 1.37.1,
// with the feature gate MaxUnavailableStatefulSet on and off. What it does is held to
// what the real controllers were seen to do: test/simulation/testdata is replayed on it.
//
// It knows nothing of United. Volumes, spec.ordinals.start, the strategies other than
// RollingUpdate, and pods that end for good (phase Failed, Succeeded) are not modelled.
package statefulset

// MaxPods bounds the ordinals, MaxVersions the templates.
const (
	MaxPods     = 6
	MaxVersions = 5
)

// Version is what a pod is made of, from 1; 0 is none.
type Version uint8

// Phase is where a pod stands. The zero phase is that of no pod.
type Phase uint8

// Phases.
const (
	Absent Phase = iota
	// Starting: it was never ready.
	Starting
	Ready
	// Unready: its containers run, and it is not ready.
	Unready
	// Crashed: a container has ended with an error, and waits to be started again.
	Crashed
)

// Owner tells whose a pod or a revision is.
type Owner uint8

// Owners.
const (
	// Mine: it is controlled by the set.
	Mine Owner = iota + 1
	// Nobody: it was orphaned.
	Nobody
	// Former: it is controlled by an earlier set of the name, which is gone.
	Former
)

// Pod is one pod.
type Pod struct {
	Phase   Phase
	Version Version
	Owner   Owner
	// Terminating: it is being deleted, whatever else it is.
	Terminating bool
	// Aged: a long time has passed since it was created, or became or ceased to be
	// ready, whichever was last.
	Aged bool
	// WasReady: it was ready once.
	WasReady bool
	// Held: it does not go when it is deleted.
	Held bool
	// Marks are for who looks on; the set does nothing with them, and a new pod has
	// none.
	Marks uint8
}

// Exists reports whether there is a pod.
func (p *Pod) Exists() bool { return p.Phase != Absent }

// Ready reports whether it serves.
func (p *Pod) Ready() bool { return p.Phase == Ready && !p.Terminating }

// Set is one StatefulSet and its pods by ordinal.
type Set struct {
	Exists bool
	// What the spec says.
	Template            Version
	Replicas, Partition uint8
	// Observed: the controller has observed the spec as it is.
	Observed bool
	// Current and Update are the two revisions of the status, 0 when it has none.
	Current, Update Version
	// Revisions tells whose the set's own revision of each version is, 0 where there
	// is none.
	Revisions [MaxVersions + 1]Owner
	Pods      [MaxPods]Pod
}

// Kind is what kind of StatefulSet it is, and of what Kubernetes.
type Kind struct {
	// Ordered: podManagementPolicy is OrderedReady.
	Ordered bool
	// CountsUnavailable: the controller has a maxUnavailable: Kubernetes 1.37.
	CountsUnavailable bool
	// MaxUnavailable is that of the spec; 0 is its default, 1.
	MaxUnavailable uint8
	// MinReady: a pod is available when it has been ready for long.
	MinReady bool
}

// Available reports whether a pod of this kind of set is available.
func (k Kind) Available(p *Pod) bool {
	return p.Ready() && (!k.MinReady || p.Aged)
}

// Delete begins to delete a pod.
func (s *Set) Delete(ordinal int) {
	if s.Pods[ordinal].Exists() {
		s.Pods[ordinal].Terminating = true
	}
}

// Apply writes the spec, and reports whether that changes it.
func (s *Set) Apply(template Version, replicas, partition uint8) bool {
	if s.Exists && s.Template == template && s.Replicas == replicas && s.Partition == partition {
		return false
	}
	s.Exists, s.Observed = true, false
	s.Template, s.Replicas, s.Partition = template, replicas, partition
	return true
}

// Remove deletes the set, with its pods and revisions or, as orphans, without them.
// Pods and revisions go when the garbage collector looks at them.
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

// Collect is the garbage collector: what an earlier set has left begins to go.
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

// RunsAll reports whether the set has exactly its replicas, and there are some, and all
// are ready on its template.
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

// KnowsOnly reports whether all pods of the set are of the version, and others would be.
func (s *Set) KnowsOnly(v Version) bool {
	for i := range s.Pods {
		if pod := &s.Pods[i]; pod.Owner == Mine && pod.Version != v {
			return false
		}
	}
	return s.Exists && s.Template == v && s.Current == v && s.Update == v
}
