// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package world has what was seen of one parent in one pass, and what follows from that alone. It is pure.
package world

import (
	"cmp"
	"math"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
	"github.com/unitedworkloads/united/controllers/subset"
	"github.com/unitedworkloads/united/controllers/united/known"
	"github.com/unitedworkloads/united/controllers/united/revision"
	"github.com/unitedworkloads/united/controllers/united/spec"
)

// LastAllotted returns how many replicas a subset was given last, from the status, otherwise from its child. The
// status does not have the number for a subset that was being removed and is back in the spec.
func (w *World) LastAllotted(name string) int32 {
	if was := SubsetStatus(&w.Parent.Status, name); was != nil && was.UpdateRevision != "" {
		return was.DesiredReplicas
	}
	if observed := w.Observed(name); observed != nil {
		return observed.Replicas
	}
	return 0
}

// Coordinates reports whether the controller moves the partitions.
func (w *World) Coordinates() bool {
	return w.Parent.Spec.UpdateStrategy.Type == v1alpha1.RollingUpdateStrategy
}

// Traits returns what the kind of the children can do.
func (w *World) Traits() adapters.Traits { return w.Spec.Adapter.Traits() }

// Whole reports whether a child is released as a whole.
func (w *World) Whole() bool { return w.Traits().Partition == adapters.AllOrNothing }

// Counts reports whether a child's controller counts its replicas, and chooses among them.
func (w *World) Counts() bool { return w.Traits().Partition == adapters.ByCount }

// World is what was seen of one parent in one pass. Nothing modifies it after that.
type World struct {
	Parent *v1alpha1.UnitedDeployment
	// Spec is the parent's spec, from spec.Read.
	Spec *spec.Spec
	Now  time.Time

	// Children by subset, including those of subsets that the spec no longer has.
	Children map[string]*Child
	// Unreadable are the children that cannot be read, by subset. No other map has them.
	Unreadable map[string]*Unreadable
	// Pods by subset, according to their labels.
	Pods map[string][]*corev1.Pod
	// Related are the other objects that the adapter reads besides children and pods, by subset.
	Related map[string][]*unstructured.Unstructured
	// Outlived are the pods of subsets whose child is gone and may be created now, read from the API server a
	// moment ago.
	Outlived map[string][]corev1.Pod
	// Revisions are the stored revisions.
	Revisions []*revision.Revision

	// Contested are the subsets in which somebody lowers the partition of the child again and again. The value is
	// when that is over, if nobody does it any more.
	Contested map[string]time.Time
	// Unreached are the subsets that the last pass did not reach, because it was ended early, by their place in a
	// queue that begins with 1.
	Unreached map[string]int
	// Checks is what was seen of the checks of the rollout, by name.
	Checks map[string]known.CheckResult
	// Wake is when the observer wants another pass; zero if never.
	Wake time.Time
}

// Unreadable is a child workload that cannot be read. The state of its replicas is not known, so neither it nor
// anything that depends on its replicas is changed.
type Unreadable struct {
	// Meta is its metadata, which is read separately.
	Meta metav1.ObjectMeta
	// Why says which object it is, and why it cannot be read.
	Why string
}

// LastKnown returns the status of a subset whose child cannot be read; an empty one for any other subset.
func (w *World) LastKnown(name string) v1alpha1.SubsetStatus {
	if was := SubsetStatus(&w.Parent.Status, name); was != nil && w.Unreadable[name] != nil {
		return *was
	}
	return v1alpha1.SubsetStatus{}
}

// Kept returns the revisions without the one that is not stored yet.
func (w *World) Kept() []*revision.Revision {
	return slices.DeleteFunc(slices.Clone(w.Revisions), func(r *revision.Revision) bool { return !r.Stored() })
}

// Terms returns the terms that decide when a replica is broken.
func (w *World) Terms() adapters.Terms {
	t := adapters.Terms{Now: w.Now, Deadline: spec.ProgressTime(w.Parent), Paused: w.Parent.Spec.Paused}
	switch status := &w.Parent.Status; {
	case status.PausedTime != nil:
		t.Resumed = w.Now // at the earliest
	case status.ResumedTime != nil:
		t.Resumed = status.ResumedTime.Time
	}
	return t
}

// Child is one child workload.
type Child struct {
	// Object may be shared with the cache: it must not be modified.
	Object   *unstructured.Unstructured
	Observed *adapters.Observed
}

// Initialized reports whether a replica of the parent was ever ready. If the status is lost, children that protect
// a revision show that, too.
func (w *World) Initialized() bool {
	if meta.IsStatusConditionTrue(w.Parent.Status.Conditions, v1alpha1.ConditionInitialized) {
		return true
	}
	for _, c := range w.Children {
		if subset.Protects(c.Observed) || slices.ContainsFunc(c.Observed.Pods, adapters.Replica.Serves) {
			return true
		}
	}
	// Trap: if the status is lost, too, an unreadable child may be the only one that shows it.
	return len(w.Unreadable) > 0 && meta.FindStatusCondition(w.Parent.Status.Conditions, v1alpha1.ConditionInitialized) == nil
}

// NamedByChild reports whether a child, or the copy of a child's record, names a revision.
func (w *World) NamedByChild(name string) bool {
	for _, annotations := range w.Records() {
		if name == annotations[v1alpha1.AnnotationRevision] || name == annotations[v1alpha1.AnnotationProtectedRevision] {
			return true
		}
	}
	return false
}

// Records returns the annotations of all children, and the copies of them.
func (w *World) Records() []map[string]string {
	var all []map[string]string
	for _, s := range w.Parent.Status.Subsets {
		if s.ChildRecord != nil {
			all = append(all, s.ChildRecord.Annotations)
		}
	}
	for _, c := range w.Children {
		all = append(all, c.Observed.Meta.Annotations)
	}
	for _, c := range w.Unreadable {
		all = append(all, c.Meta.Annotations)
	}
	return all
}

// ChildIdentity returns which object the child of a subset is, and its owner, without its content.
func (w *World) ChildIdentity(name string) adapters.Child {
	return adapters.Child{
		Namespace: w.Parent.Namespace, Name: adapters.ChildName(w.Parent.Name, name),
		Parent: w.Parent.Name, Subset: name, Owner: OwnerOf(w.Parent),
	}
}

// OwnerOf returns the controller reference to a parent.
func OwnerOf(parent *v1alpha1.UnitedDeployment) metav1.OwnerReference {
	return *metav1.NewControllerRef(parent, v1alpha1.GroupVersion.WithKind(v1alpha1.Kind))
}

// RecordInStatus returns the copy in the status; nil if there is none.
func (w *World) RecordInStatus(name string) *v1alpha1.ChildRecord {
	if was := SubsetStatus(&w.Parent.Status, name); was != nil {
		return was.ChildRecord
	}
	return nil
}

// Orphaned returns how many pods outlived a child that adopts them by way of a related object, such as a ReplicaSet, that was
// orphaned.
func (w *World) Orphaned(name string) (n int32) {
	orphans := map[types.UID]bool{}
	for _, object := range w.Related[name] {
		orphans[object.GetUID()] = metav1.GetControllerOfNoCopy(object) == nil
	}
	for i := range w.Outlived[name] {
		pod := &w.Outlived[name][i]
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && orphans[owner.UID] && pod.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// OutlivedReplicas returns how many replicas the workload that outlived a child still keeps: the others are about to go.
func (w *World) OutlivedReplicas(c *adapters.Child) int32 {
	if delegate := w.Delegate(c.Subset, c.Name); delegate != nil {
		if n, found, _ := unstructured.NestedInt64(delegate.Object, "spec", "replicas"); found {
			return int32(min(n, math.MaxInt32))
		}
	}
	return math.MaxInt32
}

// Delegate returns the workload to which the child of a subset delegates its replicas, or did before it was gone; nil if
// there is none.
func (w *World) Delegate(subset, child string) *unstructured.Unstructured {
	if delegating, ok := w.Spec.Adapter.(adapters.Delegating); ok {
		return adapters.DelegateOf(delegating, child, w.Related[subset])
	}
	return nil
}

// Memory returns the object that remembers what the replicas of a subset ran before: its child, or the object to
// which the child delegates them.
func (w *World) Memory(name string) *unstructured.Unstructured {
	child := w.Children[name].Object
	return cmp.Or(w.Delegate(name, child.GetName()), child)
}

// Observed returns the child of a subset as it was observed; nil if there is none that can be read.
func (w *World) Observed(name string) *adapters.Observed {
	if c := w.Children[name]; c != nil {
		return c.Observed
	}
	return nil
}

// SubsetStatus returns the part of a status for a subset; nil if there is none.
func SubsetStatus(status *v1alpha1.UnitedDeploymentStatus, name string) *v1alpha1.SubsetStatus {
	i := slices.IndexFunc(status.Subsets, func(s v1alpha1.SubsetStatus) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &status.Subsets[i]
}

// OnOtherNodes reports whether the child of a subset was made with another nodeSelector. Children without that record
// are not moved, nor is a pod that merely lacks the placement.
func (w *World) OnOtherNodes(s spec.Subset) bool {
	c := w.Children[s.Name]
	if c == nil || c.Object.GetDeletionTimestamp() != nil || subset.WrittenLater(c.Observed, w.Parent.Generation) {
		return false
	}
	made := c.Observed.Meta.Annotations[v1alpha1.AnnotationPlacement]
	return made != "" && made != adapters.PlacementHash(s.NodeSelector)
}

// AvailableReplicas returns how many replicas of all children are available.
func (w *World) AvailableReplicas() (available int32) {
	for _, c := range w.Children {
		for i := range c.Observed.Pods {
			if is, _ := c.Observed.Pods[i].Available(c.Observed.MinReadySeconds, w.Now); is {
				available++
			}
		}
	}
	return available
}

// LostSubsets reports whether the spec has no subsets, although it asks for replicas. Admission refuses to remove the
// last one then, because it is a slip: all replicas would go. So the children stay.
func (w *World) LostSubsets() bool { return len(w.Spec.Subsets) == 0 && spec.Replicas(w.Parent) > 0 }

// ChildrenNotInSpec returns the subsets, sorted by name, that have such a child and are not in the spec.
func (w *World) ChildrenNotInSpec(of func(*Child) bool) []string {
	var names []string
	for name, c := range w.Children {
		if of(c) && !w.Spec.Has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
