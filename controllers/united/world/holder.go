// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package world

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

// WhyMissing returns why a replica has been missing for a while, and what to do. If a pod has its name, it returns
// why that pod does not belong to the child, or "" if it will become a replica by itself. If no pod has the name,
// the child's controller cannot create it, for example because of a quota or an admission policy, and the answer
// of the API server is in the events of the child. gvk is the kind of the child.
func WhyMissing(pod *corev1.Pod, gvk schema.GroupVersionKind, observed *adapters.Observed, parent *v1alpha1.UnitedDeployment, subset string) string {
	if pod == nil {
		return DescribeCommand(gvk, observed)
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

// DescribeCommand returns the command that shows the events of a child. The kind alone may be ambiguous: an
// Advanced StatefulSet is a StatefulSet of OpenKruise.
func DescribeCommand(gvk schema.GroupVersionKind, observed *adapters.Observed) string {
	resource := strings.ToLower(gvk.Kind)
	if gvk.Group != appsv1.GroupName {
		resource += "." + gvk.Group
	}
	return fmt.Sprintf("to see why, run: kubectl describe %s -n %s %s", resource, observed.Meta.Namespace, observed.Meta.Name)
}

// unmatchedLabels returns the requirements of the child's selector that a pod does not match.
func unmatchedLabels(pod *corev1.Pod, parent *v1alpha1.UnitedDeployment, subset string) []string {
	selector := parent.Spec.Selector.DeepCopy()
	metav1.AddLabelToSelector(selector, v1alpha1.LabelName, parent.Name)
	metav1.AddLabelToSelector(selector, v1alpha1.LabelSubset, subset)
	parsed, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil // spec.Read has rejected it
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
