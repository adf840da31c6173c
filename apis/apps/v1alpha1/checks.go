// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// RolloutCheck is something else than the replicas that must be as it should be, or the rollout
// waits. It has exactly one member besides its name.
//
// +kubebuilder:validation:XValidation:rule="[has(self.objectCondition), has(self.prometheus), has(self.job), has(self.analysis)].exists_one(x, x)",message="must have exactly one member besides name: objectCondition, prometheus, job or analysis"
type RolloutCheck struct {
	// name of the check, a DNS label, for messages and status.rollout.checks.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be a DNS label: lower-case letters, digits and '-'"
	// +required
	Name string `json:"name,omitempty"`

	// objectCondition is met while an object in the namespace of the UnitedDeployment has a
	// condition.
	// +optional
	ObjectCondition *ObjectCondition `json:"objectCondition,omitempty,omitzero"`

	// prometheus is met while the result of a query is within bounds.
	// +optional
	Prometheus *PrometheusCheck `json:"prometheus,omitempty,omitzero"`

	// job is met when a Job has completed. There is one for each step.
	// +optional
	Job *JobCheck `json:"job,omitempty,omitzero"`

	// analysis is met when an AnalysisRun of Argo Rollouts is successful. There is one for each
	// step.
	// +optional
	Analysis *AnalysisCheck `json:"analysis,omitempty,omitzero"`
}

// ObjectCondition is a condition of an object in the namespace of the UnitedDeployment. It is not
// met if the object does not exist, is being deleted, or cannot be read, if it has no such condition, or if its
// controller has not observed its last change (status.observedGeneration, or observedGeneration of
// the condition, if it has them). The operator of United allows the kind with the value
// checks.objects of the Helm chart.
type ObjectCondition struct {
	// apiVersion of the object, such as "moco.cybozu.com/v1beta2", or "v1" for the core group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[0-9][a-z0-9]*$')",message="must be a group and a version, such as \"apps/v1\", or only a version for the core group"
	// +required
	APIVersion string `json:"apiVersion,omitempty"`

	// kind of the object, such as "MySQLCluster".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Z][A-Za-z0-9]*$')",message="must be a kind, such as \"MySQLCluster\""
	// +required
	Kind string `json:"kind,omitempty"`

	// name of the object. Its namespace is that of the UnitedDeployment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// type of the condition, such as "Healthy".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=316
	// +required
	Type string `json:"type,omitempty"`

	// status that the condition must have.
	// +default="True"
	// +kubebuilder:validation:Enum="True";"False";"Unknown"
	// +optional
	Status metav1.ConditionStatus `json:"status,omitempty"`
}

// PrometheusCheck is a query whose result must be within bounds. It is measured from when the
// revision has an available replica.
//
// +kubebuilder:validation:XValidation:rule="has(self.min) || has(self.max) || has(self.maxRatio)",message="must have min, max or maxRatio"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || double(self.min) <= double(self.max)",fieldPath=".min",message="must not be greater than max: nothing would be met"
// +kubebuilder:validation:XValidation:rule="!has(self.maxRatio) || self.query.contains('${pods}') || self.query.contains('${subset}') || self.query.contains('${version}')",fieldPath=".maxRatio",message="compares the updated replicas with the others, so the query must contain ${pods}, ${subset} or ${version}"
type PrometheusCheck struct {
	// server is the name of a server in the value checks.prometheus of the Helm chart, which also
	// says which namespaces may use it.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +required
	Server string `json:"server,omitempty"`

	// query in PromQL, whose result is a single number. ${pods} is replaced by a regular expression of
	// the names of the updated pods, and ${subset} by one of their subsets; ${namespace} and ${name}
	// are those of the UnitedDeployment, and ${version} is the label united.dev/version of the updated
	// pods, where spec.versionLabel is TemplateHash. They may only be in strings, such as in
	// pod=~"${pods}".
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	// +kubebuilder:validation:XValidation:rule="self.findAll('[$][{][A-Za-z_][A-Za-z0-9_.-]*[}]').all(p, p in ['${pods}', '${subset}', '${version}', '${namespace}', '${name}'])",message="must have no other placeholders than ${pods}, ${subset}, ${version}, ${namespace} and ${name}"
	// +required
	Query string `json:"query,omitempty"`

	// min is the least number that is met, such as "0.99".
	// +optional
	Min Number `json:"min,omitempty"`

	// max is the greatest number that is met.
	// +optional
	Max Number `json:"max,omitempty"`

	// maxRatio is how many times as great the number may be as that of the same query for the
	// replicas that are not updated, such as "1.2". While there are none, it is not judged. If their
	// number is 0, max decides, and without max only 0 is met.
	// +optional
	MaxRatio Number `json:"maxRatio,omitempty"`

	// interval is the time between two measurements, at least 5s.
	// +default="30s"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=20
	// +kubebuilder:validation:XValidation:rule="self.matches('^([0-9]+([.][0-9]+)?(ms|s|m|h))+$') && duration(self) >= duration('5s')",message="must be a duration of at least 5s, such as \"30s\""
	// +optional
	Interval string `json:"interval,omitempty"`

	// failureLimit is how many measurements in a row that are not met are a failure.
	// +default=2
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	// +optional
	FailureLimit int32 `json:"failureLimit,omitempty"`

	// noData says what a result without a number is, or with NaN: Hold waits for one, Pass takes it
	// for met.
	// +default="Hold"
	// +optional
	NoData NoDataPolicy `json:"noData,omitempty"`
}

// Number is a decimal number as text, because the API has no fractions.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=32
// +kubebuilder:validation:XValidation:rule="self.matches('^-?[0-9]+([.][0-9]+)?$')",message="must be a decimal number, such as \"0.01\""
type Number string

// NoDataPolicy says what a measurement without data is.
// +kubebuilder:validation:Enum=Hold;Pass
type NoDataPolicy string

// What a measurement without data is.
const (
	// HoldWithoutData: the rollout waits for data.
	HoldWithoutData NoDataPolicy = "Hold"
	// PassWithoutData: it is met.
	PassWithoutData NoDataPolicy = "Pass"
)

// JobCheck is a Job that must complete. One is created for each step when the step is reached, and
// for each time that the check is retried. The operator of United allows it with the value
// checks.jobs of the Helm chart.
type JobCheck struct {
	// template of the Job, with metadata and spec. Its own backoffLimit and activeDeadlineSeconds are
	// in effect; a Job that has not finished within progressDeadlineSeconds has failed.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +required
	Template *runtime.RawExtension `json:"template,omitempty"`
}

// AnalysisCheck is an AnalysisRun of Argo Rollouts that must be successful. One is created for each
// step when the step is reached, and for each time that the check is retried. The operator of United
// allows it with the value checks.analysis of the Helm chart, and names each ClusterAnalysisTemplate
// in checks.clusterAnalysisTemplates.
type AnalysisCheck struct {
	// templateName is the name of an AnalysisTemplate in the namespace of the UnitedDeployment, or of
	// a ClusterAnalysisTemplate.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	TemplateName string `json:"templateName,omitempty"`

	// clusterScope is true for a ClusterAnalysisTemplate.
	// +optional
	ClusterScope *bool `json:"clusterScope,omitempty"`

	// args are values for the arguments of the template.
	// +kubebuilder:validation:MaxItems=50
	// +listType=map
	// +listMapKey=name
	// +optional
	Args []AnalysisArgument `json:"args,omitempty"`
}

// AnalysisArgument is a value for an argument of an AnalysisTemplate.
type AnalysisArgument struct {
	// name of the argument.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +required
	Name string `json:"name,omitempty"`

	// value of the argument.
	// +kubebuilder:validation:MaxLength=4096
	// +required
	Value *string `json:"value,omitempty"`
}
