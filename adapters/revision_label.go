// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package adapters

import (
	"bytes"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// A label that the workload's controller sets shows which revision a pod runs. Anybody who may change labels of pods
// can change it, and then it shows nothing: a healthy pod must not be deleted because of it. The managedFields show
// such a change, but a cache need not keep them: it keeps the result in the annotation RevisionLabelChanged, which no
// pod has in the API server.

// RevisionLabelChanged is the annotation of a cached pod whose revision label is not the one that its workload's
// controller wrote. Its value is that of RevisionLabelChangedBy.
const RevisionLabelChanged = "cache.united.dev/revision-label-changed-by"

// unknownManager stands for a manager that managedFields no longer name, for example after a removal.
const unknownManager = "an unknown client"

var (
	revisionLabel = fieldpath.MakePathOrDie("metadata", "labels", appsv1.ControllerRevisionHashLabelKey)
	// createdWith is a field that only the creator of a pod sets: it is immutable and has a default.
	createdWith = fieldpath.MakePathOrDie("spec", "restartPolicy")
	// How managedFields contain the two.
	revisionLabelText = []byte(`"f:` + appsv1.ControllerRevisionHashLabelKey + `"`)
	createdWithText   = []byte(`"f:restartPolicy"`)
)

// RevisionLabelChangedBy returns the field manager that changed the label with the revision of a pod; "" if nobody
// did, that is, if the label belongs to the manager that created the pod, which continues to write it if pods are
// updated in place. Without managedFields, the result is unknownManager.
func RevisionLabelChangedBy(pod *corev1.Pod) string {
	if _, ok := pod.Labels[appsv1.ControllerRevisionHashLabelKey]; !ok {
		if _, ok := pod.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; ok {
			return "" // a ReplicaSet has made it, and never had the other
		}
		return unknownManager
	}
	owners, creators := managersOfRevisionLabel(pod.ManagedFields)
	switch {
	case slices.ContainsFunc(owners, func(owner string) bool { return slices.Contains(creators, owner) }):
		return ""
	case len(owners) == 0:
		return unknownManager
	}
	return owners[len(owners)-1]
}

// managersOfRevisionLabel returns the field managers that own the revision label of a pod, also through a
// subresource, and those that created the pod.
func managersOfRevisionLabel(managed []metav1.ManagedFieldsEntry) (owners, creators []string) {
	for _, entry := range managed {
		raw := entry.FieldsV1.GetRawBytes()
		if !bytes.Contains(raw, revisionLabelText) && !bytes.Contains(raw, createdWithText) {
			continue // like most entries, which need not be parsed
		}
		owned := &fieldpath.Set{}
		if err := owned.FromJSON(bytes.NewReader(raw)); err != nil {
			continue // does not show who wrote what
		}
		if owned.Has(revisionLabel) {
			owners = append(owners, entry.Manager)
		}
		if entry.Subresource == "" && owned.Has(createdWith) {
			creators = append(creators, entry.Manager)
		}
	}
	return owners, creators
}
