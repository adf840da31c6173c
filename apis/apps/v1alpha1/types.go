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
// zones or node pools. It has one child workload for each subset, with the name
// "<name>-<subset>", and determines which replicas of which subset may run a new
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
// +kubebuilder:validation:XValidation:rule="size(self.metadata.name) <= 50 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name must be a DNS label of at most 50 characters, because the child workloads are named after it: lower-case letters, digits and '-', no dots"
// +kubebuilder:validation:XValidation:rule="has(self.spec.template.deploymentTemplate) || [51 - size(self.metadata.name)].all(room, self.spec.topology.subsets.all(s, size(s.name) <= room))",fieldPath=".spec.topology.subsets",message="metadata.name, '-' and the name of a subset must be at most 52 characters together",messageExpression="'the name of the child workload ' + self.metadata.name + '-' + self.spec.topology.subsets.map(s, s.name).filter(n, size(self.metadata.name) + 1 + size(n) > 52)[0] + ' would be too long: metadata.name, a dash and the name of the subset must be at most 52 characters together, because the labels of its pods have no more room'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.leaderWorkerSetTemplate) || [47 - size(self.metadata.name)].all(room, self.spec.topology.subsets.all(s, size(s.name) <= room))",fieldPath=".spec.topology.subsets",message="metadata.name, '-' and the name of a subset must be at most 48 characters together, because the labels of the workers of a LeaderWorkerSet have no more room"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.leaderWorkerSetTemplate) || self.metadata.name.matches('^[a-z]')",fieldPath=".spec.template",message="metadata.name must begin with a letter: the Services of LeaderWorkerSets are named after it"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.template.deploymentTemplate) || [62 - size(self.metadata.name)].all(room, self.spec.topology.subsets.all(s, size(s.name) <= room))",fieldPath=".spec.topology.subsets",message="metadata.name, '-' and the name of a subset must be at most 63 characters together, because that is the longest name of a Deployment"
type UnitedDeployment struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state.
	// +required
	Spec UnitedDeploymentSpec `json:"spec,omitzero"`

	// status is the state that the controller last observed.
	//
	// Because of the default, kstatus reports an object that no controller has observed as
	// InProgress.
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

// UnitedDeploymentSpec is the desired state.
// ---
// A message names the first eight subsets one by one: a join of names that a rule has
// collected is over the budget too, for its length is not known. (An empty string is
// \"\", since gofmt would make one typographic quote of two.)
//
// The rule of the steps collects the names of the subsets once, by way of a list
// of one: collected for each name, those of 20 steps and 100 subsets are over the
// CEL cost budget.
//
// +kubebuilder:validation:XValidation:rule="size(self.topology.subsets) > 0 || size(oldSelf.topology.subsets) == 0 || has(self.replicas) && self.replicas == 0",fieldPath=".topology.subsets",message="the last subset cannot be removed while spec.replicas is above 0, because all replicas would go: to remove them, set spec.replicas to 0, or delete the UnitedDeployment"
// +kubebuilder:validation:XValidation:rule="!has(self.updateStrategy.manualUpdate) || !has(self.updateStrategy.manualUpdate.partitions) || [self.topology.subsets.map(s, s.name)].all(names, self.updateStrategy.manualUpdate.partitions.all(k, k in names))",fieldPath=".updateStrategy.manualUpdate.partitions",message="a partition is set for a subset that spec.topology.subsets does not have",messageExpression="'there is no subset ' + self.updateStrategy.manualUpdate.partitions.filter(k, !self.topology.subsets.exists(s, s.name == k))[0] + ' in spec.topology.subsets, which has ' + (size(self.topology.subsets) == 0 ? 'none' : self.topology.subsets[0].name) + (size(self.topology.subsets) > 1 ? ', ' + self.topology.subsets[1].name : \"\") + (size(self.topology.subsets) > 2 ? ', ' + self.topology.subsets[2].name : \"\") + (size(self.topology.subsets) > 3 ? ', ' + self.topology.subsets[3].name : \"\") + (size(self.topology.subsets) > 4 ? ', ' + self.topology.subsets[4].name : \"\") + (size(self.topology.subsets) > 5 ? ', ' + self.topology.subsets[5].name : \"\") + (size(self.topology.subsets) > 6 ? ', ' + self.topology.subsets[6].name : \"\") + (size(self.topology.subsets) > 7 ? ', ' + self.topology.subsets[7].name : \"\") + (size(self.topology.subsets) > 8 ? ', ...' : \"\") + '; to remove a subset, set its partition to null in the same patch'"
// +kubebuilder:validation:XValidation:rule="!has(self.topology.scheduleStrategy) || !has(self.topology.scheduleStrategy.adaptive) || !has(self.topology.scheduleStrategy.adaptive.reserveUnschedulablePods) || !self.topology.scheduleStrategy.adaptive.reserveUnschedulablePods || has(self.template.statefulSetTemplate)",fieldPath=".topology.scheduleStrategy.adaptive.reserveUnschedulablePods",message="is only for statefulSetTemplate, with podManagementPolicy Parallel"
// +kubebuilder:validation:XValidation:rule="!has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.steps) || [self.topology.subsets.map(s, s.name)].all(names, self.updateStrategy.rollingUpdate.steps.all(p, p.subsets.all(n, n == '*' || n in names)))",fieldPath=".updateStrategy.rollingUpdate.steps",message="a step names a subset that spec.topology.subsets does not have",messageExpression="[self.topology.subsets.map(s, s.name)].map(names, self.updateStrategy.rollingUpdate.steps.map(p, p.subsets.filter(n, n != '*' && !(n in names)).map(n, 'there is no subset ' + n + ' in spec.topology.subsets, which has ' + (size(self.topology.subsets) == 0 ? 'none' : self.topology.subsets[0].name) + (size(self.topology.subsets) > 1 ? ', ' + self.topology.subsets[1].name : \"\") + (size(self.topology.subsets) > 2 ? ', ' + self.topology.subsets[2].name : \"\") + (size(self.topology.subsets) > 3 ? ', ' + self.topology.subsets[3].name : \"\") + (size(self.topology.subsets) > 4 ? ', ' + self.topology.subsets[4].name : \"\") + (size(self.topology.subsets) > 5 ? ', ' + self.topology.subsets[5].name : \"\") + (size(self.topology.subsets) > 6 ? ', ' + self.topology.subsets[6].name : \"\") + (size(self.topology.subsets) > 7 ? ', ' + self.topology.subsets[7].name : \"\") + (size(self.topology.subsets) > 8 ? ', ...' : \"\") + '; to remove a subset, take it out of the steps in the same patch')).filter(l, size(l) > 0)[0][0])[0]"
// +kubebuilder:validation:XValidation:rule="!has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxSkewSubsets) || [self.topology.subsets.map(s, s.name)].all(names, self.updateStrategy.rollingUpdate.maxSkewSubsets.all(n, n in names))",fieldPath=".updateStrategy.rollingUpdate.maxSkewSubsets",message="names a subset that spec.topology.subsets does not have",messageExpression="[self.topology.subsets.map(s, s.name)].map(names, self.updateStrategy.rollingUpdate.maxSkewSubsets.filter(n, !(n in names))[0]).map(n, 'there is no subset ' + n + ' in spec.topology.subsets, which has ' + (size(self.topology.subsets) == 0 ? 'none' : self.topology.subsets[0].name) + (size(self.topology.subsets) > 1 ? ', ' + self.topology.subsets[1].name : \"\") + (size(self.topology.subsets) > 2 ? ', ' + self.topology.subsets[2].name : \"\") + (size(self.topology.subsets) > 3 ? ', ' + self.topology.subsets[3].name : \"\") + (size(self.topology.subsets) > 4 ? ', ' + self.topology.subsets[4].name : \"\") + (size(self.topology.subsets) > 5 ? ', ' + self.topology.subsets[5].name : \"\") + (size(self.topology.subsets) > 6 ? ', ' + self.topology.subsets[6].name : \"\") + (size(self.topology.subsets) > 7 ? ', ' + self.topology.subsets[7].name : \"\") + (size(self.topology.subsets) > 8 ? ', ...' : \"\"))[0]"
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.manualUpdate) || !has(self.updateStrategy.manualUpdate.partitions) || self.updateStrategy.manualUpdate.partitions.all(k, (type(self.updateStrategy.manualUpdate.partitions[k]) == int ? self.updateStrategy.manualUpdate.partitions[k] == 0 : self.updateStrategy.manualUpdate.partitions[k] in ['0%', '100%']))",fieldPath=".updateStrategy.manualUpdate.partitions",message="a Deployment is released as a whole: a partition must be 0, \"0%\" or \"100%\""
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.manualUpdate) || !has(self.updateStrategy.manualUpdate.defaultPartition) || (type(self.updateStrategy.manualUpdate.defaultPartition) == int ? self.updateStrategy.manualUpdate.defaultPartition == 0 : self.updateStrategy.manualUpdate.defaultPartition in ['0%', '100%'])",fieldPath=".updateStrategy.manualUpdate.defaultPartition",message="a Deployment is released as a whole: it must be 0, \"0%\" or \"100%\""
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.partition) || (type(self.updateStrategy.rollingUpdate.partition) == int ? self.updateStrategy.rollingUpdate.partition == 0 : self.updateStrategy.rollingUpdate.partition in ['0%', '100%'])",fieldPath=".updateStrategy.rollingUpdate.partition",message="a Deployment is released as a whole: it must be 0, \"0%\" or \"100%\""
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.steps) || self.updateStrategy.rollingUpdate.steps.all(s, type(s.partition) == int ? s.partition == 0 : s.partition in ['0%', '100%'])",fieldPath=".updateStrategy.rollingUpdate.steps",message="a Deployment is released as a whole: the partition of a step must be 0, \"0%\" or \"100%\""
// +kubebuilder:validation:XValidation:rule="!has(self.template.deploymentTemplate) || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.maxSkew)",fieldPath=".updateStrategy.rollingUpdate.maxSkew",message="cannot be used with Deployments, because each is released as a whole: use order Sequential, or steps"
// +kubebuilder:validation:XValidation:rule="!has(self.topology.colocation) || !has(self.template.deploymentTemplate) && !has(self.template.cloneSetTemplate)",fieldPath=".topology.colocation",message="is only for kinds whose pods have ordinals, from which the group follows: statefulSetTemplate, advancedStatefulSetTemplate and leaderWorkerSetTemplate"
// +kubebuilder:validation:XValidation:rule="has(self.versionLabel) && self.versionLabel == 'TemplateHash' || !has(self.updateStrategy.rollingUpdate) || !has(self.updateStrategy.rollingUpdate.checks) || !self.updateStrategy.rollingUpdate.checks.exists(c, has(c.prometheus) && c.prometheus.query.contains('${version}'))",fieldPath=".updateStrategy.rollingUpdate.checks",message="${version} is the label united.dev/version of the pods: set spec.versionLabel to TemplateHash"
type UnitedDeploymentSpec struct {
	// replicas is the number of replicas of all subsets together. The scale
	// subresource sets it, so a HorizontalPodAutoscaler can scale it.
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`

	// selector selects the pods. It must match the labels of the pod template, must not
	// be empty, and is immutable. It may have matchLabels and matchExpressions, up to 50
	// of each, with up to 50 values in an expression. The child workloads select pods by
	// it and by the labels united.dev/name and united.dev/subset.
	// ---
	// The bounds come first: the rules of the admission policy go through all of it
	// once for each subset, and would be over their cost budget.
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) <= 50",fieldPath=".matchLabels",message="must have at most 50 entries"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) <= 50",fieldPath=".matchExpressions",message="must have at most 50 entries"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) > 50 || self.matchExpressions.all(e, !has(e.values) || size(e.values) <= 50)",fieldPath=".matchExpressions",message="an expression must have at most 50 values"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || size(self.matchLabels) > 50 || self.matchLabels.all(k, size(k) <= 317 && size(self.matchLabels[k]) <= 63)",fieldPath=".matchLabels",message="a label must have at most 317 characters, its value 63"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || size(self.matchExpressions) > 50 || self.matchExpressions.all(e, size(e.key) <= 317)",fieldPath=".matchExpressions",message="a label must have at most 317 characters"
	// +kubebuilder:validation:XValidation:rule="(has(self.matchLabels) && size(self.matchLabels) > 0) || (has(self.matchExpressions) && size(self.matchExpressions) > 0)",message="must not be empty: it would select every pod in the namespace"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.operator in ['In', 'NotIn', 'Exists', 'DoesNotExist'] && (e.operator in ['In', 'NotIn']) == (has(e.values) && size(e.values) > 0))",fieldPath=".matchExpressions",message="operator must be In or NotIn, with values, or Exists or DoesNotExist, without values"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || !('united.dev/version' in self.matchLabels)",fieldPath=".matchLabels",message="must not have united.dev/version, which is another one with every template (spec.versionLabel)"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, e.key != 'united.dev/version')",fieldPath=".matchExpressions",message="must not have united.dev/version, which is another one with every template (spec.versionLabel)"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchLabels) || !self.matchLabels.exists(k, k.startsWith('united.dev/colocation'))",fieldPath=".matchLabels",message="must not have the labels of spec.topology.colocation, which differ between pods"
	// +kubebuilder:validation:XValidation:rule="!has(self.matchExpressions) || self.matchExpressions.all(e, !e.key.startsWith('united.dev/colocation'))",fieldPath=".matchExpressions",message="must not have the labels of spec.topology.colocation, which differ between pods"
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable: create a UnitedDeployment with another name instead"
	// +required
	Selector *metav1.LabelSelector `json:"selector,omitempty"`

	// minReadySeconds is how many seconds a replica must be ready before it is
	// available. With 0, the default, it is available as soon as it is ready.
	// minReadySeconds in a template takes precedence.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	MinReadySeconds int32 `json:"minReadySeconds,omitempty"`

	// revisionHistoryLimit is how many old revisions are kept, in addition to those in
	// use, which are those that the status or a child workload names. Fewer are kept if
	// they would exceed 4 MiB in total.
	// +default=10
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	RevisionHistoryLimit *int32 `json:"revisionHistoryLimit,omitempty"`

	// progressDeadlineSeconds is how many seconds may pass without progress, although
	// something should change, before the condition Stalled becomes True. The controller
	// keeps trying. It is also how long a replica may take to become available.
	// +default=600
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`

	// paused freezes the rollout: no new template reaches a child workload, and no replica
	// is released or deleted for an update, not by scaling either. Scaling and repair
	// continue.
	// +optional
	Paused bool `json:"paused,omitempty"`

	// template is the template of the child workloads. The controller sets the name,
	// namespace, owner, replicas, partition and selector, and the labels united.dev/name
	// and united.dev/subset.
	// +required
	Template WorkloadTemplate `json:"template"`

	// versionLabel determines whether the pods carry the label united.dev/version, which a
	// Service or a router can select: None (default), or TemplateHash. Turning it on or off
	// changes the pods, so it is a rollout like any other.
	// +default="None"
	// +optional
	VersionLabel VersionLabel `json:"versionLabel,omitempty"`

	// topology has the subsets over which the replicas are spread.
	// +default={}
	// +optional
	Topology Topology `json:"topology,omitzero"`

	// updateStrategy determines which replicas may run a new revision.
	// +default={"type": "Manual"}
	// +optional
	UpdateStrategy UpdateStrategy `json:"updateStrategy,omitzero"`
}

// VersionLabel names what the label united.dev/version of the pods holds.
// +kubebuilder:validation:Enum=None;TemplateHash
type VersionLabel string

// What the label united.dev/version holds.
const (
	// NoVersionLabel: pods do not have the label.
	NoVersionLabel VersionLabel = "None"
	// TemplateHashLabel: every pod has it, with a hash of the pod part of spec.template, of ten
	// letters and digits. The value is the same in all subsets, whatever they patch; it changes
	// with the template, and is the same again when the template goes back.
	TemplateHashLabel VersionLabel = "TemplateHash"
)

// WorkloadTemplate has the template of the child workloads. Exactly one field must be
// set. You cannot replace it by another one later.
//
// +kubebuilder:validation:XValidation:rule="[has(self.statefulSetTemplate), has(self.deploymentTemplate), has(self.cloneSetTemplate), has(self.advancedStatefulSetTemplate), has(self.leaderWorkerSetTemplate)].exists_one(x, x)",message="must hold exactly one template: statefulSetTemplate, deploymentTemplate, cloneSetTemplate, advancedStatefulSetTemplate or leaderWorkerSetTemplate"
// +kubebuilder:validation:XValidation:rule="has(self.statefulSetTemplate) == has(oldSelf.statefulSetTemplate) && has(self.deploymentTemplate) == has(oldSelf.deploymentTemplate) && has(self.cloneSetTemplate) == has(oldSelf.cloneSetTemplate) && has(self.advancedStatefulSetTemplate) == has(oldSelf.advancedStatefulSetTemplate) && has(self.leaderWorkerSetTemplate) == has(oldSelf.leaderWorkerSetTemplate)",message="the kind of the template is immutable: create a UnitedDeployment with another name instead"
type WorkloadTemplate struct {
	// statefulSetTemplate makes the child workloads StatefulSets. It has the metadata (labels,
	// annotations) and spec of an apps/v1 StatefulSet, stored and passed to the API server
	// as you write them. The API server rejects unknown fields. Do not set what the
	// controller sets: replicas, the partition, and a selector other than spec.selector.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	StatefulSetTemplate *runtime.RawExtension `json:"statefulSetTemplate,omitempty"`

	// deploymentTemplate makes the child workloads Deployments. It has the metadata (labels,
	// annotations) and spec of an apps/v1 Deployment, stored and passed to the API server as
	// you write them. A Deployment is released as a whole: partitions are 0, "0%" or
	// "100%". Do not set what the controller sets: replicas, paused, and a selector other
	// than spec.selector; with type RollingUpdate also a strategy other than RollingUpdate,
	// and its maxUnavailable.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	DeploymentTemplate *runtime.RawExtension `json:"deploymentTemplate,omitempty"`

	// cloneSetTemplate makes the child workloads CloneSets of OpenKruise. It has the metadata
	// (labels, annotations) and spec of an apps.kruise.io/v1alpha1 CloneSet, stored and passed
	// to the API server as you write them. A partition is the number of pods that stay on
	// the earlier version; the CloneSet chooses which. Do not set what the controller sets:
	// replicas, the partition, paused, podsToDelete, and a selector other than
	// spec.selector; with type RollingUpdate also maxUnavailable, priorityStrategy and
	// scatterStrategy.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	CloneSetTemplate *runtime.RawExtension `json:"cloneSetTemplate,omitempty"`

	// advancedStatefulSetTemplate makes the child workloads Advanced StatefulSets of OpenKruise.
	// It has the metadata (labels, annotations) and spec of an apps.kruise.io/v1beta1
	// StatefulSet, stored and passed to the API server as you write them. Reserved ordinals
	// do not count in a partition. Do not set what the controller sets: replicas, the
	// partition, paused, unorderedUpdate, and a selector other than spec.selector; with type
	// RollingUpdate also maxUnavailable.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	AdvancedStatefulSetTemplate *runtime.RawExtension `json:"advancedStatefulSetTemplate,omitempty"`

	// leaderWorkerSetTemplate makes the child workloads LeaderWorkerSets. It has the metadata (labels,
	// annotations) and spec of a leaderworkerset.x-k8s.io/v1 LeaderWorkerSet, stored and passed
	// to the API server as you write them. A replica is a group of pods: a leader and its workers.
	// Do not set what the controller sets (replicas and the partition), nor maxSurge, nor,
	// with type RollingUpdate, maxUnavailable.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	LeaderWorkerSetTemplate *runtime.RawExtension `json:"leaderWorkerSetTemplate,omitempty"`
}

// Topology has the subsets over which the replicas are spread.
//
// +kubebuilder:validation:XValidation:rule="!has(self.scheduleStrategy) || self.scheduleStrategy.type != 'Adaptive' || !has(self.subsets) || !self.subsets.exists(s, has(s.replicas))",fieldPath=".subsets",message="replicas cannot be used with scheduleStrategy Adaptive, which fills the subsets in list order: use minReplicas and maxReplicas"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || !self.subsets.exists(s, has(s.minReplicas) || has(s.maxReplicas)) || !self.subsets.exists(s, has(s.replicas))",fieldPath=".subsets",message="replicas cannot be combined with minReplicas and maxReplicas, also not of another subset: use one or the other"
// +kubebuilder:validation:XValidation:rule="!has(self.subsets) || size(self.subsets) == 0 || self.subsets.exists(s, !has(s.maxReplicas))",fieldPath=".subsets",message="at least one subset must have no maxReplicas, to take the replicas that the others do not"
// +kubebuilder:validation:XValidation:rule="!has(self.colocation) || !has(self.scheduleStrategy) || self.scheduleStrategy.type != 'Adaptive'",fieldPath=".colocation",message="cannot be used with scheduleStrategy Adaptive, which moves single replicas to other subsets"
// +kubebuilder:validation:XValidation:rule="!has(self.colocation) || !has(self.subsets) || self.colocation.ratios.all(n, self.subsets.exists(s, s.name == n))",fieldPath=".colocation.ratios",message="names a subset that spec.topology.subsets does not have",messageExpression="'there is no subset ' + self.colocation.ratios.filter(n, !self.subsets.exists(s, s.name == n))[0] + ' in spec.topology.subsets'"
// +kubebuilder:validation:XValidation:rule="!has(self.colocation) || !has(self.subsets) || self.subsets.all(s, !(s.name in self.colocation.ratios) || !has(s.replicas) && !has(s.minReplicas) && !has(s.maxReplicas))",fieldPath=".subsets",message="a subset in colocation.ratios cannot have replicas, minReplicas or maxReplicas, because its replicas come in whole groups: set spec.replicas"
// +kubebuilder:validation:XValidation:rule="!has(self.colocation) || !has(self.subsets) || self.subsets.all(s, s.name in self.colocation.ratios || has(s.replicas) || has(s.maxReplicas))",fieldPath=".subsets",message="a subset that is not in colocation.ratios must have replicas or maxReplicas, because the groups take the rest"
type Topology struct {
	// subsets are the parts of the workload. If an even split leaves a remainder, the
	// first ones get it. Adding a subset creates its child workload, and removing a subset
	// deletes it. The last one cannot be removed while spec.replicas is above 0.
	// ---
	// The rule is here and not in Subset, where the second of two subsets of one name
	// would be compared with the first one as it was: that one is refused as a duplicate.
	//
	// +kubebuilder:validation:XValidation:rule="self == oldSelf || [oldSelf.map(o, o.name)].all(names, self.all(s, !(s.name in names) || (has(s.nodeSelector) ? has(oldSelf[names.indexOf(s.name)].nodeSelector) && s.nodeSelector == oldSelf[names.indexOf(s.name)].nodeSelector : !has(oldSelf[names.indexOf(s.name)].nodeSelector)) || !self.exists_one(d, d.name == s.name)))",message="the nodeSelector of an existing subset is immutable: remove the subset, or add one with another name",messageExpression="'the nodeSelector of the existing subset ' + self.map(s, !oldSelf.all(o, o.name != s.name || (has(s.nodeSelector) == has(o.nodeSelector) && (!has(s.nodeSelector) || s.nodeSelector == o.nodeSelector))) && self.exists_one(d, d.name == s.name) ? s.name : '').filter(n, n != '')[0] + ' is immutable: remove the subset, or add one with another name'"
	// +default=[]
	// +kubebuilder:validation:MaxItems=100
	// +listType=map
	// +listMapKey=name
	// +optional
	Subsets []Subset `json:"subsets,omitempty"`

	// scheduleStrategy determines what happens to replicas that the scheduler finds no node for.
	// Without it they wait in their subset.
	// +optional
	ScheduleStrategy *ScheduleStrategy `json:"scheduleStrategy,omitempty"`

	// colocation places replicas of several subsets, such as roles, in groups, each in one domain
	// of the nodes. Turning it on or off changes the pods, so it is a rollout like any other.
	// +optional
	Colocation *Colocation `json:"colocation,omitempty"`
}

// Colocation places the replicas of its members, which are subsets, in groups: with the ratios
// {prefill: 2, decode: 1}, the replicas 0 and 1 of prefill and 0 of decode are group 0, the next
// ones group 1, and so on. All pods of a group run in one domain. It requires a kind with ordinals,
// Kubernetes 1.36 or later, and the MutatingAdmissionPolicy of the chart, which sets the label
// united.dev/colocation-group of new pods and removes the scheduling gate
// united.dev/colocation. Without that policy, these pods are not scheduled.
type Colocation struct {
	// topologyKey is the label of nodes whose values are the domains, such as
	// kubernetes.io/hostname or topology.kubernetes.io/zone.
	// ---
	// The API server checks that a key of pods is a label's.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be the name of a label of nodes, such as kubernetes.io/hostname"
	// +required
	TopologyKey string `json:"topologyKey,omitempty"`

	// ratios has, for each member, how many of its replicas are in one group. It is immutable.
	// Members get their replicas in whole groups, so they cannot have replicas, minReplicas or
	// maxReplicas. Other subsets must have replicas or maxReplicas, and get theirs first; the rest
	// is dealt in groups, and what is left of that is one incomplete group, which is filled in list
	// order.
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable, because every replica would belong to another group: create a UnitedDeployment with another name instead"
	// +required
	Ratios map[string]ColocationRatio `json:"ratios,omitempty"`

	// order is Sequential, to create a group when all pods of the previous one are ready, or
	// Parallel, to create all groups at once.
	// +default="Sequential"
	// +optional
	Order ColocationOrder `json:"order,omitempty"`

	// exclusive allows only one group of this UnitedDeployment in a domain.
	// +optional
	Exclusive bool `json:"exclusive,omitempty"`

	// timeoutSeconds is how long the scheduler may find no node for a pod of a group before the
	// condition Stalled becomes True. No running pod is removed because of that.
	// +default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=2147483647
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
}

// ColocationRatio is how many replicas of a subset are in one group.
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=1000
type ColocationRatio int32

// ColocationOrder says whether groups are created one after the other.
// +kubebuilder:validation:Enum=Sequential;Parallel
type ColocationOrder string

// Orders of groups.
const (
	// SequentialGroups: a group is created when all pods of the previous one are ready.
	SequentialGroups ColocationOrder = "Sequential"
	// ParallelGroups: all groups are created at once.
	ParallelGroups ColocationOrder = "Parallel"
)

// ScheduleStrategyType names a way to treat replicas that fit on no node of their subset.
// +kubebuilder:validation:Enum=Fixed;Adaptive
type ScheduleStrategyType string

// Ways to treat replicas that fit on no node of their subset.
const (
	// FixedScheduleStrategy: they wait in their subset until a node has room for them.
	FixedScheduleStrategy ScheduleStrategyType = "Fixed"
	// AdaptiveScheduleStrategy: they are created in other subsets instead.
	AdaptiveScheduleStrategy ScheduleStrategyType = "Adaptive"
)

// ScheduleStrategy determines what happens to replicas that the scheduler finds no node for.
//
// +kubebuilder:validation:XValidation:rule="!has(self.adaptive) || self.type == 'Adaptive'",fieldPath=".adaptive",message="is only for type Adaptive: remove it, or set type to Adaptive"
type ScheduleStrategy struct {
	// type is Fixed, to let such replicas wait in their subset, or Adaptive, to create them in
	// other subsets.
	//
	// With Adaptive, the replicas fill the subsets in list order, within minReplicas and
	// maxReplicas; no subset may have replicas. A subset that has a replica without a node for
	// too long is capped: it keeps the replicas that have a node, and at least its minimum, and
	// the others are created in the next subsets that have room. When the cap is over, the
	// subset is filled again as soon as spec.replicas grows. A replica that has a node never
	// moves to another subset because of this. When spec.replicas falls, replicas without a node
	// are removed first.
	// +default="Fixed"
	// +optional
	Type ScheduleStrategyType `json:"type,omitempty"`

	// adaptive has the times of type Adaptive. Without it, they have their defaults.
	// +optional
	Adaptive *AdaptiveScheduling `json:"adaptive,omitempty"`
}

// AdaptiveScheduling has the times of schedule strategy Adaptive. (The fields follow the adaptive
// scheduling of the UnitedDeployment of OpenKruise, with other names.)
type AdaptiveScheduling struct {
	// rescheduleAfterSeconds is how long the scheduler must have found no node for a replica
	// before its subset is capped. An autoscaler that adds nodes needs this time.
	// +default=30
	// +kubebuilder:validation:Minimum=1
	// +optional
	RescheduleAfterSeconds *int32 `json:"rescheduleAfterSeconds,omitempty"`

	// retryAfterSeconds is how long a subset stays capped after its last replica without a node
	// is gone or has one.
	// +default=300
	// +kubebuilder:validation:Minimum=0
	// +optional
	RetryAfterSeconds *int32 `json:"retryAfterSeconds,omitempty"`

	// reserveUnschedulablePods keeps the replicas of a capped subset that have no node, in addition
	// to spec.replicas, and creates substitutes in other subsets. When a node has room for them
	// and they are available, as many substitutes are removed, from the end of the list, and the
	// subset is filled again. It requires StatefulSets with podManagementPolicy Parallel, since
	// with OrderedReady one replica without a node prevents all others.
	// +optional
	ReserveUnschedulablePods bool `json:"reserveUnschedulablePods,omitempty"`
}

// Subset is one part of the workload, with one child workload of its own.
//
// +kubebuilder:validation:XValidation:rule="!has(self.minReplicas) || !has(self.maxReplicas) || type(self.minReplicas) != int || type(self.maxReplicas) != int || int(self.minReplicas) <= int(self.maxReplicas)",fieldPath=".minReplicas",message="must not be above maxReplicas"
type Subset struct {
	// name is a DNS label, unique among the subsets. The name of the child workload is
	// "<metadata.name>-<name>", with at most 52 characters, or 63 for a Deployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label: lower-case letters, digits and '-'"
	// +required
	Name string `json:"name,omitempty"`

	// nodeSelector determines on which nodes the replicas of this subset run. Each of its
	// terms is ANDed with each term of the node affinity that the template requires; the
	// result must not exceed 1 MiB. It may have up to 100 terms, and is immutable for an
	// existing subset.
	// +kubebuilder:validation:XValidation:rule="size(self.nodeSelectorTerms) > 0",fieldPath=".nodeSelectorTerms",message="must have at least one term"
	// +kubebuilder:validation:XValidation:rule="size(self.nodeSelectorTerms) <= 100",fieldPath=".nodeSelectorTerms",message="must have at most 100 terms"
	// +optional
	NodeSelector *corev1.NodeSelector `json:"nodeSelector,omitempty"`

	// tolerations are appended to those of the template.
	// +kubebuilder:validation:MaxItems=100
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// replicas is how many replicas this subset asks for: a number, a percentage of
	// spec.replicas from "0%" to "100%", or absent for an even share of the rest. The
	// subsets always get spec.replicas in total: if their requests do not add up to that,
	// the replicas are split in proportion, and the condition ReplicasHonored is False.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	Replicas *intstr.IntOrString `json:"replicas,omitempty"`

	// minReplicas is how many replicas this subset gets before any subset gets more than its
	// minimum: a number, or a percentage of spec.replicas, rounded up. If any subset has a
	// minimum or a maximum, the replicas are not split evenly, but fill the subsets in list
	// order: first the minimums, then up to the maximums, and the rest goes to the first subset
	// without a maximum. Scaling down takes replicas in reverse order. If spec.replicas is below
	// the sum of the minimums, the first subsets get theirs, and the condition
	// ReplicasHonored is False.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	MinReplicas *intstr.IntOrString `json:"minReplicas,omitempty"`

	// maxReplicas is how many replicas this subset gets at most: a number, or a percentage of
	// spec.replicas, rounded down. At least one subset must have none.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	MaxReplicas *intstr.IntOrString `json:"maxReplicas,omitempty"`

	// patch is a strategic merge patch on the workload template {metadata, spec} for this
	// subset. Lists with a merge key, such as containers, merge by it; others, such as
	// tolerations and volumeClaimTemplates, are replaced whole. Patch directives are
	// supported only inside spec.template. Of the metadata, set labels and annotations alone.
	// As in the template, do not set what the controller sets. A patch that cannot be merged,
	// or whose result the API server rejects, stalls only this subset.
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
	// ManualUpdateStrategy: you set the partition of each subset.
	ManualUpdateStrategy UpdateStrategyType = "Manual"
	// RollingUpdateStrategy: the controller moves the partitions of all subsets, as long as
	// enough replicas are available.
	RollingUpdateStrategy UpdateStrategyType = "RollingUpdate"
)

// UpdateStrategy determines which replicas may run a new revision.
//
// +kubebuilder:validation:XValidation:rule="!has(self.manualUpdate) || self.type == 'Manual'",fieldPath=".manualUpdate",message="is only for type Manual: remove it, because it holds nothing with another type"
// +kubebuilder:validation:XValidation:rule="!has(self.rollingUpdate) || self.type == 'RollingUpdate'",fieldPath=".rollingUpdate",message="is only for type RollingUpdate: remove it, or set type to RollingUpdate"
// +kubebuilder:validation:XValidation:rule="has(self.rollingUpdate) || self.type != 'RollingUpdate'",fieldPath=".rollingUpdate",message="is required with type RollingUpdate: {} rolls out without steps"
type UpdateStrategy struct {
	// type is the way to roll out a new revision.
	// +default="Manual"
	// +optional
	Type UpdateStrategyType `json:"type,omitempty"`

	// manualUpdate has the partitions. Without it every subset is held: no replica is updated.
	// +optional
	ManualUpdate *ManualUpdate `json:"manualUpdate,omitempty"`

	// rollingUpdate determines how the controller moves the partitions. It is required with
	// type RollingUpdate; {} rolls out without steps.
	// +optional
	RollingUpdate *RollingUpdate `json:"rollingUpdate,omitempty"`
}

// RollingUpdate coordinates a rollout over all subsets. First the new revision is staged,
// with everything protected. Then replicas are released, in each subset from the highest
// one down, as long as at most maxUnavailable replicas of all subsets together are
// unavailable, and at most maxUnavailablePerSubset of each. A replica counts as unavailable while it is missing, not ready, not yet
// available, terminating, or released and not updated yet. An updated replica that fails
// stops the rollout.
//
// +kubebuilder:validation:XValidation:rule="!has(self.maxSkew) || !has(self.order) || self.order != 'Sequential'",fieldPath=".maxSkew",message="cannot be used with order Sequential, which updates one subset after the other"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSkewSubsets) || has(self.maxSkew)",fieldPath=".maxSkewSubsets",message="is only for maxSkew: set maxSkew, or remove it, because it limits nothing by itself"
type RollingUpdate struct {
	// partition is the floor in every subset: replicas below it are never updated. It is
	// a number of replicas, or a percentage of the subset's replicas, rounded up. "100%"
	// holds everything.
	// +default="0%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// maxUnavailable is how many replicas of all subsets together the rollout may make
	// unavailable: a number from 1, or a percentage of spec.replicas from "1%", rounded down
	// but at least 1 replica. It also limits scaling down, moving replicas between subsets,
	// and removing subsets.
	// +default=1
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9][0-9]?)%$')",message="must be a whole number from 1 to 2147483647 or a percentage from \"1%\" to \"100%\": with 0 no replica could ever be updated"
	// +optional
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`

	// maxUnavailablePerSubset is how many replicas of one subset the rollout may make
	// unavailable, in addition to the limit over all subsets, maxUnavailable: a number from 1,
	// or a percentage of the subset's replicas from "1%", rounded down but at least 1 replica.
	// Replicas of the subset that are unavailable for other reasons count. It also limits
	// scaling the subset down. Without it, there is no limit for a single subset.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 1 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9][0-9]?)%$')",message="must be a whole number from 1 to 2147483647 or a percentage from \"1%\" to \"100%\": with 0 no replica could ever be updated"
	// +optional
	MaxUnavailablePerSubset *intstr.IntOrString `json:"maxUnavailablePerSubset,omitempty"`

	// MaxSkew limits how far the subsets may drift apart: a percentage such as "10%". It
	// compares, for each subset, the share of updated and available replicas among those that
	// it has to release. It cannot be used with order Sequential. Without it there is no limit.
	// ---
	// To the schema a number or a string, so that a number is refused by a rule that says
	// what is wanted, and not by "must be of type string".
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a percentage from \"0%\" to \"100%\", such as \"10%\""
	// +optional
	MaxSkew string `json:"maxSkew,omitempty"`

	// maxSkewSubsets are the names of the subsets that maxSkew limits; all if absent. They wait
	// only for each other: a subset that is not named neither waits for them nor holds them.
	// Only subsets in spec.topology.subsets may be named, and only together with maxSkew.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=50
	// +listType=set
	// +optional
	MaxSkewSubsets []string `json:"maxSkewSubsets,omitempty"`

	// order is Parallel, to update all subsets at the same time, or Sequential, to update one
	// after the other in the order of spec.topology.subsets.
	// +default="Parallel"
	// +optional
	Order RolloutOrder `json:"order,omitempty"`

	// rollbackRevisions is for how many of the revisions that all replicas ran before the
	// current one going back is the way back: it skips steps and approvals, and replaces
	// unavailable replicas at once. A revision that was itself left on the way back must go
	// through the steps again first.
	// +default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +optional
	RollbackRevisions *int32 `json:"rollbackRevisions,omitempty"`

	// steps are the waves in which a new revision is released. After the last one, every
	// subset is released down to partition. Going back to the revision that all replicas ran
	// last, or to one of rollbackRevisions before it, skips them.
	// +kubebuilder:validation:MaxItems=20
	// +listType=atomic
	// +optional
	Steps []RolloutStep `json:"steps,omitempty"`

	// checks are what must be as it should be besides the replicas. While one of them is not met, no
	// more replicas are released in any subset, and no step ends, neither the last one: until then,
	// the update revision does not become the current one. A check that is not met for
	// progressDeadlineSeconds, although replicas are released, has failed. The first rollout of a
	// UnitedDeployment, going back and the annotation united.dev/force-update ignore checks.
	// +kubebuilder:validation:MaxItems=10
	// +listType=map
	// +listMapKey=name
	// +optional
	Checks []RolloutCheck `json:"checks,omitempty"`

	// onFailure is what happens when the update revision fails, that is, when a check has failed, or
	// an updated replica has failed for good: Hold releases no more. Rollback rejects the revision: all
	// replicas go back to the current revision, and the rejected one is rolled out again only when the
	// annotation united.dev/retry asks for it. A revision stays rejected if you change this field.
	// +default="Hold"
	// +optional
	OnFailure FailurePolicy `json:"onFailure,omitempty"`
}

// FailurePolicy is what happens when the update revision fails.
// +kubebuilder:validation:Enum=Hold;Rollback
type FailurePolicy string

// What happens when the update revision fails.
const (
	// HoldOnFailure: no more replicas are released.
	HoldOnFailure FailurePolicy = "Hold"
	// RollbackOnFailure: the revision is rejected, and all replicas go back to the current one.
	RollbackOnFailure FailurePolicy = "Rollback"
)

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

// AllSubsets stands for all subsets in a step.
const AllSubsets = "*"

// RolloutStep is one wave of a rollout. It is reached when its subsets are released down to
// its partition, and all released replicas are available.
type RolloutStep struct {
	// subsets are the names of the subsets that the step releases, or "*" alone for all. The
	// others stay as the earlier steps left them.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="size(self) == 1 || !('*' in self)",message="\"*\" means all subsets: it must be the only entry"
	// +listType=set
	// +required
	Subsets []string `json:"subsets,omitempty"`

	// partition is how far the step releases its subsets, but never below
	// rollingUpdate.partition: a number of replicas, or a percentage of the subset's
	// replicas, rounded up. Anything but "100%" releases at least one replica of each
	// subset that has one to release.
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +required
	Partition *intstr.IntOrString `json:"partition,omitempty"`

	// pause holds the rollout when the step is reached. That of a last wave holds its end, so that
	// going back is still the way back.
	// +optional
	Pause *RolloutPause `json:"pause,omitempty"`
}

// RolloutPause ends after duration, or, without one, when you set the annotation
// united.dev/approved of the object to status.rollout.approvalKey.
type RolloutPause struct {
	// duration of the pause, such as "10m" or "1h30m", from when the step is reached.
	// Without it, the pause lasts until you approve the step.
	// ---
	// A string, since an object whose duration Go cannot read would keep the controller from
	// reading any.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) > duration('0s')",message="must be a positive duration such as \"10m\" or \"1h30m\""
	// +optional
	Duration string `json:"duration,omitempty"`
}

// ManualUpdate has the partition of every subset. The replicas below the partition of a
// subset are protected: they are never updated to, re-created on or created on the update
// revision. All others are released: they are updated to the update revision.
type ManualUpdate struct {
	// revision is the name of the update revision that partitions and defaultPartition are for
	// (status.updateRevision). They hold everything from any other, so a template that changes
	// between looking and releasing is not released. Without it they are for every revision. It
	// is not in effect before the condition Initialized is True.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +optional
	Revision string `json:"revision,omitempty"`

	// partitions by subset name: a number of replicas, or a percentage of the subset's
	// replicas, rounded up. "100%" holds the whole subset however it scales; a number does
	// not, because the subset can grow beyond it. With spec.ordinals.start in the template, 0
	// is still the first replica. Only subsets in spec.topology.subsets may be named.
	// ---
	// The rule looks at a percentage character by character: a regular expression over
	// map values, whose length no marker can bound, is over the CEL cost budget.
	// +kubebuilder:validation:MaxProperties=100
	// +kubebuilder:validation:XValidation:rule="self.all(k, type(self[k]) == int ? self[k] >= 0 && self[k] <= 2147483647 : self[k] == '100%' || size(self[k]) == 2 && self[k].charAt(0) in ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'] && self[k].charAt(1) == '%' || size(self[k]) == 3 && self[k].charAt(0) in ['1', '2', '3', '4', '5', '6', '7', '8', '9'] && self[k].charAt(1) in ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'] && self[k].charAt(2) == '%')",message="a partition must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\"",messageExpression="'the partition of ' + self.filter(k, !(type(self[k]) == int ? self[k] >= 0 && self[k] <= 2147483647 : self[k] == '100%' || size(self[k]) == 2 && self[k].charAt(0) in ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'] && self[k].charAt(1) == '%' || size(self[k]) == 3 && self[k].charAt(0) in ['1', '2', '3', '4', '5', '6', '7', '8', '9'] && self[k].charAt(1) in ['0', '1', '2', '3', '4', '5', '6', '7', '8', '9'] && self[k].charAt(2) == '%'))[0] + ' must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\"'"
	// +optional
	Partitions map[string]intstr.IntOrString `json:"partitions,omitempty"`

	// defaultPartition is the partition of all subsets that are not in partitions: a number or
	// a percentage, as in partitions. By default it holds them, so that adding a subset to
	// partitions, or removing it, never releases another.
	// +default="100%"
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 && self <= 2147483647 : type(self) == string && self.matches('^(100|[1-9]?[0-9])%$')",message="must be a whole number from 0 to 2147483647 or a percentage from \"0%\" to \"100%\""
	// +optional
	DefaultPartition *intstr.IntOrString `json:"defaultPartition,omitempty"`
}
