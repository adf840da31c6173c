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

// The revision that a pod runs is told by a label that its workload's controller gives it, and that
// anybody may change who may label pods. What was changed tells nothing: a healthy pod must not be
// deleted for it. managedFields tell, and a cache need not keep them: who fills it keeps what
// they say of the label in the annotation RevisionLabelChanged, which no pod has in the API server.

// RevisionLabelChanged is the annotation of a pod in the cache whose revision label is not what its
// workload's controller wrote. Its value is RevisionLabelChangedBy.
const RevisionLabelChanged = "cache.united.dev/revision-label-changed-by"

// unknownManager stands for who is not in managedFields any more, as after a removal.
const unknownManager = "an unknown client"

var (
	revisionLabel = fieldpath.MakePathOrDie("metadata", "labels", appsv1.ControllerRevisionHashLabelKey)
	// createdWith is what only the creator of a pod sets: it is immutable and defaulted.
	createdWith = fieldpath.MakePathOrDie("spec", "restartPolicy")
	// What managedFields have of the two, where they have it.
	revisionLabelText = []byte(`"f:` + appsv1.ControllerRevisionHashLabelKey + `"`)
	createdWithText   = []byte(`"f:restartPolicy"`)
)

// RevisionLabelChangedBy is the field manager that changed the label which says what revision of its
// workload a pod runs, "" if none has: it is as the manager wrote it that created the pod, which goes
// on writing it where pods are updated in place. Without managedFields that is not known.
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

// managersOfRevisionLabel are the field managers that have the revision label of a pod, by way of a
// subresource too, and those that created the pod.
func managersOfRevisionLabel(managed []metav1.ManagedFieldsEntry) (owners, creators []string) {
	for _, entry := range managed {
		raw := entry.FieldsV1.GetRawBytes()
		if !bytes.Contains(raw, revisionLabelText) && !bytes.Contains(raw, createdWithText) {
			continue // as with most entries, which need not be parsed
		}
		owned := &fieldpath.Set{}
		if err := owned.FromJSON(bytes.NewReader(raw)); err != nil {
			continue // of no use to tell who wrote what
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
