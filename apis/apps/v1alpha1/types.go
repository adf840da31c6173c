// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// UnitedDeployment is one workload spread over subsets of the nodes, such as
// zones or node pools. It keeps one child workload for each subset, named
// "<name>-<subset>", and decides which replicas of which subset may run a new
// revision.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=uniteddeployments,shortName=united,categories=all
// +kubebuilder:subresource:status
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name=Desired,type=integer,JSONPath=`.spec.replicas`
// +kubebuilder:printcolumn:name=Ready,type=integer,JSONPath=`.status.readyReplicas`
// +kubebuilder:printcolumn:name=Updated,type=integer,JSONPath=`.status.updatedReplicas`
// +kubebuilder:printcolumn:name=Available,type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name=Status,type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name=Age,type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name=Subsets,type=string,priority=1,JSONPath=`.status.summary`
// +kubebuilder:printcolumn:name=Message,type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label of at most 50 characters, because the children are named after it: lower-case letters, digits and '-', no dots"
// +kubebuilder:validation:XValidation:rule="has(self.spec.template.deploymentTemplate) || self.spec.topology.subsets.all(s, size(self.metadata.name) + 1 + size(s.name) <= 52)",fieldPath=".spec.topology.subsets",message="metadata.name, '-' and the name of a subset must be at most 52 characters together",messageExpression="'the child ' + self.metadata.name + '-' + self.spec.topology.subsets.map(s, s.name).filter(n, size(self.metadata.name) + 1 + size(n) > 52)[0] + ' would have too long a name: metadata.name, a dash and the name of the subset must be at most 52 characters together, the room that the labels of its pods leave'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.leaderWorkerSetTemplate) || self.spec.topology.subsets.all(s, size(self.metadata.name) + 1 + size(s.name) <= 48)",fieldPath=".spec.topology.subsets",message="metadata.name, '-' and the name of a subset must be at most 48 characters together: it is the room that the labels of the workers of a LeaderWorkerSet leave"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.leaderWorkerSetTemplate) || self.metadata.name.matches('^[a-z]')",fieldPath=".spec.template",message="metadata.name must begin with a letter: the Services of LeaderWorkerSets are named after it"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.deploymentTemplate) || self.spec.topology.subsets.all(s, size(self.metadata.name) + 1 + size(s.name) <= 63)",fieldPath=".spec.topology.subsets",message="metadata.name, '-' and the name of a subset must be at most 63 characters together: the Deployment is named so"
type UnitedDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is what the user wants.
	// +required
	Spec UnitedDeploymentSpec `json:"spec"`

	// Status is what the controller last saw and did.
	//
	// The default makes an object that no controller has looked at count as
	// unfinished for kstatus: without it an absent status reads as done.
	// +default={"observedGeneration": -1}
	// +optional
	Status UnitedDeploymentStatus `json:"status,omitempty"`
}

// UnitedDeploymentList is a list of UnitedDeployments.
//
// +kubebuilder:object:root=true
type UnitedDeploymentList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []UnitedDeployment `json:"items"`
}

// UnitedDeploymentSpec is what the user wants.
// ---
// The rule of the steps collects the names of the subsets once, by way of a list
// of one: collected for each name, those of 20 steps and 100 subsets are over the
// CEL cost budget.
//
// +kubebuilder:validation:XValidation:rule="!has(self.updateStrategy.manualUpdate) || !has(self.updateStrategy.manualUpdate.partitions) || self.updateStrategy.manualUpdate.partitions.all(k, self.topology.subsets.exists(s, s.name == k))",fieldPath=".updateStrategy.manualUpdate.partitions",message="a partition is set for a subset that spec.topology.subsets does not have",messageExpression="'there is no subset ' + self.updateStrategy.manualUpdate.partitions.filter(k, !self.topology.subsets.exists(s, s.name == k))[0] + ' in spec.topology.subsets'"
// +kubebuilder:validation:XValidation:rule="!has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.steps) || [self.topology.subsets.map(s, s.name)].all(names, self.updateStrategy.rollingUpdate.steps.all(p, !has(p.subsets) || p.subsets.all(n, n in names)))",fieldPath=".updateStrategy.rollingUpdate.steps",message="a step names a subset that spec.topology.subsets does not have"
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.manualUpdate) || !has(self.updateStrategy.manualUpdate.partitions) || self.updateStrategy.manualUpdate.partitions.all(k, (type(self.updateStrategy.manualUpdate.partitions[k]) == int ? self.updateStrategy.manualUpdate.partitions[k] == 0 : self.updateStrategy.manualUpdate.partitions[k] in ['0%', '100%']))",fieldPath=".updateStrategy.manualUpdate.partitions",message="a Deployment is released as a whole: a partition must be 0, \"0%\" or \"100%\""
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.manualUpdate) || !has(self.updateStrategy.manualUpdate.defaultPartition) || (type(self.updateStrategy.manualUpdate.defaultPartition) == int ? self.updateStrategy.manualUpdate.defaultPartition == 0 : self.updateStrategy.manualUpdate.defaultPartition in ['0%', '100%'])",fieldPath=".updateStrategy.manualUpdate.defaultPartition",message="a Deployment is released as a whole: it must be 0, \"0%\" or \"100%\""
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.partition) || (type(self.updateStrategy.rollingUpdate.partition) == int ? self.updateStrategy.rollingUpdate.partition == 0 : self.updateStrategy.rollingUpdate.partition in ['0%', '100%'])",fieldPath=".updateStrategy.rollingUpdate.partition",message="a Deployment is released as a whole: it must be 0, \"0%\" or \"100%\""
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.steps) || self.updateStrategy.rollingUpdate.steps.all(s, !has(s.partition) || (type(s.partition) == int ? s.partition == 0 : s.partition in ['0%', '100%']))",fieldPath=".updateStrategy.rollingUpdate.steps",message="a Deployment is released as a whole: the partition of a step must be 0, \"0%\" or \"100%\""
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxSkew)",fieldPath=".updateStrategy.rollingUpdate.maxSkew",message="cannot be used with Deployments, which are released as a whole: use order Sequential, or steps"
type UnitedDeploymentSpec struct {
	// Replicas is the number of replicas over all subsets together. The scale
	// subresource changes it, so a HorizontalPodAutoscaler can.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// Selector selects the pods; the labels of the pod template must match it,
	// or the object is refused. An empty one is refused too, and so is a change.
	// Both matchLabels and matchExpressions will do, with up to 50 entries each and
	// up to 50 values in an expression. The children select by it and by the labels
	// united.dev/name and united.dev/subset.
	// ---
	// The bounds come first: the rules of the admission policy go through all of it
	// once for each subset, and would be over their cost budget.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) <= 50",fieldPath=".matchLabels",message="must have at most 50 entries"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) <= 50",fieldPath=".matchExpressions",message="must have at most 50 entries"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) > 50 || self.matchExpressions.all(e, !has(e.values) || size(e.values) <= 50)",fieldPath=".matchExpressions",message="an expression must have at most 50 values"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) > 50 || self.matchLabels.all(k, size(k) <= 317 && size(self.matchLabels[k]) <= 63)",fieldPath=".matchLabels",message="a label must have at most 317 characters, its value 63"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) > 50 || self.matchExpressions.all(e, size(e.key) <= 317)",fieldPath=".matchExpressions",message="a label must have at most 317 characters"
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty: it would select every pod of the namespace"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'] && (e.operator in ['In', 'NotIn']) == (has(e.values) && size(e.values) > 0))",fieldPath=".matchExpressions",message="operator must be In or NotIn, with values, or Exists or DoesNotExist, without values"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable: create a UnitedDeployment of another name instead"
	// +required
	Selector *metav1.LabelSelector `json:"selector"`

	// MinReadySeconds is for how many seconds a replica must be ready to count
	// as available; with 0, the default, as soon as it is ready. minReadySeconds
	// in a template wins over it.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// RevisionHistoryLimit is how many revisions are kept beside those in use,
	// which are the ones that the status or a child names; fewer where they are
	// larger than 4 MiB together.
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// ProgressDeadlineSeconds is for how many seconds nothing may move, while
	// something should, before the condition Stalled becomes True. The controller
	// keeps trying.
	// +kubebuilder:default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// Paused freezes the rollout: no new template reaches a child, no replica is
	// released or deleted for an update, not by scaling either. Scaling and
	// repair go on.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// Template is the workload that every subset gets, less what the controller
	// decides: name, namespace, owner, replicas, partition, selector, and the
	// labels united.dev/name and united.dev/subset.
	// +required
	Template WorkloadTemplate `json:"template"`

	// Topology says over which subsets the replicas are spread.
	// +kubebuilder:default={}
	// +optional
	Topology Topology `json:"topology,omitempty"`

	// UpdateStrategy says which replicas may run a new revision.
	// +kubebuilder:default={type: Manual}
	// +optional
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitempty"`
}

// WorkloadTemplate holds the template of the children: exactly one member is
// set, and which one cannot be changed.
//
// +kubebuilder:validation:XValidation:rule="[has(self.statefulSetTemplate), has(self.deploymentTemplate), has(self.cloneSetTemplate), has(self.advancedStatefulSetTemplate), has(self.leaderWorkerSetTemplate)].exists_one(x, x)",message="must hold exactly one template: statefulSetTemplate, deploymentTemplate, cloneSetTemplate, advancedStatefulSetTemplate or leaderWorkerSetTemplate"
// +kubebuilder:validation:XValidation:rule="has(self.statefulSetTemplate) == has(oldSelf.statefulSetTemplate) && has(self.deploymentTemplate) == has(oldSelf.deploymentTemplate) && has(self.cloneSetTemplate) == has(oldSelf.cloneSetTemplate) && has(self.advancedStatefulSetTemplate) == has(oldSelf.advancedStatefulSetTemplate) && has(self.leaderWorkerSetTemplate) == has(oldSelf.leaderWorkerSetTemplate)",message="the kind of the template is immutable"
type WorkloadTemplate struct {
	// StatefulSetTemplate makes the children StatefulSets: the metadata (labels,
	// annotations) and spec of an apps/v1 StatefulSet, stored and handed to the
	// API server as written here. An unknown field is refused there, not
	// dropped. Fields that the controller decides may not be set: replicas, the
	// partition, and a selector other than spec.selector.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	StatefulSetTemplate *runtime.RawExtension `json:"statefulSetTemplate,omitempty"`

	// DeploymentTemplate makes the children Deployments: the metadata (labels,
	// annotations) and spec of an apps/v1 Deployment, stored and handed to the API server
	// as written here. A Deployment is released as a whole: partitions are 0, "0%" or
	// "100%". Fields that the controller decides may not be set: replicas, paused, and a
	// selector other than spec.selector; with type RollingUpdate also a strategy other than
	// RollingUpdate, and its maxUnavailable.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	DeploymentTemplate *runtime.RawExtension `json:"deploymentTemplate,omitempty"`

	// CloneSetTemplate makes the children CloneSets of OpenKruise: the metadata (labels,
	// annotations) and spec of an apps.kruise.io/v1alpha1 CloneSet, stored and handed to the
	// API server as written here. A partition is the number of pods that stay; the CloneSet
	// chooses which. Fields that the controller decides may not be set: replicas, the
	// partition, paused, podsToDelete, and a selector other than spec.selector; with type
	// RollingUpdate also maxUnavailable, priorityStrategy and scatterStrategy.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	CloneSetTemplate *runtime.RawExtension `json:"cloneSetTemplate,omitempty"`

	// AdvancedStatefulSetTemplate makes the children Advanced StatefulSets of OpenKruise: the
	// metadata (labels, annotations) and spec of an apps.kruise.io/v1beta1 StatefulSet, stored and
	// handed to the API server as written here. Ordinals that are reserved do not count in a
	// partition. Fields that the controller decides may not be set: replicas, the partition,
	// paused, unorderedUpdate, and a selector other than spec.selector; with type RollingUpdate
	// also maxUnavailable.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	AdvancedStatefulSetTemplate *runtime.RawExtension `json:"advancedStatefulSetTemplate,omitempty"`

	// LeaderWorkerSetTemplate makes the children LeaderWorkerSets: the metadata (labels,
	// annotations) and spec of a leaderworkerset.x-k8s.io/v1 LeaderWorkerSet, stored and handed
	// to the API server as written here. A replica is a group of pods, a leader and its workers.
	// Fields that the controller decides may not be set: replicas and the partition; nor may
	// maxSurge. With type RollingUpdate also maxUnavailable may not.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	LeaderWorkerSetTemplate *runtime.RawExtension `json:"leaderWorkerSetTemplate,omitempty"`
}

// Topology says over which subsets the replicas are spread.
type Topology struct {
	// Subsets are the parts of the workload, in order of preference where an
	// even split leaves a remainder. Adding one creates its child, removing one
	// deletes it. Without subsets there are no replicas.
	// +kubebuilder:default={}
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	Subsets []Subset `json:"subsets,omitempty"`
}

// Subset is one part of the workload, with one child workload of its own.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodeSelector) == has(oldSelf.nodeSelector) && (!has(self.nodeSelector) || self.nodeSelector == oldSelf.nodeSelector)",fieldPath=".nodeSelector",message="is immutable in a living subset: remove the subset, or add one of another name"
type Subset struct {
	// Name is a DNS label, unique among the subsets; the child is called
	// "<metadata.name>-<name>". If that is longer than 52 characters, 63 for a
	// Deployment, the object is refused.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label: lower-case letters, digits and '-'"
	// +required
	Name string `json:"name"`

	// NodeSelector says on which nodes the replicas of this subset run. Each of
	// its terms is ANDed with each of those that the template requires; the result
	// must not be larger than 1 MiB. It has at most 100 terms, and cannot be changed
	// while the subset lives.
	// +kubebuilder:validation:XValidation:rule="size(self.nodeSelectorTerms) > 0",fieldPath=".nodeSelectorTerms",message="must have at least one term"
	// +kubebuilder:validation:XValidation:rule="size(self.nodeSelectorTerms) <= 100",fieldPath=".nodeSelectorTerms",message="must have at most 100 terms"
	// +optional
	NodeSelector *corev1.NodeSelector `json:"nodeSelector,omitempty"`

	// Tolerations are appended to those of the template.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// Replicas is how many replicas this subset wishes for: a number, a
	// percentage of spec.replicas from "0%" to "100%", or absent for an even
	// share of what the others leave. What the subsets get always adds up to
	// spec.replicas: wishes that do not are scaled in proportion, and the
	// condition ReplicasHonored is then False.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`

	// Patch is a strategic merge patch on the workload template {metadata,
	// spec} for this subset. Lists with a merge key, such as containers, merge
	// by it; others, such as tolerations and volumeClaimTemplates, are replaced
	// whole. Patch directives are understood inside spec.template only. Fields that
	// the controller decides may not be set, as in the template. A patch that cannot be merged, or whose result the API server
	// refuses, stalls this subset alone.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Patch *runtime.RawExtension `json:"patch,omitempty"`
}

// UpdateStrategyType names a way to roll out a new revision.
// +kubebuilder:validation:Enum=Manual;RollingUpdate
type UpdateStrategyType string

// Ways to roll out a new revision.
const (
	// ManualUpdateStrategy: the user says, per subset, which ordinals may run the
	// update revision.
	ManualUpdateStrategy UpdateStrategyType = "Manual"
	// RollingUpdateStrategy: the controller moves the partitions of all subsets,
	// as long as replicas are available.
	RollingUpdateStrategy UpdateStrategyType = "RollingUpdate"
)

// UpdateStrategy says which replicas may run a new revision.
//
// +kubebuilder:validation:XValidation:rule="!has(self.manualUpdate) || self.type == 'Manual'",fieldPath=".manualUpdate",message="is for type Manual only: remove it, or it would look as if it held something"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",fieldPath=".rollingUpdate",message="is for type RollingUpdate only"
type UpdateStrategy struct {
	// Type is the way to roll out a new revision.
	// +kubebuilder:default=Manual
	// +optional
	Type UpdateStrategyType `json:"type,omitempty"`

	// ManualUpdate holds the partitions. Without it nothing is held back: every
	// subset updates at once, one replica at a time each.
	// +optional
	ManualUpdate *ManualUpdate `json:"manualUpdate,omitempty"`

	// RollingUpdate says how the controller moves the partitions. Without it the
	// defaults of its members hold.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate coordinates a rollout over all subsets. A new revision is staged
// first, with everything protected; then replicas are released, each subset from
// its highest ordinal down, while replicas that are missing, unready, not yet
// available, terminating or released and not yet back stay within
// MaxUnavailable over all subsets. An updated replica that fails stops it.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSkew) || !has(self.order) || self.order != 'Sequential'",fieldPath=".maxSkew",message="cannot be used with order Sequential, which moves one subset after the other"
type RollingUpdate struct {
	// Partition is the floor in every subset: the ordinals below it are never
	// updated. A number of ordinals, or a percentage of the subset's replicas,
	// rounded up. "100%" holds everything.
	// +kubebuilder:default="0%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// MaxUnavailable is how many replicas, of all subsets together, may be
	// unavailable for the rollout to release another: a number, or a percentage
	// of spec.replicas, rounded down but at least 1. Scaling down, moving replicas
	// from one subset to another and removing a subset keep to it too.
	// +kubebuilder:default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 1 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// MaxSkew bounds how far the subsets may be apart, each measured by the share
	// of what it has to release that is updated and available: a percentage. Not
	// with order Sequential. Absent: no bound.
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^(100|[1-9]?[0-9])%$`
	// +optional
	MaxSkew string `json:"maxSkew,omitempty"`

	// Order is Parallel, all subsets at the same pace, or Sequential, one after
	// the other in the order of spec.topology.subsets.
	// +kubebuilder:default=Parallel
	// +optional
	Order RolloutOrder `json:"order,omitempty"`

	// Steps are waves that a new revision goes through one after the other. After
	// the last of them every subset goes to Partition. Going back to the revision
	// that all replicas ran last passes them by.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Steps []RolloutStep `json:"steps,omitempty"`
}

// RolloutOrder says whether the subsets update at the same pace or one after the
// other.
// +kubebuilder:validation:Enum=Parallel;Sequential
type RolloutOrder string

// Orders of a rollout.
const (
	// ParallelOrder: all subsets move at the same pace.
	ParallelOrder RolloutOrder = "Parallel"
	// SequentialOrder: one subset moves after the other.
	SequentialOrder RolloutOrder = "Sequential"
)

// RolloutStep is one wave of a rollout. It is reached when its subsets are
// released down to its partition and all that is released is available.
type RolloutStep struct {
	// Subsets that the step moves, by name; all if absent. Others stay where the
	// steps before have brought them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=50
	// +listType=set
	// +optional
	Subsets []string `json:"subsets,omitempty"`

	// Partition that the step brings its subsets to, never below
	// rollingUpdate.partition: a number of ordinals, or a percentage of the
	// subset's replicas, rounded up. Any percentage below "100%" releases at least
	// one replica of each subset that has one to release.
	// +kubebuilder:default="0%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// Pause keeps the rollout from going on once the step is reached.
	// +optional
	Pause *RolloutPause `json:"pause,omitempty"`
}

// RolloutPause ends after Duration, or, without one, when the annotation
// united.dev/approved of the object is status.rollout.approvalKey.
type RolloutPause struct {
	// Duration such as "10m" or "1h30m", from the moment the step is reached.
	// Absent: until it is approved. A string, since an object whose duration Go
	// cannot read would keep the controller from reading any.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a positive duration such as \"10m\" or \"1h30m\""
	// +optional
	Duration string `json:"duration,omitempty"`
}

// ManualUpdate holds the partition of every subset. The ordinals below a
// subset's partition are protected: never moved to, re-created on or created
// on the update revision. The ordinals from it on go to the update revision.
type ManualUpdate struct {
	// Partitions by subset name: a number of ordinals, or a percentage of the
	// subset's replicas, rounded up. "100%" holds the whole subset however it
	// scales; a number does not, since a subset can outgrow it. With
	// spec.ordinals.start in the template, 0 is the first replica all the same.
	// Naming a subset that spec.topology.subsets does not have is refused.
	// ---
	// The rule spells percentages out digit by digit: a regular expression over
	// map values, whose length no marker can bound, is over the CEL cost budget.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 && self[k] <= 2147483647 : self[k] == '100%' || ['', '1', '2', '3', '4', '5', '6', '7', '8', '9'].exists(tens, ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'].exists(ones, self[k] == tens + ones + '%')))",message="a partition must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\"",messageExpression="'the partition of ' + self.filter(k, !(type(self[k]) == int ? self[k] >= 0 && self[k] <= 2147483647 : self[k] == '100%' || ['', '1', '2', '3', '4', '5', '6', '7', '8', '9'].exists(tens, ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'].exists(ones, self[k] == tens + ones + '%'))))[0] + ' must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\"'"
	// +optional
	Partitions map[string]intstr.IntOrString `json:"partitions,omitempty"`

	// DefaultPartition is the partition of subsets that Partitions does not
	// name: a number or a percentage, as there. It holds them unless told
	// otherwise, so that naming or un-naming one subset never releases another.
	// +kubebuilder:default="100%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	DefaultPartition *intstr.IntOrString `json:"defaultPartition,omitempty"`
}
