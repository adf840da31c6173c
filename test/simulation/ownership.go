// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package simulation

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

func (o *Oracle) parent(from Objects) *v1alpha1.UnitedDeployment { return from.Parents[o.name] }

func (o *Oracle) childOf(subset string) string { return o.name + "-" + subset }

func (o *Oracle) subsetOf(set string) string { return strings.TrimPrefix(set, o.name+"-") }

// child returns the child of a subset; nil if it does not exist, or if the object with its name belongs to somebody else.
func (o *Oracle) child(from Objects, subset string) *unstructured.Unstructured {
	if u := from.Sets[o.childOf(subset)]; u != nil && o.owns(o.api.typed(u)) {
		return u
	}
	return nil
}

// owns reports whether the parent controls an object.
func (o *Oracle) owns(object metav1.Object) bool {
	owner := metav1.GetControllerOfNoCopy(object)
	return owner != nil && owner.UID == o.uid
}

// ownsPod reports whether a child of the parent controls a pod.
func (o *Oracle) ownsPod(from Objects, p *corev1.Pod) bool {
	u, owner := from.Sets[setOf(p.Name)], metav1.GetControllerOfNoCopy(p)
	return u != nil && owner != nil && owner.UID == u.GetUID() && o.owns(o.api.typed(u))
}

// countOwn returns how many replicas of a subset's child the controller saw when its pass began: pods with its name that
// it owns, and no strays.
func (o *Oracle) countOwn(subset string) int32 {
	count := int32(0)
	for name, p := range o.Before.Pods {
		if OrdinalOf(o.childOf(subset), name) >= 0 && o.ownsPod(o.Before, p) {
			count++
		}
	}
	o.Checked["counted"]++
	return count
}

// touches: in a pass for a parent, the controller writes only to that, to what it controls, and to the pods of its
// children.
func (o *Oracle) touches(object metav1.Object) {
	o.Checked["touches"]++
	mine := o.owns(object)
	switch object := object.(type) {
	case *v1alpha1.UnitedDeployment:
		mine = object.Name == o.name
	case *corev1.Pod:
		mine = o.ownsPod(o.api.Cached, object)
	case *unstructured.Unstructured:
		// An object that has lost its labels is found by its name.
		name, labelled := object.GetLabels()[v1alpha1.LabelName]
		subset, inSubset := object.GetLabels()[v1alpha1.LabelSubset]
		mine = mine && (!labelled || name == o.name) && (!inSubset || o.childOf(subset) == object.GetName()) &&
			strings.HasPrefix(object.GetName(), o.childOf(""))
	}
	if !mine {
		o.fail("in a pass for %s the controller writes to %T %s, which is not of it", o.name, object, object.GetName())
	}
}
