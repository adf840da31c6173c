// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// RolloutCheck is something else than the replicas that must be as it should be, or the rollout
// waits. It has exactly one member besides its name.
//
// +kubebuilder:validation:XValidation:rule="[has(self.objectCondition)].exists_one(x, x)",message="must have exactly one member besides name: objectCondition"
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
}

// ObjectCondition is a condition of an object in the namespace of the UnitedDeployment. It is not
// met if the object does not exist or cannot be read, if it has no such condition, or if its
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
