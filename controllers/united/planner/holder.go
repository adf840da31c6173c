// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package planner

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// MissingReplicaName is the name of the pod that a child lacks, and that its controller should have
// made; "" if there is none.
func MissingReplicaName(observed *adapters.Observed) string {
	if !observed.ExpectsMissing() {
		return ""
	}
	return observed.MissingName
}

// WhyMissing says why a replica has been missing for a while, and what to do. Where a pod has its
// name: why that is none of the child's, "" when it becomes a replica by itself. Where none has,
// the child's controller cannot make one, as with a quota or an admission policy: what the API
// server answers it is in the events of the child. gvk is that of the child.
func WhyMissing(pod *corev1.Pod, gvk schema.GroupVersionKind, observed *adapters.Observed, parent *v1alpha1.UnitedDeployment, subset string) string {
	if pod == nil {
		return describeCommand(gvk, observed)
	}
	const taken = "a pod with its name "
	owner := metav1.GetControllerOfNoCopy(pod)
	switch unmatched := unmatchedLabels(pod, parent, subset); {
	case pod.DeletionTimestamp != nil:
		return taken + "is being deleted"
	case owner != nil && owner.UID != cmp.Or(observed.ReplicaOwner, observed.Meta.UID):
		return taken + fmt.Sprintf("is controlled by %s %s: delete that pod", owner.Kind, owner.Name)
	case len(unmatched) > 0:
		return taken + fmt.Sprintf("does not have the labels %s: add them, or delete that pod", strings.Join(unmatched, ", "))
	}
	return ""
}

// describeCommand is the command that shows the events of a child. The kind alone can be that of another
// group: an Advanced StatefulSet is a StatefulSet of OpenKruise.
func describeCommand(gvk schema.GroupVersionKind, observed *adapters.Observed) string {
	resource := strings.ToLower(gvk.Kind)
	if gvk.Group != appsv1.GroupName {
		resource += "." + gvk.Group
	}
	return fmt.Sprintf("to see why, run: kubectl describe %s -n %s %s", resource, observed.Meta.Namespace, observed.Meta.Name)
}

// unmatchedLabels are what the child of a subset selects by and a pod does not match.
func unmatchedLabels(pod *corev1.Pod, parent *v1alpha1.UnitedDeployment, subset string) []string {
	selector := parent.Spec.Selector.DeepCopy()
	metav1.AddLabelToSelector(selector, v1alpha1.LabelName, parent.Name)
	metav1.AddLabelToSelector(selector, v1alpha1.LabelSubset, subset)
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil // ReadSpec has refused it
	}
	var unmatched []string
	requirements, _ := parsed.Requirements()
	for i := range requirements {
		if !requirements[i].Matches(labels.Set(pod.Labels)) {
			unmatched = append(unmatched, requirements[i].String())
		}
	}
	slices.Sort(unmatched)
	return unmatched
}
