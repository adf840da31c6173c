// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package ownership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/unitedworkloads/united/adapters"
	"github.com/unitedworkloads/united/apis/apps/v1alpha1"
)

// LostLabel returns a label that a child needs to be found, but does not have; "" if it has all of them.
func LostLabel(c *adapters.Child, has metav1.Object) string {
	for _, label := range []struct{ key, value string }{{v1alpha1.LabelName, c.Parent}, {v1alpha1.LabelSubset, c.Subset}} {
		if has.GetLabels()[label.key] != label.value {
			return label.key
		}
	}
	return ""
}

// Labelled reports whether an object has the labels by which the child of a subset is found.
func Labelled(c *adapters.Child, object metav1.Object) bool { return LostLabel(c, object) == "" }
