// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

// Package adapters is the vocabulary between United and the kinds of workload
// it can have as children: what a child shall be (Child), what a child is
// (Observed), and what one kind has to tell (Adapter). It reads and builds
// objects; it has no client.
package adapters

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// Adapter knows one kind of child workload.
type Adapter interface {
	// GroupVersionKind is the kind of the children.
	GroupVersionKind() schema.GroupVersionKind
	// TemplateField is the name of the member of spec.template that holds templates of
	// this kind, and its content; nil when the member is not set.
	TemplateField(t *v1alpha1.WorkloadTemplate) (name string, raw *runtime.RawExtension)
	// MaxNameLength is how long a child's name may be.
	MaxNameLength() int
	// Traits are what the kind can do.
	Traits() Traits
	// FieldPaths are where a workload has what every kind has.
	FieldPaths() FieldPaths
	// RevisionPaths are the paths of what a revision keeps of a workload: the parts that make
	// pods, at least one, none inside another. A change outside of them makes no revision.
	RevisionPaths() [][]string
	// PodTemplates are the paths of the pod templates inside a workload.
	PodTemplates() [][]string
	// PatchSchema tells strategic merge patch the merge keys of the kind.
	PatchSchema() (strategicpatch.LookupPatchMeta, error)
	// Validate refuses what the controller cannot work with in a template
	// {metadata, spec}, and in the spec of a parent that has it. It repeats what
	// admission refuses, since the admission policy may be absent. at is the path of the
	// template in the parent.
	Validate(spec *v1alpha1.UnitedDeploymentSpec, template map[string]any, at *field.Path) field.ErrorList
	// ValidatePatch refuses, in a subset's patch at the path at, what SetControllerFields would
	// overrule without a word.
	ValidatePatch(patch map[string]any, selector *metav1.LabelSelector, at *field.Path) field.ErrorList
	// SetControllerFields sets the fields of a built workload that the controller decides and
	// that differ from kind to kind: replicas, partition, strategy, selector,
	// minReadySeconds.
	SetControllerFields(workload map[string]any, c *Child) error
	// Observe reads a child, and of its dependents those that are its own. It fails when
	// the child is not of the kind.
	Observe(child *unstructured.Unstructured, have Dependents) (*Observed, error)
}

// Adopting is an adapter of a kind whose children adopt pods that outlived an earlier one,
// and delete those for which they have no replicas.
type Adopting interface {
	Adapter
	// Orphans is how many replicas a built child must have to keep the pods,
	// among those given, that nobody controls and that it would adopt: one more
	// than the highest of their positions, 0 without any.
	Orphans(child *unstructured.Unstructured, pods []corev1.Pod) int32
}

// Relating is an adapter that reads other objects to tell what its children are, such as
// the ReplicaSets of a Deployment. They carry the labels of the child's pods.
type Relating interface {
	Adapter
	// Related are their kinds.
	Related() []schema.GroupVersionKind
}

// Delegating is an adapter of a kind whose children leave their replicas to a workload of another kind, which has the
// child's name and remembers, in its status as a StatefulSet does, what they ran before. What is related to such a child
// carries labels of its controller, and those of the child's pods in its templates alone.
type Delegating interface {
	Relating
	// Delegate is the kind of that workload. It is one of Related.
	Delegate() schema.GroupVersionKind
	// RelatedLabel is the label by which what is related is found. Its value is the name of the child.
	RelatedLabel() string
	// Reduce takes from a related object, as the API server has it, what is not read of it, and gives it the labels of the
	// child's pods. One that was reduced before stays as it is.
	Reduce(related *unstructured.Unstructured)
}

// Grouping is an adapter of a kind whose replicas are groups of pods.
type Grouping interface {
	Adapter
	// ReplicaLabels are on one pod of each group: who counts pods counts replicas by them.
	ReplicaLabels() map[string]string
}

// DelegateOf is, of what is related to the child of that name, the workload that keeps its replicas; nil when there is
// none.
func DelegateOf(a Delegating, child string, related []*unstructured.Unstructured) *unstructured.Unstructured {
	for _, object := range related {
		if object.GroupVersionKind() == a.Delegate() && object.GetName() == child {
			return object
		}
	}
	return nil
}

// Dependents is what carries the labels of a child, and may be its own. All of it is
// shared with the cache: read only.
type Dependents struct {
	Pods []*corev1.Pod
	// Related are the objects of a Relating adapter.
	Related []*unstructured.Unstructured
}

// Traits are what a kind of workload can do. Who plans asks for them, and for no kind.
type Traits struct {
	Partition  Granularity
	Protection Protection
	// Hasty: its controller forgets what its replicas ran before as soon as all of them are
	// updated, or before they are all ready. Others wait until they are.
	Hasty bool
	// Paced means that the kind has a bound of its own on how many replicas it replaces at once.
	// By hand it is the template's. In a coordinated rollout United lifts it (Unbounded): the child
	// takes what its partition releases.
	Paced bool
}

// Granularity is how finely a kind divides the replicas of a child.
type Granularity string

const (
	// ByOrdinal means that the replicas at the positions below a partition stay as they are.
	ByOrdinal Granularity = "ByOrdinal"
	// ByCount means that a partition is how many replicas stay as they are, and that the
	// child's controller chooses which. Positions are ranks then, by which the adapter says what
	// it is going to choose: those that stay are the lowest, then those that it takes next, then
	// what is missing, and the updated ones are at the top.
	ByCount Granularity = "ByCount"
	// AllOrNothing means that all replicas of a child are protected, or none. A partition is
	// 0, "0%" or "100%".
	AllOrNothing Granularity = "AllOrNothing"
)

// Protection is how a child makes a protected replica again on what it ran.
type Protection string

const (
	// Remembered means that its controller remembers what the template was before. It has to have
	// known that: a child that is made new, or that had no replicas, is given it first.
	Remembered Protection = "Remembered"
	// Withheld means that the child has one template, and is given the next one when it is released.
	Withheld Protection = "Withheld"
)

// FieldPaths are the paths of fields of a workload; nil where the kind has none. Strategy
// is where it says that it knows a partition.
type FieldPaths struct{ Replicas, Partition, Strategy, Paused []string }

// Pace is how many of its replicas a child may have unavailable while it replaces them.
type Pace struct{ MaxUnavailable int32 }

// Unbounded is the pace of a child that replaces at once what its partition releases: how
// many that are is decided elsewhere.
func Unbounded() *Pace { return &Pace{MaxUnavailable: math.MaxInt32} }

// Child is what a child shall be: everything Build needs, nothing of the
// cluster.
type Child struct {
	// Namespace and Name are the child's own; Parent and Subset name whose it is.
	Namespace, Name, Parent, Subset string
	// Owner is the controller reference to the parent.
	Owner metav1.OwnerReference
	// Selector is the parent's; the child's is it and the two labels.
	Selector *metav1.LabelSelector

	// Template and Patch are today's {metadata, spec}; their pod part is
	// replaced by that of the revision.
	Template, Patch map[string]any
	// RevisionTemplate is the pod part of the template in the revision, RevisionPatch that of
	// the subset's patch (nil: the patch does not touch it).
	RevisionTemplate, RevisionPatch map[string]any
	// Tolerations are the subset's in the revision.
	Tolerations []corev1.Toleration
	// VersionLabel is the value of the label united.dev/version of the pods in the revision, ""
	// without one.
	VersionLabel string
	// NodeSelector is the subset's.
	NodeSelector *corev1.NodeSelector
	// MinReadySeconds is the parent's; the template's own wins.
	MinReadySeconds int32

	// Replicas and Partition are pushed as they are.
	Replicas, Partition int32
	// Revision names the parent revision of RevisionTemplate; ProtectedRevision the one
	// that protected ordinals run, "" when there is nothing to protect yet.
	Revision, ProtectedRevision string
	// ProtectedHash names the child's own revision that those run, "" when it is not
	// known. ReleasedFrom is the position below which no replica was ever released to
	// Revision, nor is known to have run it. ReleasedBefore, which is no more than that, is
	// the one below which none was ever released to any revision between the two.
	ProtectedHash                string
	ReleasedFrom, ReleasedBefore int32
	// Pace is how fast a child may replace what is released of it, where its kind has that;
	// nil leaves it to its template.
	Pace *Pace
	// Paused: the child keeps the mix of revisions that it has, of a kind that can.
	Paused bool
	// Seeding: Revision is the protected one, and is there only until the replicas are.
	Seeding bool
	// ParentGeneration is the parent's metadata.generation.
	ParentGeneration int64
}
