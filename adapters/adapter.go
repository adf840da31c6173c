// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adapters defines what United needs to know about its kinds of child workload: the desired state of a child
// (Child), its observed state (Observed), and the properties of a kind (Adapter). It reads and builds objects; it has
// no client.
package adapters

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/adapters/render"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Adapter describes one kind of child workload.
type Adapter interface {
	// GroupVersionKind returns the kind of the children.
	GroupVersionKind() schema.GroupVersionKind
	// TemplateField returns the name of the member of spec.template for this kind, and its content, which is nil if
	// the member is not set.
	TemplateField(t *v1alpha1.WorkloadTemplate) (name string, raw *runtime.RawExtension)
	// MaxNameLength returns the maximum length of a child's name.
	MaxNameLength() int
	// Traits returns what the kind can do.
	Traits() Traits
	// FieldPaths returns the paths of the fields that every kind has.
	FieldPaths() FieldPaths
	// RevisionPaths returns the paths of the parts of a workload that a revision stores: those that make pods. There
	// is at least one, and none contains another. A change elsewhere makes no revision.
	RevisionPaths() [][]string
	// PodTemplates returns the paths of the pod templates in a workload.
	PodTemplates() [][]string
	// PatchSchema returns the merge keys of the kind for strategic merge patch.
	PatchSchema() (strategicpatch.LookupPatchMeta, error)
	// Validate rejects what the controller cannot work with in a template {metadata, spec}, and in the spec of its
	// parent. It repeats the checks of the admission policy, because that may not be installed. at is the path of the
	// template in the parent.
	Validate(spec *v1alpha1.UnitedDeploymentSpec, template map[string]any, at *field.Path) field.ErrorList
	// ValidatePatch rejects what SetControllerFields would silently override in a subset's patch at the path at.
	ValidatePatch(patch map[string]any, selector *metav1.LabelSelector, at *field.Path) field.ErrorList
	// SetControllerFields sets the fields of a built workload that the controller determines and that differ between
	// kinds: replicas, partition, strategy, selector, minReadySeconds.
	SetControllerFields(workload map[string]any, c *Child) error
	// Observe reads a child and those of the dependents that belong to it. It fails if the child is of another kind.
	Observe(child *unstructured.Unstructured, have Dependents) (*Observed, error)
}

// Adopting is implemented by adapters of kinds whose children adopt pods that outlived an earlier child, and delete
// those for which they have no replicas.
type Adopting interface {
	Adapter
	// Orphans returns how many replicas a built child needs so that it keeps those of the given pods that have no
	// controller and that it would adopt: the highest of their positions plus 1, or 0 if there are none.
	Orphans(child *unstructured.Unstructured, pods []corev1.Pod) int32
}

// Guarding is implemented by adapters of kinds whose controller deletes replicas at once when a field changes that the API
// server lets change.
type Guarding interface {
	Adapter
	// CheckChange rejects such a change from the live child to the built one.
	CheckChange(built, live *unstructured.Unstructured) error
}

// Sweeping is implemented by adapters of kinds whose controller, unless the child is ordered, replaces all released replicas at
// once that are not available, whatever the child's maxUnavailable says.
type Sweeping interface {
	Adapter
	// Bounds returns what decides that, from the first of some workloads that has it.
	Bounds(workloads ...map[string]any) Bounds
}

// Bounds are fields of a child that decide how it replaces its replicas; nil stands for their defaults.
type Bounds struct {
	MinReadySeconds *int32
	MaxUnavailable  *intstr.IntOrString
}

// Relating is implemented by adapters that read other objects too, such as the ReplicaSets of a Deployment, to
// observe a child. These objects carry the labels of the child's pods.
type Relating interface {
	Adapter
	// Related returns the kinds of those objects.
	Related() []schema.GroupVersionKind
}

// Ranking is implemented by adapters of kinds whose replicas have no ordinals.
type Ranking interface {
	Adapter
	// Rank puts the replicas in the order in which their controller chooses among them, from the one that stays longest
	// to the one that goes first, and assigns their positions.
	Rank(o *Observed)
}

// Delegating is implemented by adapters of kinds whose children delegate their replicas to a workload of another
// kind. That has the name of the child, and its status records the previous revision, as that of a StatefulSet does.
// The related objects of such a child carry labels of its controller; only the templates in them have those of the
// child's pods.
type Delegating interface {
	Relating
	// Delegate returns the kind of that workload, which is one of Related.
	Delegate() schema.GroupVersionKind
	// RelatedLabel returns the label by which related objects are found. Its value is the name of the child.
	RelatedLabel() string
	// Reduce removes from a related object, as the API server has it, what nobody reads, and gives it the labels of
	// the child's pods. It does not change an object that has been reduced already.
	Reduce(related *unstructured.Unstructured)
}

// Grouping is implemented by adapters of kinds whose replicas are groups of pods.
type Grouping interface {
	Adapter
	// ReplicaLabels returns labels that exactly one pod of each group has, so that counting pods counts replicas.
	ReplicaLabels() map[string]string
	// PlacementAnnotations returns the annotations, of the child or of pods, that make the kind's webhook add affinity to
	// pods.
	PlacementAnnotations() []string
}

// DelegateOf returns the workload that keeps the replicas of the named child; nil if it is not among the related
// objects.
func DelegateOf(a Delegating, child string, related []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, object := range related {
		if object.GroupVersionKind() == a.Delegate() && object.GetName() == child {
			return object
		}
	}
	return nil
}

// Dependents are the objects that carry the labels of a child, and may belong to it. They are shared with the cache
// and must not be modified.
type Dependents struct {
	Pods []*corev1.Pod
	// Related are the objects of a Relating adapter.
	Related []*unstructured.Unstructured
}

// Traits describe what a kind of workload can do. The planner depends on traits, never on the kind itself.
type Traits struct {
	Partition  Granularity
	Protection Protection
	// Hasty means that the controller of the kind forgets the previous revision as soon as all replicas are updated,
	// or before all of them are ready. Other controllers wait until all are ready.
	Hasty bool
	// Paced means that the kind has its own bound on how many replicas it replaces at once. With type Manual that is
	// the template's. In a coordinated rollout, United lifts it (Unbounded), and the child replaces what its
	// partition releases.
	Paced bool
	// Reserves means that replicas without a node can be kept in addition to the replicas of the parent.
	Reserves bool
}

// Granularity is the granularity at which a kind can protect the replicas of a child.
type Granularity string

const (
	// ByOrdinal means that the replicas at the positions below a partition stay as they are.
	ByOrdinal Granularity = "ByOrdinal"
	// ByCount means that a partition is the number of replicas that stay as they are, and that the child's controller
	// chooses which. Positions are then ranks that the adapter assigns in the order of that choice: replicas that
	// stay are the lowest, then come those that the controller replaces next, then missing ones, and updated ones are
	// at the top.
	ByCount Granularity = "ByCount"
	// AllOrNothing means that either all replicas of a child are protected, or none. A partition is 0, "0%" or
	// "100%".
	AllOrNothing Granularity = "AllOrNothing"
)

// Protection is how a protected replica of a child comes back on its own revision.
type Protection string

const (
	// Remembered means that the controller of the child remembers the previous template. It must have seen that: a
	// child that is new, or had no replicas, first gets the protected one.
	Remembered Protection = "Remembered"
	// Withheld means that the child has only one template, and gets the next one when it is released.
	Withheld Protection = "Withheld"
)

// FieldPaths are the paths of fields of a workload; nil if the kind has no such field. Strategy is the field that
// shows whether the workload has a partition.
type FieldPaths struct{ Replicas, Partition, Strategy, Paused []string }

// Pace is how many of its replicas a child may make unavailable while it replaces them.
type Pace struct{ MaxUnavailable int32 }

// Unbounded returns the pace of a child that replaces at once what its partition releases; United determines how many
// replicas that is.
func Unbounded() *Pace { return &Pace{MaxUnavailable: math.MaxInt32} }

// Child is the desired state of a child. It has everything that Build needs, and nothing that is read from the
// cluster.
type Child struct {
	// Namespace and Name are those of the child; Parent and Subset are names.
	Namespace, Name, Parent, Subset string
	// Owner is the controller reference to the parent.
	Owner metav1.OwnerReference
	// Selector is that of the parent; the child's selector adds the two labels of United.
	Selector *metav1.LabelSelector

	// Template and Patch are the current {metadata, spec}; the revision replaces their pod part.
	Template, Patch map[string]any
	// RevisionTemplate is the pod part of the template in the revision, RevisionPatch that of the subset's patch (nil
	// if the patch does not change it).
	RevisionTemplate, RevisionPatch map[string]any
	// Identity identifies both, together with ParentGeneration: they are the same as long as it is; "" if that is not known.
	Identity string
	// Tolerations are those of the subset in the revision.
	Tolerations []corev1.Toleration
	// VersionLabel is the value of the label united.dev/version of the pods in the revision, ""
	// without one.
	VersionLabel string
	// Colocation is how the pods in the revision are placed in groups; nil if they are not.
	Colocation *render.Colocation
	// NodeSelector is that of the subset. With Kept, the child keeps the placement that it has instead.
	NodeSelector *corev1.NodeSelector
	Kept         *Placement
	// MinReadySeconds is that of the parent; one in the template takes precedence.
	MinReadySeconds int32

	// Replicas and Partition are written unchanged.
	Replicas, Partition int32
	// Revision is the name of the parent revision of RevisionTemplate, ProtectedRevision the name of the one that
	// protected ordinals run, "" if there is nothing to protect yet.
	Revision, ProtectedRevision string
	// ProtectedHash is the name of the child's own revision for ProtectedRevision, "" if it is not known.
	// ReleasedFrom is the position below which no replica was ever released to Revision, nor is known to have run it.
	// ReleasedBefore is the position below which none was ever released to any revision between the two; it is at
	// most ReleasedFrom.
	ProtectedHash                string
	ReleasedFrom, ReleasedBefore int32
	// Pace is how fast a child may replace released replicas, if its kind has such a bound; nil leaves that to the
	// template.
	Pace *Pace
	// Paused: the child keeps its mix of revisions, if its kind can.
	Paused bool
	// Surplus is how many replicas a paused child keeps beyond Replicas, if its kind creates some before it deletes
	// others. With another number, its controller would create or delete replicas although it is paused.
	Surplus int32
	// Asked is what the spec asks of the child (known.Asked).
	Asked string
	// Seeding: Revision is the protected revision, until the protected replicas exist.
	Seeding bool
	// ParentGeneration is the parent's metadata.generation.
	ParentGeneration int64
}

// HasPace reports whether an existing child has the desired pace, or none is desired, or its pace is unknown. A pace above the
// number of replicas equals that number.
func (c *Child) HasPace(has *Pace) bool {
	return c.Pace == nil || has == nil || min(has.MaxUnavailable, c.Replicas) == min(c.Pace.MaxUnavailable, c.Replicas)
}
