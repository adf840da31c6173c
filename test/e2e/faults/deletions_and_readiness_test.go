// Copyright The United Authors.
// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"slices"

	. "github.com/unitedworkloads/united/test/e2e/env"
)

// statefulSets is the user that deletes pods for StatefulSets.
const statefulSets = "system:serviceaccount:kube-system:statefulset-controller"

// on forbids new pods of an image.
func on(tag string) Rule {
	return func(i Incarnation) string {
		if i.Image == tag {
			return "nothing may be created on " + tag
		}
		return ""
	}
}

// beside forbids new pods of any other image.
func beside(tag string) Rule {
	return func(i Incarnation) string {
		if i.Image != tag {
			return "everything is to be created on " + tag
		}
		return ""
	}
}

// upTo returns the ordinals 0 to n-1.
func upTo(n int) []int {
	return slices.Collect(func(yield func(int) bool) {
		for i := range n {
			if !yield(i) {
				return
			}
		}
	})
}
