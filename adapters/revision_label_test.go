// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestRevisionLabelChangedBy(t *testing.T) {
	const (
		created   = `{"f:metadata":{"f:labels":{".":{},"f:app":{},"f:controller-revision-hash":{}}},"f:spec":{"f:restartPolicy":{}}}`
		lost      = `{"f:metadata":{"f:labels":{".":{},"f:app":{}}},"f:spec":{"f:restartPolicy":{}}}`
		annotated = `{"f:metadata":{"f:annotations":{"f:controller-revision-hash":{}},"f:labels":{".":{}}},"f:spec":{"f:restartPolicy":{}}}`
		label     = `{"f:metadata":{"f:labels":{"f:controller-revision-hash":{}}}}`
		other     = `{"f:metadata":{"f:labels":{"f:app":{}}}}`
		status    = `{"f:status":{"f:phase":{}}}`
	)
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	ofStatus := func(manager, fields string) metav1.ManagedFieldsEntry {
		e := entry(manager, fields)
		e.Subresource = "status"
		return e
	}
	manager := entry("kube-controller-manager", created)
	for _, tc := range []struct {
		name    string
		managed []metav1.ManagedFieldsEntry
		bare    bool
		hash    string
		want    string
	}{
		{name: "as it was created", managed: []metav1.ManagedFieldsEntry{manager, ofStatus("kubelet", status)}},
		{name: "another label was changed", managed: []metav1.ManagedFieldsEntry{manager, entry("kubectl-label", other)}},
		{name: "it was changed", managed: []metav1.ManagedFieldsEntry{entry("kube-controller-manager", lost), entry("kubectl-label", label)}, want: "kubectl-label"},
		{name: "it was changed by way of the status", managed: []metav1.ManagedFieldsEntry{entry("kube-controller-manager", lost), ofStatus("curl", label)}, want: "curl"},
		{name: "and an annotation has its name", managed: []metav1.ManagedFieldsEntry{entry("kube-controller-manager", annotated), entry("kubectl-label", label)}, want: "kubectl-label"},
		{name: "it was removed", managed: []metav1.ManagedFieldsEntry{entry("kube-controller-manager", lost)}, bare: true, want: unknownManager},
		{name: "managedFields were removed as well", managed: nil, want: unknownManager},
		{name: "what is in them cannot be read", managed: []metav1.ManagedFieldsEntry{entry("x", `["f:controller-revision-hash"`)}, want: unknownManager},
		{name: "updated in place by who created it", managed: []metav1.ManagedFieldsEntry{entry("kruise-manager", lost), entry("kruise-manager", label)}},
		{name: "applied with the same value by another", managed: []metav1.ManagedFieldsEntry{manager, entry("backup", label)}},
		{name: "a ReplicaSet has made it", managed: []metav1.ManagedFieldsEntry{entry("kube-controller-manager", lost)}, bare: true, hash: "5d4"},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{appsv1.ControllerRevisionHashLabelKey: "h1"}, ManagedFields: tc.managed}}
		if tc.bare {
			pod.Labels = nil
		}
		if tc.hash != "" {
			pod.Labels = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: tc.hash}
		}
		if got := RevisionLabelChangedBy(pod); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
